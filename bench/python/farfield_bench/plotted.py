"""Plots of each experiment in docs/benchmarks.md.

A new plot is a `Spec` here under the experiment's name. It selects rows, the parts of their names for the x axis, the
series and the panel, and figures. It is drawn from stored results, and left out without data.
"""

from __future__ import annotations

from farfield_bench.plots import CLAIMS, Spec

WALL, CPU = "wall time [s]", "CPU time [s]"
STORES = r"(?P<panel>.+), (?P<x>all|1/\d+): "
"""Beginning of the names of arms of `paging-1997`."""
MEMORY = "memory, as a share of the data"
EACH = {
    "policy": r"(?P<series>(?!optimum|clock \+ (?:executor|waiting)).*)",
    "memory, of what is touched": "(?P<panel>.*)",
}
"""Rows of `policies` by run, for policies alone: with the executor's hints, the default's marks would cover its own.
Runs are split by their recorded memory, to avoid some thirteen names; older results call it ample or little.
"""
REPLAYED = {"1/4": "replayed in 1/4 of what is touched", "1/16": "replayed in 1/16 of it"}

PLOTS: dict[str, list[Spec]] = {
    "builds": [
        Spec(
            "Processor time of this build over that of another",
            {"run": "(?P<x>.*)"},
            {"ratio": "ratio of CPU times"},
            table="Processor times in core",
        ),
    ],
    "convert": [
        Spec(
            "Converting, beside reading and writing as many bytes",
            {"arm": ".*"},
            {"wall_s": "wall", "cpu_s": "CPU"},
            y_label="time [s]",
            bound="convert, default: wall.*",
        ),
    ],
    "decline": [
        Spec(
            "Time and bytes read as memory shrinks",
            {"arm": "(?P<series>[^,]*), (?P<x>.*?)( of the data)?"},
            {"wall_s": WALL, "read_bytes": "read [MiB]"},
            kind="lines",
            each="panel",
            x_label=MEMORY,
        ),
    ],
    "derived": [
        Spec(
            "Derived fields beside the same numbers stored",
            {"field": "(?P<series>.*)", "work": "(?P<x>.*)", "pages": "(?P<panel>.*)"},
            {"wall": "wall time, times that of the stored twin"},
            kind="marks",
            table="Over the stored twin",
            log="y",
            line=(1.0, "as fast as stored"),
        ),
    ],
    "eventlog": [
        Spec(
            "What a log of events costs",
            {"text": "(?P<x>.*): (?P<series>processor time|wall) with a log over without"},
            {"value": "time with a log over that without"},
            kind="dots",
            table=CLAIMS,
            bound=".* with a log over without",
            line=(1.0, "no cost"),
        ),
    ],
    "hidden": [
        Spec(
            "Time steps read and computed in turn, and overlapped",
            {"arm": r"(?P<x>.*): (units, )?(?P<series>serial|overlapped)"},
            {"wall_s": WALL},
        ),
        Spec(
            "Share of the reading that goes on behind computing, of what can",
            {"": "(?P<x>.*)"},
            {"hidden of that": "hidden, of what can be"},
            table="Hidden",
            bound=".*hidden, of what can be",
        ),
    ],
    "incore": [
        Spec(
            "Streamlines in core, one core: time of a step",
            {"arm": r"(?P<x>.*), (?P<panel>[\d,]+ seeds)"},
            {"step_us": "CPU time a step [µs]"},
        ),
        Spec(
            "Achieved error of streamlines against the number of their points",
            {"setting": "(?P<series>VTK|Farfield), .*"},
            {"median error": "median error [units of the grid]"},
            kind="points",
            table="Achieved errors",
            x="points",
            x_label="points of 1,000 lines",
            log="xy",
        ),
    ],
    "limit": [
        Spec(
            "Peak resident memory against what is allowed",
            {"arm": r"(?P<series>.*), limit \d+ MiB"},
            {"peak_bytes": "peak resident memory [MiB]"},
            kind="lines",
            x="allowed_bytes",
            x_label="limit and base [MiB]",
            log="xy",
            diagonal="all that is allowed",
        ),
        Spec(
            "Time against the limit",
            {"arm": r"(?P<series>.*), limit (?P<x>\d+) MiB"},
            {"wall_s": WALL},
            kind="lines",
            x_label="limit [MiB]",
            log="x",
        ),
    ],
    "model": [
        Spec(
            "What a change of the means saves: said by the model against measured",
            {"": r"(?P<series>\w+).*"},
            {"said, s": "said [s]"},
            kind="points",
            table="Savings",
            x="saved, s",
            x_label="measured [s]",
            log="xy",
            diagonal="said as measured (shaded: within 25 %)",
            band=0.25,
        ),
    ],
    "network-memory-2003": [
        Spec(
            "Time of the run, times that in core",
            {"arm": r"(?P<panel>\d/\d): (?P<x>[^,]+)(?P<series>, one at a time)?"},
            {"times in core": "wall time, times that in core"},
            kind="dots",
            table="What a fault costs",
            log="y",
            names={
                "": "Farfield as it is",
                ", one at a time": "one fault at a time",
                "7/8": "memory for 7/8 of the data",
                "1/8": "memory for 1/8 of the data",
            },
        ),
        Spec(
            "What a fault costs",
            {"arm": r"(?P<panel>\d/\d): (?P<x>[^,]+)(?P<series>, one at a time)?"},
            {"ms a fault": "time beyond that in core, a fault [ms]"},
            kind="dots",
            table="What a fault costs",
            log="y",
            names={
                "": "Farfield as it is",
                ", one at a time": "one fault at a time",
                "7/8": "memory for 7/8 of the data",
                "1/8": "memory for 1/8 of the data",
            },
        ),
    ],
    "outofcore": [
        Spec(
            "Time from evicted files to lines",
            {"arm": "(?P<panel>[^:]*): (?P<x>.*)"},
            {"wall_s": WALL},
            kind="dots",
            log="y",
        ),
        Spec(
            "Bytes read from disk",
            {"arm": "(?P<panel>[^:]*): (?P<x>.*)"},
            {"disk_bytes": "read from disk [MiB]"},
            kind="dots",
            log="y",
        ),
    ],
    "overlap": [
        Spec(
            "Wall time beside the longest of computing, reading and waiting",
            {"arm": r"(?P<x>.*, \d cores?)"},
            {
                "wall_s": "wall",
                "compute_s": "computing",
                "reading_s": "reading",
                "chain_s": "the longest chain of faults",
            },
            y_label="time [s]",
        ),
    ],
    "overlap-2000": [
        Spec(
            "Ten time steps: measured beside the formulas",
            {"": "(?P<x>.*)"},
            {
                "serial, s": "serial",
                "N (L + R), s": "N (L + R)",
                "overlapped, s": "overlapped",
                "N max + min, s": "N max(L, R) + min(L, R)",
            },
            table="Beside the formulas",
            y_label="time [s]",
        ),
    ],
    "pageread": [
        Spec(
            "Random pages read, by reader and size of a page, 16 in flight",
            {"arm": r"(?P<x>\d+) KiB: (?P<series>.*?)(?: [\d.]+)?, (?P<panel>cold|warm)(?P<series2>, .*)?"},
            {"pages_a_s": "read [MiB/s]"},
            kind="lines",
            x_label="page [KiB]",
            log="xy",
            times_x=True,
            factor=1 / 1024,
            dashed="page cache|one buffer",
            names={"Farfield, direct": "Farfield", "fio, direct": "fio"},
        ),
    ],
    "pagesize": [
        Spec(
            "Time by size of page and codec",
            {"arm": r"(?P<x>\d+), (?P<series>\w+): (?P<panel>.*)"},
            {"wall_s": WALL},
            kind="lines",
            x_label="points along a page's edge",
            log="x",
        ),
        Spec(
            "Bytes read by size of page and codec",
            {"arm": r"(?P<x>\d+), (?P<series>\w+): (?P<panel>.*)"},
            {"read_bytes": "read [MiB]"},
            kind="lines",
            x_label="points along a page's edge",
            log="xy",
        ),
    ],
    "paging-1997": [
        Spec(
            "Demand paging and its rivals as memory shrinks",
            {"arm": STORES + "(?P<series>cubed 16|in place|mmap|load everything)"},
            {"wall_s": WALL},
            kind="lines",
            x_label=MEMORY,
            log="y",
            names={"cubed 16": "Farfield, store", "in place": "Farfield, files in place"},
        ),
        Spec(
            "Bytes read as memory shrinks",
            {"arm": STORES + "(?P<series>cubed 16|in place|mmap|load everything)"},
            {"read_bytes": "read [MiB]"},
            kind="lines",
            x_label=MEMORY,
            log="y",
            names={"cubed 16": "Farfield, store", "in place": "Farfield, files in place"},
        ),
        Spec(
            "Size and packing of pages as memory shrinks",
            {"arm": STORES + r"(?P<series>(cubed|flat) \d+)"},
            {"wall_s": WALL},
            kind="lines",
            x_label=MEMORY,
            log="y",
            dashed="flat",
        ),
        Spec(
            "Pages from a device of 2 ms a read as memory shrinks",
            {"arm": STORES + r"remote, (?P<series>cubed \d+)"},
            {"wall_s": WALL},
            kind="lines",
            x_label=MEMORY,
            log="y",
        ),
        Spec(
            "Pages touched, share of the arrays that are read",
            {"": "(?P<x>.*)"},
            {
                "grid, %": "grid",
                "solution, %": "solution",
                "working set, grid, %": "working set, grid",
                "working set, solution, %": "working set, solution",
            },
            table="Pages of 16 points touched",
            y_label="share of the bytes [%]",
        ),
    ],
    "particles": [
        Spec("Particles in core, one core: time of a step", {"arm": ".*"}, {"step_us": "CPU time a step [µs]"}),
    ],
    "pathlines": [
        Spec(
            "Time by limit and by what is done",
            {"arm": ".*"},
            {"wall_s": "wall", "cpu_s": "CPU, all cores"},
            y_label="time [s]",
        ),
    ],
    "peers": [
        Spec(
            "The same pages, the same box, the same lines",
            {"arm": "(?P<panel>random pages|a box|lines): (?P<x>.*?)(?:, (?P<series>cold|warm))?"},
            {"wall_s": WALL},
            kind="dots",
            log="y",
            names={"": "whole process, cold", "lines": "lines, from evicted files"},
        ),
        Spec(
            "Particles through a series in memory, one core",
            {"arm": "(?P<x>.*)"},
            {"million steps a CPU second": "million steps a CPU second"},
            table="Particles",
        ),
    ],
    "policies": [
        Spec(
            "Misses of all runs together, over the optimum's",
            {"policy": "(?P<x>(?!optimum).*)"},
            {"over the optimum at 1/4": "memory for 1/4", "over the optimum at 1/16": "memory for 1/16"},
            table="All runs together",
            y_label="misses over the optimum's",
            line=(1.0, "optimum"),
        ),
        Spec(
            "Runs with memory for all they touch, replayed in less: misses over the optimum's",
            {"run": "(?P<x>.*), (memory for all|ample memory)", **EACH},
            {"over the optimum": "misses over the optimum's"},
            kind="marks",
            table="Misses",
            names=REPLAYED,
        ),
        Spec(
            "Runs within little memory, replayed in as much: misses over the optimum's",
            {"run": r"(?P<x>.*), (memory for 1/\d+|little memory)", **EACH},
            {"over the optimum": "misses over the optimum's"},
            kind="marks",
            table="Misses",
            names=REPLAYED,
        ),
    ],
    "readahead": [
        Spec(
            "Reading ahead where it might do harm: time over that without",
            {"text": "(?P<x>.*): ours over nothing ahead, wall"},
            {"value": "wall time, times that with nothing read ahead"},
            kind="dots",
            table=CLAIMS,
            bound=".*: ours over nothing ahead, wall",
            line=(1.0, "no difference"),
            ours="",
        ),
    ],
    "remote-cache": [
        Spec("The same lines by a second process", {"arm": "(?P<x>.*)"}, {"wall_s": WALL}, kind="dots", log="y"),
    ],
    "remote-first": [
        Spec(
            "The first picture of a terabyte over 50 ms",
            {"arm": "(?P<x>.*(?<!requests))"},
            {"wall_s": WALL},
            kind="dots",
        ),
    ],
    "remote-lines": [
        Spec(
            "Share of the line that is used",
            {"line": "(?P<x>.*): (?P<series>.*)"},
            {"share": "data bytes over those of the line"},
            table="Share of the line",
            bound=".*share of the line",
        ),
    ],
    "remote-pages": [
        Spec(
            "Pages of 32 KiB from a server",
            {"arm": r"(?P<panel>loopback|\d+ ms): (?P<x>(?!.*, one at a time).*)"},
            {"pages_a_s": "pages a second"},
            kind="dots",
            log="y",
            ours="farfield|http, nginx",
        ),
    ],
    "remote-runs": [
        Spec(
            "Work on data at a server",
            {"arm": "(?P<panel>streamlines|rays): (?P<x>.*)"},
            {"wall_s": WALL},
            kind="dots",
            log="y",
        ),
    ],
    "remote-servers": [
        Spec(
            "One of three servers fails: pages a second",
            {"arm": "(?P<x>all three are healthy|one is .*|the line to one .*)"},
            {"pages_a_s": "pages a second"},
            kind="dots",
            ours="",
        ),
    ],
    "right": [
        Spec(
            "Distance of Farfield's points from the curves of others",
            {"from": "(?P<x>.*)"},
            {"median": "median", "95 %": "95th percentile", "most": "largest"},
            kind="dots",
            table="Distance of Farfield's points",
            y_label="distance [units of the grid]",
            log="y",
        ),
    ],
    "sparsity": [
        Spec(
            "Time against the share of pages touched",
            {"aimed at": ".*"},
            {name: name for name in ("whole files read", "mmap", "in place", "flat store", "cubed store")},
            kind="lines",
            table="Wall seconds by share",
            x="touched, %",
            x_label="pages touched [%]",
            y_label=WALL,
            log="xy",
        ),
        Spec(
            "Bytes read against the share of pages that was aimed at",
            {"arm": r"(?P<x>\d+) %: (?P<series>.*)"},
            {"disk_bytes": "read from disk [MiB]"},
            kind="lines",
            x_label="pages touched [%]",
            log="xy",
        ),
    ],
    "tax": [
        Spec(
            "Resident pages beside flat arrays, one core",
            {"arm": ".*"},
            {"cpu_s": CPU},
            ours="resident",
        ),
    ],
    "threads-2001": [
        Spec(
            "Time by reads in flight, 1,024 tasks a core",
            {"arm": r"(?P<panel>disk|5 ms), (?P<series>\d cores?): (?P<x>\d+) readers, 1024 tasks a core"},
            {"wall_s": WALL},
            kind="lines",
            x_label="reads in flight",
            log="xy",
            level={"arm": "(?P<panel>disk|5 ms): serial"},
            level_label="one thread that waits",
            names={"disk": "local disk", "5 ms": "a device of 5 ms a read"},
        ),
        Spec(
            "Time by lines under way, 16 reads in flight",
            {"arm": r"(?P<panel>disk|5 ms), (?P<series>\d cores?): 16 readers, (?P<x>\d+) tasks a core"},
            {"wall_s": WALL},
            kind="lines",
            x_label="tasks a core",
            log="xy",
            level={"arm": "(?P<panel>disk|5 ms): serial"},
            level_label="one thread that waits",
            names={"disk": "local disk", "5 ms": "a device of 5 ms a read"},
        ),
    ],
    "tracers": [
        Spec(
            "Particles in time, in core, one core",
            {"arm": r"(?P<series>\w+), (?P<x>.*)"},
            {"million steps a CPU second": "million steps a CPU second"},
            table="Steps",
        ),
    ],
    "tune": [
        Spec(
            "Time of what is proposed, beside the best of all combinations",
            {"arm": r"(?P<x>.*): (?P<series>proposed|best|default)( of \d+)?"},
            {"wall_s": WALL},
            names={"best": "best there is", "default": "defaults"},
        ),
    ],
    "unsteady": [
        Spec(
            "Error of pathlines' ends as steps get shorter",
            {"method": "(?P<series>.*)"},
            {step: step for step in ("1/8", "1/16", "1/32", "1/64")},
            kind="lines",
            table="Error of ends as steps get shorter",
            each="x",
            x_label="step, as a share of the time",
            y_label="rms error of the ends",
            log="y",
        ),
        Spec(
            "Error of pathlines' ends as grid and time steps are refined",
            {"flow": "(?P<panel>.*)", "refined": "(?P<series>.*)"},
            {"coarse": "coarse", "": "halved", "fine": "halved again"},
            kind="lines",
            table="Error of ends as the sampling is refined",
            each="x",
            x_label="sampling",
            y_label="rms error of the ends",
            log="y",
        ),
        Spec(
            "Shedding frequency along the span of the tapered cylinder",
            {"z": ".*"},
            {"probe": "from probes", "tracks": "from tracks", "of a uniform cylinder": "of a uniform cylinder"},
            kind="lines",
            table="Shedding frequency",
            x="z",
            x_label="place along the span, z",
            y_label="frequency",
        ),
    ],
    "volume-contour": [
        Spec(
            "An isosurface in core, one core",
            {"arm": "(?P<panel>.*), in core: (?P<x>.*)"},
            {"cpu_s": CPU},
        ),
        Spec(
            "An isosurface from evicted files",
            {"arm": "(?P<panel>.*), out of core: (?P<x>.*)"},
            {"wall_s": WALL},
        ),
    ],
    "volume-first": [
        Spec("From the command's start to the picture", {"arm": "(?P<x>.*)"}, {"wall_s": WALL, "cpu_s": CPU}),
    ],
    "volume-limit": [
        Spec(
            "Peak resident memory against what is allowed",
            {"arm": r"(?P<series>.*?): .*"},
            {"peak_bytes": "peak resident memory [MiB]"},
            kind="points",
            x="allowed_bytes",
            x_label="limit and base [MiB]",
            log="xy",
            diagonal="all that is allowed",
        ),
    ],
    "volume-overlap": [
        Spec("A series of volumes", {"arm": "(?P<panel>.*): (?P<x>.*)"}, {"wall_s": WALL}, ours="overlapped"),
    ],
    "volume-rays": [
        Spec(
            "Rays through a volume in core, mean of five views",
            {"arm": r"(?P<panel>\d+ x \d+): (?P<x>.*)"},
            {"frame_cpu_s": "CPU time a frame [s]"},
        ),
    ],
    "visible-human-2003": [
        Spec(
            "Five views as memory shrinks",
            {"arm": r"(?P<x>\d+) %: (?P<series>.*)"},
            {"wall_s": WALL},
            kind="lines",
            x_label="memory, percent of the data",
            log="y",
            level={"arm": "in core"},
            level_label="in core",
        ),
    ],
    "volumes-without-levels": [
        Spec(
            "Bytes read over bytes of the pages that rays came to",
            {"arm": r"(?P<x>(picture|maximum), \d+ MiB)"},
            {"read_over_touched": "bytes read over bytes touched"},
        ),
        Spec(
            "Pictures of 8.6 GB without levels",
            {"arm": r"(?P<x>(picture|maximum), \d+ MiB)"},
            {"wall_s": WALL, "cpu_s": CPU},
        ),
    ],
    "warm": [
        Spec(
            "The same rake moved by one page width",
            {"arm": "(?P<panel>.*): (?P<x>.*)"},
            {"wall_s": WALL},
            ours="moved, still open",
        ),
    ],
    "zones": [
        Spec(
            "Grid pages that a step asks for in which a particle changes its zone",
            {"zones": "(?P<x>.*)"},
            {"median": "median", "99 %": "99th percentile", "most": "most"},
            table="Grid pages",
            y_label="pages",
        ),
    ],
}
