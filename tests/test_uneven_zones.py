"""Zones of one dataset that hold different fields."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield as ff
from plot3d_files import box, source_of, write
from running import Json


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two zones; the first has two functions, the second four. Function n of zone z is 10 z + n everywhere."""
    folder = tmp_path_factory.mktemp("uneven")
    blocks = [box(9, 8, 7), box(6, 5, 4, origin=(1, 0, 0))]
    grid, solution = write(folder, blocks, form="binary")
    functions = folder / "flow.f"
    head = struct.pack("<9i", 2, 9, 8, 7, 2, 6, 5, 4, 4)
    data = [np.full(9 * 8 * 7, 10.0 + n) for n in (1, 2)] + [np.full(6 * 5 * 4, 20.0 + n) for n in (1, 2, 3, 4)]
    functions.write_bytes(head + np.concatenate(data).astype("<f8").tobytes())
    return f"{source_of(grid, solution)}+f={functions}"


def test_info_lists_all_fields_with_their_zones(uneven: str, ff_json: Json, ff: Any) -> None:
    fields = {f["name"]: f for f in ff_json("info", uneven, "--ranges")["fields"]}
    assert list(fields)[-2:] == ["f3", "f4"], "what some zones lack comes last"
    assert fields["f1"]["zones"] is None and fields["pressure"]["zones"] is None
    assert fields["f3"]["zones"] == fields["f4"]["zones"] == ["zone2"]
    assert fields["f1"]["range"] == [11, 21] and fields["f4"]["range"] == [24, 24]
    rows = ff("info", uneven).stdout.splitlines()
    assert [row.endswith("  in zone2") for row in rows if row.startswith(("  f1 ", "  f3 "))] == [False, True]


def test_a_probe_answers_with_what_the_zone_has(uneven: str, ff_json: Json, ff: Any) -> None:
    at = {"zone1": (0.5, 0.5, 0.5), "zone2": (1.5, 0.5, 0.5)}
    for zone, names in (("zone1", ["f1", "f2"]), ("zone2", ["f1", "f2", "f3", "f4"])):
        base = 10.0 if zone == "zone1" else 20.0
        for place in (at[zone], ("--ijk", zone, 2, 2, 2), ("--ijk", zone, 1.5, 2, 2)):
            found = ff_json("probe", uneven, *place)
            assert found["zone"] == zone and "mach" in found["values"]
            got = {n: v for n, v in found["values"].items() if n[0] == "f" and n[1:].isdigit()}
            assert got == {n: base + int(n[1:]) for n in names}, place
    for place in (at["zone2"], ("--ijk", "zone2", 1, 1, 1)):
        assert ff_json("probe", uneven, *place, "--fields", "f3,mach")["values"]["f3"] == 23
    for place in (at["zone1"], ("--ijk", "zone1", 1, 1, 1)):
        said = ff("probe", uneven, *place, "--fields", "f3", ok=(2,)).stderr
        assert "no field named 'f3' in zone1; there are: density" in said, said
        said = ff("probe", uneven, *place, "--fields", "f9", ok=(2,)).stderr
        assert "no field named 'f9'; there are: " in said and "f4" in said, said


def test_zones_read_what_they_have(uneven: str, tmp_path: Path, ff: Any) -> None:
    store = tmp_path / "s.zarr"
    ff("convert", uneven, store)
    for source in (uneven, store):
        _read(str(source))


def _read(source: str) -> None:
    with ff.open(source) as ds:
        one, two = ds.zones["zone1"], ds.zones["zone2"]
        assert "f3" in ds.fields and "f3" in list(two) and "f3" not in one.fields
        assert (two["f3"][...] == 23).all() and (one["f2"][...] == 12).all()
        with pytest.raises(KeyError, match="no field named 'f3' in zone1; there are"):
            one["f3"]


def test_what_a_line_samples_is_in_every_zone(uneven: str, tmp_path: Path, ff: Any) -> None:
    trace = ("trace", uneven, "--seeds", "point:0.7,0.5,0.3", "-o", tmp_path / "l.npz", "--scalars")
    said = ff(*trace, "f3", ok=(2,)).stderr
    assert "no field named 'f3' in zone1; a line may enter any zone" in said and "f2" in said, said
    ff(*trace, "f2")
    assert (tmp_path / "l.npz").exists()
    surface = ("extract", "grid-surface", uneven, "--scalars", "f3", "-o", tmp_path / "s.vtp", "--surface")
    ff(*surface, "zone2:k=1")
    assert "in zone1" in ff(*surface, "zone1:k=1", ok=(2,)).stderr
