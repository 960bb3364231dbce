"""What somebody at a shell meets after a wrong input: the place, the cause and the cure."""

import gzip
from pathlib import Path

import click
import pytest

from dppca.curator.cli import cli as curator_cli
from dppca.owner.cli import cli as owner_cli
from tests.support.commands import run_here

COLUMNS = "name,type,lower,upper,labels,unknown\nage,integer,0,110,,\nwork,label,,,a|b,c\n"
STUDY = """\
name: s
owners: [north, south]
privacy:
  mechanism: laplace
  epsilon: "1"
components: {count: 1}
schema:
  max_rows_per_person: 1
  sum_weight: 0.5
  attributes:
    - name: age
      type: numeric
      lower: 0
      upper: 110
    - {name: sex, type: binary, values: [f, m]}
"""
POINT = "use a point for decimals and no mark for thousands, such as 1.5 or 1500"
NEW = "study new --columns columns.csv --output new.yaml"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("DPPCA_CURATOR", "DPPCA_CREDENTIALS", "DPPCA_SITE"):
        monkeypatch.delenv(name, raising=False)
    Path("columns.csv").write_text(COLUMNS)
    Path("study.yaml").write_text(STUDY)
    Path("header.csv").write_text("age,sex\n")
    Path("authority").mkdir()
    for name in ("ca.pem", "ca-key.pem"):
        Path("authority", name).write_text("")


def said(cli: click.Command, *arguments: str) -> str:
    """What stands on standard error, on one line; the command fails."""
    code, _, told = run_here(cli, *arguments)
    assert code not in (0, 70), told
    return " ".join(told.split())


@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        ('epsilon: "1"', "epsilon: 1,5", "line 5, privacy.epsilon: "),
        ("upper: 110", "upper: 1.500,0", "line 14, attribute age, upper: must be a number: "),
        ("lower: 0", "lower: -1,5", "line 13, attribute age, lower: must be a number: "),
        ("sum_weight: 0.5", "sum_weight: 0,5", "line 9, schema.sum_weight: must be a number: "),
    ],
)
def test_a_decimal_comma_in_a_study_is_met_by_a_point(before: str, after: str, place: str) -> None:
    Path("study.yaml").write_text(STUDY.replace(before, after))
    told = said(curator_cli, "study", "check", "study.yaml")
    assert place in told
    assert told.endswith(POINT)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            f"{NEW} --epsilon 0,5",
            f'--epsilon 0,5: must be a decimal above 0, such as "1.0": {POINT}',
        ),
        (f"{NEW} --owner Nord", "--owner Nord: a name has 1 to 64 characters"),
        (f"{NEW} --replace", "No such option '--replace'."),
        (f"{NEW} --colums x", "No such option '--colums'. Did you mean '--columns'?"),
        ("study new --columns study.yaml", "Missing option '--output'. The new file."),
        ("study list --curator hub:1", "Folder with the operator's certificate.pem"),
        (
            "study list --curator hub:1 --credentials nobody",
            "no folder nobody: name the one with your certificate.pem",
        ),
        ("plan study.yaml --rows 6.000", "--rows takes a number such as 6000, or OWNER=NUMBER"),
        ("plan study.yaml --rows 9 --bandwidth 10,5", f"'10,5' is not a number: {POINT}"),
        ("plan study.yaml --rows north=9", "no rows for south: say how many each has"),
        (
            "study list --curator hub:1 --credentials authority",
            "this is an authority's folder, whose key stays apart: `dppca-curator pki issue`",
        ),
        (
            "pki list --directory a",
            "a holds no authority: name its folder. Only for a new ",
        ),
    ],
)
def test_an_operator_is_told_the_place_and_the_cure(line: str, told: str) -> None:
    assert told in said(curator_cli, *line.split())


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("synthesize s --rows 1.000", "'1.000' is not a whole number: write digits alone"),
        ("components s --wait soon", "'soon' is not a number"),
        (
            "check --data header.csv --study-file study.yaml",
            "header.csv has columns but no rows: export it again",
        ),
        ("check --data header.csv --study-file bytes.yaml", "not text in UTF-8: save it so"),
        (
            "check --data packed.csv --study-file study.yaml",
            "packed.csv is packed by gzip: name it .csv.gz",
        ),
        (
            "check --data titled.csv --study-file study.yaml",
            "is that line a header? If a line below names the columns, say which by `header`",
        ),
        (
            "check --data blank.csv --study-file study.yaml",
            "is blank: it must name the columns. If a line below does, say which by `header`",
        ),
        ("studies --watch --due 3", "leave out --json and --due, or --watch"),
        (
            "predict --model header.csv --data header.csv --output o.csv",
            "name a .skops file of `train`",
        ),
    ],
)
def test_a_steward_is_told_the_place_and_the_cure(line: str, told: str) -> None:
    Path("bytes.yaml").write_bytes(bytes(range(256)))
    Path("packed.csv").write_bytes(gzip.compress(b"age,sex\n1,f\n"))
    Path("titled.csv").write_text("Export 2024\nage,sex\n1,f\n")
    Path("blank.csv").write_text(",\nage,sex\n1,f\n")
    assert told in said(owner_cli, *line.split())


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("name,type", "name,typ", "the header of the data dictionary lacks type: it is name,type,"),
        ("a|b,c", "a|b|c,c", "line 3 of the data dictionary: unknown is a label of its own"),
    ],
)
def test_a_dictionary_that_is_nearly_one_is_told_what_is_wrong(
    before: str, after: str, told: str
) -> None:
    Path("columns.csv").write_text(COLUMNS.replace(before, after))
    assert told in said(curator_cli, *NEW.split())


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            "age;town\n30;K\xf6ln\n31;Ulm\n32;Ulm\n".encode("cp1252"),
            "no rows are read here, because bounds",
        ),
        (f"{COLUMNS}town,label,,,K\xf6ln|Ulm|Aue,\n".encode("cp1252"), "not text in UTF-8: save"),
        (bytes(range(256)), "not text in UTF-8: save"),
    ],
    ids=["rows", "a dictionary", "bytes"],
)
def test_rows_are_refused_as_rows_in_any_letters(content: bytes, told: str) -> None:
    Path("columns.csv").write_bytes(content)
    assert told in said(curator_cli, *NEW.split())


def test_owners_keys_that_a_person_wrote_are_left_to_the_command() -> None:
    privacy = STUDY.replace(
        'laplace\n  epsilon: "1"',
        'gaussian\n  epsilon: "1"\n  delta: "1e-6"\n  trust: aggregate\n  colluders: 1',
    )
    text = privacy.replace("[north, south]", "[north, south, west]")
    text += "open_by: 2100-01-01T00:00:00+00:00\nidentities: {north: AAAA}\n"
    Path("study.yaml").write_text(text)
    told = said(curator_cli, "study", "check", "study.yaml")
    assert "identities must name every owner and nobody else: south, west" in told
    assert "leave identities and openers out, and `dppca-curator study assemble` puts them" in told
