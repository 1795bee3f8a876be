"""Volumes in Farfield's own store, as written by `farfield convert`. Any program can read it as OME-Zarr; its own
metadata add directions, anatomy, times, scales, checksums and ranges of pages."""

from __future__ import annotations

import json
from typing import Any

from farfield import _core
from farfield.sources import places
from farfield.volume.formats.description import Array, Channel, Level, Volume
from farfield.volume.formats.options import Options, ReaderResources
from farfield.volume.formats.zarr import reader as zarr
from farfield.volume.formats.zarr.ome import label_documents, labels_of
from farfield.volume.missing_values import of_json


def read(path: str, options: Options, resources: ReaderResources) -> Volume:
    """The volume in a store; all its documents are checked. `options.variable` names an array, as in any store.

    Raises:
        DataError: naming the missing or damaged document.
    """
    if options.variable is not None:
        return zarr.read(path, options, resources)

    with places.asking(label_documents(path)):
        found = json.loads(_core.stored_volume(path))
    spec = found["spec"]
    return Volume(
        path=path,
        format=spec["format"],
        levels=[_level(level) for level in spec["levels"]],
        channels=[_channel(channel) for channel in spec["channels"]],
        kind=spec["kind"],
        guessed=spec["guessed"],
        length_unit=spec["length_unit"],
        anatomy=spec["anatomy"],
        direction=spec["direction"],
        times=spec["times"],
        time_units=spec["time_units"],
        reads=[path],
        ranges=spec["ranges"],
        bytes_disk=found["described"]["bytes"],
        made_as=found["described"]["origin"],
        labels=labels_of(path),
        label_colors=spec.get("label_colors", {}),
        seen=[None if pair is None else (float(pair[0]), float(pair[1])) for pair in found["described"]["seen"]],
    )


def _level(level: dict[str, Any]) -> Level:
    arrays = [
        Array(
            name=a["name"],
            dtype=a["dtype"],
            shape=tuple(a["shape"]),
            axes=a["axes"],
            place=a["where"],
            channels=a["channels"],
            chunk=tuple(a["chunk"]),
            codecs=a["codecs"],
        )
        for a in level["arrays"]
    ]
    return Level(arrays, tuple(level["origin"]), tuple(level["spacing"]))


def _channel(channel: dict[str, Any]) -> Channel:
    limits, scale, missing = channel["limits"], channel["scale"], channel["missing"]
    return Channel(
        channel["name"],
        channel["units"],
        channel["color"],
        None if limits is None else (limits[0], limits[1]),
        None if scale is None else (scale[0], scale[1]),
        of_json(missing),
        channel.get("hidden", False),
        channel.get("inverted", False),
    )
