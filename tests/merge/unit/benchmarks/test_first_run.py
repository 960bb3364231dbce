"""The first run beside an older revision: what is counted, installed, and said on the page."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.first_run import page
from benchmarks.first_run.__main__ import cli, measure
from benchmarks.first_run.measuring import RunError, take
from benchmarks.first_run.sides import Side
from benchmarks.first_run.subjects import SUBJECTS, Measured, Sizes
from dppca.common.kernel.errors import SettingError

WORK_S = 0.4
BURN = f"""
import os, sys, time
def burn():
    begun = time.process_time()
    while time.process_time() - begun < {WORK_S}:
        pass
"""
ORPHAN = f"""{BURN}
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        burn()
        held = bytearray(150 << 20)
        held[::4096] = b"x" * len(held[::4096])
    os._exit(0)
"""


def python(program: str) -> list[object]:
    return [sys.executable, "-c", program]


def test_processes_that_nobody_else_waits_for_are_counted(tmp_path: Path) -> None:
    taken = take(python(ORPHAN), tmp_path)
    assert taken.processor_s >= WORK_S
    assert taken.peak_mib >= 150
    nothing = take(python(""), tmp_path)
    assert nothing.processor_s < WORK_S
    assert nothing.peak_mib < 150


def test_commands_that_a_server_forks_are_counted(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(BURN)
    program = (
        "import multiprocessing, work\n"
        "if __name__ == '__main__':\n"
        "    made = multiprocessing.get_context('forkserver').Process(target=work.burn)\n"
        "    made.start(); made.join()\n"
    )
    (tmp_path / "fork.py").write_text(program)
    assert take([sys.executable, "fork.py"], tmp_path).processor_s >= WORK_S


def test_what_takes_too_long_is_ended_with_all_its_processes(tmp_path: Path) -> None:
    sleep = "import os, time; os.fork(); open(f'{os.getpid()}.pid', 'w'); time.sleep(36000)"
    with pytest.raises(RunError, match="not done in 2 s"):
        take(python(sleep), tmp_path, limit_s=2)
    begun = [int(each.stem) for each in tmp_path.glob("*.pid")]
    assert len(begun) == 2
    assert not [pid for pid in begun if Path(f"/proc/{pid}").exists()]


def test_a_command_that_fails_leaves_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="ended with 3: no such rows"):
        take(python("import sys; print('no such rows'); sys.exit(3)"), tmp_path)


MAKEFILE = """
install:
	@test -d "$$PIP_CACHE_DIR" && exit 1 || mkdir -p "$$PIP_CACHE_DIR"
	@mkdir -p .venv/lib/python3/site-packages/a.dist-info .venv/bin
	@echo installed {word}
demo: install
	@echo {word}
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two revisions, whose Makefiles install a package by making a folder; the newer one fails."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git = ("git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run([*git, "init", "--quiet"], check=True)
    for word in ("older", "newer; exit 7"):
        (folder / "Makefile").write_text(MAKEFILE.format(word=word))
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "--quiet", "-m", word], check=True)
    return folder


def test_each_revision_is_installed_in_a_fresh_clone_with_an_empty_cache(
    repository: Path, tmp_path: Path
) -> None:
    older = Side("HEAD^", tmp_path / "older", repository)
    older.folder.mkdir()
    first = older.install("install")
    assert (first.count_packages(), first.measure_disk() > 0) == (1, True)
    (first.folder / "mark").touch()
    again = older.install("install")
    assert not (again.folder / "mark").exists()
    assert older.find("install") == first


def test_a_part_that_fails_at_one_revision_is_said_and_not_tried_again(
    repository: Path, tmp_path: Path
) -> None:
    sides = {
        "theirs": Side("HEAD^", tmp_path / "theirs", repository),
        "ours": Side("HEAD", tmp_path / "ours", repository),
    }
    for side in sides.values():
        side.folder.mkdir()
    rows = measure(sides, ["first-demo", "demo"], 2, Sizes())
    assert len(rows["first-demo"]["theirs"]["values"]) == 2
    assert rows["packages"]["theirs"]["values"] == [1, 1]
    for name in rows:
        assert "newer" in rows[name]["ours"]["error"]
        assert rows[name]["ours"]["values"] == []
    text = page.table({"theirs": "a", "ours": "b", "rows": rows})
    assert "| its packages | **failed** |" in text
    assert "- its packages, b: it ended with 2: installed newer" in text


def test_the_page_is_of_all_parts() -> None:
    done = CliRunner().invoke(cli, ["--against", "HEAD", "--only", "run", "--write"])
    assert isinstance(done.exception, SettingError)
    unknown = CliRunner().invoke(cli, ["--against", "no-such-revision"])
    assert isinstance(unknown.exception, RunError)


def test_rows_that_a_part_gave_before_it_failed_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def half(_side: object, _sizes: object) -> Iterator[tuple[str, Measured]]:
        yield "import", Measured(0.1, 12.0)
        raise OSError("the disk is full")

    monkeypatch.setitem(SUBJECTS, "starts", half)
    rows = measure({"ours": Side("HEAD", Path())}, ["starts"], 2, Sizes())
    assert rows == {
        "import": {"ours": {"values": [0.1], "peaks": [12.0], "error": ""}},
        "help": {"ours": {"values": [], "peaks": [], "error": "the disk is full"}},
    }


def found(theirs: list[float], ours: list[float], *, name: str, error: str = "") -> dict[str, Any]:
    """What was found of one row; the peaks are a hundred times the figures."""
    row = {
        "theirs": {"values": theirs, "peaks": [100 * each for each in theirs], "error": error},
        "ours": {"values": ours, "peaks": [100 * each for each in ours], "error": ""},
    }
    return {"theirs": "a", "ours": "b", "rows": {name: row}}


@pytest.mark.parametrize(
    ("case", "line"),
    [
        # Medians; the ratio that was asked is reached, or missed.
        (found([9, 10, 30], [2, 3, 9], name="demo"), "| 3 | 0.30 | ratio ≤ 0.33 | 300 |"),
        (found([10], [4], name="demo"), "| **4** | 0.40 | ratio ≤ 0.33 | 400 |"),
        # Above what was asked of the figure itself, and below.
        (found([400], [70], name="first-demo"), "| **70** | 0.17 | ratio ≤ 0.2, ≤ 60 |"),
        (found([0.2], [0.4], name="labels"), "| **0.4** | 2.00 | ≥ 0.45 | **40** |"),
        # Noise is no more than there was.
        (found([1.0], [1.04], name="help"), "| 1.04 | 1.04 | not more | 104 |"),
        (found([1.0], [1.06], name="help"), "| **1.06** | 1.06 | not more | **106** |"),
        # The older one was given up.
        (found([], [14.6], name="wide", error="not done in 120 s"), "| 14.6 | – | ≤ 15 | 1460 |"),
    ],
)
def test_the_table_has_medians_and_says_what_missed_what_was_asked(
    case: dict[str, Any], line: str
) -> None:
    assert line in page.table(case)


def test_the_page_is_the_file_in_words() -> None:
    kept = json.loads(page.JSON_FILE.read_text())
    assert page.PAGE.read_text() == page.page(kept)
    assert [name for name in page.ROWS if name in kept["rows"]] == list(kept["rows"])
    assert len(re.findall(r"[^\s|]+", page.PAGE.read_text())) <= 400
