import json
from pathlib import Path

import pytest

from dppca.common.kernel.durable.files import write_file
from dppca.common.kernel.errors import SettingError
from dppca.common.shell.charts import Chart
from dppca.common.shell.outputs import MARKER, SIGNED, claiming

NAMES = ("report.md", "deep/plot.svg")


def write(folder: Path, text: str) -> None:
    with claiming(folder, NAMES):
        for name in NAMES:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)


def test_an_earlier_output_is_replaced_and_what_lies_beside_it_stays(tmp_path: Path) -> None:
    write(folder := tmp_path / "new" / "out", "first")
    (folder / "notes.md").write_text("mine")
    write(folder, "second")
    assert [(folder / name).read_text() for name in NAMES] == ["second", "second"]
    assert (folder / "notes.md").read_text() == "mine"
    (folder / "deep/plot.svg").unlink()
    write(folder, "third")
    assert (folder / "deep/plot.svg").read_text() == "third"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("how", ["changed", "link", "folder"])
def test_a_file_that_is_not_as_it_was_left_is_somebodys_own(
    tmp_path: Path, name: str, how: str
) -> None:
    write(folder := tmp_path / "out", "first")
    mark, path = (folder / MARKER).read_bytes(), folder / name
    path.unlink()
    if how == "changed":
        path.write_text("mine")
    elif how == "link":
        (tmp_path / "mine").write_text("first")
        path.symlink_to(tmp_path / "mine")
    else:
        path.mkdir()
    with pytest.raises(SettingError, match="is not as this software left it: move it away"):
        write(folder, "second")
    assert (folder / MARKER).read_bytes() == mark
    assert how != "changed" or path.read_text() == "mine"


def test_a_file_beside_an_output_is_not_taken_for_one_of_another_name(tmp_path: Path) -> None:
    with claiming(folder := tmp_path / "out", ["a.svg"]):
        (folder / "a.svg").write_text("ours")
    (folder / "report.md").write_text("mine")
    with pytest.raises(SettingError, match=r"report\.md is not as this software left it"):
        write(folder, "second")
    assert (folder / "report.md").read_text() == "mine"


def test_a_command_that_failed_leaves_no_mark_where_it_wrote_nothing(tmp_path: Path) -> None:
    (empty := tmp_path / "empty").mkdir()
    for folder in (tmp_path / "new", empty):
        with pytest.raises(KeyError), claiming(folder, NAMES):
            raise KeyError
    assert not (tmp_path / "new").exists()
    assert list(empty.iterdir()) == []


def test_what_a_command_wrote_before_it_failed_is_its_own(tmp_path: Path) -> None:
    with claiming(folder := tmp_path / "out", NAMES):
        (folder / "report.md").write_text("half")
    write(folder, "whole")
    assert (folder / "report.md").read_text() == "whole"


def test_what_a_killed_command_left_is_written_again(tmp_path: Path) -> None:
    write(folder := tmp_path / "out", "first")
    files = json.loads((folder / MARKER).read_text())["files"]
    (folder / MARKER).write_text(json.dumps({"files": dict.fromkeys(files)}))
    (folder / "report.md").write_text("half")
    write(folder, "second")
    assert (folder / "report.md").read_text() == "second"


def test_two_commands_do_not_write_in_one_folder(tmp_path: Path) -> None:
    with claiming(folder := tmp_path / "out", ["a"]), pytest.raises(SettingError) as refused:
        write(folder, "second")
    assert "another command writes in" in str(refused.value)


@pytest.mark.parametrize("mark", ["", "[]", '{"files": 1}', "{"])
def test_a_mark_that_says_nothing_is_none(tmp_path: Path, mark: str) -> None:
    (tmp_path / MARKER).write_text(mark)
    (tmp_path / "report.md").write_text("mine")
    with pytest.raises(SettingError, match="is not empty"):
        write(tmp_path, "second")
    assert (tmp_path / "report.md").read_text() == "mine"


def test_an_envelope_that_a_killed_command_left_alone_is_no_obstacle(tmp_path: Path) -> None:
    path, envelope = tmp_path / "c.npz", tmp_path / "c.npz.intoto.json"
    envelope.write_text('{"payloadType": "application/vnd.in-toto+json"}')
    SIGNED.require(path, "--output", replace=False, inputs=())
    envelope.write_text("mine")
    with pytest.raises(SettingError, match=r"intoto\.json: it exists"):
        SIGNED.require(path, "--output", replace=False, inputs=())


def test_a_picture_is_saved_over_another_only_if_that_is_said(tmp_path: Path) -> None:
    chart, path = Chart("<svg/>"), tmp_path / "mine.svg"
    path.write_text("mine")
    with pytest.raises(SettingError, match="give another path, or say replace=True"):
        chart.save(path)
    assert path.read_text() == "mine"
    chart.save(path, replace=True)
    assert path.read_text() == "<svg/>"


@pytest.mark.parametrize("links", [True, False])
def test_of_two_commands_that_were_to_write_one_new_file_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    path = tmp_path / "out.csv"
    if not links:

        def refuse(*_: object) -> None:
            raise PermissionError

        monkeypatch.setattr("os.link", refuse)
    SIGNED.require(path, "--output", replace=False, inputs=())
    path.write_bytes(b"of another command")
    with pytest.raises(SettingError, match=r"out.csv: .* not overwritten"):
        write_file(path, b"ours")
    assert path.read_bytes() == b"of another command"
    SIGNED.require(path, "--output", replace=True, inputs=())
    write_file(path, b"ours")
    SIGNED.require(other := tmp_path / "other.csv", "--output", replace=False, inputs=())
    write_file(other, b"ours")
    write_file(other, b"ours again: one command may write its file twice")
    assert (path.read_bytes(), other.read_bytes()[:10]) == (b"ours", b"ours again")
    assert {each.name for each in tmp_path.iterdir()} == {"out.csv", "other.csv"}
