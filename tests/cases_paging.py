"""Stores of which hardly anything was written."""

from case_table import Cases, Try

CASES: Cases = {
    # 2560^3 voxels in shards, none of which was written: by the format all of them are the fill value, 0. One listing of the folder
    # answers for all of them: no page of voxels, no index of a shard and no size of a file is read.
    "volumes/perf_sparse_zarr": [
        Try(
            "info a.zarr --ranges",
            json={
                "fields.0.range": [0, 0],
                "ranges_known": True,
                "bytes_read": 0,
                "pages.faults": 0,
                "pages.fills": 64000,
                "pages.never_written": 64000,
            },
        ),
        Try("validate a.zarr", json={"ok": True, "never_written": 64000, "failed": 0}),
        Try("probe a.zarr 1000 2000 100", json={"pages.fills": 1, "pages.never_written": 1}),
        Try("render a.zarr -o a.png --size 64x48", says=(r"never written",)),
    ],
}
