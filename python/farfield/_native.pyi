"""The interface between Python and Rust: classes and functions of the extension module.

It is thin on purpose. Anything with a growing set of keys crosses as one JSON object (a `str`): a new option is one key, not a
new signature. Arrays cross as NumPy arrays. Python parses sources and sizes, reads the configuration, has the users' defaults
and words the messages around errors. The extension trusts types, not values.

Rules that hold for every call
------------------------------
- Every error is one of the classes of `farfield.errors` (plain Python classes; the extension imports them when it first
  raises one). The message is one complete sentence or two: the path, the attempt and the next step for the user.
  `DataError` 1, `UsageError`, `UnknownName`, `AmbiguousError` 2, `MemoryLimitError` 4, `AccessError` 5, `InternalError` 70,
  `Interrupted` 130.
- Every call that may read pages releases the GIL. At least ten times a second it takes the GIL for a moment. It then checks
  signals (Ctrl-C raises `KeyboardInterrupt` from inside the call) and calls `progress`, if given.
- `progress(phase, done, total)` runs on the calling thread. `phase` is a short word (`"reading"`, `"tracing"`, ...); `total`
  is 0.0 if unknown. It returns True to continue and False to cancel: the call then raises `Interrupted`. An unfinished
  output file is removed.
- An absent JSON key means the same as null, and both mean the extension's own default. An unknown key is a `UsageError`
  with its name, so a misspelt key never passes in silence.
- Paths are absolute or relative to the working directory, already free of `~`, globs, `+q=` and `demo:`. VTK's `.p3d` files
  are read by the extension.
- i, j, k in JSON, and in everything that a person sees, are 1-based; in `read` they are 0-based, half open.
- 2-D datasets: positions have three numbers with z = 0 everywhere; seeds may have shape (N, 2), which in 3-D is a `UsageError`.
- NaN is null in JSON. An infinite value or coordinate of `probe` is "inf" or "-inf".

Arguments that many calls share
-------------------------------
`source`          JSON object: a flow {"path", "q": [path], "function": [path], "options": SOURCE_OPTIONS}, with paths in order of
                  time (several: one a step), or a volume {"volume": description by a reader}, with `tables`.
`tables`          buffers to which the description of a volume refers by number.
`resources`       JSON object:
    {"memory_limit": bytes, at least 1,         # shares (50 %) are resolved in Python
     "workers": threads that compute at most,   # 0: as many as there are cores
     "readers": reads in flight,                # 0: the default for the source
     "replacement": a policy of `farfield.runtime.settings.REPLACEMENT`,              # null: clock
     "events": path}                            # the log of events. When the dataset closes or the call ends, .json and
                                                # .parquet are made from it
`options`         JSON object, by the call.

SOURCE_OPTIONS =
    {"plot3d": {"format": "fortran" | "binary" | "ascii", "byte_order": "little" | "big", "precision": "32" | "64",
                "zones": "single" | "multi",     # whether the file starts with the number of zones
                "iblank": "yes" | "no", "dimension": "2" | "3", "order": "whole" | "planes",
                "kind": "grid" | "q" | "function"},              # the command line spells these --plot3d-byte-order and so on
     "dt": number,                               # time between steps, in place of the times in the files
     "grids": [file],                            # PLOT3D, moving grids: the grids of the steps after the first
     "define": ["NAME = EXPRESSION"],            # fields made of others
     "settled": [[name, expression, file]],      # definitions in files of settings, used if the data lack the field
     "zone_order": [zone names],                 # order of search, in place of file order, for a position in several zones
     "cache_dir": path}                          # made when needed. Its subfolder "data" has converted ASCII files, and ranges and
                                                 # boxes of foreign data. The extension writes no other cache

JSON that comes back
--------------------
STATS = {"wall_s", "cpu_s", "wait_s": seconds since the dataset was opened,
         "base_bytes": resident bytes before the first open, "peak_bytes": highest sum of the ledger,
         "limit_bytes": the limit, "resident_peak_bytes": VmHWM,
         "pages": {"total": pages of all arrays and steps of the dataset, with those of its boxes, ranges and shard indexes:
                            the same number for every command (0 without a dataset),
                   "touched": different pages of these that were requested,
                   "faults", "hits", "evictions", "given_back": dropped after a run passed their time step,
                   "prefetched", "prefetched_used", "prefetch_dropped": prefetches without room,
                   "touched_exact": bool, false where `touched` is a lower bound,
                   "failed": pages that cannot be read, "fills": pages that the format defines as never written,
                   "derived": pages made of others},
         "bytes_read", "reads", "workers", "readers", "replacement": as above,
         "transport": "io_uring" | "threads",
         "warnings": [sentence] about doubtful data}
        Volumes also have "failure": why the first page failed, if any did. Their "pages" have "never_written": chunks that the
        format defines so, counted at each look-up.

INFO = {"source": path, "format": text, "guessed": [sentence], "order_assumed": [name], "dimension": 2 | 3,
        "notes": [sentence],                    # about the order of files and missing ones; runs print these, too
        "length_unit": unit of positions, or "grid unit" if the data have none, "coordinates_dtype": "float32" | "float64",
        "zones": [{"name", "dims": [ni, nj, nk], "iblank": bool, "points": int,
                   "page": [pi, pj, pk], "pages": int,
                   "kind": "uniform" | "rectilinear" | "curvilinear" | null,     # by its coordinates; null until ranges are known
                   "box": [[x0, y0, z0], [x1, y1, z1]] | null,       # at all steps read; null until ranges are known
                   "header": {"mach", "alpha", "reynolds", "time", "gamma"} | null,     # NaN is written null
                   "iblank_values": {value: count} | null,           # points of all steps; null until ranges are known. The 64
                                                                     # most frequent values that the format defines, and of others
                   "iblank_unknown": [value],                        # listed values that it does not define: they count as field
                   "iblank_others": {"known": points, "unknown": points} | null,        # points with unlisted values
                   "hidden_cells": cells | null,                    # blanked-out cells whose corners are not
                   "uniform": {"origin": [x, y, z], "spacing": [dx, dy, dz]} | null}],  # every point is, to its last stored bit,
                                                                     # at origin + (i, j, k) * spacing. Null if not, and for
                                                                     # files paged in place until their boxes are made
        "fields": [{"name", "components", "dtype", "units", "standard_name", "long_name",
                    "derived": bool, "definition": text | null,      # formula of a derived field
                    "defined": bool,                                 # whether a user defined it
                    "range": [low, high] | null,                     # of the magnitude if components > 1
                    "not_numbers": int | null,                       # usable points of all steps with NaN or infinite values;
                                                                     # null without ranges
                    "not_numbers_steps": [int, int] | null,          # the first of these steps and the last; null if none
                    "not_numbers_files": [path, path] | null,        # their files, for fields in PLOT3D files
                    "center": number | null,                         # reference value of a signed field, else null
                    "zones": [name] | null,                          # zones with this field; null: all
                    "pages_skipped": int | null}],                   # of defined fields, with ranges: pages that bounds ruled out
        "ranges_steps": int | null,                                  # time steps, from the first on, covered by ranges, boxes
                                                                     # and walls; null while none are known
        "ranges_with_blanked": bool | null,                          # whether ranges include blanked-out points, as those in a
                                                                     # store do; null while none are known
        "times": [number], "time_units": text,
        "times_counted": bool,                  # times only number the steps: the intervals are unknown
        "times_gaps": [step],                   # steps with a longer interval after them than most have
        "times_step": number | null,            # the interval between steps, if all are equal
        "times_equal": [step],                  # steps before one of the same time; if numbered for that, by the times in headers
        "times_why": sentence | null,           # why steps are only numbered, and the remedy
        "pages": {"total": as in STATS, "bytes": bytes of a page of one float component},
        "bytes_disk": int, "bytes_memory": int,                      # all pages decoded
        "checked": bool,                                             # pages carry checksums
        "layout": "cubed" | "flat" | "in place", "codec": text | null,
        "limit_least_bytes": int,                                    # a memory limit within which any trace without scalars runs
        "walls": [{"zone", "axis": "i" | "j" | "k", "index": 1-based}] | null,    # faces all iblank 2 or all at rest
                                                                     # at every step; null until ranges are known
        "settings": object | null}                                   # NAME.p3d.json as applied

SUMMARY of a trace = {"lines", "points", "reasons": {reason: count}, "outside": seeds (timelines: curves) in no zone,
                      "empty": {reason: count} of other lines without points,
                      "partial": bool, whether pages failed, "failed": lines that met a failed page,
                      "failure": the first failed page, as text | null,
                      "state_saved": bool, false if pages failed | null if no state was requested,
                      "output": path | null, "bytes_written": int,
                      "steps": int, "restarts": steps that found pages absent, "elders": times that a task became the elder,
                      "dropped": tasks that began anew for lack of memory, "trace_s": seconds of the tracing alone,
                      "spilled_bytes": bytes of lines that went through a temporary file,
                      "time_unit": unit of the times of lines, "stats": STATS}
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

_Progress: TypeAlias = Callable[[str, float, float], bool]
_Slice: TypeAlias = tuple[str, NDArray[Any], NDArray[np.uint8]]

__all__ = [
    "Dataset",
    "Lines",
    "__version__",
    "convert",
    "known_ranges",
    "render",
    "save_mesh",
    "stored_volume",
    "summarise",
    "validate",
]
__all__ += ["PageServer", "disk_cache_clear", "disk_cache_info", "disk_cache_notice", "flush_disk_cache", "new_token"]
__all__ += ["server_status", "set_alias", "set_disk_cache", "set_server_credentials", "time_reads"]
__all__ += ["replay_events", "export_events", "resident_bytes"]
__all__ += ["FileReader", "Opening", "list_folder", "stat_files", "stage_files", "remove_staged"]

__version__: str

@final
class Dataset:
    """An open dataset: catalog, pager and ledger."""

    @staticmethod
    def open(source: str, resources: str, *, tables: list[bytes] = ..., progress: _Progress | None = None) -> Dataset:
        """Opens a source. Reads headers of a flow, and no page of a volume."""

    def info(self, *, ranges: bool = False, progress: _Progress | None = None) -> str:
        """INFO. With `ranges`, one bounded pass computes the entries that need it, and stores them in the cache.
        For a volume, with or without `ranges`:
        {"pages": {"total", "bytes"}, "levels": [{"dims", "page", "pages"}], "checked", "bytes_disk",
        "bytes_memory", "limit_least_bytes"}."""

    def probe(self, position: tuple[float, float, float], *, fields: Sequence[str] | None = None, step: int = 0) -> str:
        """{"zone", "ijk": [i, j, k], "position": [x, y, z], "values": {name: number | [numbers]},
        "units": {"position": unit, name: unit}, "note": null, or why the values are doubtful, as a clause}, or
        {"outside": true}. `fields` None: all stored and all derived fields of that zone. ijk are 1-based and fractional. The
        cell of a place in computational space may be blanked out, or have a corner that is interpolated from another zone:
        the note then gives this."""

    def probe_ijk(
        self, zone: str, ijk: tuple[float, float, float], *, fields: Sequence[str] | None = None, step: int = 0
    ) -> str:
        """As `probe`, at a place in a zone's computational space: 1-based, fractions allowed."""

    def streamlines(
        self, options: str, *, seeds: NDArray[np.float64] | None = None, progress: _Progress | None = None
    ) -> Lines:
        """Traces into memory. `seeds` has shape (N, 3), or (N, 2) for 2-D data, C order; None: the seeds of
        `options["seeds"]`. Points of arrays and files go into a log; its memory is bounded and in the ledger.

        options = {"seeds": "point:... | line:... | plane:... | box:... | sphere:... | random:n:seed[:condition] | ijk:..." |
                            name of a .csv, .npy or .vtp file | [[x, y, z], ...],
                   "field": "velocity", "step": 0,
                   "direction": "forward" | "backward" | "both",
                   "integrator": "rk45" | "rk45-physical" | "rk4" | "euler",
                   "tolerance": number,            # local error, in units of length, relative to a cell's size as documented
                   "initial_step": number,         # length, null: from the cell
                   "max_step": number,             # length, null: from the cell; the step of rk4 and euler
                   "max_length": number, "max_time": number,       # null: no bound
                   "max_steps": int,               # null: 2000; larger than 4294967295 counts as that, which no line reaches
                   "terminal_speed": number,       # 1e-12
                   "scalars": [field names],       # sampled along the lines, vectors too
                   "stop": condition,              # of fields: a line ends at the first point where it holds
                   "kind": "streamline" | "pathline" | "streakline" | "timeline",
                   "steps": [int]}                 # streamlines: of these time steps, one line per seed and step; no "step"

        Kind pathline has no "step", "max_time", "initial_step", "max_step" and "terminal_speed". "direction" is that of time,
        forward or backward. Lengths and steps count for the whole line. Its own keys:
                  {"t0": number, "t1": number,     # release and end; null: first and last time, or backward last and first
                   "time_step": number,            # longest step, time, null: from the cell; the step of rk4 and euler
                   "hold_steps": bool}             # velocities of a time step hold until the next, not interpolated.
        `time` is then the dataset's, in the order of the particle's way. Kind streakline has the same keys and
                  {"release_every": number,        # time between releases
                   "release_steps": int,           # time steps between them
                   "release_times": [number]}      # at most one of the three; none: 1 time step
        A line has the particles of its seed at `t1`, from the last to the first, with fields `birth` and `age` added. Kind
        timeline has the keys of a pathline and
                  {"curve_points": int,            # seeds that make a curve
                   "curves": [int],                # or the first seed of each curve, last the number of seeds; neither: one curve
                   "refine": number,               # largest distance of neighbours, over that at the release; 0: no bound
                   "refine_length": number,        # or the largest distance; neither: 2 times
                   "max_points": int}              # of a curve; null: 10000
        A line is a curve at `t1`, with fields `s` (number of the seed in its curve, with fractions) and `age` added.
        Pathlines, streaklines and timelines:
                  {"output_every": number,         # time between output times
                   "output_times": [number],       # or those times
                   "output_steps": bool}           # or all time steps from "t0" to "t1"; at most one of the three
        {"trail": number} is the part of its line behind a particle in a .pvd of pathlines, as a time; null: none.
        A pathline's steps end at output times, and a .pvd has a file for each. Streaklines and timelines have one line per seed
        at each. Without output times: pathlines every time step; the others `t1`, in a .pvd every time step. Pathlines and
        streaklines:
                  {"save_state": path,             # saves the state at `t1`, a time step
                   "resume": path}                 # continues from a saved state

        One line per seed, in seed order. `both` gives one line from the backward end through the seed to the forward end, with
        negative times before the seed. A seed outside every zone gives an empty line with reason `left`."""

    def trace(
        self, options: str, output: str, *, seeds: NDArray[np.float64] | None = None, progress: _Progress | None = None
    ) -> str:
        """As `streamlines`, streamed into `output` (.vtp, .npz, .parquet or .pvd by its suffix). SUMMARY."""

    def look(self, *, step: int = 0, progress: _Progress | None = None) -> str:
        """{"zones": [{"name", "box"}], "walls": [{"zone", "axis", "index", "box"}], "encloses": whether these enclose the flow,
        "focus": box of most cells}. No field is read as a whole. A box is [[x0, y0, z0], [x1, y1, z1]], or null without
        usable cells."""

    def flow_map(self, options: str, output: str, *, progress: _Progress | None = None) -> str:
        """Writes a flow map to a Zarr v3 volume, a folder. The folder appears under its name when it is complete.

        options = those of a pathline (kind "pathline", direction also "both") without seeds, scalars and stop, and
                  {"grid": [[low, high, n], ...],      # along x, y and z; in 2-D without the last
                   "quantities": ["ftle" | "residence" | "displacement" | "end_position"],
                   "within": [[x, y, z], [x, y, z]] | null,      # particles that leave this box end; null: the grid of the dataset
                   "offset": number | null, "overwrite": bool}
        Result: {"output", "seeds", "dims": [nx, ny, nz], "arrays": [names], "reasons": {"forward" | "backward": {reason: seeds}},
                 "bytes_written", "partial", "failure", "stats": STATS}
        """

    def vortex_cores(self, options: str, *, progress: _Progress | None = None) -> Lines:
        """Extracts vortex cores into memory.

        options = {"method": "sujudi-haimes" | "levy" | "lambda2", "field": "velocity", "step": 0,
                   "scalars": [field names],       # sampled at the points
                   "min_strength": number, "min_length": number,       # 0
                   "max_angle": number | null}     # between line and velocity, degrees; null: any
        Fields are strength, angle, with levy helicity_normalized, then the scalars; `time` is the step's. The summary has
        "lines", "points", "reasons", "partial", "failed" (blocks), "failure", "stats", and "found": points with parallel
        vectors."""

    def run(self, job: str, options: str, *, output: str | None = None, progress: _Progress | None = None) -> str:
        """Runs a job by its name. Options and result are JSON objects; the result has "stats": STATS.

        "vortex_cores": as the method `vortex_cores`, streamed into `output` (.vtp, .npz, .csv or .parquet by its suffix).
            Result: the summary.
        "contour": writes an isosurface or a plane to `output`, a .vtp, .ply, .glb or .npz.
            options = {"field", "values", "near"} or {"origin", "normal"}, and {"scalars": [names], "normals": bool, "step": 0}
            For a volume, fields are channels, and "level" is one of its levels, 0 by default.
            Result: {"points", "triangles", "bounds", "partial", "failed_pages", "output", "bytes_written", "stats": STATS}
        "grid_surface": writes grid surfaces to `output`, a .vtp, .ply, .glb or .npz.
            options = {"surfaces": [{"zone": name, "axis": "i" | "j" | "k", "index": 1-based}] | null,    # null: all walls, i.e.
                                                            # zone faces with all points of iblank 2, or all at rest
                       "scalars": [field names], "step": 0}
            Result: {"points", "cells", "surfaces": [{"zone", "axis", "index", "points"}], "output", "bytes_written",
                     "stats": STATS}
        """

    def write_slice(self, options: str, output: str, *, progress: _Progress | None = None) -> str:
        """Writes a slice sampled at pixels: a .png in the colours of "look", or its numbers as .npy or .npz.

        options = {"normal": [x, y, z], "origin": [x, y, z] | null, "up": [x, y, z] | null,
                   "extent": [left, right, bottom, top] | null, "size": [width, height] | null, "resolution": number | null,
                   "fields": [field names], "step": 0,
                   "look": {"table": [[r, g, b], ...] | null, "grey16": false, "range": [low, high] | null} | null}
                  For a volume, fields are channels, with "level" (null: by the size of a pixel) and "nearest".
        Result: {"size", "origin", "normal", "right", "up", "extent", "pixel", "length_unit",
                 "fields": [{"name", "components", "unit"}], "pixels": {"values", "outside", "failed"}, "partial", "failure",
                 "ranges" (of a .png), "output", "bytes_written", "stats": STATS}
        """

    def slice_image(self, options: str, *, progress: _Progress | None = None) -> _Slice:
        """As `write_slice` with its options, in memory: its description as JSON, its numbers and the state of each pixel.

        Numbers are in rows from the top, those of a pixel side by side. States are 1 (a value), 2 (outside) and 3 (failed).
        """

    def read(
        self, field: str, zone: str, step: int, lo: tuple[int, int, int], hi: tuple[int, int, int]
    ) -> NDArray[Any]:
        """Points lo <= (i, j, k) < hi, 0-based, as a new array [k, j, i] or [component, k, j, i] in the field's dtype.
        Derived fields are float32 or float64, as the stored ones. `xyz` and `iblank` are fields too."""

    def read_box(
        self,
        level: int,
        channel: int,
        lo: tuple[int, int, int],
        hi: tuple[int, int, int],
        step: int,
    ) -> NDArray[Any]:
        """Voxels of a volume, lo <= (i, j, k) < hi, 0-based, as a new array [k, j, i] in the channel's type."""

    def check_pages(self, *, progress: _Progress | None = None) -> str:
        """Reads every page of all levels and steps of a volume once.

        Result: {"pages", "failed", "never_written": chunks that the format defines so,
                 "failures": [{"what", "error"}] (the first 1000), "checked": whether all pages carry checksums, "stats": STATS}
        """

    def build_ranges(self, tables: list[bytes], folder: str, *, progress: _Progress | None = None) -> str:
        """Writes the ranges of all pages of a volume to a folder of the cache, in one pass. Ranges of unchanged files are
        reused.

        Result: that of `known_ranges`, with "pages": pages read, 0 if all ranges are known, and "stats": STATS
        """

    def define(self, definitions: Sequence[str]) -> None:
        """Adds fields made of others, each `NAME = EXPRESSION`."""

    def describe(self, field: str, zone: str) -> str:
        """JSON: `{"components", "dtype", "units"}` of a field or an expression, as `read` gives it."""

    def stats(self) -> str:
        """STATS."""

    def metrics(self) -> str:
        """The counters in Prometheus' text format."""

    def flush_events(self) -> bool:
        """Writes the log of events so far, with the present stats, as a readable file. False without a log."""

    def set_memory_limit(self, memory_limit: int) -> None:
        """Raises or lowers the limit of the open dataset."""

    def close(self) -> None:
        """Frees the memory and writes the events file. A second call has no effect; any other is a `UsageError`."""

@final
class Lines:
    """Traced lines in memory owned by Python: N points in L lines. Each property returns the same array each time."""

    @property
    def points(self) -> NDArray[np.float64]:
        """(N, 3), in the dataset's length unit."""

    @property
    def offsets(self) -> NDArray[np.int64]:
        """(L + 1,): line n is points[offsets[n]:offsets[n + 1]]."""

    @property
    def reason(self) -> list[str]:
        """(L,) why each line ended at its last point: length, steps, points, time, speed, stopped, wall, left, hole, failed."""

    @property
    def reason_backward(self) -> list[str] | None:
        """(L,) why each line ended at its first point, if traced in both directions. Files use the same name."""

    @property
    def time(self) -> NDArray[np.float64]:
        """(N,) integration time since the seed."""

    @property
    def zone(self) -> NDArray[np.int32]:
        """(N,) number of the zone, 1 for the first of the file."""

    @property
    def seed(self) -> NDArray[np.int64]:
        """(L,) number of the seed, or of the curve."""

    @property
    def line_time(self) -> NDArray[np.float64] | None:
        """(L,) output time of each line, if a seed has one line at each of several times."""

    @property
    def line_step(self) -> NDArray[np.int64] | None:
        """(L,) time step of each line, if a seed has one line at each of several steps."""

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Sampled fields, (N,) or (N, components), float64."""

    @property
    def units(self) -> dict[str, str]:
        """Unit of each sampled field."""

    @property
    def summary(self) -> str:
        """SUMMARY."""

    def save(self, path: str) -> None:
        """Writes .vtp, .npz, .parquet or .pvd, the same bytes as `Dataset.trace` would."""

def save_mesh(path: str, arrays: dict[str, NDArray[Any]], meta: str) -> None:
    """Writes a surface to .vtp, .ply, .glb or .npz, the same bytes as the job "contour".

    Arrays: "points" (N, 3) in float32 or float64, "triangles" (M, 3) in int64, "zone" (N,) in int32, optional "normals" (N, 3),
    and fields. `meta` is as in `.npz` files.
    """

def convert(
    source: str,
    destination: str,
    resources: str,
    *,
    tables: list[bytes] = ...,
    options: str = "{}",
    progress: _Progress | None = None,
) -> str:
    """Streams a dataset into a Zarr v3 store.

    For a flow:
    options = {"fields": [name],                # fields of the store, derived ones too; none: those of the source
               "page": 4 | 8 | 16 | 32 | 64, "layout": "cubed" | "flat", "codec": "none" | "zstd" | "lz4",  # null: measured default
               "resume": bool, "overwrite": bool, "dry_run": bool,
               "append": bool,                  # adds the steps that the store lacks; a missing store is made
               "given": [name]}                 # those of page, layout and codec that the user set: a store's cannot be changed
    Result: {"destination", "dry_run": bool, "resumed": bool, "bytes_in", "bytes_out", "pages_written", "shards",
             "zones": [{"name", "dims", "page"}], "page", "layout", "codec",
             "padding_disk": ratio, "padding_memory": ratio, "seconds_estimated": number | null, "fields": [name],
             "guessed": [sentence], "order_assumed": [name], "stats": STATS,
             "appended": {"first": step, "steps": how many, "steps_in_all", "times": [number], "time_units", "times_counted",
                          "times_gaps": as in INFO, of all steps} | null}    # null without append

    For a volume, its finest level, with a pyramid (OME-Zarr 0.5):
    options = {"page": 4 .. 256 | null (32), "layout", "codec": as above, "levels": at most, 1 .. | null (until the longest side
               has at most 64 voxels), "downsample": "mean" | "majority" | "nearest" | null (majority for labels, else mean),
               "resume": bool, "overwrite": bool, "dry_run": bool}
    Result: {"what": "volume", "destination", "dry_run", "resumed", "bytes_in": those of the finest level's voxels, "bytes_out",
             "pages_written", "shards", "levels": [{"dims", "page", "pages"}], "page", "layout", "codec",
             "downsample", "downsample_asked": bool, "dtype", "kind", "steps", "channels": [names], "guessed": [sentence],
             "padding_disk": ratio, "scratch_bytes": largest size of temporary files, "seconds_estimated": number | null,
             "memory_bytes": size of buffers, "stats": STATS}

    bytes_out, pages_written and shards are estimates in a dry run; with append, they count added data only. An interrupted
    conversion leaves a part that `resume` completes.
    """

def validate(source: str, resources: str, *, progress: _Progress | None = None) -> str:
    """Reads every page once: its checksum where it has one, its shape, its sizes.

    Result: {"ok": bool, "pages_checked", "pages_unchecked": pages read that have no checksum,
             "failures": [{"what", "error"}] (the first 100), "failed": count of all, "stats": STATS}; of a store also
             "not_listed": its server gives no lists, so files that do not belong to it were not looked for.
    """

def stored_volume(path: str) -> str:
    """Description of a volume's store, from its checked documents: {"spec": the description of a source, "described": {"format",
    "origin": the source's format, "layout", "codec", "downsample", "dtype", "steps", "levels", "bytes",
    "seen": [[low, high] | null]}}."""

def known_ranges(source: str, tables: list[bytes], folder: str, *, progress: _Progress | None = None) -> str | None:
    """Ranges that `Dataset.build_ranges` wrote to a folder, if the volume's files are unchanged since; else None.

    Result: {"seen": [[low, high] | null], "failed": pages without a range, since they cannot be read}: for each channel the lowest
            and highest stored number, as numbers or "Infinity" and "-Infinity"
    """

def render(
    scene: str, output: str, resources: str, *, tables: list[bytes] = ..., progress: _Progress | None = None
) -> str:
    """Draws a scene to a PNG.

    `farfield/scene/native.py` documents scenes.

    Colours are 0..255 sRGB. `map` wins over `rgb`. A map's null range spans all values drawn with it, made symmetric about
    `center`, if given. Vectors are coloured by their magnitude. A `map` on lines from a file is one of its arrays. On traced
    lines its field is sampled, in `scalars` or not. Camera nulls are fitted to the drawn objects (outlines count only if
    nothing else is drawn). Rows go to the file tile by tile.
    Result: {"output", "size", "maps": {name: {"field", "range", "units"}}, "drawn": [{"kind", "name", "primitives"}],
             "camera": as above without nulls, "bytes_written", "stats": STATS, "partial": bool,
             "pixels_missing": pixels that lack part of a volume}.
             An entry of "drawn" for a trace with failed pages has "failure", the first one; "partial" is then true. A range is
             null if nothing drawn has a finite value. Pictures of many time steps also have "frames". With `resume`, "redrawn"
             has the number of existing "pictures" that are drawn again, and "why", if there are any
    """

def summarise(path: str, *, progress: _Progress | None = None) -> str:
    """Summary of a log of events, in bounded memory: the object that `farfield.report` shows."""

def replay_events(path: str, *, options: str = "{}", progress: _Progress | None = None) -> str:
    """Replay of a log's pages with other resources.

    options = {"limits": [bytes], "policies": [names, with "+executor", or "optimum"],
               "coarser": [pages along each axis that become one],
               "latencies_s": [seconds], "readers": [int], "workers": [int]}, all optional.

    Result: {"file", "policy", "limit_bytes", "uses", "touched", "touched_bytes", "whole": bool, "damaged": bool, "lost_bytes",
             "run": {"faults", "evictions", "published"}, "mirror": the same counts of a replay, and "again",
             "curves": [{"policy", "limit_bytes", "frame_bytes", "uses", "misses", "again", "evictions", "bytes"}],
             "optimum": bool, false if the log is too long for it,
             "page_sizes": [{"coarser", "touched", "touched_bytes", "rows": [curves' rows without policy]}],
             "times": [{"of": "latency_s" | "memory_limit" | "readers" | "workers", "to", "predicted_s"}],
                       limits if pages were evicted,
             "model": {"measured_s", "predicted_s", "covers"}, "estimate": order of the uses, as text}
    """

def export_events(path: str, output: str, *, progress: _Progress | None = None) -> str:
    """Writes a log as a Chrome trace (.json), a Parquet table (.parquet), or in its own form (any other ending).

    Result: {"output", "events", "unknown", "lost_bytes", "whole", "damaged"}
    """

def resident_bytes() -> int:
    """Resident bytes of this process now (VmRSS)."""

def stat_files(paths: list[str], *, first_bytes: bool = False) -> list[tuple[str, int, str, int] | None]:
    """Of each path, asked in one round trip: "file", "folder" or "other"; bytes; an opaque version (ETag and the like); the last
    change in nanoseconds since 1970, 0 if unknown. None only if it is missing: AccessError if a server refuses or is silent.
    `first_bytes`: they will be read from their begin, so a server gives the first block with the answer where it can."""

def list_folder(folder: str) -> list[tuple[str, bool, int]]:
    """The entries of a folder: name, whether it is a folder, bytes. DataError if a server gives no lists, as plain HTTP."""

@final
class FileReader:
    """A file, here or at a server, of the version that it has when it is first read."""

    def __new__(cls, path: str) -> FileReader: ...
    @property
    def size(self) -> int: ...
    @property
    def version(self) -> str: ...
    def read_at(self, offset: int, length: int) -> bytes:
        """The bytes from `offset` on, fewer only at the end of the file. DataError if the file has changed since."""

@final
class Opening:
    """A context. What is known of files at servers is shared in it, in one version; the outermost one begins without any."""

    def __new__(cls) -> Opening: ...
    def __enter__(self) -> Opening: ...
    def __exit__(self, kind: object, error: object, trace: object, /) -> None: ...

@final
class PageServer:
    """A running page server. Raises UsageError if others could read without TLS and a token. `options` is a JSON object:
    {"names": [[name, path or address]], "listen": "HOST:PORT",
     "state": folder that keeps a certificate made here, "hosts": [names of this machine in it],     # null: none
     "certificate": [PEM file of the chain, of the key],     # null: that of `state`; neither: no TLS
     "tokens": [[name, SHA-256 in hex]], "staging": [folder, most bytes] or null, "stagers": [SHA-256 in hex],
     "rate": bytes a second, "rate_per_client": the same,     # null: no limit
     "memory_limit": bytes of buffers, "max_connections": number, "cache": bytes of memory for what addresses give,
     "cache_local": for local files, too, "cache_disk": [folder, bytes]     # null: none}."""

    def __new__(cls, options: str) -> PageServer: ...
    @property
    def address(self) -> str: ...
    @property
    def fingerprint(self) -> str | None:
        """SHA-256 of the certificate in hex; None without TLS."""

    def status(self) -> str: ...
    def metrics(self) -> str: ...
    def set_tokens(self, tokens: list[tuple[str, str]], stagers: list[str]) -> None: ...
    def take_notice(self) -> str | None: ...
    def stop(self) -> None: ...

def new_token() -> tuple[str, str]: ...  # a new token and its SHA-256, both in hex
def set_server_credentials(server: str, token: str | None, pin: str | None) -> None:
    """Sets what the server `HOST:PORT` is shown, and the fingerprint by which it is believed, for connections from now on."""

def set_disk_cache(folder: str, bytes: int, offline: bool) -> None:
    """Puts a disk cache of so many bytes before servers used from now on; 0: none. `offline`: no server is asked."""

def disk_cache_notice() -> str | None: ...  # what is wrong with it, once; reads do not fail because of it
def flush_disk_cache() -> None: ...
def disk_cache_info(folder: str) -> tuple[int, int]: ...  # bytes and records
def disk_cache_clear(folder: str) -> int:
    """Clears it, except for what other processes write now. Gives the bytes that were freed."""

def set_alias(name: str, target: str) -> None: ...  # `ssh://` names stand for folders at servers
def server_status(url: str) -> str:
    """`PageServer.status` of the server of a `farfield://` URL."""

def stage_files(options: str, progress: _Progress | None = None) -> str:
    """Brings files to page servers; the keys of `options` are those of `serving.staging.stage`. Gives a report as JSON."""

def remove_staged(servers: list[str], dataset: str) -> list[str]: ...  # the servers that had it
def time_reads(path: str, bytes: int, count: int, depth: int, most_s: float) -> tuple[list[float], float, int]:
    """At most `count` reads, `depth` at a time, none begun after `most_s`: each duration and that of all in s, and bytes read."""
