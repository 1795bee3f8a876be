"""Folders whose TIFFs are one OME-TIFF together: its XML, in one or in all of them, names the files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from xml.etree import ElementTree

from farfield.volume.files import local_name, xml
from farfield.volume.listening import heard
from farfield.volume.optional import need
from farfield.volume.patterns import is_pattern


def main_file(path: str, files: Sequence[str]) -> str | None:
    """The file by which the OME-TIFF is opened that all TIFFs of a folder, or of a pattern, are; None where they are none."""
    need("tifffile", f"{path}: TIFF files")
    main = files[0]
    root = _about(main)
    # Files that only hold numbers name the one with the XML.
    pointer = None if root is None else next((e for e in root if local_name(e.tag) == "BinaryOnly"), None)
    if pointer is not None:
        name = os.path.basename(pointer.get("MetadataFile", ""))
        main = next((f for f in files if os.path.basename(f) == name), "")
        root = _about(main) if main else None
    if root is None:
        return None
    named = {e.get("FileName") for e in root.iter() if local_name(e.tag) == "UUID"} - {None}
    here = {os.path.basename(f) for f in files}
    # Who names some of the files with a pattern wants those.
    whole = here == named if is_pattern(path) else here <= named
    return main if whole and len(named) > 1 else None


def _about(file: str) -> ElementTree.Element | None:
    """The OME-XML of a TIFF; None of one without it, and of a damaged one, of which the readers tell."""
    tifffile = need("tifffile", f"{file}: TIFF files")
    try:
        with heard("tifffile"), tifffile.TiffFile(file) as opened:
            return xml(file, opened.ome_metadata) if opened.is_ome and opened.ome_metadata else None
    except Exception:  # tifffile raises whatever comes of a damaged directory
        return None
