"""What editors and type checkers know of what `farfield.open` gives. `mypy` reads this file; that it runs is tested here."""

from __future__ import annotations

from typing import Any, assert_type

import pytest
from numpy.typing import NDArray

import farfield
from farfield.dataset.kinds import OF_FLOWS, OF_VOLUMES
from farfield.volume.abilities import VolumeAbilities

Three = tuple[float, float, float]


def test_flows() -> None:
    with farfield.open("demo:box") as ds:
        assert_type(ds, farfield.Dataset)
        assert_type(ds.streamlines(seeds=[(0.7, 0.5, 0.3)], max_length=0.1), farfield.Lines)
        assert_type(ds.contour([0.5], scalars="velocity_magnitude"), farfield.Mesh)
        assert_type(ds["density"], farfield.Field)
        assert_type(ds["density"][0, :, 3], NDArray[Any])
        assert_type(ds.probe((0.5, 0.5, 0.5)), farfield.Probe | None)
        assert_type(ds.isel(time=0), farfield.Dataset)
        assert_type(ds.n_points, int)
        # What is misspelt is seen before it runs.
        with pytest.raises(AttributeError):
            _ = ds.stremlines  # type: ignore[attr-defined]
        with pytest.raises(TypeError):
            ds.streamlines(sedes=[(0.7, 0.5, 0.3)])  # type: ignore[call-arg]


def test_volumes() -> None:
    with farfield.open("demo:phantom") as volume:
        assert_type(volume, farfield.Dataset)
        assert_type(volume.spacing, Three)
        assert_type(volume.level(-1).shape, tuple[int, ...])
        assert_type(volume[28, :, 30:34], NDArray[Any])
        assert_type(volume.fields, list[str])
        assert isinstance(volume, farfield.VolumeDataset)
        assert_type(volume.probe((80, 100, 84)), farfield.VolumeProbe | None)
        with pytest.raises(TypeError):
            volume.level()  # type: ignore[call-arg]


def test_each_kind_has_what_it_can_do() -> None:
    with farfield.open("demo:box") as flow, farfield.open("demo:phantom") as volume:
        assert isinstance(volume, farfield.Dataset) and not isinstance(flow, farfield.VolumeDataset)
        for name in OF_FLOWS:
            assert hasattr(flow, name) and not hasattr(volume, name) and name not in dir(volume), name
            with pytest.raises(AttributeError, match=rf"no attribute '{name}'; .*: volume\.flow\(\)\.{name}$"):
                getattr(volume, name)
        for name in OF_VOLUMES:
            assert hasattr(volume, name) and not hasattr(flow, name) and name not in dir(flow), name
            with pytest.raises(AttributeError, match=f"no attribute '{name}'; volumes have it"):
                getattr(flow, name)
        shared = {n for n in dir(volume) if not n.startswith("_")} - set(OF_VOLUMES)
        assert shared == {n for n in dir(flow) if not n.startswith("_")} - set(OF_FLOWS)
    own = {name for name in vars(VolumeAbilities) if not name.startswith("_")}
    assert own - {"memory_limit"} == set(OF_VOLUMES)
