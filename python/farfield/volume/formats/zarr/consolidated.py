"""Consolidated metadata of stores at servers: one document repeats those of all nodes below a group, which are then not asked
for one by one. Nodes that were added to a store since are not seen, as zarr-python does not see them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from farfield.errors import DataError
from farfield.sources import places, remote
from farfield.volume.formats.files import json_object

_NAMES = frozenset(places.DOCUMENTS)
_MOST_ASKED = 1000
"""Arrays that are asked for, in one batch; of stores with more the rest is believed."""


def look(path: str) -> None:
    """Takes note of the consolidated metadata of a folder at a server, if it has some. Its documents are asked for at once."""
    if not places.is_remote(path) or remote.knowledge() is None or remote.is_laid(path):
        return
    places.prefetch_stats([places.join(path, name) for name in places.DOCUMENTS])
    is_v3 = places.isfile(places.join(path, "zarr.json"))
    document = places.join(path, "zarr.json" if is_v3 else ".zmetadata")
    if not places.isfile(document):
        return
    try:
        found = json_object(document)
    except DataError:  # whoever opens the node says what is wrong
        return
    about = found.get("consolidated_metadata") if is_v3 else found
    listed = about.get("metadata") if isinstance(about, Mapping) else None
    if not isinstance(listed, Mapping):
        return
    suffix = "/zarr.json" if is_v3 else ""
    # Arrays that were not copied along are asked for, since their chunks would be taken for chunks that were never written.
    arrays = [f"{key}{suffix}" for key, node in listed.items() if _is_array(key, node)][:_MOST_ASKED]
    places.prefetch_stats([places.join(path, name) for name in arrays], first_bytes=False)
    gone = {_node_of(name) for name in arrays if not places.isfile(places.join(path, name))}
    documents = {f"{key}{suffix}": node for key, node in listed.items()}
    kept = {name: json.dumps(node).encode() for name, node in documents.items() if _node_of(name) not in gone}
    remote.lay(path, kept, _NAMES)


def _node_of(document: str) -> str:
    return document.rpartition("/")[0]


def _is_array(key: str, node: object) -> bool:
    return key.endswith(".zarray") or (isinstance(node, Mapping) and node.get("node_type") == "array")


def is_known(path: str) -> bool:
    """Whether all documents below a folder are known."""
    return places.is_remote(path) and remote.is_laid(path)


def children(path: str) -> list[str]:
    """Folders in such a folder that hold nodes, by name."""
    return [places.join(path, name) for name in remote.laid_below(path)]
