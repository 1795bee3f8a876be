"""Errors for simulation files that are neither volumes nor structured grids, recognised by content, with advice."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from farfield.errors import DataError
from farfield.sources import places
from farfield.volume.formats.files import head

_HEAD = 4096
RESAMPLE = "open it in ParaView, resample it to a regular grid (Filters, Resample To Image) and save that as .vti, which is read"
"""Advice for every mesh that ParaView opens."""
_BLOCKS = (
    "its structured zones are read as .vts (in ParaView: File, Save Data, one block at a time) or as PLOT3D; of an unstructured "
    "one: Filters, Resample To Image, saved as .vti"
)
_YT = (
    "resample it to a regular grid and write that as Zarr or .vti (yt: covering_grid; or in ParaView: Resample To Image, saved as "
    ".vti)"
)
Kind = tuple[str, str]
"""A description of a file, and advice."""
_CGNS: Kind = ("a CGNS file", f"{_BLOCKS} (or, with the tools of CGNS: cgns_to_plot3d)")


def refusal(path: str, kind: Kind) -> DataError:
    """The error for a file of an unsupported kind."""
    what, way = kind
    return DataError(f"{path}: this is {what}, which is not read; {way}")


def of_hdf5(file: Any, text: Callable[[Any], str]) -> Kind | None:
    """The kind of an HDF5 file, from the names and attributes of its root; None if unknown. `text` converts an
    attribute to text."""
    keys, about = set(file), file.attrs
    labels = {text(file[key].attrs.get("label")) for key in list(keys)[:64] if hasattr(file.get(key), "attrs")}
    if "CGNSBase_t" in labels or "HDF5 MotherNode" in text(about.get("name")) or "CGNSLibraryVersion" in keys:
        return _CGNS
    found = next((kind for needed, kind in _HDF5 if needed <= keys), None)
    if found is not None:
        return found
    if "tstt" in keys:
        return "a mesh of MOAB", RESAMPLE
    if sum(re.fullmatch(r"Grid\d{8}", key) is not None for key in keys):
        return "the grids of an Enzo run (nested grids)", _YT
    if "NumMeshBlocks" in about or "MeshBlockSize" in about:
        return "a file of Athena++ (blocks of a mesh)", _YT
    if any(re.fullmatch(r"PartType\d", key) for key in keys):
        return (
            "a snapshot of particles (GADGET, AREPO, SWIFT)",
            "grid it first (yt: arbitrary_grid), and write Zarr or .vti",
        )
    if {"coor_names", "eb_names"} & keys or ("api_version" in about and {"num_nodes", "num_elem"} & keys):
        return "an Exodus II file (an unstructured grid)", RESAMPLE
    if "minc-2.0" in keys:
        return (
            "a MINC volume",
            f"convert it to NIfTI (mnc2nii {os.path.basename(file.filename)} out.nii), which is read",
        )
    if any(re.fullmatch(r"t\d{5}", key) for key in keys) and any(re.fullmatch(r"s\d{2}", key) for key in keys):
        return (
            "a container of BigDataViewer (BDV)",
            "its places stand in the XML beside it; save it as OME-Zarr (in Fiji: BigStitcher, or n5-ij), which is read, or name "
            "one array alone, as in FILE::/t00000/s00/0/cells",
        )
    return None


_HDF5: list[tuple[set[str], Kind]] = [
    ({"meshes", "settings"}, ("a Fluent case (an unstructured grid)", RESAMPLE)),
    ({"results", "settings"}, ("the data of a Fluent case, without its mesh", f"with its .cas.h5 beside it: {RESAMPLE}")),
    ({"Chombo_global"}, ("a file of Chombo (nested grids)", _YT)),
    ({"block size", "coordinates"}, ("a FLASH file (nested blocks)", _YT)),
    ({"sim info"}, ("a FLASH file (nested blocks)", _YT)),
    ({"ENS_MAA"}, ("a MED mesh (Salome)", RESAMPLE)),
    ({"Mesh", "VisualisationVector"}, ("the numbers of an XDMF file", f"with the .xdmf that names them: {RESAMPLE}")),
    ({"DataContainers"}, ("a DREAM.3D file", RESAMPLE)),
    ({".silo"}, ("a Silo file", f"convert it with VisIt, or {RESAMPLE}")),
]  # fmt: skip
"""Names that all exist at the root of an HDF5 file of a kind."""


def of_netcdf(
    attributes: Mapping[str, Any], dimensions: Iterable[str], variables: Iterable[tuple[str, Mapping[str, Any]]]
) -> Kind | None:
    """The kind of a NetCDF file, from its names.

    >>> of_netcdf({"api_version": 4.98}, ["num_nodes", "num_elem"], [])[0]
    'an Exodus II file (an unstructured grid)'
    >>> of_netcdf({}, ["time", "lat", "lon"], [("t", {"units": "K"})]) is None
    True
    """
    names, held = set(dimensions), dict(variables)
    if "num_nodes" in names and ("num_elem" in names or "num_el_blk" in names or "api_version" in attributes):
        return "an Exodus II file (an unstructured grid)", RESAMPLE
    mesh = next((n for n, about in held.items() if str(about.get("cf_role")) == "mesh_topology"), None)
    if mesh is not None:
        return (
            f"an unstructured grid (UGRID, by its variable '{mesh}')",
            "put it on longitudes and latitudes first (cdo remapbil,r720x360 IN OUT, or uxarray), which are read",
        )
    if "Conventions" in attributes and "UGRID" in str(attributes["Conventions"]):
        return "an unstructured grid (UGRID)", "put it on longitudes and latitudes first (cdo remapbil,r720x360 IN OUT)"
    if {"grid_size", "grid_corners"} <= names:
        return "a description of a grid (SCRIP), without fields", "name the file with the fields"
    if {"nCells", "nVertices"} <= names:
        return (
            "an unstructured grid (MPAS)",
            "put it on longitudes and latitudes first (convert_mpas, or uxarray), which are read",
        )
    if "cell" in names and "vertex" in names and any("clon" in n for n in held):
        return "an unstructured grid (ICON)", "put it on longitudes and latitudes first (cdo remapnn,r720x360 IN OUT)"
    if "minc-version" in attributes or "rootvariable" in held or "minc_version" in attributes:
        return "a MINC volume", "convert it to NIfTI (mnc2nii), which is read"
    return None


_TEXTS: list[tuple[bytes, Kind]] = [
    # CGNS on ADF, the form before HDF5; adf2hdf converts it to HDF5, which is not read either.
    (rb"\A@\(#\)ADF Database", _CGNS),
    (rb"\A#!TDV", ("a Tecplot file (.plt)", f"{RESAMPLE}; structured zones may be saved as PLOT3D from Tecplot")),
    (rb"\A#!SZPLT", ("a Tecplot file (.szplt)", f"save it as .plt from Tecplot, then {RESAMPLE}")),
    (rb"(?i)\A\s*(#[^\n]*\n\s*)*(TITLE\s*=|VARIABLES\s*=|ZONE\s+(T|I|N|NODES|DATAPACKING|F)\s*=)",
     ("a Tecplot file (text)", f"{RESAMPLE}; structured zones may be saved as PLOT3D from Tecplot")),
    (rb"(?i)\A\s*(#[^\n]*\n\s*)*FORMAT\s+type:\s*ensight", ("an EnSight case", RESAMPLE)),
    (rb"\A\s*C Binary|\A\s*Fortran Binary", ("a geometry of EnSight", f"with its .case: {RESAMPLE}")),
    (rb"\A\$MeshFormat|\A\$NOD\b", ("a mesh of Gmsh", RESAMPLE)),
    (rb"(?i)\A\s*(%[^\n]*\n\s*)*(NDIME|NZONE|NPERIODIC)\s*=", ("a mesh of SU2", RESAMPLE)),
    (rb"\A\s*\((0|1|2|4|37)\s+(\"|\(|\d)", ("a Fluent case or mesh", RESAMPLE)),
    (rb"<Xdmf\b", ("an XDMF file", RESAMPLE)),
    (rb"FoamFile\s*\{", ("a file of an OpenFOAM case", "name a .vti that is made of the case: touch case.foam, {0}")),
    (rb"(?i)\A\$\$|\A\s*BEGIN BULK|\A\s*GRID\s+\d+|\A\s*GRID\*", ("a Nastran mesh", RESAMPLE)),
    (rb"(?i)\A\s*(\*\*[^\n]*\n\s*)*\*(HEADING|NODE)\b", ("an Abaqus input file", RESAMPLE)),
    (rb"\A\s*MeshVersionFormatted", ("a mesh of Medit (MMG, INRIA)", RESAMPLE)),
    (rb"\A\s*(<\?xml[^>]*>\s*)?<VTKFile[^>]*type=\"P?UnstructuredGrid\"", ("an unstructured grid of VTK", RESAMPLE)),
    (rb"\A\s*(<\?xml[^>]*>\s*)?<VTKFile[^>]*type=\"P?PolyData\"", ("surfaces or lines of VTK", RESAMPLE)),
    (rb"\A\s*(object\s+\S+\s+class|#\s*Data Explorer)", ("an OpenDX file", RESAMPLE)),
]  # fmt: skip
_COMPILED = [(re.compile(pattern), kind) for pattern, kind in _TEXTS]
_UGRID = re.compile(r"\.(b8|lb8|b4|lb4|r8|lr8|r4|lr4)?\.?ugrid$")


def refuse(path: str, start: bytes) -> None:
    """Raises for a file of a mesh that begins with `start`.

    Raises:
        DataError: naming its kind and advice.
    """
    name = os.path.basename(path)
    suffix = os.path.splitext(name.lower())[1]
    if suffix == ".foam" or (suffix == ".openfoam" and len(start) < 64):
        raise refusal(path, ("a marker of an OpenFOAM case", RESAMPLE))
    if _UGRID.search(name.lower()):
        raise refusal(
            path, ("an unstructured grid (AFLR3, .ugrid)", f"convert it with meshio or Pointwise, then {RESAMPLE}")
        )
    for pattern, (what, way) in _COMPILED:
        if pattern.search(start):
            raise refusal(path, (what, way.format(RESAMPLE)))
    grids = re.search(rb"CosmologyInitialRedshift|TopGridRank\s*=|DomainLeftEdge\s*=", start)
    if grids is not None and b"=" in start:
        raise refusal(path, ("the parameters of an Enzo run (nested grids)", _YT))


_FOAM = f"touch {{0}}.foam in {{1}}, {RESAMPLE} (or foamToVTK, and the same of what it writes)"


def _is_foam(folder: str) -> bool:
    """Whether a folder is a case of OpenFOAM."""
    return places.isdir(os.path.join(folder, "constant", "polyMesh")) or (
        places.isdir(os.path.join(folder, "constant")) and places.isfile(os.path.join(folder, "system", "controlDict"))
    )


def refuse_folder(path: str) -> None:
    """Raises for a folder that is a case of a solver.

    Raises:
        DataError: naming its kind and advice.
    """
    inside = set(places.listdir(path))
    whole = places.abspath(path)
    if _is_foam(whole) or {"points", "faces", "owner"} <= inside:
        name = os.path.basename(whole) or "case"
        raise refusal(path, ("an OpenFOAM case", _FOAM.format(name, "it")))
    case = os.path.dirname(whole)
    if _is_foam(case):
        # Each part of a case that is decomposed for several processors has its own mesh.
        above = os.path.dirname(case)
        case = above if os.path.basename(case).startswith("processor") and _is_foam(above) else case
        name = os.path.basename(case) or "case"
        raise refusal(path, (f"a folder of an OpenFOAM case ({case})", _FOAM.format(name, "that")))
    cases = sorted(name for name in inside if name.lower().endswith(".case"))
    for name in cases:
        refuse(os.path.join(path, name), head(os.path.join(path, name), _HEAD))
