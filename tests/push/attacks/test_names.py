"""Names that others chose: a path out of the folder, a report that dies, a terminal that obeys.

The attacker writes a study, or is the curator. New studies with names that cannot be seen are
refused; older ones, which are in stores and folders, open as before and do no harm.
"""

import io
import json
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.csv
import pytest
import yaml

from dppca.common.analysis.loadings import KeptComponent, Loading
from dppca.common.analysis.study_file import study_from_yaml
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.documents.stated import Stated
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.errors import SettingError, StudyError
from dppca.common.kernel.identity.tls import Role
from dppca.common.kernel.study import Study, study_from_canonical, study_from_mapping
from dppca.common.shell.console import emit, run
from dppca.common.shell.study_header import StudyHeader
from dppca.common.transport import channels
from dppca.common.transport.status import TRAILER, from_rpc_error
from dppca.curator.observability.log import LOGGER, configure, log_event
from dppca.owner.cli import cli
from dppca.owner.render.components import ComponentsDocument, components_text
from dppca.owner.synthesis.tables import open_writer
from tests.support.certificates import new_authority
from tests.support.checkout import ROOT
from tests.support.latent_rows import make_result, make_rows
from tests.support.sites import OwnerSite, keep_components, make_site, policy_text, proved
from tests.support.studies import make_study

TITLE = "\x1b]0;owned\x07"
CLIPBOARD = "\x1b]52;c;cm0gLXJmIC8=\x07"
PATHS = [
    "x/../../../../outside",
    "../../../outside",
    "/../../../../../../../../tmp/outside",
    "..\\..\\outside",
    "..",
    "Ill",
    "nul",
    "ill" * 42,
]
MATHEMATICS = ["cost $\\frac{1}{$", "$$", "a$b$c", "\\$x_{$", "$\\notacommand$"]
HIDDEN = {
    "escape": f"x{TITLE}",
    "delete": "x\x7f",
    "C1": "x\x9b2J",
    "line feed": "x\nerror: none",
    "NUL": "x\x00y",
    "line separator": "x\u2028y",
    "override": "x\u202etxt.exe",
    "isolate": "x\u2066y",
    "zero width": "x\u200by",
    "tag": "x\U000e0041",
    "no character": "x\ufdd0",
}


def with_names(*names: str, label: str = "yes") -> Study:
    """The study of `tests.support.latent_rows`, first columns (and ``ill``) renamed."""
    return study_from_mapping(document_with(*names, label=label))


def document_with(*names: str, label: str = "yes") -> dict[str, Any]:
    """Its document, whatever the names are."""
    document = json.loads(make_study("latent").canonical_bytes())
    attributes = document["schema"]["attributes"]
    attributes.insert(0, attributes.pop(4))
    for attribute, name in zip(attributes, names, strict=False):
        attribute["name"] = name
    attributes[0]["values"] = ["no", label]
    return document


def site_with(folder: Path, study: Study) -> OwnerSite:
    """A site that keeps a study, with its rows and components."""
    authority = new_authority()
    site = make_site(folder, credentials=authority.issue(Role.OWNER, "owner-1"))
    (folder / "policy.yaml").write_text(
        policy_text({"survey": "path: rows.parquet"}, budget='epsilon: "10", delta: "0"')
    )
    rows = make_rows(300).select(["ill", "x0", "x1", "x2", "x3", "colour"])
    (_, second) = study.table.attributes[0].labels  # type: ignore[union-attr]
    ill = [second if value == "yes" else "no" for value in rows.column("ill").to_pylist()]
    columns = [pa.array(ill), *rows.columns[1:]]
    table = pa.table(columns, names=[each.name for each in study.table.attributes])
    pa.parquet.write_table(table, folder / "rows.parquet")
    result = make_result(study, folder / "rows.parquet")
    keep_components(site, study, proved(result, study, authority))
    return site


def printed(*line: str) -> tuple[int, str]:
    """Exit code, and what a command prints for people, on both streams."""
    stream = io.StringIO()
    with redirect_stdout(stream), redirect_stderr(stream), pytest.raises(SystemExit) as left:
        run(cli, list(line))
    assert isinstance(left.value.code, int)
    return left.value.code, stream.getvalue()


def obeys(text: str) -> bool:
    """Whether a terminal would do anything with a text but show it."""
    return any(not character.isprintable() for character in text.replace("\n", ""))


# Paths


@pytest.mark.parametrize("target", PATHS)
def test_a_model_is_written_into_the_folder_of_its_study(tmp_path: Path, target: str) -> None:
    site = site_with(tmp_path / "far" / "down" / "site", with_names(target))
    before = {path for path in tmp_path.rglob("*") if site.folder not in path.parents}
    for asked in (("--kernel", "linear"), ("--method", "dp-svm", "--epsilon", "1", "--yes")):
        code, document = site.run("train", "site-test", "--target", target, *asked)
        assert code == 0, document
        assert Path(document["model"]).resolve().parent == site.folder / "studies" / "site-test"
        output = str(tmp_path / "predicted.csv")
        data = ("--data", str(site.folder / "rows.parquet"), "--output", output, "--replace")
        assert site.run("predict", "--model", document["model"], *data)[0] == 0
    after = {path for path in tmp_path.rglob("*") if site.folder not in path.parents}
    assert after - before == {tmp_path / "predicted.csv"}


# Plots and pages


def test_names_with_mathematics_are_drawn_as_they_are(tmp_path: Path) -> None:
    site = site_with(tmp_path / "site", with_names(*MATHEMATICS, label="$\\frac{$"))
    assert site.run("synthesize", "site-test", "--rows", "200")[0] == 0
    code, document = site.run("report", "site-test")
    assert code == 0, document


# New studies


@pytest.mark.parametrize("what", HIDDEN)
def test_a_new_study_with_a_hidden_character_is_refused_by_its_code(what: str) -> None:
    text = HIDDEN[what]
    for content in map(canonical_json, (document_with(text), document_with(label=text))):
        for read in (study_from_canonical, _from_yaml):
            with pytest.raises(StudyError, match=r"character U\+[0-9A-F]{4}") as refused:
                read(content)
            assert not obeys(str(refused.value))


@pytest.mark.parametrize("text", ['=HYPERLINK("http://x","y")', "+cmd|' /C calc'!A0", "@SUM(1)"])
def test_a_new_study_with_a_formula_is_refused(text: str) -> None:
    with pytest.raises(StudyError, match="spreadsheet"):
        with_names("a", label=text)
    with pytest.raises(StudyError, match="spreadsheet"):
        with_names(text)


def _from_yaml(content: bytes) -> Study:
    return study_from_yaml(yaml.safe_dump(json.loads(content)))


# Terminals


@pytest.mark.parametrize("hostile", [TITLE, CLIPBOARD, "\x9b2J", "\u202e", "\r\x1b[1A"])
def test_what_an_error_says_is_shown_and_not_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hostile: str
) -> None:
    # No curator is there, and nobody waits between two calls to it.
    monkeypatch.setattr(channels, "_LONGEST_WAIT_S", 0.0)
    monkeypatch.setattr(channels, "_FIRST_WAIT_S", 0.0)
    study = with_names("ill")
    site = site_with(tmp_path / "site", study)
    pa.parquet.write_table(pa.table({"other": ["1"]}), site.folder / "rows.parquet")
    for line in (
        ("check", "site-test"),
        ("train", "site-test", "--target", f"x{hostile}y"),
        ("train", "site-test", "--target", hostile),
        ("report", hostile),
        (hostile,),
        ("check", "--no-such-option", hostile),
    ):
        code, text = printed("--site", str(site.folder), *line)
        assert code != 0
        assert not obeys(text), text
        code, text = printed("--site", str(site.folder), *line, "--json")
        assert not obeys(text), text


class _Refused(grpc.RpcError):
    """A failed call whose details the other side wrote."""

    def __init__(self, details: str) -> None:
        self._details = details

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.NOT_FOUND

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> tuple[Any, ...]:
        return ((TRAILER, "UnknownStudyError"),)


@pytest.mark.parametrize("details", [CLIPBOARD, "\x1b[2J", "gone\nNothing is broken.", "\u2067"])
def test_what_a_curator_answers_stays_within_its_line(details: str) -> None:
    message = str(from_rpc_error(_Refused(details)))
    assert not obeys(message)
    assert "\n" not in message
    assert details[-4:] in message or "\\" in message, "it is told"


def test_what_a_result_claims_stays_within_its_line() -> None:
    document = ComponentsDocument(
        study="s",
        stated=Stated(purpose=f"none{TITLE}\nVERIFIED"),
        digest="",
        state=StudyState.DECOMPOSED,
        count=1,
        rows=3,
        counts="rows",
        eigenvalues=[1.0],
        noise_edge=0.1,
        components=(
            KeptComponent(
                1.0, 1.0, above_noise=True, loadings=(Loading(f"a{TITLE}", "b\nVERIFIED", 0.5),)
            ),
        ),
        epsilon=f"1{CLIPBOARD}",
        delta="0",
        assumptions=(f"none{TITLE}", "none\nVERIFIED"),
        contributed=["a"],
        missing=(f"h{TITLE}\nb",),
        disowned=f"stolen{TITLE}\nVERIFIED",
        path=Path("p"),
        plots={},
        bytes=0,
        seconds=0.0,
    )
    text = components_text(document, StudyHeader(make_study()))
    assert not obeys(text)
    assert not any(line.startswith(("b", "VERIFIED")) for line in text.splitlines())


def test_json_has_escapes_and_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    said = {"name": f"{TITLE}\x9b\u202e\U000e0041\ud800é"}
    emit(said, "", as_json=True)
    out = capsys.readouterr().out
    assert not obeys(out)
    assert json.loads(out) == said


def test_a_defect_is_told_without_obeying_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError(TITLE)

    monkeypatch.setattr(cli, "main", fails)
    code, text = printed("doctor")
    assert code == 70
    assert "RuntimeError" in text
    assert not obeys(text)


@pytest.mark.parametrize("form", ["json", "text"])
def test_the_curators_log_obeys_nobody(form: Any, capsys: pytest.CaptureFixture[str]) -> None:
    handlers, propagate = LOGGER.handlers[:], LOGGER.propagate
    try:
        configure(form)
        log_event("study created", study=TITLE, reason="a\nb\u202e", who=Path(f"/x{CLIPBOARD}"))
        try:
            json.loads(f"{TITLE}")
        except ValueError:
            LOGGER.exception(f"failed {TITLE}")
    finally:
        LOGGER.handlers[:], LOGGER.propagate = handlers, propagate
    err = capsys.readouterr().err
    assert "study created" in err
    assert not obeys(err)


def test_only_the_console_prints() -> None:
    files = [
        path for room in ("common", "curator", "owner") for path in (ROOT / room).rglob("*.py")
    ]
    printing = re.compile(r"^(?!\s*>>> ).*\b(click\.s?echo|print|sys\.std(out|err)\.write)\(", re.M)
    found = {str(path.relative_to(ROOT)) for path in files if printing.search(path.read_text())}
    assert found == {"common/shell/console.py"}


# Spreadsheets


@pytest.mark.parametrize(("name", "cell"), [("=A(1)", "a"), ("a", "-2+3+cmd|' /C x'!A0")])
def test_text_that_a_spreadsheet_would_run_is_not_written_as_csv(
    tmp_path: Path, name: str, cell: str
) -> None:
    rows = pa.table({name: [cell]})
    with (
        pytest.raises(SettingError, match="spreadsheet"),
        open_writer(tmp_path / "t.csv", rows.schema, {"label": "site-only"}) as writer,
    ):
        writer.write(rows.to_batches()[0])
    assert list(tmp_path.iterdir()) == [], "not even a part of it"


# Text that grows


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 30)).replace(
            "*a0", "x"
        ),
        "a: &a {b: *a}",
        "a: &a [*a]",
        f"a: &a [{'x, ' * 10_000}]\nb: [{'*a, ' * 10_000}]",
        f"a: &a {{b: [{'x, ' * 3_000}]}}\nb: [{', '.join(['{<<: *a}'] * 3_000)}]",
    ],
    ids=["doublings", "itself", "itself in a list", "square", "merged"],
)
def test_a_study_file_whose_aliases_make_it_large_is_refused(text: str) -> None:
    with pytest.raises(StudyError, match="alias"):
        study_from_yaml(text)
