"""The runs that two builds are compared by.

In the arguments `{in}` is the folder of the inputs and `{out}` a folder of each build. Runs go in order: those that read a store
follow the one that makes it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """A command whose outputs both builds must agree on."""

    name: str
    arguments: tuple[str, ...]
    output: str | None = None
    """The file, folder or pattern below `{out}` that is digested; without one it is what the command prints as JSON."""


STEADY = "{in}/two.xyz+q={in}/two_0.q"
SERIES = "{in}/two.xyz+q={in}/two_*.q"
ONE = "{in}/one.xyz+q={in}/one_0.q"
FOAM = ("{in}/foam-256x256x256-uint8.raw", "--raw", "shape=256x256x256 dtype=uint8")
SEEDS = "random:60:3"
SMALL = "8MiB"
AMPLE = "512MiB"


def _means(limit: str, workers: int) -> tuple[str, ...]:
    return ("--memory-limit", limit, "--workers", str(workers))


def _trace(name: str, source: str, *options: str, limit: str = AMPLE, workers: int = 2, suffix: str = "npz") -> Run:
    output = f"{name}.{suffix}"
    seeds = () if "--seeds" in options else ("--seeds", SEEDS)
    return Run(name, ("trace", source, *seeds, *options, "-o", "{out}/" + output, *_means(limit, workers)), output)


def _write(name: str, command: str, *arguments: str, suffix: str, limit: str = AMPLE, workers: int = 2) -> Run:
    output = f"{name}{suffix}"
    return Run(name, (*command.split(), *arguments, "-o", "{out}/" + output, *_means(limit, workers)), output)


def _convert(name: str, source: str, *options: str, limit: str = AMPLE, workers: int = 2) -> Run:
    return Run(name, ("convert", source, "{out}/" + name, *options, *_means(limit, workers)), name)


def _say(name: str, *arguments: str) -> Run:
    return Run(name, arguments)


def _draw(name: str, *arguments: str, limit: str = AMPLE, workers: int = 2) -> Run:
    return _write(name, "render", *arguments, "--size", "320x200", suffix=".png", limit=limit, workers=workers)


STORES = [
    _convert("two.zarr", STEADY),
    _convert("series.zarr", SERIES, "--page", "8", "--codec", "lz4", limit="16MiB"),
    _convert("flat.zarr", STEADY, "--layout", "flat", "--codec", "zstd", limit=SMALL, workers=1),
    _convert("fields.zarr", STEADY, "--fields", "density,velocity,vorticity,q_criterion", limit="32MiB", workers=4),
    _convert("uneven.zarr", "{in}/uneven.vtr"),
    _convert("scalar.zarr", "{in}/scalar.nrrd"),
    _convert("gaps.zarr", "{in}/gaps.nrrd", "--codec", "zstd", "--page", "32", limit="16MiB"),
    _convert("labels.zarr", "{in}/labels.nrrd", "--downsample", "majority", limit="16MiB", workers=1),
    _convert("colours.zarr", "{in}/colours.nrrd", workers=4),
    _convert("waves.zarr", "{in}/wave_*.vti"),
]

LINES = [
    _trace("streamlines-files", STEADY),
    _trace("streamlines-small", STEADY, limit=SMALL, workers=1),
    _trace("streamlines-store", "{out}/two.zarr", limit=SMALL, workers=4, suffix="vtp"),
    _trace("streamlines-flat", "{out}/flat.zarr", limit="16MiB"),
    _trace("streamlines-derived", STEADY, "--field", "vorticity", "--scalars", "mach,q_criterion,pressure_gradient"),
    _trace("streamlines-stored", "{out}/fields.zarr", "--scalars", "q_criterion", limit="16MiB", suffix="parquet"),
    _trace("streamlines-rk4", STEADY, "--integrator", "rk4", "--max-step", "0.01", limit="16MiB"),
    _trace("streamlines-euler", STEADY, "--integrator", "euler", "--max-step", "0.02", "--direction", "forward"),
    _trace("streamlines-physical", STEADY, "--integrator", "rk45-physical", "--tolerance", "1e-5"),
    _trace("streamlines-stop", STEADY, "--stop", "mach > 0.5 or x > 2.5", "--direction", "backward"),
    _trace("streamlines-ijk", STEADY, "--seeds", "ijk:zone1:1-48/6,1-32/6,12"),
    _trace("streamlines-defined", STEADY, "--define", "load = density * magnitude(velocity)", "--scalars", "load"),
    _trace("streamlines-uneven", "{in}/uneven.vtr", "--seeds", "box:0.1,0.1,0.1:2.9,1.9,0.9:4:4:3"),
    _trace("streamlines-steps", SERIES, "--steps", "0:6:2", suffix="pvd"),
    _trace("pathlines", SERIES, "--kind", "pathline"),
    _trace("pathlines-small", "{out}/series.zarr", "--kind", "pathline", limit=SMALL, workers=4),
    _trace("pathlines-back", SERIES, "--kind", "pathline", "--direction", "backward", "--scalars", "pressure"),
    _trace(
        "pathlines-hold", SERIES, "--kind", "pathline", "--hold-steps", "--integrator", "rk4", "--time-step", "0.05"
    ),
    _trace("streaklines", SERIES, "--kind", "streakline", "--release-every", "0.25", limit="16MiB"),
    _trace("timelines", SERIES, "--kind", "timeline", "--seeds", "line:1.0,-0.8,0.5:1.0,0.8,1.5:9", "--refine", "1.5x"),
]

SURFACES = [
    _write("contour", "extract isosurface", STEADY, "--field", "density", "--value", "0.95", suffix=".npz"),
    _write(
        "contour-small",
        "extract isosurface",
        "{out}/two.zarr",
        "--field",
        "density",
        "--value",
        "0.95",
        "--value",
        "1.0",
        "--scalars",
        "mach",
        suffix=".npz",
        limit="16MiB",
        workers=1,
    ),
    _write("contour-derived", "extract isosurface", STEADY, "--field", "q_criterion", "--value", "0.2", suffix=".ply"),
    _write(
        "contour-near",
        "extract isosurface",
        STEADY,
        "--field",
        "density",
        "--value",
        "0.95",
        "--near",
        "1.4,0.4,1",
        suffix=".vtp",
    ),
    _write("contour-volume", "extract isosurface", "{in}/scalar.nrrd", "--value", "250", suffix=".npz", limit="16MiB"),
    _write("contour-level", "extract isosurface", "{out}/scalar.zarr", "--value", "250", "--level", "1", suffix=".glb"),
    _write("contour-gaps", "extract isosurface", "{in}/gaps.nrrd", "--value", "2", suffix=".npz", workers=4),
    _write("walls", "extract grid-surface", STEADY, "--scalars", "pressure", suffix=".vtp"),
    _write("grid-surface", "extract grid-surface", STEADY, "--surface", "zone2:j=18", suffix=".npz"),
    _write("cores", "extract vortex-cores", STEADY, "--scalars", "pressure", suffix=".npz"),
    _write("cores-levy", "extract vortex-cores", "{out}/two.zarr", "--method", "levy", suffix=".csv", limit="16MiB"),
    _write("cores-lambda2", "extract vortex-cores", STEADY, "--method", "lambda2", suffix=".vtp", workers=1),
    _write("slice-values", "extract slice", STEADY, "--normal", "z", "--field", "density,velocity", suffix=".npz"),
    _write("slice-picture", "extract slice", STEADY, "--normal", "1,1,0.3", "--field", "mach", suffix=".png"),
    _write(
        "slice-triangles",
        "extract slice",
        "{out}/two.zarr",
        "--normal",
        "x",
        "--field",
        "mach",
        suffix=".vtp",
        limit="16MiB",
    ),
    _write("slice-volume", "extract slice", "{in}/scalar.nrrd", "--normal", "y", suffix=".png", limit="16MiB"),
    _write("slice-labels", "extract slice", "{out}/labels.zarr", "--normal", "z", suffix=".png"),
    _write("slice-colours", "extract slice", "{in}/colours.nrrd", "--normal", "0.2,1,0.5", suffix=".npy"),
    _write("slice-gaps", "extract slice", "{out}/gaps.zarr", "--normal", "z", suffix=".npy", workers=1),
]

MAPS = [
    _write("ftle", "flowmap", SERIES, "--region", "0.9:2.9,-1:1,1", "--resolution", "24", suffix=".zarr"),
    _write(
        "residence",
        "flowmap",
        "{out}/series.zarr",
        "--seeds-grid",
        "1:2.8:8,-0.9:0.9:8,0.3:1.7:6",
        "--quantity",
        "residence,displacement",
        suffix=".zarr",
        limit="16MiB",
        workers=4,
    ),
]

PICTURES = [
    _draw("first-picture", STEADY),
    _draw("picture-lines", STEADY, "--seeds", SEEDS, "--color", "mach", limit="64MiB", workers=1),
    _draw("picture-all", STEADY, "--contour", "density=0.95", "--slice", "z", "--cores", "--color", "pressure"),
    _draw("picture-store", "{out}/two.zarr", "--contour", "density=0.95", limit="16MiB", workers=4),
    _draw("composite", "{in}/scalar.nrrd"),
    _draw("composite-small", "{out}/scalar.zarr", "--shade", limit="16MiB", workers=4),
    _draw("maximum", "{in}/scalar.nrrd", "--projection", "maximum", limit="16MiB"),
    _draw("mean", "{out}/scalar.zarr", "--projection", "mean", workers=1),
    _draw("first-surface", "{in}/scalar.nrrd", "--projection", "surface:300", "--shade"),
    _draw("nearest-window", "{in}/scalar.nrrd", "--nearest", "--window", "800", "--level", "200"),
    _draw("picture-labels", "{out}/labels.zarr", limit="16MiB"),
    _draw("picture-colours", "{in}/colours.nrrd"),
    _draw("picture-gaps", "{in}/gaps.nrrd", limit="16MiB", workers=4),
    _write("film", "render", SERIES, "--contour", "density=0.95", "--frames", "0:6:2", "--size", "240x160",
           suffix="_%04d.png"),
    _write("film-volume", "render", "{in}/wave_*.vti", "--size", "240x160", suffix="_%04d.png", limit="16MiB"),
]  # fmt: skip

ANSWERS = [
    _say("info-flow", "info", SERIES, "--ranges"),
    _say("info-store", "info", "{out}/fields.zarr", "-v"),
    _say("info-volume", "info", "{out}/gaps.zarr", "--ranges"),
    _say("probe-flow", "probe", STEADY, "1.7", "0.3", "1.1"),
    _say("probe-index", "probe", STEADY, "zone1", "9.5", "12", "7.25", "--ijk"),
    _say("probe-volume", "probe", "{out}/scalar.zarr", "40", "41.5", "17"),
    _say("validate-flow", "validate", "{out}/series.zarr"),
    _say("validate-volume", "validate", "{out}/labels.zarr"),
]

RESULTS = [*STORES, *LINES, *SURFACES, *MAPS, *PICTURES, *ANSWERS]

SPEED = [
    Run("streamlines", ("trace", ONE, "--seeds", "random:20000:1", "-o", "{out}/speed.npz", *_means("2GiB", 1))),
    Run("streamlines, steps shorter than cells", (
        "trace", ONE, "--seeds", "random:300:1", "--integrator", "rk4", "--max-step", "0.0005", "--max-steps", "20000",
        "-o", "{out}/speed.npz", *_means("2GiB", 1))),
    Run("pathlines", (
        "trace", "{in}/one.xyz+q={in}/one_*.q", "--kind", "pathline", "--seeds", "random:20000:1",
        "-o", "{out}/speed.npz", *_means("2GiB", 1))),
    Run("rays", ("render", *FOAM, "--size", "1600x1600", "-o", "{out}/speed.png", *_means("2GiB", 1))),
    Run("isosurface of a volume", (
        "extract", "isosurface", *FOAM, "--value", "140.5", "-o", "{out}/speed.npz", *_means("2GiB", 1))),
    Run("isosurface of a zone", (
        "extract", "isosurface", ONE, "--field", "mach", "--value", "0.4", "-o", "{out}/speed.npz", *_means("2GiB", 1))),
]  # fmt: skip
"""In core, on one core."""
