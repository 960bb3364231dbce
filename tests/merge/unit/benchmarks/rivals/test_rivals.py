"""The command."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.rivals.__main__ import cli
from dppca.common.errors import SettingError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--write", "--neighbours", "added"], "leave out --splits"),
        (["--write", "--splits", "1"], "leave out --splits"),
        (["--again", "--as-is"], "leave out one of them"),
    ],
)
def test_options_that_contradict_are_refused(options: list[str], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        CliRunner().invoke(cli, ["nltcs", *options], catch_exceptions=False)


def test_a_folder_without_cells_says_that_nothing_was_run(tmp_path: Path) -> None:
    given = ["parties", "--only", "merged", "--splits", "1", "--as-is", "--cells", str(tmp_path)]
    done = CliRunner().invoke(cli, given, catch_exceptions=False)
    assert done.exit_code == 0
    assert "| local, then merged | – | – | – | – |" in done.output
    assert "- not run, for want of machine time: local, then merged (48)." in done.output
    assert list(tmp_path.iterdir()) == []
