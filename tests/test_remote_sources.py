"""Whatever opens from a path opens from an address, with the same results bit for bit: through real servers on loopback."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import farfield
import test_places_formats as formats
from farfield.errors import DataError, UsageError
from plot3d_files import box, cut, source_of, write
from remote_servers import WebServer, page_server, use, web_server
from running import Command

CASES = Path(__file__).parent / "cases"
VOLUMES = {
    "nrrd": ("a.nrrd", "b.nhdr", "c.nrrd", "d.nhdr"),
    "metaimage": ("a.mha", "b.mhd", "c.mhd", "d.mhd"),
    "nifti": ("a.nii", "b.nii.gz", "c.hdr"),
    "raw": ("a_6x5x4_uint16.raw",),
    "vtk": ("a.vti", "b.vti", "c.pvti", "d.pvd", "e.vti.series", "f.vtk"),
    "hdf5": ("a.h5::u", "a.h5::deep/v", "b.nc::t"),
    "netcdf": ("a.nc", "b.nc::v"),
    "tiff": ("a.tif", "b.ome.tif", "c.tif"),
    "zarr": ("v2c.zarr::u", "v3c.zarr::deep/v", "v2.zarr/u", "v3.zarr/deep/v", "sharded.zarr", "z.zip", "x.zarr"),
    "ome": ("i.zarr",),
    "store": ("volume.zarr",),
}
FOLDERS = {"tiff": ("slices", "slices/s*.tif"), "pictures": ("png", "jpeg"), "dicom": ("one",), "vtk": ("step_*.vti",)}
"""What is found by lists, which web servers do not give."""
FLOWS = ("flow.zarr", "f.xyz+q=f.q", "f.xyz+q=@steps.txt", "v.vti", "m.vtm")
LISTED_FLOWS = ("f.xyz+q=step_*.q",)
SERVERS = ("http", "farfield", "tls", "s3")


@dataclass
class Places:
    """A folder, and its address at each server."""

    root: Path
    roots: dict[str, str]
    web: WebServer
    bucket: WebServer
    here: dict[str, Any]
    """What was found of local files."""

    def source(self, server: str, name: str) -> str:
        """A source at a server, or here."""
        root = self.roots[server]
        parts = [part if part.startswith(("q=", "q=@")) else f"{root}/{part}" for part in name.split("+")]
        return "+".join(re.sub("^q=(@?)", lambda at: f"q={at[1]}{root}/", part) for part in parts)

    def plain(self, found: Any) -> str:
        """As text, with the local folder in place of addresses and without digests of files of the cache."""
        text = json.dumps(found, default=str, sort_keys=True)
        for root in self.roots.values():
            text = text.replace(root, "ROOT")
        return re.sub(r"-[0-9a-f]{20}", "-#", text)


def make(root: Path) -> None:
    """All files."""
    for kind in ("nrrd", "metaimage", "nifti", "raw", "vtk", "hdf5", "netcdf", "tiff", "pictures"):
        (root / kind).mkdir(parents=True)
        getattr(formats, kind)(root / kind)
    (root / "zarr").mkdir()
    formats.zarrs(root / "zarr")
    sharded = zarr.create_array(
        root / "zarr/sharded.zarr", shape=(8, 10, 12), chunks=(2, 5, 4), shards=(4, 10, 8), dtype="uint16"
    )
    sharded[:] = np.arange(960, dtype=np.uint16).reshape(8, 10, 12)
    shutil.copytree(CASES / "volumes/ome04_omero", root / "ome")
    shutil.copytree(CASES / "volumes/dicom_dated", root / "dicom/one")
    (root / "store").mkdir()
    farfield.convert(str(root / "tiff/c.tif"), root / "store/volume.zarr", progress=False)
    flows = root / "flows"
    flows.mkdir()
    write(flows, cut(box(33, 25, 17), 2), stem="f")
    for step in (1, 2):
        write(flows, cut(box(33, 25, 17, origin=(0.0, 0.01 * step, 0.0)), 2), stem=f"step_{step}", time=float(step))
        (flows / f"step_{step}.xyz").unlink()
    (flows / "steps.txt").write_text("step_2.q\nstep_1.q\n")
    farfield.convert(source_of(flows / "f.xyz", flows / "f.q"), flows / "flow.zarr", page=8, progress=False)
    shutil.copy(CASES / "flows/vti-vectors/v.vti", flows)
    shutil.copytree(CASES / "flows/vtm-multiblock", flows, dirs_exist_ok=True)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    folder = tmp_path_factory.mktemp("remote")
    root = folder / "root"
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        use(patch, folder)
        make(root)
        web = stack.enter_context(web_server(root))
        bucket = stack.enter_context(web_server(root, "bucket"))
        for name, value in bucket.env.items():
            patch.setenv(name, value)
        pages = [stack.enter_context(page_server(root, folder / f"state{tls}", tls=tls)) for tls in (False, True)]
        roots = {
            "here": str(root),
            "http": web.url().rstrip("/"),
            "s3": "s3://bucket",
            "farfield": pages[0].urls[0],
            "tls": pages[1].urls[0],
        }
        yield Places(root, roots, web, bucket, {})


def digest(array: Any) -> str:
    """Numbers, their kind and shape as a text."""
    found = np.ascontiguousarray(array)
    return f"{found.dtype} {found.shape} {hashlib.sha256(found.tobytes()).hexdigest()}"


def volume(source: str, **more: Any) -> Any:
    """All of a volume: what it says, all numbers, a place."""
    with farfield.open(source, **more) as ds:
        assert type(ds).__name__ == "VolumeDataset"
        middle = [n // 2 for n in ds.info()["dims"]]
        info = ds.info(ranges=True)
        # Known ranges of an earlier run, of this cache, have pages of their own.
        info["pages"].pop("total")
        if source.partition("://")[1] and ".zarr" in source:
            # The chunks of a store at a server are not asked for one by one.
            info["bytes_disk"] = None
        return info, digest(ds[:]), ds.probe_ijk(middle)


def flow(source: str, **more: Any) -> Any:
    """Much of a flow: what it says, all numbers, places, lines."""
    with farfield.open(source, **more) as ds:
        assert type(ds).__name__ == "Dataset"
        names = [f["name"] for f in ds.info()["fields"] if not f.get("derived")]
        numbers = {
            f"{z}/{n}": digest(ds.zones[z][n][:]) for z in ds.zones for n in [*names, "xyz"] if n in ds.zones[z]._keys()
        }
        first = ds.zones[next(iter(ds.zones))]["xyz"]
        center = [float(first[(c, *(n // 2 for n in first.shape[1:]))]) + 0.02 for c in range(3)]
        probe = ds.probe(center)
        lines = []
        if "velocity" in ds.fields:
            made = ds.streamlines(
                "velocity", seeds=farfield.rake(center, [c + 0.1 for c in center], n_points=5), max_steps=200
            )
            lines = [digest(made.points), digest(made.offsets), list(map(str, made.reason))]
        return ds.info(ranges=True), numbers, probe, lines


def same(places: Places, server: str, name: str, of: Callable[..., Any], **more: Any) -> str:
    """What is found at a server is what is found here."""
    if name not in places.here:
        places.here[name] = places.plain(of(places.source("here", name)))
    here = places.here[name]
    if ".zarr" in name and of is volume:
        here = re.sub('"bytes_disk": [0-9]+', '"bytes_disk": null', here)
    found = places.plain(of(places.source(server, name), **more))
    assert found == here
    return found


@pytest.mark.parametrize("kind", VOLUMES)
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_volumes(kind: str, server: str, places: Places) -> None:
    for name in VOLUMES[kind]:
        if name == "x.zarr" and server == "http":
            with pytest.raises(DataError, match=r"complex numbers.*copy the store here"):
                volume(places.source(server, "zarr/x.zarr"))
            continue
        same(places, server, f"{kind}/{name}", volume)


@pytest.mark.parametrize("kind", FOLDERS)
@pytest.mark.parametrize("server", ["farfield", "s3"])
def test_volumes_of_many_files(kind: str, server: str, places: Places) -> None:
    for name in FOLDERS[kind]:
        same(places, server, f"{kind}/{name}", volume)


@pytest.mark.parametrize("server", SERVERS)
def test_flows(server: str, places: Places) -> None:
    for name in (*FLOWS, *(LISTED_FLOWS if server != "http" else ())):
        same(places, server, "+q=flows/".join(f"flows/{name}".split("+q=")).replace("flows/@", "@flows/"), flow)


@pytest.mark.parametrize(
    "name", ["flows/flow.zarr", "flows/f.xyz+q=flows/f.q", "store/volume.zarr", "ome/i.zarr", "nrrd/a.nrrd"]
)
def test_pictures_and_surfaces(name: str, places: Places, ff: Command, tmp_path: Path) -> None:
    def of(server: str) -> dict[str, bytes]:
        source, folder = places.source(server, name), tmp_path / server
        folder.mkdir()
        ff("render", source, "--size", "64x64", "-o", folder / "p.png")
        field = ("--field", "energy") if "flows" in name else ()
        ff("extract", "isosurface", source, *field, "--value", value, "-o", folder / "s.ply")
        # Its head names the source.
        return {
            path.name: path.read_bytes().replace(places.roots[server].encode(), b"ROOT")
            for path in sorted(folder.iterdir())
        }

    with farfield.open(places.source("here", name)) as ds:
        numbers = ds.zones["zone1"]["energy"][:] if "flows" in name else ds[:]
        value = (float(numbers.min()) + float(numbers.max())) / 2
    here = of("here")
    assert len(here["s.ply"]) > 600
    for server in SERVERS:
        assert of(server) == here


@pytest.mark.parametrize("server", SERVERS)
def test_conversions(server: str, places: Places, ff: Command, tmp_path: Path) -> None:
    for name, options in (("flows/f.xyz+q=flows/f.q", ("--page", 8)), ("tiff/c.tif", ()), ("hdf5/a.h5::deep/v", ())):
        stores: list[dict[str, Any]] = []
        for at in ("here", server):
            target = tmp_path / f"{len(name)}-{at}.zarr"
            ff("convert", places.source(at, name), target, *options)
            files = [path for path in sorted(target.rglob("*")) if path.is_file()]
            stores.append({str(path.relative_to(target)): path.read_bytes() for path in files})
            # The store names its sources, with digests of their names and versions, and has a checksum of that.
            text = re.sub('"(?:[0-9a-f]{8}|[0-9a-f]{32})"', '"#"', stores[-1]["zarr.json"].decode())
            stores[-1]["zarr.json"] = text.replace(places.roots[at], "ROOT")
        assert stores[0] == stores[1]


@pytest.mark.parametrize("server", SERVERS)
def test_validation(server: str, places: Places, ff: Command) -> None:
    for name in ("flows/flow.zarr", "store/volume.zarr"):
        here, there = (ff("validate", places.source(at, name)).stdout for at in ("here", server))
        if server == "http":
            there, unsaid = re.subn("(?m)^files that do not belong to the store were not looked for: .*\n", "", there)
            assert unsaid == 1, "a web server lists nothing"
        assert places.plain(there) == places.plain(here)


@pytest.mark.parametrize("server", ["http", "farfield"])
def test_pages_that_are_evicted_are_read_again(
    server: str, places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same numbers and lines within a limit that holds a fraction of the pages."""
    large = places.root / "large"
    if not large.exists():
        large.mkdir()
        write(large, cut(box(81, 61, 41), 2), stem="f")
    monkeypatch.setenv("FARFIELD_NETWORK_CACHE", "0")
    found = []
    for at, limit in (("here", "1GiB"), (server, "1GiB"), (server, "6MiB")):
        with farfield.open(places.source(at, "large/f.xyz+q=large/f.q"), memory_limit=limit) as ds:
            numbers = {
                n: digest(ds.zones[z][n][:]) for n in ("density", "momentum") for z in ds.zones for _ in range(2)
            }
            seeds = farfield.rake((0.3, 0.4, 0.3), (0.7, 0.4, 0.3), n_points=20)
            lines = ds.streamlines("velocity", seeds=seeds, max_steps=500)
            found.append((numbers, digest(lines.points), digest(lines.offsets)))
    assert found[1] == found[0] and found[2] == found[0]


def test_lists_at_a_server(places: Places) -> None:
    """For servers that list nothing."""
    (places.root / "slices.txt").write_text("".join(f"tiff/slices/s{n}.tif\n" for n in range(4)))
    at = {server: f"@{places.source(server, 'slices.txt')}" for server in ("here", *SERVERS)}
    here = volume(at["here"])
    assert all(volume(at[server])[1:] == here[1:] for server in SERVERS)
    for name in ("tiff/slices/*.tif", "flows/f.xyz+q=step_*.q"):
        with pytest.raises(UsageError, match=r"@names\.txt"):
            farfield.open(places.source("http", name))


def test_names_that_addresses_must_quote(places: Places) -> None:
    """Files with spaces, percent signs and letters beyond ASCII."""
    folder = places.root / "odd"
    folder.mkdir()
    for name in ("a b.nrrd", "50%25.nrrd", "größe.nrrd", "a+b&c.nrrd"):
        shutil.copy(places.root / "nrrd/a.nrrd", folder / name)
        if "+" not in name:
            for server in ("farfield", "s3", "tls"):
                same(places, server, f"odd/{name}", volume)
    for quoted in ("a%20b.nrrd", "50%2525.nrrd", "gr%C3%B6%C3%9Fe.nrrd", "a%2Bb%26c.nrrd"):
        with farfield.open(f"{places.roots['http']}/odd/{quoted}") as ds:
            assert digest(ds[:]) == digest(formats.VALUES)
