from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from cryptography import x509

from dppca.common.errors import NoPolicyError, SettingError
from dppca.common.privacy.accounting import Budget
from dppca.common.transport.tls import Identity, Role, parse_identity
from dppca.owner.records.locations import local_files
from dppca.owner.site.config import Policy, load_policy, load_site
from dppca.owner.site.enrolment import enrol

BUDGET = 'epsilon: "1", delta: "0"'
SERVICE = "{postgresql: {service: warehouse}}"
GOOD = 'data_sets:\n  survey: {path: rows.csv, epsilon: "3.0", delta: "1e-9"}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    enrol(tmp_path / "site", name="owner-1", curator="hub.example:7443")
    return tmp_path / "site"


def _policy(folder: Path, text: str) -> Policy:
    (folder / "policy.yaml").write_text(text)
    return load_policy(load_site(folder))


def test_a_new_site_knows_its_name_and_its_curator(folder: Path) -> None:
    site = load_site(folder)
    assert (site.name, site.curator) == ("owner-1", "hub.example:7443")


def test_a_new_site_has_a_policy_that_releases_nothing(folder: Path) -> None:
    policy = load_policy(load_site(folder))
    assert policy.data_sets == ()
    with pytest.raises(NoPolicyError, match="without a policy there is no release"):
        policy.data_set(None)


def test_only_the_owner_of_the_folder_can_read_the_key(folder: Path) -> None:
    assert stat.S_IMODE((folder / "key.pem").stat().st_mode) == 0o600


def test_the_request_names_the_owner_and_is_signed_by_its_key(folder: Path) -> None:
    request = x509.load_pem_x509_csr((folder / "request.pem").read_bytes())
    assert request.is_signature_valid
    assert parse_identity(request) == Identity("owner-1", Role.OWNER)


def test_nothing_is_overwritten(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / "request.pem").unlink()
    with pytest.raises(SettingError, match=r"already holds key\.pem, site\.yaml, policy\.yaml"):
        enrol(folder, name="owner-2", curator="hub.example:7443")
    del before["request.pem"]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("name", "curator"),
    [("Owner 1", "hub:1"), ("../x", "hub:1"), ("owner-1", "hub"), ("owner-1", "hub:70000")],
)
def test_a_bad_name_or_address_makes_no_site(tmp_path: Path, name: str, curator: str) -> None:
    with pytest.raises(SettingError):
        enrol(tmp_path / "site", name=name, curator=curator)
    assert not (tmp_path / "site").exists()


def test_a_folder_that_is_no_site_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="init --name"):
        load_site(tmp_path)


def test_a_study_cannot_name_a_folder_outside_the_site(folder: Path) -> None:
    with pytest.raises(SettingError):
        load_site(folder).study_folder("../../etc")


def test_a_policy_names_data_sets_with_exact_budgets(folder: Path) -> None:
    policy = _policy(folder, GOOD)
    found = policy.data_set("survey")
    assert found.account.population.name == "survey"
    assert found.account.population.budget == Budget(Decimal("3.0"), Decimal("1e-9"))
    assert policy.populations == (found.account.population,)
    assert found.source == local_files(folder.resolve() / "rows.csv")


def test_what_the_readme_prints_can_be_pasted_under_what_init_wrote(folder: Path) -> None:
    readme = (Path(__file__).parents[4] / "README.md").read_text("utf-8")
    block = re.search(r"```yaml\n(populations:\n.*?)```", readme, re.DOTALL)
    assert block is not None
    with (folder / "policy.yaml").open("a") as file:
        file.write(block[1])
    assert [each.name for each in load_policy(load_site(folder)).data_sets] == ["survey"]


def test_the_example_in_a_new_policy_is_one_without_the_marks_of_a_comment(folder: Path) -> None:
    written = (folder / "policy.yaml").read_text()
    example = written[written.index("# populations:") :].replace("# ", "")
    policy = _policy(folder, written + example)
    assert [each.name for each in policy.data_sets] == ["survey"]
    assert policy.data_set("survey").account.population.who == "Everyone treated here since 2010"


def _hard_link(folder: Path) -> str:
    os.link(folder / "rows.csv", folder / "other.csv")
    return "other.csv"


def _soft_link(folder: Path) -> str:
    (folder / "other.csv").symlink_to(folder / "rows.csv")
    return "other.csv"


def _link_to_a_link(folder: Path) -> str:
    _soft_link(folder)
    (folder / "third.csv").symlink_to("other.csv")
    return "third.csv"


def _linked_folder(folder: Path) -> str:
    (folder / "data").symlink_to(folder)
    return "data/rows.csv"


SAME_FILE: dict[str, Callable[[Path], str]] = {
    "the same path": lambda _: "rows.csv",
    "a detour": lambda _: "./x/../rows.csv",
    "an absolute path": lambda folder: str(folder.resolve() / "rows.csv"),
    "a hard link": _hard_link,
    "a soft link": _soft_link,
    "a link to a link": _link_to_a_link,
    "a folder that is a link": _linked_folder,
}


@pytest.mark.parametrize("second", SAME_FILE)
def test_one_file_cannot_have_two_lifetime_budgets(folder: Path, second: str) -> None:
    (folder / "rows.csv").write_text("x\n1\n")
    again = f'  again: {{path: "{SAME_FILE[second](folder)}", epsilon: "9", delta: "0"}}\n'
    with pytest.raises(SettingError, match="data sets survey and again have the same rows"):
        _policy(folder, GOOD + again)


@pytest.mark.parametrize("second", ["the same path", "a detour", "a soft link"])
def test_one_file_cannot_have_two_budgets_before_it_is_there(folder: Path, second: str) -> None:
    again = f'  again: {{path: "{SAME_FILE[second](folder)}", epsilon: "9", delta: "0"}}\n'
    with pytest.raises(SettingError, match="have the same rows"):
        _policy(folder, GOOD + again)


def test_two_files_are_two_data_sets_and_one_replaced_stays_what_it_was(folder: Path) -> None:
    for name in ("rows.csv", "b.csv"):
        (folder / name).write_text("x\n1\n")
    text = GOOD + '  other: {path: b.csv, epsilon: "1", delta: "0"}\n'
    before = _policy(folder, text)
    (folder / "new.csv").write_text("x\n2\n")
    (folder / "new.csv").replace(folder / "rows.csv")
    assert _policy(folder, text) == before


def test_a_path_that_no_file_can_have_is_a_bad_setting(folder: Path) -> None:
    with pytest.raises(SettingError, match=r"data_sets\.survey\.path"):
        _policy(folder, GOOD.replace("rows.csv", r'"a\0b"'))


def test_the_only_data_set_need_not_be_named(folder: Path) -> None:
    policy = _policy(folder, GOOD)
    assert policy.data_set(None) == policy.data_set("survey")


def test_one_of_several_data_sets_must_be_chosen(folder: Path) -> None:
    policy = _policy(folder, GOOD + '  other: {path: b.csv, epsilon: "1", delta: "0"}\n')
    with pytest.raises(SettingError, match=r"survey, other\): choose with --data-set"):
        policy.data_set(None)


def test_a_data_set_without_a_policy_is_no_data_set(folder: Path) -> None:
    with pytest.raises(NoPolicyError, match="does not name data set rows"):
        _policy(folder, GOOD).data_set("rows")


def test_a_site_without_a_policy_file_releases_nothing(folder: Path) -> None:
    (folder / "policy.yaml").unlink()
    with pytest.raises(NoPolicyError, match="no release"):
        load_policy(load_site(folder))


@pytest.mark.parametrize(
    ("fault", "place"),
    [
        ('{path: a.csv, epsilon: 3.0, delta: "0"}', "epsilon: write the decimal as text"),
        ('{path: a.csv, epsilon: true, delta: "0"}', "epsilon"),
        ('{path: a.csv, epsilon: "nan", delta: "0"}', "epsilon"),
        ('{path: a.csv, epsilon: "0", delta: "0"}', "epsilon"),
        ('{path: a.csv, epsilon: "-1", delta: "0"}', "epsilon"),
        ('{path: a.csv, epsilon: "1", delta: "1"}', "delta"),
        ('{path: a.csv, epsilon: "1"}', "delta"),
        ('{path: "", epsilon: "1", delta: "0"}', "path"),
        ('{epsilon: "1", delta: "0"}', "give one of path, source"),
        (f"{{path: a.csv, source: {SERVICE}, {BUDGET}}}", "give one of path, source"),
        (f"{{path: a.csv, table: t, {BUDGET}}}", "table and query are for a source"),
        (f"{{source: {SERVICE}, {BUDGET}}}", "give one of table, query"),
        (f"{{source: {{delta: {{path: x}}}}, table: t, {BUDGET}}}", "table and query are for"),
        (f"{{source: {{delta: {{path: x, version: -1}}}}, {BUDGET}}}", "version"),
        (f"{{source: {SERVICE}, table: t, query: q.sql, {BUDGET}}}", "give one of table, query"),
        (f"{{source: {{}}, table: t, {BUDGET}}}", "give one of postgresql, sqlite"),
        (f"{{source: {{mysql: {{service: s}}}}, table: t, {BUDGET}}}", "mysql"),
        (f"{{source: {{sqlite: {{service: s}}}}, table: t, {BUDGET}}}", "sqlite has no services"),
        (f"{{source: {{sqlite: {{uri: {{env: X}}}}}}, table: t, {BUDGET}}}", "sqlite needs it"),
        (f"{{source: {{postgresql: {{path: x.db}}}}, table: t, {BUDGET}}}", "path is for sqlite"),
        ('{path: a.csv, epsilon: "1", delta: "0", extra: 1}', "extra"),
        ('{path: a.csv, epsilon: "1", epsilon: "9", delta: "0"}', "epsilon given twice"),
    ],
)
def test_a_policy_that_is_not_exact_is_refused_by_field(
    folder: Path, fault: str, place: str
) -> None:
    with pytest.raises(SettingError, match=place):
        _policy(folder, f"data_sets:\n  survey: {fault}\n")


@pytest.mark.parametrize("text", ["", "- a\n", "data_sets: {a: 1}\n", "a: [\n", "sets: {}\n"])
def test_a_policy_that_is_no_policy_is_refused(folder: Path, text: str) -> None:
    with pytest.raises(SettingError, match=r"policy\.yaml"):
        _policy(folder, text)


@pytest.mark.parametrize(
    "source",
    [
        "{postgresql: {service: warehouse, password: marked-4711}}",
        "{postgresql: {host: db, user: marked-4711}}",
        '{postgresql: {uri: "postgresql://u:marked-4711@db/x"}}',
        '{postgresql: "postgresql://u:marked-4711@db/x"}',
        '{snowflake: {uri: "u:marked-4711@account"}}',
    ],
)
def test_a_password_in_a_policy_is_refused_and_not_repeated(folder: Path, source: str) -> None:
    with pytest.raises(SettingError, match="holds no password") as refused:
        _policy(folder, f"data_sets:\n  survey: {{source: {source}, table: t, {BUDGET}}}\n")
    assert "marked-4711" not in str(refused.value)


def test_credentials_in_an_address_of_a_store_are_refused_and_not_repeated(folder: Path) -> None:
    with pytest.raises(SettingError, match="may hold no user, password") as refused:
        _policy(folder, GOOD.replace("rows.csv", '"s3://u:marked-4711@bucket/rows"'))
    assert "marked-4711" not in str(refused.value)


def test_a_database_is_a_source_by_service_variable_or_file(folder: Path) -> None:
    (folder / "rows.db").touch()
    sources = {
        "a": "{postgresql: {service: warehouse}}",
        "b": "{postgresql: {uri: {env: DSN}}}",
        "c": "{postgresql: {uri: {file: c.dsn}}}",
        "d": "{sqlite: {path: rows.db}}",
    }
    lines = [f"  {n}: {{source: {s}, table: omop.t, {BUDGET}}}\n" for n, s in sources.items()]
    policy = _policy(folder, "data_sets:\n" + "".join(lines))
    assert [each.source.title for each in policy.data_sets] == [f"{n} (database)" for n in sources]


@pytest.mark.parametrize(
    "source", ["{postgresql: {service: w}}", "{postgresql: {uri: {env: X}}}", "{sqlite: {path: x}}"]
)
def test_two_queries_of_one_database_are_not_two_lifetime_budgets(
    folder: Path, source: str
) -> None:
    lines = [f"  {name}: {{source: {source}, table: {name}, {BUDGET}}}\n" for name in ("a", "b")]
    with pytest.raises(SettingError, match="have the same rows"):
        _policy(folder, "data_sets:\n" + "".join(lines))


def test_versions_of_one_lake_table_are_not_two_lifetime_budgets(folder: Path) -> None:
    lines = [
        f"  v{version}: {{source: {{delta: {{path: lake/x, version: {version}}}}}, {BUDGET}}}\n"
        for version in (0, 1)
    ]
    (found,) = _policy(folder, "data_sets:\n" + lines[0]).data_sets
    assert found.source.title == "v0 (lake)"
    with pytest.raises(SettingError, match="have the same rows"):
        _policy(folder, "data_sets:\n" + "".join(lines))


PEOPLE = """populations:
  patients: {who: Patients since 2010, epsilon: "3.0", delta: "1e-6", was: [old]}
  staff: {who: Who works here, epsilon: "1", delta: "0"}
data_sets:
  survey: {population: patients, path: rows.csv}
"""


def test_data_sets_of_one_population_share_its_budget_and_may_share_a_file(folder: Path) -> None:
    policy = _policy(folder, PEOPLE + "  again: {population: patients, path: ./rows.csv}\n")
    survey, again = (each.account for each in policy.data_sets)
    assert survey.population is again.population
    assert survey.source == again.source
    assert [each.name for each in survey.others] == ["staff"]
    assert survey.population.who == "Patients since 2010"
    assert survey.population.was == ("old",)
    assert survey.population.data_sets == ("survey", "again")


def test_queries_of_one_database_are_of_one_population(folder: Path) -> None:
    lines = [
        f"  {name}: {{population: patients, source: {SERVICE}, table: {name}}}\n" for name in "ab"
    ]
    policy = _policy(folder, PEOPLE + "".join(lines))
    one, other = (policy.data_set(name).account.source for name in "ab")
    assert one == other != policy.data_set("survey").account.source


def test_two_populations_may_read_one_source_and_both_know_it(folder: Path) -> None:
    policy = _policy(folder, PEOPLE + "  work: {population: staff, path: ./rows.csv}\n")
    patients, staff = policy.populations
    assert patients.sources & staff.sources


def test_a_file_with_a_budget_of_its_own_is_in_no_population_too(folder: Path) -> None:
    with pytest.raises(SettingError, match="have the same rows") as refused:
        _policy(folder, PEOPLE + f"  own: {{path: rows.csv, {BUDGET}}}\n")
    assert "let both draw on it (population: NAME)" in str(refused.value)


def test_a_site_that_is_moved_as_a_whole_keeps_its_sources(folder: Path) -> None:
    (folder / "rows.csv").write_text("x\n1\n")
    before = _policy(folder, PEOPLE).data_set("survey").account
    folder.rename(folder.with_name("moved"))
    assert load_policy(load_site(folder.with_name("moved"))).data_set("survey").account == before


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (PEOPLE.replace("population: patients", "population: clients"), "clients is not stated"),
        (PEOPLE.replace("path:", f"{BUDGET}, path:"), "give population or epsilon and delta, not"),
        (PEOPLE.replace("population: patients,", ""), "name the population whose rows"),
        (PEOPLE + f"  staff: {{path: a.csv, {BUDGET}}}\n", "staff has the name of a population"),
        (PEOPLE + "  staff: {population: patients, path: a.csv}\n", "Rename one of them"),
        (PEOPLE.replace("staff:", "patients:"), "patients given twice"),
        (PEOPLE.replace("was: [old]", "was: [staff]"), r"was names staff.*populations\.staff"),
        (PEOPLE.replace("was: [old]", "was: [patients]"), "was names patients"),
        (PEOPLE.replace("here,", "here, was: [old],"), r"was names old.*populations\.patients"),
        (PEOPLE + f"  old: {{path: a.csv, {BUDGET}}}\n", r"was names old.*data_sets\.old"),
        (PEOPLE.replace("was: [old]", "was: []"), r"populations\.patients\.was"),
        (PEOPLE.replace("who: Who works here, ", ""), r"populations\.staff\.who"),
        (PEOPLE.replace("Who works here", '" "'), "in one line of text"),
        (PEOPLE.replace("Who works here", r'"Two\nlines"'), "in one line of text"),
        (PEOPLE.replace('"3.0"', "3.0"), r"populations\.patients\.epsilon: write the decimal"),
        (PEOPLE.replace('"3.0"', '"0"'), r"populations\.patients: "),
        (PEOPLE.replace("patients", "The Patients"), r"populations\.The Patients"),
    ],
)
def test_a_population_that_is_not_stated_once_is_refused(
    folder: Path, text: str, place: str
) -> None:
    with pytest.raises(SettingError, match=place):
        _policy(folder, text)


def test_a_data_set_may_have_the_name_of_its_own_population_or_of_a_former_one(
    folder: Path,
) -> None:
    policy = _policy(folder, PEOPLE.replace("survey:", "old:"))
    assert policy.data_set("old").account.population.name == "patients"
    policy = _policy(folder, PEOPLE.replace("survey:", "patients:"))
    assert policy.data_set("patients").account.population.name == "patients"
