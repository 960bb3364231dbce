import os
import re
import traceback
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from dppca.common.kernel.errors import BudgetExceededError, NoPolicyError, SettingError
from dppca.common.kernel.privacy.accounting import Budget
from dppca.common.kernel.privacy.promises import Promise
from dppca.owner.ledger.chain import admit_charge
from dppca.owner.ledger.entries import ReleaseRequest, Reservation
from dppca.owner.ledger.populations import Account
from dppca.owner.records.file_locations import local_files
from dppca.owner.site.config import load_site
from dppca.owner.site.enrolment import enrol
from dppca.owner.site.policy import Policy, load_policy
from tests.support.checkout import ROOT
from tests.support.ledgers import history_of, request_of
from tests.support.sites import policy_text
from tests.support.studies import make_study

SERVICE = "{postgresql: {service: warehouse}}"
GOOD = policy_text({"survey": "path: rows.csv"}, budget='epsilon: "3.0", delta: "1e-9"')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    enrol(tmp_path / "site", name="owner-1", curator="hub.example:7443")
    return tmp_path / "site"


def _policy(folder: Path, text: str) -> Policy:
    (folder / "policy.yaml").write_text(text)
    return load_policy(load_site(folder))


def test_a_policy_names_data_sets_with_exact_budgets(folder: Path) -> None:
    policy = _policy(folder, GOOD)
    found = policy.data_set("survey")
    assert found.account.population.name == "people"
    assert found.account.population.budget == Budget(Decimal("3.0"), Decimal("1e-9"))
    assert policy.populations == (found.account.population,)
    assert found.source == local_files(folder.resolve() / "rows.csv")


@pytest.mark.parametrize(
    ("said", "promise"),
    [
        ("", Promise.ROWS_REPLACED),
        (", unit: row, neighbours: replaced", Promise.ROWS_REPLACED),
        (", unit: person", Promise.PEOPLE_REPLACED),
        (", neighbours: added", Promise.PEOPLE_ADDED),
        (", unit: person, neighbours: added", Promise.PEOPLE_ADDED),
    ],
)
def test_a_budget_says_what_it_promises(folder: Path, said: str, promise: Promise) -> None:
    text = policy_text({"survey": "path: rows.csv"}, budget=f'epsilon: "3", delta: "0"{said}')
    assert _policy(folder, text).populations[0].promise is promise


def test_a_budget_of_people_counts_them_by_one_column(folder: Path) -> None:
    budget = 'epsilon: "3", delta: "0", unit: person'
    keys = {"survey": "path: rows.csv, key: pid", "other": "path: b.csv, key: PID"}
    with pytest.raises(SettingError, match="different keys: pid of survey, PID of other"):
        _policy(folder, policy_text(keys, budget=budget))
    one = policy_text(keys | {"other": "path: b.csv, key: pid"}, budget=budget)
    found = _policy(folder, one).data_set("other").account
    assert (found.key, found.population.counts_people) == ("pid", True)
    without = _policy(folder, policy_text(keys)).data_set("other").account
    assert (without.key, without.population.counts_people) == ("PID", False)
    hidden = 'epsilon: "3", delta: "0", unit: person, neighbours: added'
    added = _policy(folder, policy_text({"survey": "path: rows.csv"}, budget=hidden))
    assert added.populations[0].counts_people


def test_one_hot_columns_change_neither_the_place_nor_the_name_of_the_rows(folder: Path) -> None:
    one_hot = "one_hot: {region: {reg_n: north, reg_s: south}}"
    policy = _policy(folder, policy_text({"survey": f"path: rows.csv, {one_hot}"}))
    files, source = local_files(folder.resolve() / "rows.csv"), policy.data_set("survey").source
    assert (source.title, source.place) == (files.title, files.place)


def test_a_data_set_is_the_one_that_is_named_or_the_only_one(folder: Path) -> None:
    with pytest.raises(NoPolicyError, match="without a policy nothing is released"):
        load_policy(load_site(folder)).data_set(None)
    policy = _policy(folder, GOOD)
    assert policy.data_set(None) == policy.data_set("survey")
    with pytest.raises(NoPolicyError, match="does not name data set rows"):
        policy.data_set("rows")
    two = _policy(folder, policy_text({"survey": "path: rows.csv", "other": "path: b.csv"}))
    with pytest.raises(SettingError, match=r"survey, other\): choose with --data-set"):
        two.data_set(None)
    (folder / "policy.yaml").unlink()
    with pytest.raises(NoPolicyError, match="nothing is released"):
        load_policy(load_site(folder))


def test_what_the_readme_prints_can_be_pasted_under_what_init_wrote(folder: Path) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
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


def test_two_files_are_two_data_sets_and_one_replaced_stays_what_it_was(folder: Path) -> None:
    for name in ("rows.csv", "b.csv"):
        (folder / name).write_text("x\n1\n")
    text = policy_text({"survey": "path: rows.csv", "other": "path: b.csv"})
    before = _policy(folder, text)
    (folder / "new.csv").write_text("x\n2\n")
    (folder / "new.csv").replace(folder / "rows.csv")
    assert _policy(folder, text) == before


@pytest.mark.parametrize(
    ("fault", "place"),
    [
        ('epsilon: 3.0, delta: "0"', "populations.people.epsilon: write the decimal as text"),
        ('epsilon: true, delta: "0"', "epsilon"),
        ('epsilon: "nan", delta: "0"', "epsilon"),
        ('epsilon: "0", delta: "0"', r"populations\.people: epsilon"),
        ('epsilon: "-1", delta: "0"', "epsilon"),
        ('epsilon: "1", delta: "1"', "delta"),
        ('epsilon: "1"', "delta is missing"),
        ('epsilon: "1", epsilon: "9", delta: "0"', "epsilon given twice"),
    ],
)
def test_a_budget_that_is_not_exact_is_refused_by_field(
    folder: Path, fault: str, place: str
) -> None:
    with pytest.raises(SettingError, match=place):
        _policy(folder, policy_text({"survey": "path: a.csv"}, budget=fault))


@pytest.mark.parametrize(
    ("fault", "place"),
    [
        ('path: ""', "path"),
        (r'path: "a\0b"', "path"),
        ("key: id", "give one of path, source"),
        (f"path: a.csv, source: {SERVICE}", "give one of path, source"),
        ("path: a.csv, table: t", "table and query are for a source"),
        (f"source: {SERVICE}", "give one of table, query"),
        ("source: {delta: {path: x}}, table: t", "table and query are for"),
        ("source: {delta: {path: x, version: -1}}", "version"),
        (f"source: {SERVICE}, table: t, query: q.sql", "give one of table, query"),
        ("source: {}, table: t", "give one of postgresql, sqlite"),
        ("source: {mysql: {service: s}}, table: t", "mysql"),
        ("source: {sqlite: {service: s}}, table: t", "`service` is not a field"),
        ("source: {sqlite: {uri: {env: X}}}, table: t", "path is missing"),
        ("source: {postgresql: {path: x.db}}, table: t", "`path` is not a field"),
        ("source: {sqlite: {path: x}}, table: t, format: {}", "format is for path"),
        ("path: a.csv, format: {missing: [-99]}", "which numbers mean missing is the study's"),
        ("path: a.csv, format: {missing: [null]}", 'write words as text, such as "null"'),
        ("path: a.csv, format: {quote: x}", "`quote` is not a field"),
        ("path: a.csv, one_hot: {a: {x: n}}", "joins two columns or more"),
        ("path: a.csv, one_hot: {a: {x: n, y: n}}", "with a label of its own"),
        ("path: a.csv, one_hot: {a: {x: n, y: s}, b: {x: n, z: s}}", "each column into one"),
        (f"source: {SERVICE}, table: t, one_hot: {{a: {{x: n, y: s}}}}", "one_hot is for path"),
        ("path: a.csv, extra: 1", "extra"),
    ],
)
def test_a_data_set_that_is_not_exact_is_refused_by_field(
    folder: Path, fault: str, place: str
) -> None:
    with pytest.raises(SettingError, match=place):
        _policy(folder, policy_text({"survey": fault}))


@pytest.mark.parametrize("text", ["", "- a\n", "data_sets: {a: 1}\n", "a: [\n", "sets: {}\n"])
def test_a_policy_that_is_no_policy_is_refused(folder: Path, text: str) -> None:
    with pytest.raises(SettingError, match=r"policy\.yaml"):
        _policy(folder, text)


NO_PASSWORD, NO_BLANK = "holds no password", "put a colon and a space after `"
SECRET_SOURCES = {
    "{postgresql: {service: warehouse, password: marked-4711}}": NO_PASSWORD,
    "{postgresql: {host: db, user: marked-4711}}": NO_PASSWORD,
    '{postgresql: {uri: "postgresql://u:marked-4711@db/x"}}': NO_PASSWORD,
    '{postgresql: "postgresql://u:marked-4711@db/x"}': NO_PASSWORD,
    '{postgresql: {uri: {file: "postgresql://u:marked-4711@db/x"}}}': NO_PASSWORD,
    '{postgresql: {uri: {file: "host=db password=marked-4711"}}}': NO_PASSWORD,
    '{postgresql: {uri: {file: "/u:marked-4711@db"}}}': NO_PASSWORD,
    '{postgresql: {service: "host=db password=marked-4711"}}': NO_PASSWORD,
    '{postgresql: {service: "postgresql://marked-4711@db/x"}}': NO_PASSWORD,
    '{sqlite: {path: "rows.db?Password = marked-4711"}}': NO_PASSWORD,
    '{snowflake: {uri: "u:marked-4711@account"}}': "snowflake",
    # Without a blank, YAML takes all of it for a key.
    "{postgresql: {service: warehouse, password:marked-4711}}": NO_BLANK,
    "{postgresql: {service: warehouse, password=marked-4711: x}}": NO_BLANK,
    "{postgresql: {uri:postgresql://u:marked-4711@db/x}}": NO_BLANK,
    "{postgresql: {uri: {env:marked-4711}}}": NO_BLANK,
    "{postgresql://u:marked-4711@db/x}": NO_BLANK,
}
SECRETS = {
    **{("survey", f"source: {source}, table: t"): w for source, w in SECRET_SOURCES.items()},
    ("survey", 'path: "host=db password=marked-4711"'): NO_PASSWORD,
    ("survey", 'path: "s3:/u:marked-4711@bucket/rows"'): NO_PASSWORD,
    ("survey", 'path: "s3://u:marked-4711@bucket/rows"'): "may hold no user, password",
    ("survey", 'path: "s3://b/rows?endpoint_override=u%3Amarked-4711%40host"'): (
        "may hold no user, password"
    ),
    ("survey:u:marked-4711@db", "path: x"): r"data_sets\.survey: a name has 1 to 64",
    ("survey", f"source: {SERVICE}, query: 'Select marked-4711 FROM rows'"): (
        "names the file of a query"
    ),
}


@pytest.mark.parametrize(("data_set", "says"), SECRETS.items())
def test_a_secret_in_a_policy_is_refused_and_not_repeated(
    folder: Path, data_set: tuple[str, str], says: str
) -> None:
    with pytest.raises(SettingError, match=says) as refused:
        _policy(folder, policy_text(dict([data_set])))
    assert "marked-4711" not in "".join(traceback.format_exception(refused.value))


def test_a_database_is_a_source_by_service_variable_or_file(folder: Path) -> None:
    (folder / "rows.db").touch()
    sources = {
        "a": "{postgresql: {service: warehouse}}",
        "b": "{postgresql: {uri: {env: DSN}}}",
        "c": "{postgresql: {uri: {file: c.dsn}}}",
        "d": "{sqlite: {path: rows.db}}",
    }
    sets = {name: f"source: {source}, table: omop.t" for name, source in sources.items()}
    policy = _policy(folder, policy_text(sets))
    assert [each.source.title for each in policy.data_sets] == [f"{n} (database)" for n in sources]


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
    assert survey.population.formerly == ("old",)
    assert survey.population.data_sets == ("survey", "again")


TABLE = "source: {sqlite: {path: %s}}, table: t"
DELTA = "source: {delta: {path: %s}}"
ONE_PLACE = {
    "a file in two spellings": ("path: rows.csv", "path: ./x/../rows.csv"),
    "a symbolic link": ("path: rows.csv", "path: soft.csv"),
    "a hard link": ("path: rows.csv", "path: hard.csv"),
    "a file in a linked folder": ("path: lake", "path: linked/a.parquet"),
    "two tables of a database": (
        "source: {postgresql: {uri: {env: X}}}, table: a",
        "source: {postgresql: {uri: {env: X}}}, table: b",
    ),
    "a database by a link": (TABLE % "rows.csv", TABLE % "hard.csv"),
    "a lake and a pattern of its files": (DELTA % "lake", "path: lake/*.parquet"),
    "two versions of a lake": (DELTA % "lake", "source: {delta: {path: lake, version: 0}}"),
    "a store with the escape of a slash": ('path: "s3://b/x/y"', 'path: "s3://b/x%2Fy"'),
    "a pattern over a lake of a store": ('path: "s3://b/*/data/*"', DELTA % '"s3://b/x"'),
    "a lake of a store and its files": (DELTA % '"s3://b/x"', 'path: "s3://b/x/*.parquet"'),
}
"""What shares rows as addresses of files do is in `records/test_locations`."""


@pytest.mark.parametrize("places", ONE_PLACE.values(), ids=list(ONE_PLACE))
@pytest.mark.parametrize("first", [0, 1])
def test_one_place_has_no_second_budget_in_another_population(
    folder: Path, places: tuple[str, str], first: int
) -> None:
    (folder / "lake" / "_delta_log").mkdir(parents=True)
    (folder / "rows.csv").touch()
    (folder / "lake" / "a.parquet").touch()
    os.link(folder / "rows.csv", folder / "hard.csv")
    (folder / "soft.csv").symlink_to("rows.csv")
    (folder / "linked").symlink_to("lake")
    if "path: lake" in places:
        (folder / "lake" / "_delta_log").rmdir()
    sets = [
        f"  {name}: {{population: {name}, {place}}}\n"
        for name, place in zip("pq", places, strict=True)
    ]
    people = "populations:\n" + "".join(
        f'  {name}: {{who: people, epsilon: "3.0", delta: "0"}}\n' for name in "pq"
    )
    policy = _policy(folder, people + "data_sets:\n" + "".join(sets))
    one, other = (policy.data_sets[n].account for n in (first, 1 - first))
    charged = history_of(Reservation(0, "", bytes(16), _charge(1, one)))
    with pytest.raises(BudgetExceededError):
        admit_charge(charged, _charge(2, other))


def _charge(number: int, account: Account) -> ReleaseRequest:
    return replace(
        request_of(make_study("small", name=f"s-{number}", epsilon="3")), account=account
    )


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (PEOPLE.replace("population: patients", "population: clients"), "clients is not stated"),
        (PEOPLE.replace("path:", 'epsilon: "1", path:'), r"survey: `epsilon` is not a field"),
        (PEOPLE.replace("population: patients,", ""), "survey: population is missing"),
        (PEOPLE + "  staff: {population: patients, path: a.csv}\n", "Rename one of them"),
        (PEOPLE.replace("staff:", "patients:"), "patients given twice"),
        (PEOPLE.replace("was: [old]", "was: [staff]"), r"was names staff.*populations\.staff"),
        (PEOPLE.replace("was: [old]", "was: [patients]"), "was names patients"),
        (PEOPLE.replace("here,", "here, was: [old],"), r"was names old.*populations\.patients"),
        (
            PEOPLE + "  old: {population: staff, path: a.csv}\n",
            r"was names old.*populations\.staff",
        ),
        (PEOPLE.replace("was: [old]", "was: []"), r"populations\.patients\.was"),
        (PEOPLE.replace("who: Who works here, ", ""), r"populations\.staff: who is missing"),
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


VALIDATORS = re.compile(r"(Input|String) should|Extra inputs|Field required|Value error|pydantic")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("populatoins: {}\n", "line 1, policy.yaml: .*mean `populations`?"),
        (
            "populations:\n  all: {who: All, epsilom: '1', delta: '0'}\n",
            "line 2, populations.all: .*mean `epsilon`?",
        ),
        (
            "data_sets:\n  source: {source: {postgresql: {servise: x}}, population: all}\n",
            "line 2, data_sets.source.source.postgresql: .*mean `service`?",
        ),
        (
            "data_sets:\n  survey: {source: {postgresql: {uri: {env: 1-A}}}, population: all}\n",
            "postgresql.uri.env: has characters that are not allowed there",
        ),
        ("data_sets:\n  1: {path: a.csv, population: all}\n", "data_sets.1: must be text"),
        ("data_sets: !secret {}\n", "policy.yaml is not YAML: line 1"),
    ],
)
def test_a_fault_of_a_policy_is_said_in_our_words_with_its_line(
    folder: Path, text: str, says: str
) -> None:
    with pytest.raises(SettingError) as refused:
        _policy(folder, text)
    said = str(refused.value)
    assert re.search(says, said), said
    assert not VALIDATORS.search(said), said
