"""``study refine``: a draft from a published result, and what it refuses."""

from pathlib import Path
from typing import Any

import pytest

from dppca.common.analysis.field.missed import Missed
from dppca.common.analysis.rows import refinement
from dppca.common.analysis.study_file import study_from_yaml
from dppca.curator.cli import cli
from dppca.owner.commands.preview import compare_grown
from dppca.owner.render.review import Regrown
from tests.support.commands import answer_of, run_here
from tests.support.processors import another_processor
from tests.support.sites import ProvedSite


def _line(proved: ProvedSite, output: Path, *more: str) -> list[str]:
    ca = output.with_name("authority.pem")
    ca.write_bytes(proved.ca)
    line = ["study", "refine", str(proved.components), "--target", "ill", "--name", "second"]
    return [*line, "--epsilon", "0.5", "--ca", str(ca), "--output", str(output), *more]


def _refine(proved: ProvedSite, output: Path, *more: str) -> tuple[int, Any]:
    return answer_of("dppca-curator", cli, *_line(proved, output, *more))


def test_a_draft_and_its_rows_are_what_the_result_gives(proved: ProvedSite, tmp_path: Path) -> None:
    output = tmp_path / "second.yaml"
    code, said = _refine(proved, output, "--trees", "2", "--leaves", "4")
    assert (code, said["trees"], said["leaves"], said["continues"]) == (0, 2, 4, proved.study.name)
    assert said["hidden"] is True, "800 rows are few"
    study = study_from_yaml(output)
    assert compare_grown(study, Path(said["rows"])) is Regrown.SAME
    assert study.continues is not None
    assert study.continues.result == proved.signed.sha256.hex()
    other = tmp_path / "again.yaml"
    assert _refine(proved, other, "--trees", "2", "--leaves", "4")[0] == 0
    assert other.read_text() == output.read_text(), "the same result and rule, the same draft"


def test_a_draft_says_where_its_leaves_are_too_few(proved: ProvedSite, tmp_path: Path) -> None:
    words = "so few leaves gain little, unless three attributes decide together"
    for leaves in (63, 64):
        output = tmp_path / f"{leaves}.yaml"
        line = _line(proved, output, "--trees", "2", "--leaves", str(leaves))
        code, said, _ = run_here(cli, *line)
        assert code == 0
        assert (words in " ".join(said.split())) == (leaves == 63)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--trees", "3"), "belong together"),
        (("--delta", "1e-9"), "give no delta"),
        (("--target", "nothing"), "is not an attribute"),
    ],
)
def test_what_does_not_fit_is_refused(
    proved: ProvedSite, tmp_path: Path, more: tuple[str, ...], told: str
) -> None:
    code, refused = _refine(proved, tmp_path / "second.yaml", *more)
    assert code != 0
    assert told in refused["error"]["message"]
    assert not list(tmp_path.glob("second*"))


def test_a_draft_is_never_written_over(proved: ProvedSite, tmp_path: Path) -> None:
    output = tmp_path / "second.yaml"
    output.write_text("kept")
    code, refused = _refine(proved, output)
    assert code != 0
    assert "exists and is not overwritten: give another --output" in refused["error"]["message"]
    assert [*tmp_path.iterdir()] == [output, tmp_path / "authority.pem"], "no rows beside it either"
    assert output.read_text() == "kept"
    assert not list(tmp_path.glob("*.parquet")), "nothing was drawn"


def test_rows_that_lie_there_are_grown_on_again_and_never_replaced(
    proved: ProvedSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, small = tmp_path / "second.yaml", ("--trees", "2", "--leaves", "4")
    code, said = _refine(proved, output, *small)
    assert code == 0
    rows = Path(said["rows"])
    kept, draft = rows.read_bytes(), output.read_text()
    output.unlink()  # as if the command had been cut off
    another_processor(monkeypatch, refinement)
    assert _refine(proved, output, *small)[0] == 0
    assert (rows.read_bytes(), output.read_text()) == (kept, draft)
    output.unlink()
    for content in (kept[: len(kept) // 2], b"kept"):
        rows.write_bytes(content)
        code, refused = _refine(proved, output, *small)
        assert code != 0
        assert "is no file of rows for study" in refused["error"]["message"]
        assert rows.read_bytes() == content


def test_a_draft_says_what_the_rows_of_its_trees_miss(
    proved: ProvedSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "second.yaml"
    line = ("--trees", "2", "--leaves", "64")
    assert _refine(proved, output, *line)[1]["missed"] == []
    monkeypatch.setattr(
        "dppca.common.analysis.rows.agreement.find_missed_by",
        lambda *_, **__: (Missed("age and ill", 7.25),),
    )
    output = tmp_path / "third.yaml"
    said = _refine(proved, output, *line)[1]
    assert said["missed"] == [{"relation": "age and ill", "deviations": 7.25}]
    code, text, _ = run_here(cli, *_line(proved, tmp_path / "fourth.yaml", *line))
    assert code == 0
    assert "warning: Decoded rows miss what the release knows" in text
    assert "age and ill (7.2)" in text
