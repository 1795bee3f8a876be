"""The commands by name, and the help of the top level. This module imports nothing, so that `farfield --help` takes as
long as Python's start. The module of a command is imported on demand."""

from __future__ import annotations

from farfield.errors import UnknownName, UsageError

COMMANDS = {
    "info": "Describe a dataset or a volume.",
    "convert": "Stream a dataset into a store of pages (Zarr v3).",
    "validate": "Check every page.",
    "probe": "Print the values, zone and ijk at a point.",
    "trace": "Trace streamlines, pathlines, streaklines or timelines inside the memory limit.",
    "extract": "Write a part of a dataset as geometry.",
    "flowmap": "Follow a particle from every point of a grid: FTLE, residence times.",
    "render": "Draw a picture, or one per time step.",
    "scene": "Write a first scene of a dataset, to edit and draw again.",
    "report": "Write a page on what a run waited for.",
    "replay": "Replay a recorded run's pages with other limits and policies.",
    "events": "Write a run's log for Perfetto, or as a table.",
    "tune": "Propose page size, layout, codec and readers for a kind of run.",
    "serve": "Serve datasets to other machines.",
    "stage": "Bring a dataset near: to page servers, each file to some of them.",
    "doctor": "Say what is wrong between here and a dataset at a server.",
    "demo": "Show all steps on a generated flow.",
    "cache": "Data kept between runs.",
    "config": "Settings and their origins.",
}
"""Commands; each has a module of its name in this folder, with `register(app)`."""


INSTEAD = {
    "slice": "farfield extract slice SRC --normal z -o cut.png (numbers: .npy; triangles: .vtp)",
    "isosurface": "farfield extract isosurface SRC --field FIELD --value V -o surface.vtp",
    "iso": "farfield extract isosurface SRC --field FIELD --value V -o surface.vtp",
    "contour": "farfield extract isosurface SRC --field FIELD --value V -o surface.vtp; "
    "a picture: farfield render SRC --contour FIELD=V -o out.png",
    "surface": "farfield extract grid-surface SRC -o body.vtp",
    "walls": "farfield extract grid-surface SRC -o body.vtp",
    "cores": "farfield extract vortex-cores SRC -o cores.vtp; a picture: farfield render SRC --cores -o out.png",
    "vortex-cores": "farfield extract vortex-cores SRC -o cores.vtp",
    "streamlines": "farfield trace SRC --seeds random:500:1 -o lines.vtp",
    "streamline": "farfield trace SRC --seeds random:500:1 -o lines.vtp",
    "pathlines": "farfield trace SRC --kind pathline --seeds random:500:1 -o paths.vtp",
    "streaklines": "farfield trace SRC --kind streakline --seeds random:500:1 -o streaks.vtp",
    "mip": "farfield render SRC --projection maximum -o mip.png",
    "maximum": "farfield render SRC --projection maximum -o mip.png",
    "volume": "farfield render SRC -o out.png",
    "view": "farfield render SRC -o out.png",
    "show": "farfield render SRC -o out.png",
    "plot": "farfield render SRC -o out.png",
    "draw": "farfield render SRC -o out.png",
    "picture": "farfield render SRC -o out.png",
    "image": "farfield render SRC -o out.png",
    "thumbnail": "farfield render SRC --size 400x300 -o out.png",
    "movie": "farfield render SRC -o out.mp4 --fps 24",
    "video": "farfield render SRC -o out.mp4 --fps 24",
    "animate": "farfield render SRC -o out.mp4 --fps 24",
    "stats": "farfield info SRC --ranges",
    "statistics": "farfield info SRC --ranges",
    "ranges": "farfield info SRC --ranges",
    "range": "farfield info SRC --ranges",
    "histogram": "farfield info SRC --ranges (ranges of values; Farfield makes no histograms)",
    "ls": "farfield info SRC",
    "list": "farfield info SRC",
    "dump": "farfield info SRC --json",
    "header": "farfield info SRC",
    "describe": "farfield info SRC",
    "open": "farfield info SRC, or farfield render SRC -o out.png",
    "load": "farfield info SRC, or in Python farfield.open(SRC)",
    "read": "farfield info SRC, or in Python farfield.open(SRC)",
    "sample": "farfield probe SRC X Y Z",
    "value": "farfield probe SRC X Y Z",
    "get": "farfield probe SRC X Y Z; of a setting: farfield config get NAME",
    "set": "farfield config set NAME VALUE",
    "settings": "farfield config list",
    "import": "farfield convert SRC STORE.zarr",
    "export": "farfield convert SRC STORE.zarr, or farfield extract for a part of it",
    "pyramid": "farfield convert SRC STORE.zarr",
    "check": "farfield validate SRC",
    "verify": "farfield validate SRC",
    "ftle": "farfield flowmap SRC --quantity ftle --seeds-grid X0:X1:N,Y0:Y1:N,Z -o map.zarr",
    "help": "farfield --help, or farfield COMMAND --help",
    "version": "farfield --version",
}
"""Messages for likely guesses."""

EXPERIMENTS = ("bench", "benchmark")
"""Words for what is a package of its own."""


def help_text() -> str:
    """The text of `farfield --help`."""
    width = max(map(len, COMMANDS))
    rows = [f"  {name:<{width}}  {about}" for name, about in COMMANDS.items()]
    return "\n".join(
        [
            "Usage: farfield COMMAND ...",
            "",
            "  Shows any part of a dataset that is far larger than memory.",
            "",
            "Commands:",
            *rows,
            "",
            "Options:",
            "  --version   Print the version.",
            "  -h, --help  Print this; after a command, its own help.",
            "",
            "A dataset (SRC) is a grid file, 'grid.xyz+q=sol_*.q', a store, a .p3d file or demo:NAME; or a volume:",
            "Zarr, OME-Zarr, NIfTI, NRRD, DICOM, TIFF, VTK XML, HDF5, NetCDF, images, raw; FILE::NAME for one of several.",
            "An address is taken as a path is: https://, s3://, gs://, az://, farfield://, ssh://.",
            "Every command has --json, -v and -q; those that read data --memory-limit 2GiB|50% and more.",
            "Exit codes: 0 done, 1 data or run error, 2 usage or ambiguous input, 3 partial result,",
            "4 memory limit too small, 5 network or access, 70 a fault in Farfield, 130 interrupted.",
            "",
            "Begin with: farfield demo",
        ]
    )


def check_command(word: str) -> None:
    """Refuses a first word that is not a command.

    Raises:
        UsageError: if it is an option, which comes after the command.
        UnknownName: with the most similar command, otherwise.
    """
    if word in COMMANDS:
        return
    if word.startswith("-"):
        raise UsageError(f"no such option: {word}; options come after the command: see 'farfield --help'")
    import difflib

    if word in EXPERIMENTS:
        raise UnknownName(
            f"no command '{word}'; the experiments are a package of their own: see 'farfield-bench --help'"
        )
    if (instead := INSTEAD.get(word.lower().replace("_", "-"))) is not None:
        raise UnknownName(f"no command '{word}'; it is: {instead}")
    near = difflib.get_close_matches(word.lower(), [*COMMANDS, *INSTEAD], n=1)
    if near and near[0] in INSTEAD:
        raise UnknownName(f"no command '{word}'; did you mean this: {INSTEAD[near[0]]}")
    like = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(COMMANDS)}"
    raise UnknownName(f"no command '{word}'; {like}")
