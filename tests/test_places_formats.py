"""Every format that opens from files here opens from a server: what its reader says is the same, but for the paths."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tifffile
import zarr
from PIL import Image

import farfield
from fake_server import Server, put
from farfield.errors import AccessError, DataError, FarfieldError
from farfield.sources import addresses, parsing, places
from farfield.volume.formats.detection import is_volume
from farfield.volume.formats.options import Options, ReaderResources
from farfield.volume.formats.reading import read
from plot3d_files import box, cut, write
from running import Command
from test_volume_headers_odd import netcdf as classic

CASES = Path(__file__).parent / "cases"
VALUES = np.arange(4 * 5 * 6, dtype=np.uint16).reshape(4, 5, 6)


def volume(path: str, cache: Path, **options: Any) -> Any:
    """What the reader of a volume says, or its error."""
    said: list[str] = []
    try:
        found = read(path, Options.of(options), ReaderResources(cache, None, said.append))
    except FarfieldError as error:
        return [type(error).__name__, str(error)]
    tables = [hashlib.sha256(table).hexdigest() for table in found.tables]
    return [found.spec, tables, found.reads, found.labels, found.seen, said]


def flow(text: str, cache: Path) -> Any:
    """What a source of zones is, or its error."""
    try:
        found = replace(parsing.parse(text, quiet=True).without_time(), again=None)
    except FarfieldError as error:
        return [type(error).__name__, str(error)]
    return vars(found)


def plain(found: Any, server: Server, cache: Path) -> Any:
    """As text, with paths in place of addresses, and without the digests of files of the cache."""
    text = json.dumps(found, default=str, sort_keys=True).replace("fake://host", str(server.root))
    text = re.sub(r": the server has no such file or folder; [^\"]*", ": NONE", text)
    text = re.sub(r": there is no such file or folder; [^\"]*", ": NONE", text)
    return re.sub(r"-[0-9a-f]{20}", "-#", text)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path / "cache"))
    made = Server(tmp_path / "root")
    made.root.mkdir()
    put(monkeypatch, made)
    return made


def check(server: Server, names: list[str], of: Callable[..., Any], **options: Any) -> list[str]:
    """Reads files here and at the server, and compares; gives what was found of each as text."""
    cache = server.root.parent / "cache"
    texts = []
    for name in names:
        here = plain(of(str(server.root / name), cache, **options), server, cache)
        there = plain(of(server.url(name), cache, **options), server, cache)
        assert there == here
        texts.append(here)
    return texts


@pytest.mark.parametrize("case", sorted(path.name for path in (CASES / "volumes").iterdir()))
def test_volumes_that_people_have(case: str, server: Server) -> None:
    shutil.copytree(CASES / "volumes" / case, server.root / case)
    inside = [f"{case}/{path.name}" for path in sorted((server.root / case).iterdir())]
    check(server, [case, *inside], volume)


@pytest.mark.parametrize("case", sorted(path.name for path in (CASES / "flows").iterdir()))
def test_flows_that_people_have(case: str, server: Server) -> None:
    shutil.copytree(CASES / "flows" / case, server.root / case)
    inside = [f"{case}/{path.name}" for path in sorted((server.root / case).iterdir())]
    check(server, [case, *inside], flow)


NRRD = "NRRD0004\ntype: uint16\ndimension: 3\nsizes: 6 5 4\nendian: little\nencoding: {}\nspacings: 1 2 3\n{}\n"
META = "ObjectType = Image\nNDims = 3\nDimSize = 6 5 4\nElementType = MET_USHORT\nElementSpacing = 1 2 3\n{}ElementDataFile = {}\n"


def nrrd(root: Path) -> None:
    (root / "a.nrrd").write_bytes(NRRD.format("raw", "").encode() + VALUES.tobytes())
    (root / "b.nhdr").write_text(NRRD.format("raw", "data file: parts/b.raw\n"))
    (root / "parts").mkdir()
    (root / "parts/b.raw").write_bytes(VALUES.tobytes())
    (root / "c.nrrd").write_bytes(NRRD.format("gzip", "").encode() + gzip.compress(VALUES.tobytes()))
    (root / "d.nhdr").write_text(NRRD.format("raw", "data file: parts/d%d.raw 0 3 1\n"))
    for n, part in enumerate(VALUES):
        (root / f"parts/d{n}.raw").write_bytes(part.tobytes())
    (root / "e.nhdr").write_text(NRRD.format("raw", "data file: parts/none.raw\n"))
    (root / "f.nrrd").write_bytes(NRRD.format("raw", "").encode() + VALUES.tobytes()[:-2])


def metaimage(root: Path) -> None:
    (root / "a.mha").write_bytes(META.format("", "LOCAL").encode() + VALUES.tobytes())
    (root / "b.mhd").write_text(META.format("", "b.raw"))
    (root / "b.raw").write_bytes(VALUES.tobytes())
    (root / "c.mhd").write_text(META.format("CompressedData = True\n", "c.zraw"))
    (root / "c.zraw").write_bytes(zlib.compress(VALUES.tobytes()))
    (root / "d.mhd").write_text(META.format("", "d%d.raw 0 3 1"))
    for n, part in enumerate(VALUES):
        (root / f"d{n}.raw").write_bytes(part.tobytes())


def nifti(root: Path) -> None:
    header = np.zeros(352, np.uint8)
    header[:4] = np.frombuffer(np.int32(348).tobytes(), np.uint8)
    header[40:56] = np.frombuffer(np.array([3, 6, 5, 4, 1, 1, 1, 1], "<i2").tobytes(), np.uint8)
    header[70:74] = np.frombuffer(np.array([512, 16], "<i2").tobytes(), np.uint8)
    header[76:92] = np.frombuffer(np.array([1, 1, 2, 3], "<f4").tobytes(), np.uint8)
    header[108:112] = np.frombuffer(np.float32(352).tobytes(), np.uint8)
    header[344:348] = np.frombuffer(b"n+1\0", np.uint8)
    whole = header.tobytes() + VALUES.tobytes()
    (root / "a.nii").write_bytes(whole)
    (root / "b.nii.gz").write_bytes(gzip.compress(whole))
    header[344:348] = np.frombuffer(b"ni1\0", np.uint8)
    header[108:112] = 0
    (root / "c.hdr").write_bytes(header.tobytes()[:348])
    (root / "c.img").write_bytes(VALUES.tobytes())


def raw(root: Path) -> None:
    (root / "a_6x5x4_uint16.raw").write_bytes(VALUES.tobytes())
    (root / "b.raw").write_bytes(VALUES.tobytes())


def vtk(root: Path) -> None:
    about = (
        '<ImageData WholeExtent="0 5 0 4 0 3" Origin="0 0 0" Spacing="1 2 3"><Piece Extent="0 5 0 4 0 3"><PointData>'
    )
    end = "</PointData></Piece></ImageData>"
    numbers = " ".join(map(str, VALUES.ravel()))
    text = f'<DataArray type="UInt16" Name="p" format="ascii">{numbers}</DataArray>'
    (root / "a.vti").write_text(f'<VTKFile type="ImageData" byte_order="LittleEndian">{about}{text}{end}</VTKFile>')
    shift = '<DataArray type="UInt16" Name="p" format="appended" offset="0"/>'
    head = '<VTKFile type="ImageData" byte_order="LittleEndian" header_type="UInt32">'
    head += f'{about}{shift}{end}<AppendedData encoding="raw">_'
    block = np.uint32(VALUES.nbytes).tobytes() + VALUES.tobytes()
    for name in ("b.vti", "step_1.vti", "step_2.vti"):
        (root / name).write_bytes(head.encode() + block + b"</AppendedData></VTKFile>")
    (root / "c.pvti").write_text(
        '<VTKFile type="PImageData"><PImageData WholeExtent="0 5 0 4 0 3" Origin="0 0 0" Spacing="1 2 3"><PPointData>'
        '<PDataArray type="UInt16" Name="p"/></PPointData><Piece Extent="0 5 0 4 0 3" Source="b.vti"/></PImageData></VTKFile>'
    )
    entries = "".join(f'<DataSet timestep="{n}" file="step_{n}.vti"/>' for n in (1, 2))
    (root / "d.pvd").write_text(f'<VTKFile type="Collection"><Collection>{entries}</Collection></VTKFile>')
    (root / "e.vti.series").write_text(
        json.dumps({"file-series-version": "1.0", "files": [{"name": f"step_{n}.vti", "time": n} for n in (1, 2)]})
    )
    legacy = b"# vtk DataFile Version 3.0\nx\nBINARY\nDATASET STRUCTURED_POINTS\nDIMENSIONS 6 5 4\nORIGIN 0 0 0\nSPACING 1 2 3\n"
    legacy += (
        b"POINT_DATA 120\nSCALARS p unsigned_short 1\nLOOKUP_TABLE default\n" + VALUES.astype(">u2").tobytes() + b"\n"
    )
    (root / "f.vtk").write_bytes(legacy)
    (root / "g.pvti").write_text((root / "c.pvti").read_text().replace("b.vti", "none.vti"))


def hdf5(root: Path) -> None:
    with h5py.File(root / "a.h5", "w") as file:
        file["u"] = VALUES
        file.create_dataset("deep/v", data=VALUES, chunks=(2, 3, 3), compression="gzip")
        file["one"] = h5py.SoftLink("/deep/v")
    with h5py.File(root / "b.nc", "w") as file:  # NetCDF-4, as its library lays it out
        file["z"], file["x"] = np.arange(4.0), np.arange(6.0) * 2
        file["y"] = np.arange(5.0)
        file.create_dataset("t", data=VALUES.astype("f4"), chunks=(1, 5, 6))
        for n, name in enumerate("zyx"):
            file[name].make_scale(name)
            file[name].attrs["units"] = "m"
            file["t"].dims[n].attach_scale(file[name])


def netcdf(root: Path) -> None:
    steps, fixed = np.arange(72, dtype=">f4").reshape(3, 2, 3, 4), np.arange(24, dtype=">f4").reshape(2, 3, 4)
    lines = [(axis, [n], np.arange(n + 1.0).astype(">f4")) for n, axis in ((1, "z"), (2, "y"), (3, "x"))]
    (root / "a.nc").write_bytes(classic(("u", [1, 2, 3], fixed), *lines))
    (root / "b.nc").write_bytes(classic(("u", [0, 1, 2, 3], steps), ("v", [0, 1, 2, 3], 2 * steps), *lines))
    (root / "c.nc").write_bytes((root / "b.nc").read_bytes()[:-4])


def tiff(root: Path) -> None:
    tifffile.imwrite(root / "a.tif", VALUES, photometric="minisblack")
    tifffile.imwrite(root / "b.ome.tif", VALUES[None], ome=True, metadata={"axes": "CZYX", "PhysicalSizeX": 2.0})
    tifffile.imwrite(
        root / "c.tif", VALUES, compression="zlib", predictor=True, tile=(16, 16), photometric="minisblack"
    )
    (root / "slices").mkdir()
    for n, part in enumerate(VALUES):
        tifffile.imwrite(root / f"slices/s{n}.tif", part)


def pictures(root: Path) -> None:
    (root / "png").mkdir()
    for n in range(40):
        Image.fromarray(VALUES[n % 4].astype(np.uint8)).save(root / f"png/s{n}.png")
    (root / "jpeg").mkdir()
    for n in range(3):
        Image.fromarray(VALUES[n].astype(np.uint8)).save(root / f"jpeg/s{n}.jpg")


def zarrs(root: Path) -> None:
    for version in (2, 3):
        for kept in (False, True):
            name = root / f"v{version}{'c' if kept else ''}.zarr"
            group = zarr.open_group(name, mode="w", zarr_format=version)
            for inner in ("u", "deep/v"):
                array = group.create_array(inner, shape=VALUES.shape, chunks=(2, 3, 3), dtype="uint16")
                array[:] = VALUES
            if kept:
                zarr.consolidate_metadata(name)
    with zarr.storage.ZipStore(root / "z.zip", mode="w") as store:
        zarr.create_array(store, name="u", data=np.zeros((64, 128, 128), np.uint16), chunks=(16, 64, 64))
    complex_ = zarr.create_array(root / "x.zarr", shape=VALUES.shape, chunks=(2, 3, 3), dtype="complex64")
    complex_[:] = VALUES


FORMATS: dict[str, tuple[Callable[[Path], None], tuple[str, ...], int]] = {
    "nrrd": (nrrd, ("a.nrrd", "b.nhdr", "c.nrrd", "d.nhdr", "e.nhdr", "f.nrrd"), 4),
    "metaimage": (metaimage, ("a.mha", "b.mhd", "c.mhd", "d.mhd"), 4),
    "nifti": (nifti, ("a.nii", "b.nii.gz", "c.hdr", "c.img"), 4),
    "raw": (raw, ("a_6x5x4_uint16.raw", "b.raw"), 1),
    "vtk": (vtk, ("a.vti", "b.vti", "c.pvti", "d.pvd", "e.vti.series", "f.vtk", "step_*.vti", "g.pvti"), 7),
    "hdf5": (hdf5, ("a.h5", "a.h5::deep/v", "a.h5::one", "b.nc", "a.h5::none"), 4),
    "netcdf": (netcdf, ("a.nc", "b.nc", "b.nc::v", "c.nc"), 3),
    "tiff": (tiff, ("a.tif", "b.ome.tif", "c.tif", "slices", "slices/s*.tif"), 5),
    "pictures": (pictures, ("png", "png/s1*.png", "jpeg", "png/s1.png"), 4),
    "zarr": (
        zarrs,
        ("v2.zarr", "v2c.zarr", "v3.zarr", "v3c.zarr", "v2.zarr/u", "v3c.zarr/deep", "v3.zarr::deep/v", "v2c.zarr/deep/v", "z.zip",
         "x.zarr", "v3.zarr::none"),
        10,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_descriptions(kind: str, server: Server) -> None:
    make, names, good = FORMATS[kind]
    make(server.root)
    found = check(server, list(names), volume)
    assert sum(text.startswith("[{") for text in found) == good
    check(server, [name for name in names if "*" not in name], flow)


def test_raw_numbers_by_options(server: Server) -> None:
    raw(server.root)
    (text,) = check(server, ["b.raw"], volume, shape=(6, 5, 4), dtype="uint16")
    assert text.startswith("[{")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_lists_of_slices_and_steps(server: Server) -> None:
    pictures(server.root)
    (server.root / "names.txt").write_text("png/s2.png\npng/s1.png\npng/s10.png\n")
    cache = server.root.parent / "cache"
    here = volume(f"@{server.root}/names.txt", cache)
    there = volume(f"@{server.url('names.txt')}", cache)
    assert plain(there, server, cache) == plain(here, server, cache)
    files = here[0]["levels"][0]["arrays"][0]["where"]["table"]["files"]
    assert [Path(name).name for name in files] == ["s2.png", "s1.png", "s10.png"]


def test_lists_of_steps_and_of_flows(server: Server) -> None:
    vtk(server.root)
    (server.root / "steps.txt").write_text("step_2.vti\nstep_1.vti\n")
    cache = server.root.parent / "cache"
    here, there = (volume(f"@{path}", cache) for path in (server.root / "steps.txt", server.url("steps.txt")))
    assert plain(there, server, cache) == plain(here, server, cache) and len(here[0]["times"]) == 2
    write(server.root, cut(box(9, 7, 5), 2))
    solution = next(path for path in server.root.iterdir() if path.suffix == ".q")
    shutil.copy(solution, server.root / "other.q")
    (server.root / "q.txt").write_text(f"other.q\n{server.url(solution.name)}\n")
    grid = next(path.name for path in server.root.iterdir() if path.suffix == ".xyz")
    found = parsing.parse(f"{server.url(grid)}+q=@{server.root}/q.txt")
    assert found.q == (str(server.root / "other.q"), server.url(solution.name))
    assert found.text == f"{server.url(grid)}+q=@{server.root}/q.txt"


def test_an_address_with_a_query_is_a_file(server: Server) -> None:
    nrrd(server.root)
    (server.root / "a.nrrd").rename(server.root / "download?key=1")
    assert volume(server.url("download?key=1"), server.root.parent / "cache")[0]["format"] == "NRRD0004"
    assert not [name for asked in server.of("stat") for name in asked if "/" in name.partition("?")[2]]


def test_stores_of_farfield(server: Server) -> None:
    farfield.convert("demo:box", server.root / "flow.zarr", progress=False)
    nrrd(server.root)
    farfield.convert(str(server.root / "a.nrrd"), server.root / "volume.zarr", progress=False)
    check(server, ["flow.zarr"], flow)
    (text,) = check(server, ["volume.zarr"], volume)
    assert text.startswith("[{")


def test_plot3d(server: Server) -> None:
    write(server.root, cut(box(9, 7, 5), 2))
    names = sorted(path.name for path in server.root.iterdir())
    grid, solution = (next(n for n in names if n.endswith(end)) for end in (".xyz", ".q"))
    shutil.copy(server.root / solution, server.root / "sol_1.q")
    shutil.copy(server.root / solution, server.root / "sol_2.q")
    for more in ("", f"+q={solution}", "+q=sol_*.q"):
        text = server.url(grid) + more.replace("=", f"={server.url('')}")
        assert not is_volume(text)
        there = parsing.parse(text)
        here = parsing.parse(str(server.root / grid) + more.replace("=", f"={server.root}/"))
        assert plain(vars(replace(there, again=None)), server, server.root) == plain(
            vars(replace(here, again=None)), server, server.root
        )
    assert there.q == (server.url("sol_1.q"), server.url("sol_2.q"))


ROUND_TRIPS = {"v2c.zarr": 4, "v3c.zarr": 4, "v2.zarr": 9, "v3.zarr": 9}


@pytest.mark.parametrize("name", ROUND_TRIPS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_stores_take_few_round_trips(name: str, server: Server) -> None:
    zarrs(server.root)
    volume(server.url(name), server.root.parent / "cache")
    trips = [kind for kind, _ in server.calls if kind in ("stat", "list")]
    assert len(trips) <= ROUND_TRIPS[name], server.calls
    if name.endswith("c.zarr"):
        assert "list" not in trips and len(server.of("open")) == 1


@pytest.mark.parametrize("name", ["v2c.zarr", "v3c.zarr", "v2.zarr/u", "v3.zarr/deep/v"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_stores_at_a_server_that_lists_nothing(name: str, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    zarrs(server.root)
    monkeypatch.setattr(addresses, "UNLISTED", ("http", "https", "fake"))
    cache = server.root.parent / "cache"
    here, there = (plain(volume(path, cache), server, cache) for path in (str(server.root / name), server.url(name)))
    assert there == here and here.startswith("[{") and not server.of("list")
    assert "no consolidated metadata" in volume(server.url("v2.zarr"), cache)[1]


def test_arrays_that_consolidated_metadata_name_and_are_not_there(server: Server) -> None:
    zarrs(server.root)
    for name in ("v2c.zarr", "v3c.zarr"):
        for array in ("deep/v", "u"):
            shutil.rmtree(server.root / name / array)
            (text,) = check(server, [name], volume)
            assert "arrays that are not there" in text


@pytest.mark.parametrize(
    ("kind", "name", "refused"),
    [
        ("nrrd", "b.nhdr", r"b\.nhdr"),
        ("nrrd", "b.nhdr", r"b\.raw"),
        ("nrrd", "d.nhdr", r"d3\.raw"),
        ("metaimage", "b.mhd", r"b\.raw"),
        ("nifti", "c.img", r"c\.hdr$"),
        ("vtk", "c.pvti", r"b\.vti"),
        ("vtk", "d.pvd", r"step_2"),
        ("hdf5", "a.h5", r"a\.h5"),
        ("tiff", "a.tif", r"a\.tif$"),
        ("tiff", "a.tif", r"a\.tif\.msk"),
        ("tiff", "slices", r"s3\.tif"),
        ("pictures", "jpeg", r"s2\.jpg"),
        ("zarr", "v2.zarr", r"\.zattrs"),
        ("zarr", "v2.zarr", r"u/\.zarray"),
        ("zarr", "v3.zarr", r"deep/v/zarr\.json"),
        ("zarr", "v2c.zarr", r"v2c\.zarr/\.zmetadata"),
        ("zarr", "z.zip", r"z\.zip"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_a_server_refuses_is_never_absent(kind: str, name: str, refused: str, server: Server) -> None:
    FORMATS[kind][0](server.root)
    server.refused = refused
    found = volume(server.url(name), server.root.parent / "cache")
    assert found[0] == "AccessError" and "403" in found[1], found
    if kind != "pictures":
        with pytest.raises(AccessError, match="403"):
            parsing.parse(server.url(name))


def test_refusals_while_a_file_is_read(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries make other errors of those of their files, and some none."""
    for make in (hdf5, tiff):
        make(server.root)
    for name in ("a.h5", "a.tif", "b.ome.tif"):
        whole = server.reader

        def refusing(path: str, whole: Callable[[str], Any] = whole) -> Any:
            made = whole(path)

            class Refusing:
                size, version = made.size, made.version

                def read_at(self, offset: int, length: int) -> bytes:
                    raise AccessError(f"{path}: refused (403)")

            return Refusing()

        monkeypatch.setattr(places.remote.extension(), "FileReader", refusing)
        assert volume(server.url(name), server.root.parent / "cache")[0] == "AccessError"


def test_links_of_hdf5_into_other_files_are_followed_by_name(server: Server) -> None:
    (server.root / "parts").mkdir()
    hdf5(server.root / "parts")
    with h5py.File(server.root / "master.h5", "w") as file:
        file["entry/one"] = h5py.ExternalLink("parts/a.h5", "/u")
        file["entry/all"] = h5py.ExternalLink("parts/a.h5", "/deep")
        file["entry/soft"] = h5py.SoftLink("/entry/one")
        file["entry/near"] = h5py.SoftLink("all/v")
        file["entry/none"] = h5py.ExternalLink("parts/none.h5", "/u")
        file["entry/circle"] = h5py.SoftLink("/entry/circle")
    names = [f"master.h5::/entry/{name}" for name in ("one", "soft", "all/v", "near")]
    cache = server.root.parent / "cache"
    for name in names:
        here, there = (
            volume(path, cache)[0]["levels"][0]["arrays"][0] for path in (str(server.root / name), server.url(name))
        )
        # Whether the link or what it leads to names the numbers, h5py says differently of links of several kinds.
        assert plain({**there, "name": ""}, server, cache) == plain({**here, "name": ""}, server, cache)
    assert "name" in volume(server.url("master.h5"), cache)[1]
    for name, word in (("none", "not there"), ("circle", "circle"), ("other", "no dataset|links")):
        kind, message = volume(server.url(f"master.h5::/entry/{name}"), cache)
        assert kind in ("DataError", "UnknownName") and re.search(word, message)


def virtual(path: Path, *parts: tuple[Any, Any], shape: tuple[int, ...] = (6, 5, 6)) -> None:
    """A virtual dataset: what it takes by place."""
    layout = h5py.VirtualLayout(shape, "uint16")
    for place, source in parts:
        layout[place] = source
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("u", layout, fillvalue=7)


def test_virtual_datasets_are_put_together(server: Server) -> None:
    with h5py.File(server.root / "a.h5", "w") as file:
        file.create_dataset("u", data=VALUES, chunks=(2, 3, 3), compression="gzip")
        file["flat"] = VALUES[0]
    (server.root / "deep").mkdir()
    shutil.copy(server.root / "a.h5", server.root / "deep/b.h5")
    one = h5py.VirtualSource("a.h5", "u", VALUES.shape)
    other = h5py.VirtualSource("deep/b.h5", "u", VALUES.shape)
    flat = h5py.VirtualSource("a.h5", "flat", (5, 6))
    virtual(server.root / "whole.h5", (np.s_[:4], one), (np.s_[4:6], other[1:3]))
    virtual(server.root / "part.h5", (np.s_[1:3, 1:4, 2:], one[1:3, :3, :4]), (5, flat))
    virtual(server.root / "none.h5", (np.s_[:4], h5py.VirtualSource("absent.h5", "u", VALUES.shape)))
    virtual(server.root / "short.h5", (np.s_[:6], h5py.VirtualSource("a.h5", "u", (6, 5, 6))))
    virtual(server.root / "gaps.h5", (np.s_[::2], one[:3]))
    cache = server.root.parent / "cache"
    for name in ("whole.h5", "part.h5"):
        check(server, [name], volume)
        made = [
            volume(path, cache)[0]["levels"][0]["arrays"][0] for path in (str(server.root / name), server.url(name))
        ]
        here, there = (Path(array["where"]["contiguous"]["file"]).read_bytes() for array in made)
        with h5py.File(server.root / name) as file:
            assert here == there == file["u"][...].tobytes()
    for name, word in (("none.h5", "not there"), ("short.h5", "which has 4 x 5 x 6"), ("gaps.h5", "gaps")):
        kind, message = volume(server.url(name), cache)
        assert kind == "DataError" and word in message


def test_hdf5_in_several_files_is_refused_at_a_server(server: Server) -> None:
    hdf5(server.root)
    with h5py.File(server.root / "linked.h5", "w") as file:
        file["u"] = h5py.ExternalLink("a.h5", "/u")
    with h5py.File(server.root / "external.h5", "w") as file:
        file.create_dataset("u", VALUES.shape, VALUES.dtype, external=[("u.raw", 0, h5py.h5f.UNLIMITED)])
    for name in ("linked.h5", "external.h5"):
        kind, message = volume(server.url(name), server.root.parent / "cache")
        assert kind == DataError.__name__ and "server" in message


@pytest.mark.parametrize("case", ["dicom_dated", "dicom_wsi_tiled", "tif_folder_two_prefixes"])
def test_lists_of_files_of_one_volume(case: str, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """For servers that list nothing."""
    shutil.copytree(CASES / "volumes" / case, server.root / case)
    names = sorted(path.name for path in (server.root / case).iterdir())
    (server.root / case / "names.txt").write_text("\n".join(names))
    cache = server.root.parent / "cache"
    here = plain(volume(f"@{server.root}/{case}/names.txt", cache), server, cache)
    monkeypatch.setattr(addresses, "UNLISTED", ("http", "https", "fake"))
    assert plain(volume(f"@{server.url(case)}/names.txt", cache), server, cache) == here
    assert not server.of("list") and ("[{" in here[:2] or "series" in here)
    assert "@names.txt" in volume(server.url(case), cache)[1]


def test_the_command_line(server: Server, ff: Command) -> None:
    nrrd(server.root)
    write(server.root, cut(box(9, 7, 5), 2))
    there = server.url("a.nrrd")
    found = ff("info", there, "--json").stdout.replace(there, str(server.root / "a.nrrd"))
    assert json.loads(found) == json.loads(ff("info", server.root / "a.nrrd", "--json").stdout)
    assert "zone" in ff("info", f"{server.url('flow.xyz')}+q={server.url('*.q')}").stdout
    assert "the server has no such file" in ff("info", server.url("none.nrrd"), ok=(1,)).stderr
    assert "to a server" in ff("convert", there, server.url("b.zarr"), ok=(2,)).stderr
    server.refused = r"parts/b\.raw"
    assert "403" in ff("info", server.url("b.nhdr"), ok=(5,)).stderr


def test_files_here_lead_to_no_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a file names is here, also where it is named like an address."""
    monkeypatch.chdir(server.root)
    there = "fake://host/parts/b.raw"
    (server.root / "parts").mkdir()
    (server.root / "parts/b.raw").write_bytes(VALUES.tobytes())
    (server.root / "a.nhdr").write_text(NRRD.format("raw", f"data file: {there}\n"))
    (server.root / "a.mhd").write_text(META.format("", there))
    (server.root / "a.pvd").write_text(
        f'<VTKFile type="Collection"><Collection><DataSet file="{there}"/></Collection></VTKFile>'
    )
    with h5py.File(server.root / "a.h5", "w") as file:
        file.create_dataset("u", VALUES.shape, VALUES.dtype, external=[(there, 0, h5py.h5f.UNLIMITED)])
    for name in ("a.nhdr", "a.mhd", "a.pvd", "a.h5"):
        assert "not there" in volume(name, server.root.parent / "cache")[1]
    assert not server.calls
