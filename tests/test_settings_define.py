"""Fields that files of settings define."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import farfield
from farfield.errors import DataError, UsageError
from farfield.runtime.settings import Settings, read_definitions, read_file, write_setting
from plot3d_files import box, source_of, write
from running import Command, Json


@pytest.fixture
def flow(tmp_path: Path) -> str:
    return source_of(*write(tmp_path, [box(12, 11, 10)]))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a file of settings, and a user's file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    user = tmp_path / "config" / "farfield" / "config.toml"
    user.parent.mkdir(parents=True)
    user.write_text('workers = 1\n[define]\ntwice = "density * 3"\nmine = "twice + 1"\n')
    file = tmp_path / "farfield.toml"
    file.write_text('memory-limit = "64MiB"\n\n[define]\ntwice = "2 * density"\nlost = "magnitude(nowhere)"\n')
    return file


def test_every_command_knows_them(project: Path, flow: str, ff_json: Json) -> None:
    fields = {f["name"]: f for f in ff_json("info", flow)["fields"]}
    assert fields["twice"]["definition"] == "2 * density" and fields["mine"]["derived"]
    assert fields["mine"]["zones"] is None and "lost" not in fields
    ranges = {f["name"]: f["range"] for f in ff_json("info", flow, "--ranges")["fields"]}
    assert ranges["mine"] == pytest.approx([3.4, 3.4])
    values = ff_json("probe", flow, 0.5, 0.5, 0.5, "--fields", "twice,mine")["values"]
    assert values == {"twice": pytest.approx(2.4), "mine": pytest.approx(3.4)}
    lines = project.parent / "lines.npz"
    ff_json("trace", flow, "--seeds", "point:0.5,0.6,0.3", "--scalars", "mine", "-o", lines)
    with np.load(lines) as found:
        assert np.allclose(found["mine"], 3.4)
    picture = ff_json("render", flow, "--surface", "zone1:k=2", "--color", "mine", "-o", "p.png", "--size", "64x48")
    assert [m["field"] for m in picture["maps"].values()] == ["mine"]
    stored = ff_json("convert", flow, "few.zarr", "--fields", "mine,density")
    assert stored["fields"] == ["mine", "density"]
    # The store has the field now; its numbers count, and not the file.
    project.write_text('[define]\nmine = "density * 0"\n')
    assert ff_json("probe", "few.zarr", 0.5, 0.5, 0.5, "--fields", "mine")["values"]["mine"] == pytest.approx(3.4)
    # Without --fields a store holds what its source holds, whatever is defined.
    assert ff_json("convert", flow, "all.zarr")["fields"] == ["density", "momentum", "energy"]


def test_a_flag_wins(project: Path, flow: str, ff_json: Json) -> None:
    words = ["probe", flow, 0.5, 0.5, 0.5, "--fields", "twice,mine", "--define", "twice = 10 * density"]
    assert ff_json(*words)["values"] == {"twice": pytest.approx(12), "mine": pytest.approx(13)}
    with farfield.open(flow, define={"mine": "density * 5"}) as ds:
        assert ds["mine"][0, 0, 0] == pytest.approx(6)
        ds.define("twice", "density * 7")
        assert ds["twice"][0, 0, 0] == pytest.approx(8.4)
        with pytest.raises(UsageError, match="defined already"):
            ds.define("twice", "density")


def test_config_list_shows_them(project: Path, ff: Command, ff_json: Json) -> None:
    rows = ff_json("config", "list")
    assert rows["define.twice"]["value"] == "2 * density" and rows["define.twice"]["origin"] == "farfield.toml"
    assert rows["define.mine"]["origin"].endswith("config.toml") and rows["memory_limit"]["value"] == "64MiB"
    assert "define.mine" in ff("config", "list").stdout


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ('[define]\na = "density +"\n', 2, "farfield.toml: 'a = density +', column 14: expected a number"),
        (
            '[define]\na = "magnitude(nowhere)"\n',
            2,
            "farfield.toml: 'a = magnitude(nowhere)', column 15: there is no field",
        ),
        ('[define]\na = "a + 1"\n', 2, "farfield.toml: the definition of 'a' goes in a circle: a -> a"),
        ('[define]\nx = "density"\n', 2, "farfield.toml: 'x' means something in expressions already"),
        ('[define]\n"a b" = "density"\n', 2, "farfield.toml: 'a b' cannot be the name of a definition"),
        ("[define]\na = 3\n", 1, "farfield.toml: [define] a: write the expression as text"),
        ('define = "a = 1"\n', 1, "farfield.toml: 'define' is a table"),
        ('[other]\na = "1"\n', 2, "farfield.toml: no setting named 'other'"),
    ],
)
def test_errors_name_the_file(text: str, code: int, said: str, project: Path, flow: str, ff: Command) -> None:
    project.write_text(text)
    done = ff("probe", flow, 0.5, 0.5, 0.5, "--fields", "a", ok=(code,))
    assert said in done.stderr


def test_the_first_file_decides(tmp_path: Path) -> None:
    one, other = tmp_path / "one.toml", tmp_path / "other.toml"
    one.write_text('[define]\na = "1 + x"\n')
    other.write_text('[define]\na = "2 + x"\nb = "a"\n')
    found = Settings({}, environ={}, files=[one, tmp_path / "none.toml", other]).definitions()
    assert found == [("a", "1 + x", str(one)), ("b", "a", str(other))]
    assert read_definitions(tmp_path / "none.toml") == {}
    other.write_text("define = [1]\n")
    with pytest.raises(DataError, match=r"other\.toml"):
        read_definitions(other)


def test_a_setting_is_written_before_the_table(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('# mine\nworkers = 2\n\n[define]\nreaders = "density"  # a field\n')
    write_setting(file, "readers", "7")
    write_setting(file, "workers", "3")
    assert read_file(file) == {"readers": "7", "workers": "3"}
    assert read_definitions(file) == {"readers": "density"}
    assert file.read_text().startswith("# mine\n") and "# a field" in file.read_text()
    assert file.read_text().count("workers") == 1
