"""The part of the surface that runs show: keys of the JSON that each command prints, words that options take, counters.

Each command runs once on the files of tests/baseline. Words are those that an error lists for a word that does not exist.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import baseline_files as made
from running import printed

Rows = dict[str, str]

LINE = "--seeds line:0.6,0.5,0.2:0.9,0.5,0.2:4"
RUNS = {
    "info FLOW": "info walls.zarr --ranges",
    "info VOLUME": "info scalar.zarr --ranges",
    "convert FLOW": "convert 's_0.xyz+q=s_*.q' a.zarr",
    "convert FLOW --append": "convert --append 's_0.xyz+q=s_*.q' a.zarr",
    "convert FLOW --dry-run": "convert 's_0.xyz+q=s_*.q' b.zarr --dry-run",
    "convert VOLUME": "convert rgb.raw c.zarr --shape 20x16x12 --dtype uint8 --components 3",
    "validate FLOW": "validate flow.zarr",
    "validate VOLUME": "validate scalar.zarr",
    "probe FLOW": "probe flow.zarr 0.3 0.3 0.3 --fields density,velocity",
    "probe FLOW --ijk": "probe flow.zarr --ijk zone1 2 2 2 --fields density",
    "probe VOLUME": "probe scalar.zarr 3 3 3",
    "trace": f"trace flow.zarr {LINE} --scalars mach --events run.log -o a.vtp",
    "trace --steps": f"trace flow.zarr {LINE} --steps all -o b.npz",
    "trace --kind pathline": f"trace flow.zarr {LINE} --kind pathline --t1 0.5 --save-state a.state -o b.npz",
    "trace --kind streakline": f"trace flow.zarr {LINE} --kind streakline -o b.npz",
    "trace --kind timeline": f"trace flow.zarr {LINE} --kind timeline -o b.pvd",
    "extract isosurface FLOW": "extract isosurface flow.zarr --field density --value 1.2 -o a.ply",
    "extract isosurface VOLUME": "extract isosurface scalar.zarr --field scalar --value 40 -o a.vtp",
    "extract vortex-cores": "extract vortex-cores flow.zarr -o a.npz",
    "extract grid-surface": "extract grid-surface walls.zarr --scalars density -o a.glb",
    "extract slice FLOW": "extract slice flow.zarr --normal z --field mach -o a.vtp",
    "extract slice FLOW.png": "extract slice flow.zarr --normal z --field mach --size 40x40 -o a.png",
    "extract slice VOLUME": "extract slice scalar.zarr --normal z --size 40x40 -o a.png",
    "flowmap": "flowmap flow.zarr --seeds-grid 0.2:0.8:4,0.2:0.8:3,0.1 --quantity ftle,residence -o map.zarr",
    "info MAP": "info map.zarr",
    "render FLOW": "render flow.zarr --size 40x30 -o a.png",
    "render FLOW --frames": "render flow.zarr --frames 0:2 --size 40x30 -o a_%d.png",
    "render VOLUME": "render scalar.zarr --size 40x30 -o a.png",
    "render VOLUME --budget": "render scalar.zarr --size 40x30 --budget 60s -o a.png",
    "scene FLOW": "scene flow.zarr -o a.json",
    "scene VOLUME": "scene scalar.zarr -o b.json",
    "report": "report run.events -o a.html",
    "replay": "replay run.events --limits 64MiB --policies lru,optimum --page-factor 2 --latency 5ms --readers 4 --workers 2",
    "events": "events run.events -o a.json",
    "tune": "tune 's_0.xyz+q=s_0.q' --like 'probe s_0.xyz+q=s_0.q 0.3 0.3 0.3' --runs 1",
    "demo": "demo --small",
    "serve --new-token": "serve --new-token anna --state tokens",
    "serve --status": "serve --status SERVER",
    "stage": "stage flow.zarr NEAR/near",
    "stage --remove": "stage --remove NEAR/near",
    "doctor": "doctor SERVER/scalar.zarr --seconds 0.1",
    "cache info": "cache info",
    "cache clear": "cache clear",
    "config list": "config list",
    "config get": "config get readers",
    "config set": "config set readers 8 --project",
}
"""A name for each run, and what is typed."""

FLOW = "flow.zarr"
TRACE = f"trace {FLOW} {LINE} -o a.npz"
WORDS = {
    "--integrator": f"{TRACE} --integrator x",
    "--kind (of lines)": f"{TRACE} --kind x",
    "--direction": f"{TRACE} --direction x",
    "--points": f"{TRACE} --kind pathline --points x",
    "--read-ahead": f"{TRACE} --kind pathline --read-ahead x",
    "--seeds": f"trace {FLOW} -o a.npz --seeds x",
    "-o (of lines)": f"trace {FLOW} {LINE} -o a.x",
    "--replacement": f"{TRACE} --replacement x",
    "field": f"{TRACE} --scalars x",
    "function": f"{TRACE} --define 'a = x(1)'",
    "unit": f"{TRACE} --define \"a = to(density, 'nounit')\"",
    "--plot3d-format": "info a.xyz --plot3d-format x",
    "--plot3d-byte-order": "info a.xyz --plot3d-byte-order x",
    "--plot3d-precision": "info a.xyz --plot3d-precision x",
    "--plot3d-zones": "info a.xyz --plot3d-zones x",
    "--plot3d-iblank": "info a.xyz --plot3d-iblank x",
    "--plot3d-dimension": "info a.xyz --plot3d-dimension x",
    "--plot3d-order": "info a.xyz --plot3d-order x",
    "--plot3d-kind": "info a.xyz --plot3d-kind x",
    "--raw": "info rgb.raw --raw x=1",
    "--kind (of volumes)": "info rgb.raw --kind x",
    "--dtype": "info rgb.raw --dtype x",
    "--byte-order": "info rgb.raw --byte-order x",
    "--component": "info rgb.raw --component x",
    "--page": f"convert {FLOW} z.zarr --page 5",
    "--layout": f"convert {FLOW} z.zarr --layout x",
    "--codec": f"convert {FLOW} z.zarr --codec x",
    "--downsample": "convert scalar.zarr z.zarr --downsample x",
    "--quantity": f"flowmap {FLOW} --seeds-grid 0:1:4,0:1:3,0.1 -o z.zarr --quantity x",
    "--direction (of maps)": f"flowmap {FLOW} --seeds-grid 0:1:4,0:1:3,0.1 -o z.zarr --direction x",
    "--method": f"extract vortex-cores {FLOW} -o a.vtp --method x",
    "-o (of slices)": f"extract slice {FLOW} --field mach --normal z -o a.x",
    "-o (of surfaces)": f"extract grid-surface {FLOW} --surface zone1:k=1 -o a.x",
    "-o (of isosurfaces)": f"extract isosurface {FLOW} --field mach --value 0.2 -o a.x",
    "-o (of cores)": f"extract vortex-cores {FLOW} -o a.x",
    "-o (of pictures)": f"render {FLOW} -o a.x",
    "-o (of events)": "events run.events -o a.x",
    "-o (of replays)": "replay run.events -o a.x",
    "--policies": "replay run.events --policies x",
    "--view": f"render {FLOW} -o a.png --view x,x",
    "--projection": "render scalar.zarr -o a.png --projection x",
    "--opacity-from": "render rgb.zarr -o a.png --opacity-from x",
    "--convention": "extract slice scalar.zarr --normal z -o a.png --convention x",
    "demo:": "info demo:x",
    "cache clear": "cache clear x",
    "setting": "config get x",
    "command": "xxxxxx",
}
"""What takes a word of a list, and a command line that has a wrong one."""

FAILS = "the run for it fails"
"""Where a run of these tables does not do what it is there for: its command line is then written anew here."""
QUOTE = "'"
LISTS = re.compile(
    r"(?:there are lines of kind|there are:?|functions are|is none of|known are|written as|nor one of|Input should be|say) "
    r"(.*?)(?:, not '.*)?(?:; .*)?$"
)


class Workplace:
    """A folder with the kept files and some of their inputs, in which commands run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "work"
        self._stack = contextlib.ExitStack()
        self._counters: Rows = {}

    def __enter__(self) -> Workplace:
        import farfield
        from farfield.serving import ServeOptions, start

        shutil.copytree(made.BASELINE, self._folder)
        made.write_inputs(self._folder)
        old = {name: os.environ.get(name) for name in ("FARFIELD_CACHE_DIR", "XDG_CONFIG_HOME")}
        self._stack.callback(_restore, old)
        os.environ |= {"FARFIELD_CACHE_DIR": str(self._folder / "cache"), "XDG_CONFIG_HOME": str(self._folder)}
        self._stack.enter_context(contextlib.chdir(self._folder))
        self._flow = self._stack.enter_context(farfield.open(FLOW))
        self._volume = self._stack.enter_context(farfield.open("scalar.zarr"))
        options = ServeOptions(
            names=[("data", str(self._folder))],
            listen="127.0.0.1:0",
            state=self._folder / "state",
            staging=(str(self._folder / "near"), 1 << 30),
        )
        self._server = self._stack.enter_context(start(options)).urls[0]
        self._flow.streamlines(seeds=[(0.6, 0.5, 0.2)])
        _ = self._volume[0, 0, 0]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def samples(self) -> dict[str, object]:
        """Objects as users get them, by the names of their classes."""
        flow, volume = self._flow, self._volume
        zone = flow.zones["zone1"]
        found = [
            *(flow, zone, zone["density"], flow.probe((0.3, 0.3, 0.3)), flow.explain()),
            *(flow.streamlines(seeds=[(0.6, 0.5, 0.2)]), flow.contour([0.3], scalars="velocity_magnitude")),
            *(volume, volume.channels[0], volume.probe((3, 3, 3)), volume.slice_image(normal="z")),
        ]
        return {type(sample).__name__: sample for sample in found}

    def counters(self) -> Rows:
        """`STATS.pages.faults` of a flow and of a volume, `METRICS.farfield_reads_total`."""
        rows = dict(_keys(self._flow.stats(), "STATS"))
        rows |= {key: f"{kind}, of volumes" for key, kind in _keys(self._volume.stats(), "STATS") if key not in rows}
        kinds = re.findall(r"^# TYPE (\S+) (\S+)$", self._flow.metrics(), re.MULTILINE)
        return rows | {f"METRICS.{name}": kind for name, kind in kinds}

    def printed(self) -> Rows:
        """`trace --json: lines`: keys with types. Counters that all runs have are one key, with those that a run lacks."""
        shared = {key.removeprefix("STATS."): kind for key, kind in _keys(self._flow.stats(), "STATS")}
        rows: Rows = {}
        near = self._server.rpartition("/")[0]
        for name, line in RUNS.items():
            try:
                found, _ = printed(*shlex.split(line.replace("SERVER", self._server).replace("NEAR", near)))
            except AssertionError as error:
                rows[f"{name} --json: ?"] = f"{FAILS}: {error}"
                continue
            keys = dict(_keys(found, ""))
            lacking = [key for key in shared if key not in keys]
            if "wall_s" in keys and "pages.total" in keys:
                keys = {key: kind for key, kind in keys.items() if shared.get(key) != kind}
                keys["STATS"] = f"counters{', without ' if lacking else ''}{', '.join(lacking)}"
            rows |= {f"{name} --json: {key}": kind for key, kind in keys.items()}
        return rows

    def words(self) -> Rows:
        """`--integrator = rk4`."""
        from farfield.cli import run

        rows: Rows = {}
        for name, line in WORDS.items():
            out, said = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
                code = run(shlex.split(line))
            text = said.getvalue().strip()
            if code != 2 or (found := LISTS.search(text)) is None:
                rows[f"{name} = ?"] = f"{FAILS}: farfield {line}: exit {code}: {text}"
                continue
            listed = re.split(r",? or |, (?:and |each with )?", found[1].replace(" behind it", ""))
            rows |= {f"{name} = {word.strip(QUOTE)}": "word" for word in listed}
        return rows


def _restore(old: Mapping[str, str | None]) -> None:
    for name, value in old.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


def _keys(found: Any, key: str) -> Iterator[tuple[str, str]]:
    """Paths of an object's keys with their types; those of the objects of a list are taken together."""
    if isinstance(found, Mapping):
        for name, value in found.items():
            path = f"{key}.{name}".lstrip(".")
            yield path, _type(value)
            yield from _keys(value, path)
    elif isinstance(found, list):
        rows: dict[str, dict[str, None]] = {}
        for value in found:
            for path, kind in _keys(value, f"{key}[]"):
                rows.setdefault(path, {})[kind] = None
        yield from ((path, " or ".join(sorted(kinds))) for path, kinds in rows.items())


def _type(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(sorted({_type(part) for part in value}))}]"
    names = {bool: "boolean", int: "number", float: "number", str: "string", type(None): "null"}
    return names.get(type(value), "object")
