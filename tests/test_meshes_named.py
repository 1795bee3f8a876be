"""Files of meshes are named by their content, with what to do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import farfield as ff
from farfield.errors import DataError

STARTS = {
    "a.plt": (b"#!TDV112\x00\x01", "Tecplot"),
    "b.dat": (b'TITLE = "x"\nVARIABLES = "X", "Y"\n', "Tecplot"),
    "c.case": (b"FORMAT\ntype: ensight gold\n", "EnSight"),
    "d.msh": (b"$MeshFormat\n4.1 0 8\n", "Gmsh"),
    "e.su2": (b"% mesh\nNDIME= 3\n", "SU2"),
    "f.cas": (b'(0 "fluent19")\n(2 3)\n', "Fluent"),
    "g.xdmf": (b'<?xml version="1.0"?>\n<Xdmf Version="3.0">', "XDMF"),
    "h.foam": (b"", "OpenFOAM"),
    "i.lb8.ugrid": (b"\x01\x00\x00\x00", "AFLR3"),
    "j.cgns": (b"@(#)ADF Database Version B02012>AdF0", "CGNS"),
    "k.dat": (b"@(#)ADF Database Version A02011>AdF0", "CGNS"),
}


@pytest.mark.parametrize("name", STARTS)
def test_texts_and_marks(name: str, tmp_path: Path) -> None:
    start, word = STARTS[name]
    (tmp_path / name).write_bytes(start)
    with pytest.raises(DataError, match=f"{word}.*not read; .*(ParaView|Tecplot)"):
        ff.open(tmp_path / name)


@pytest.mark.parametrize(
    ("names", "word"),
    [
        (("meshes", "settings"), "Fluent"),
        (("Chombo_global",), "Chombo"),
        (("Grid00000001",), "Enzo"),
        (("minc-2.0",), "MINC"),
        (("ENS_MAA",), "MED"),
        (("t00000", "s00"), "BigDataViewer"),
    ],
)
def test_containers_on_hdf5(names: tuple[str, ...], word: str, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in names:
            file.create_dataset(f"{name}/data", data=np.zeros((3, 4, 5), "f4"))
    with pytest.raises(DataError, match=f"{word}.*not read"):
        ff.open(tmp_path / "a.h5")
    # Whoever names an array alone is shown it.
    with ff.open(f"{tmp_path / 'a.h5'}::/{names[0]}/data") as found:
        assert found.shape == (3, 4, 5)


@pytest.mark.parametrize("inside", ["", "0", "0.05", "constant", "constant/polyMesh", "processor1", "processor1/0"])
def test_folders_of_an_openfoam_case(inside: str, tmp_path: Path) -> None:
    case = tmp_path / "pipe"
    for name in ("constant/polyMesh", "0", "0.05", "processor1/constant/polyMesh", "processor1/0"):
        (case / name).mkdir(parents=True)
    for name in ("points", "faces", "owner"):
        (case / "constant/polyMesh" / name).write_text("FoamFile { version 2.0; }")
    (case / "0/U").write_text("FoamFile { version 2.0; }")
    with pytest.raises(DataError, match=r"an OpenFOAM case.*not read; touch \w+\.foam in (it|that), .*ParaView"):
        ff.open(case / inside)
    # A folder that lies beside others is none of it.
    (tmp_path / "other").mkdir()
    with pytest.raises(DataError, match="it is empty"):
        ff.open(tmp_path / "other")
