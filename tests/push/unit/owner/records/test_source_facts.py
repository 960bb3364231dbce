"""A fact says by itself how files join it, and nothing that passes it on names it."""

from dataclasses import dataclass, field, fields

from dppca.common.kernel.documents.values import to_document
from dppca.owner.records.faults import CheckReport
from dppca.owner.records.source_facts import FaultCount, LineFault, ShownFacts, SourceFacts

KEYS = (
    "rows limit attributes malformed_rows extra_columns target files relation weight key repeating "
    "mapping refuse_if_above label warning faultless above"
)


def test_every_fact_says_how_it_joins() -> None:
    assert all("join" in each.metadata for each in fields(SourceFacts))


def test_facts_of_files_are_joined_each_in_its_way() -> None:
    first = SourceFacts(
        malformed={LineFault.FIELDS: FaultCount(2, (1, 3))},
        unknown=frozenset({"a"}),
        value_labels={"sex": {"male": "1", "female": "2"}},
    )
    second = SourceFacts(
        malformed={LineFault.FIELDS: FaultCount(1, (1,)), LineFault.ENCODING: FaultCount(1, (2,))},
        unknown=frozenset({"b"}),
        value_labels={"sex": {"male": "0"}, "town": {"Ulm": "7"}},
        weight="w",
    )
    assert SourceFacts.joined([first, second, SourceFacts(weight="late")], [0, 10, 14]) == (
        SourceFacts(
            malformed={
                LineFault.FIELDS: FaultCount(3, (1, 3, 11)),
                LineFault.ENCODING: FaultCount(1, (12,)),
            },
            unknown=frozenset({"a", "b"}),
            value_labels={"sex": {"male": "1 or 0", "female": "2"}, "town": {"Ulm": "7"}},
            weight="w",
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreFacts(SourceFacts):
    """With a fact that nobody else knows of."""

    pages: int = field(default=0, metadata={"join": lambda found, _: sum(found)})


def test_one_more_fact_is_joined_by_its_own_rule() -> None:
    joined = MoreFacts.joined([MoreFacts(pages=2), MoreFacts(pages=3, weight="w")], [0, 1])
    assert joined == MoreFacts(pages=5, weight="w")


def test_only_what_is_shown_becomes_a_key_and_a_line() -> None:
    facts = SourceFacts(relation="public.t", weight="w", unknown=frozenset({"a"}))
    assert facts.shown() == {"relation": "public.t", "weight": "w"}
    assert facts.fact_lines() == [
        "of the table public.t",
        "SPSS weights the rows of this file by w; here every row counts once",
    ]
    assert ShownFacts().fact_lines() == []


def test_the_keys_of_a_check_keep_their_order() -> None:
    assert [*to_document(CheckReport(1, 0, {}, {}, ()))] == KEYS.split()
