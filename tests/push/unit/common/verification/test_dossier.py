"""A dossier: the registry's fields from signed facts, open lines for the rest, twice the same."""

import shutil
from collections.abc import Iterator, Mapping
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from dppca import verify_file, write_dossier
from dppca.common.kernel.errors import AlteredError, ArtefactError, SettingError
from dppca.common.verification.dossier.questions import QUESTIONS
from dppca.common.verification.dossier.sheets import SHEETS, Fact, OpenLine, Section, Sheet
from dppca.common.verification.dossier.writing import html_page, markdown_text
from dppca.curator.cli import cli as curator
from dppca.owner.cli import cli as owner
from tests.support.checkout import ROOT
from tests.support.commands import run_here
from tests.support.requirements import miss

EDITIONS = ROOT / "tests/golden/editions"
STUDY = "site/studies/edition"
FILES = {
    "components": f"{STUDY}/components.npz",
    "counts": "site/studies/edition-second/components.npz",
    "synthetic": "joined.csv",
    "model": "released.skops",
}
ANSWERS: dict[str, Any] = {
    "curators": ["University Hospital of Example", "Institute: of *Example*"],
    "authors": ["Dr A. Example"],
    "region": "Lower Saxony",
    "published": {"edition": "2026-11-30", "edition-second": "2026-11-30"},
    "purpose": {"edition": "To try", "edition-second": "To try"},
}
MORE = {
    "sector": "Healthcare",
    "rows_are": "Static",
    "plans": "None.",
    "preparation": "Bounds are those of the case report form.",
    "justification": "By the board.",
    "sources": "None yet.",
}
# Field: type, needed, words that count; written by us from the registry's description.
FIELDS: Mapping[str, tuple[type | tuple[type, ...], bool, tuple[str, ...]]] = {
    "url_slug": (str, True, ()),
    "status": (str, True, ("Draft",)),
    "tier": (int, True, ()),
    "basic.name": (str, True, ()),
    "basic.data_curators": (list, True, ()),
    "basic.intended_use": (str, True, ()),
    "basic.data_product_type": (
        str,
        True,
        ("Summary statistics", "Machine learning model", "Synthetic data"),
    ),
    "basic.data_product_region": (str, True, ()),
    "basic.description": (str, True, ()),
    "basic.publication_date": (str, True, ()),
    "basic.data_product_sector": (
        str,
        False,
        ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance"),
    ),
    "dp_variant.variant_name": (str, True, ("Pure DP", "Approximate DP")),
    "dp_variant.data_domain": (str, True, ()),
    "dp_variant.unprotected_quantities": (str, True, ()),
    "privacy_loss.privacy_unit": (str, True, ()),
    "privacy_loss.privacy_unit_details": (str, True, ()),
    "privacy_loss.privacy_parameters.epsilon": (float, True, ()),
    "privacy_loss.privacy_parameters.delta": (float, False, ()),
    "privacy_loss.privacy_parameters_details": (str, True, ()),
    "deployment_model.model_name": (str, True, ("Federated",)),
    "deployment_model.model_name_details": (str, True, ()),
    "deployment_model.actors": (str, True, ()),
    "deployment_model.release_type": (str, True, ("One release", "Many releases")),
    "deployment_model.release_type_details": (str, False, ()),
    "deployment_model.data_source_type": (str, False, ("Static", "Dynamic")),
    "deployment_model.access_type": (str, True, ("Non-interactive",)),
    "deployment_model.access_type_details": (str, True, ()),
    "accounting.post_processing": (str, True, ()),
    "accounting.composition": (str, True, ()),
    "implementation.preprocessing_and_hyperparameter_tuning": (str, False, ()),
    "implementation.mechanisms": (str, True, ()),
    "implementation.justification": (str, False, ()),
    "administrative.sources": (str, False, ()),
    "administrative.notes": (str, True, ()),
    "administrative.registry_authors": (list, True, ()),
}


def leaves(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from leaves(value, "" if name == "deployment" else f"{above}{name}.")
        else:
            yield f"{above}{name}", value


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    path = tmp_path / "dossier.yaml"
    path.write_text(yaml.safe_dump(ANSWERS))
    return path


def made(edition: str, kind: str, folder: Path, answers: Path) -> dict[str, str]:
    place = EDITIONS / edition
    ca = (place / "ca.pem").read_bytes()
    written = write_dossier(place / FILES[kind], folder, ca=ca, answers=answers)
    return {path.name: path.read_text() for path in written}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("edition", ["0.1.0-aggregate", "0.2.0-aggregate", "0.2.0-owner"])
def test_every_kind_of_file_has_an_entry_of_the_registrys_fields(
    edition: str, kind: str, tmp_path: Path, answers: Path
) -> None:
    contents = made(edition, kind, tmp_path / "out", answers)
    (name,) = [each for each in contents if each.endswith(".yaml")]
    assert name.replace("_", "").removesuffix(".yaml").isalnum()
    entry = dict(leaves(yaml.safe_load(contents[name])))
    assert {*entry} <= {*FIELDS}
    for field, (kinds, needed, words) in FIELDS.items():
        assert field in entry or not needed, field
        if field in entry:
            assert isinstance(entry[field], kinds), field
            assert not words or entry[field] in words, field
            assert entry[field], field
    place = EDITIONS / edition
    report = verify_file(place / FILES[kind], ca=(place / "ca.pem").read_bytes())
    on_top = 0.0 if report.model is None else float(report.model.epsilon)
    epsilon = entry["privacy_loss.privacy_parameters.epsilon"]
    assert epsilon == pytest.approx(float(report.guarantee.epsilon) + on_top)
    assert entry["tier"] == 2
    assert report.study_digest in entry["administrative.notes"]


def test_all_answers_make_an_entry_of_the_third_tier(tmp_path: Path, answers: Path) -> None:
    answers.write_text(yaml.safe_dump({**ANSWERS, **MORE}))
    entry = yaml.safe_load(
        made("0.2.0-owner", "components", tmp_path / "out", answers)["edition.yaml"]
    )
    assert entry["tier"] == 3
    assert {*FIELDS} - {*dict(leaves(entry))} == set()


@pytest.mark.parametrize("more", [{}, MORE])
@pytest.mark.parametrize("kind", FILES)
def test_the_registrys_own_schema_takes_every_entry(
    kind: str, more: dict[str, str], tmp_path: Path, answers: Path
) -> None:
    path = ROOT.parent / "shared/registry/deployments-schema.yaml"
    if not path.exists():
        miss(f"the registry's schema, which is not at {path}", "put it there")
    answers.write_text(yaml.safe_dump({**ANSWERS, **more}))
    contents = made("0.2.0-owner", kind, tmp_path / "out", answers)
    (text,) = [text for name, text in contents.items() if name.endswith(".yaml")]
    schema = yaml.safe_load(path.read_text())
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.validate(yaml.safe_load(text), schema, format_checker=checker)
    listed = {name for name, _ in _named(schema["properties"])}
    assert {*FIELDS} | {"deployment_model.data_source_type_details"} >= listed - {
        "privacy_loss.privacy_parameters.rho"
    }


def _named(properties: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, each in properties.items():
        if "properties" in each:
            yield from _named(each["properties"], "" if name == "deployment" else f"{above}{name}.")
        else:
            yield f"{above}{name}", each


def test_the_same_file_and_answers_give_the_same_bytes(tmp_path: Path, answers: Path) -> None:
    first = made("0.2.0-aggregate", "components", tmp_path / "one", answers)
    again = made("0.2.0-aggregate", "components", tmp_path / "one", answers)
    other = made("0.2.0-aggregate", "components", tmp_path / "two", answers)
    assert first == again == other


class Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not {"src", "href", "onclick"} & {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_both_forms_of_a_sheet_say_the_same_and_load_nothing(tmp_path: Path, answers: Path) -> None:
    contents = made("0.2.0-owner", "components", tmp_path / "out", answers)
    for name in SHEETS:
        page = Texts()
        page.feed(contents[f"{name}.html"])
        assert not page.tags & {"script", "img", "link", "iframe"}
        said = "".join(page.texts).split()
        markdown = (
            unescape(contents[f"{name}.md"]).replace("\\", "").replace("*", "").replace("#", "")
        )
        for word in markdown.split():
            if set(word) != {"_"} and word != "-":
                assert word in said, (name, word)


def test_a_sheet_has_open_lines_and_no_verdict(tmp_path: Path, answers: Path) -> None:
    contents = made("0.2.0-owner", "components", tmp_path / "out", answers)
    for name in SHEETS:
        assert (
            contents[f"{name}.md"].count("_" * 60) == contents[f"{name}.html"].count('"open"') >= 2
        )
        for word in ("complies", "compliant", "anonymous", "anonymised", "fulfils", "lawful"):
            assert word not in contents[f"{name}.md"].lower()
    silent = "Why is it needed: age, sex, work?"
    assert silent in contents["impact-assessment.md"]


def test_marks_in_answers_and_words_of_a_study_stay_text(tmp_path: Path, answers: Path) -> None:
    hostile = '</p><script>alert("1")</script> *b* [a](http://b)'
    answers.write_text(yaml.safe_dump({**ANSWERS, "curators": [hostile], "plans": hostile}))
    contents = made("0.2.0-owner", "components", tmp_path / "out", answers)
    entry = yaml.safe_load(contents["edition.yaml"])
    assert entry["deployment"]["basic"]["data_curators"] == [hostile]
    items = (Fact("A", hostile, "b"), OpenLine(hostile))
    bad = Sheet(hostile, hostile, (Section("C", items),), hostile)
    assert "<script" not in html_page(bad)
    assert "<script" not in markdown_text(bad)
    assert "\\*b\\*" in markdown_text(bad)


@pytest.mark.parametrize("name", [name for name, asked in QUESTIONS.items() if asked.needed])
def test_a_needed_answer_is_asked_for_before_anything_is_written(
    name: str, tmp_path: Path, answers: Path
) -> None:
    answers.write_text(yaml.safe_dump({k: v for k, v in ANSWERS.items() if k != name}))
    if name == "purpose":  # the study of this edition says its own
        assert made("0.2.0-owner", "components", tmp_path / "out", answers)
        return
    with pytest.raises(SettingError, match=name) as refused:
        made("0.2.0-owner", "components", tmp_path / "out", answers)
    assert QUESTIONS[name].text in str(refused.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("curators: [a\u202eb]", "invisible"),
        ("curators: [7]", "must be text"),
        ("owner: me", "owner: the questions are"),
        ("- a", "no mapping"),
        ("a: [", "cannot be read as YAML"),
        ("sector: Sports", "must be one of Healthcare"),
        ("rows_are: Sometimes", "must be one of Static"),
        ("published: {edition: '2026-13-01'}", "must be a day"),
        ("published: {edition: 2026-13-01}", "no calendar has this day"),
        ("published: {edition: tomorrow}", "must be a day"),
        ("published: 2026-11-30", "by study"),
        ("plans: '" + "a" * 2001 + "'", "at most 2000"),
    ],
)
def test_a_wrong_answer_is_named(text: str, says: str, tmp_path: Path, answers: Path) -> None:
    answers.write_text(text)
    with pytest.raises(SettingError, match=says):
        made("0.2.0-owner", "components", tmp_path / "out", answers)
    assert not (tmp_path / "out").exists()


def test_a_file_that_does_not_verify_has_no_dossier(tmp_path: Path, answers: Path) -> None:
    place = shutil.copytree(EDITIONS / "0.2.0-owner", tmp_path / "edition")
    path = place / FILES["components"]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    ca = (place / "ca.pem").read_bytes()
    with pytest.raises((AlteredError, ArtefactError)):
        write_dossier(path, tmp_path / "out", ca=ca, answers=answers)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("program", ["owner", "curator"])
def test_both_commands_write_it_and_refuse_without_who_vouches(
    program: str, tmp_path: Path, answers: Path
) -> None:
    place = EDITIONS / "0.2.0-owner"
    file, ca = place / FILES["components"], place / "ca.pem"
    out, command = tmp_path / "out", ("verify", file, "--answers", answers)
    site = ("--site", tmp_path) if program == "owner" else ()
    cli = owner if program == "owner" else curator
    code, _, said = run_here(cli, *site, *command, "--dossier", out)
    assert (code, "somebody vouches for" in said, out.exists()) == (10, True, False)
    code, said, _ = run_here(cli, *site, *command, "--ca", ca, "--dossier", out)
    assert (code, "dossier of 9 files" in said) == (0, True)
    assert {path.suffix for path in out.iterdir()} == {".json", ".yaml", ".md", ".html"}
    (out / "guarantee.md").write_text("mine")
    code, _, said = run_here(cli, *site, *command, "--ca", ca, "--dossier", out)
    assert (code, "not as this software left it" in said) == (10, True)
    code, _, said = run_here(cli, *site, *command, "--ca", ca, "--dossier", place / "site")
    assert (code, "folder of a site" in said) == (10, True)


def test_a_site_keeps_its_answers_in_its_own_folder(tmp_path: Path, answers: Path) -> None:
    place = shutil.copytree(EDITIONS / "0.2.0-owner", tmp_path / "edition")
    site = place / "site"
    shutil.copy(place / "ca.pem", site / "ca.pem")
    command = ("--site", site, "verify", site / "studies/edition/components.npz")
    code, _, said = run_here(owner, *command, "--dossier", tmp_path / "out")
    assert code == 10
    assert str(site / "dossier.yaml") in said
    shutil.copy(answers, site / "dossier.yaml")
    code, _, _ = run_here(owner, *command, "--dossier", tmp_path / "out")
    assert code == 0
