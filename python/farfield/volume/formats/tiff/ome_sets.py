"""Sets of TIFFs that form one OME-TIFF. XML in one or all of them, or in another file, names the files."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from farfield.errors import DataError
from farfield.runtime.optional_libraries import need
from farfield.sources import places
from farfield.volume.formats.files import document, head, local_name, unreadable, xml
from farfield.volume.formats.library_logs import heard
from farfield.volume.formats.patterns import is_pattern

_ROOT = re.compile(rb"<(\w+:)?OME[\s>]")
_HEAD = 4096


def is_companion(start: bytes) -> bool:
    """Whether a file with this beginning is OME-XML, which describes a set of TIFFs (`name.companion.ome`).

    >>> is_companion(b'<?xml version="1.0"?><OME xmlns="x">'), is_companion(b"II*")
    (True, False)
    """
    begun = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    return begun.startswith(b"<") and _ROOT.search(begun) is not None


def of_companion(path: str) -> tuple[str, str | None]:
    """The file that opens a set of TIFFs, and the OME-XML if the path is the XML file; a TIFF opens itself.

    Raises:
        DataError: if the XML names no TIFF, or if none of its files exists.
    """
    if not is_companion(head(path, _HEAD)):
        return path, None
    text = document(path)
    named = _named(xml(path, text))
    if not named:
        raise DataError(
            f"{path}: this is OME-XML that names no TIFF files, and pixels within it are not read; convert it to OME-TIFF or "
            "OME-Zarr (bfconvert, bioformats2raw)"
        )
    folder = os.path.dirname(path)
    places.prefetch_stats([places.join(folder, name) for name in named])
    main = next((f for name in named if places.isfile(f := places.join(folder, name))), None)
    if main is None:
        few = ", ".join(named[:6]) + (", ..." if len(named) > 6 else "")
        raise DataError(f"{path}: none of the TIFF files that it names is there ({few}); copy them here, beside it")
    try:
        return main, text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: its XML is not written as UTF-8 ({error}); write it again as that") from error


def described_by(path: str, file: Any) -> str | None:
    """The file that describes the pages of an open TIFF, if it is another one.

    Raises:
        DataError: if that file does not exist, or refers to yet another one.
    """
    if not file.is_ome or "BinaryOnly" not in (file.ome_metadata or ""):
        return None
    name = _metadata_file(xml(path, file.ome_metadata))
    if name is None:
        return None
    found = places.join(os.path.dirname(path), name)
    if not places.isfile(found):
        raise _alone(path, name)
    if places.realpath(found) == places.realpath(path) or _sends_on(found):
        raise DataError(
            f"{path}: its OME-XML says that {name} describes the images, and that does not; write the set again, or give the "
            "source as a pattern of its files, which are slices then"
        )
    return found


def completed(path: str, file: Any) -> str | None:
    """The OME-XML of an open TIFF with file names added, if it names files by UUID only; else None.

    Each file has its UUID in its own XML.

    Raises:
        DataError: if files of some UUIDs do not exist.
    """
    if not file.is_ome or "UUID" not in (file.ome_metadata or ""):
        return None
    root = xml(path, file.ome_metadata)
    nameless = [e for e in root.iter() if local_name(e.tag) == "UUID" and e.text and not e.get("FileName")]
    if not nameless:
        return None
    own = {root.get("UUID", ""): os.path.basename(path)}
    wanted = {str(e.text).strip() for e in nameless}
    if not wanted <= own.keys():
        own |= _by_uuid(os.path.dirname(path) or ".", os.path.basename(path))
    lost = sorted(wanted - own.keys())
    if lost:
        few = ", ".join(lost[:3]) + (f" and {len(lost) - 3} more" if len(lost) > 3 else "")
        raise DataError(
            f"{path}: this file is part of an OME-TIFF of several files, which are named by UUIDs only. No TIFF in its folder is "
            f"{few}; copy all files of the set into one folder"
        )
    for element in nameless:
        element.set("FileName", own[str(element.text).strip()])
    return ElementTree.tostring(root, encoding="unicode")


def _by_uuid(folder: str, but: str) -> dict[str, str]:
    """Names of the OME-TIFFs of a folder, by UUID."""
    found: dict[str, str] = {}
    try:
        names = sorted(n for n in places.listdir(folder) if n != but and n.lower().endswith((".tif", ".tiff")))
    except OSError as error:
        raise unreadable(folder, error) from error
    for name in names:
        root = _about(os.path.join(folder, name))
        if root is not None and root.get("UUID"):
            found.setdefault(str(root.get("UUID")), name)
    return found


def _sends_on(file: str) -> bool:
    root = None if is_companion(head(file, _HEAD)) else _about(file)
    return root is not None and _metadata_file(root) is not None


def _alone(path: str, name: str) -> DataError:
    return DataError(
        f"{path}: this file is one of an OME-TIFF of several, of which {name or 'another file'} says what they are, and that is "
        f"not there; copy it here too, or name files by a pattern ('*.tif'), which are slices then"
    )


def missing(path: str, file: Any) -> str:
    """Absent files of a set as text for an error; empty if all exist."""
    if not file.is_ome or not file.ome_metadata:
        return ""
    folder = os.path.dirname(file.filehandle.path)
    lost = [n for n in _named(xml(path, file.ome_metadata)) if not places.isfile(places.join(folder, n))]
    return ", ".join(lost[:6]) + (f" and {len(lost) - 6} more" if len(lost) > 6 else "")


def _named(root: ElementTree.Element) -> list[str]:
    """TIFF files that an OME-XML names, each once."""
    names = (e.get("FileName") for e in root.iter() if local_name(e.tag) == "UUID")
    return list(dict.fromkeys(name for name in names if name))


def _metadata_file(root: ElementTree.Element) -> str | None:
    """The file that an OME-XML without images refers to; files are in one folder."""
    pointer = next((e for e in root if local_name(e.tag) == "BinaryOnly"), None)
    return None if pointer is None else os.path.basename(pointer.get("MetadataFile", ""))


def main_file(path: str, files: Sequence[str]) -> str | None:
    """The file that opens the OME-TIFF of all TIFFs in a folder or a pattern; None if they form none.

    Raises:
        DataError: if files of a folder refer to a describing file that does not exist.
    """
    need("tifffile", f"{path}: TIFF files")
    main = files[0]
    root = _about(main)
    # Files with numbers only name the file with the XML.
    name = None if root is None else _metadata_file(root)
    if name is not None:
        main = places.join(os.path.dirname(files[0]), name)
        if not name or not places.isfile(main):
            if is_pattern(path):
                return None
            raise _alone(files[0], name)
        root = xml(main, document(main)) if is_companion(head(main, _HEAD)) else _about(main)
    if root is None:
        return None
    named = set(_named(root)) or _named_by_uuid(root, files)
    here = {os.path.basename(f) for f in files}
    # A pattern that selects some of the files means only those.
    whole = here == named if is_pattern(path) else here <= named
    return main if whole and len(named) > 1 else None


def _named_by_uuid(root: ElementTree.Element, files: Sequence[str]) -> set[str]:
    """Existing files of a set that are named by UUID only."""
    wanted = {str(e.text).strip() for e in root.iter() if local_name(e.tag) == "UUID" and e.text}
    if len(wanted) < 2:
        return set()
    abouts = {os.path.basename(f): _about(f) for f in files}
    own = {name: about.get("UUID") for name, about in abouts.items() if about is not None}
    return {name for name, uuid in own.items() if uuid in wanted} if wanted <= set(own.values()) else set()


def _about(file: str) -> ElementTree.Element | None:
    """The OME-XML of a TIFF; None without it, or for a damaged file, which readers report."""
    tifffile = need("tifffile", f"{file}: TIFF files")
    try:
        with heard("tifffile"), tifffile.TiffFile(places.for_library(file)) as opened:
            return xml(file, opened.ome_metadata) if opened.is_ome and opened.ome_metadata else None
    except Exception:  # tifffile raises any exception for a damaged directory
        return None
