"""What a study asks for, in a steward's words: each number that leaves is of a kind named."""

from typing import Any

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from dppca.common.kernel.errors import DppcaError
from dppca.common.kernel.moments.accumulation import MomentSums
from dppca.common.kernel.moments.people import PeopleSums
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.release import calibrate, draw
from dppca.common.kernel.schema import Schema
from dppca.common.kernel.study import Study
from dppca.owner.render.asked import describe_entries, entries_text
from tests.support.examples import examples
from tests.support.missing_numbers import draw_schema
from tests.support.partitions import partitions
from tests.support.studies import CENSUS, Attributes, make_study, numeric_of

SHAPED = [numeric_of("pay", 0, 50, histogram=True, bins=4), *CENSUS]
BALL = [{"name": name, "type": "numeric", "centre": 0, "scale": 1} for name in "xy"]
TABLE = [{"table": ["sex", "work"]}]
CONTINUES = {"continues": {"study": "0" * 64, "result": "1" * 64}, "components": None}
PERSON: dict[str, Any] = {"unit": "person", "max_rows_per_person": None}
SUMS, PRODUCTS = "sums of coded columns", "sums of their squares and of products of two"
OF_HISTOGRAMS, OF_TABLES = "in cells of histograms", "in cells of tables and trees"
ROWS, PEOPLE = "counts of rows", "weights of people"


@pytest.mark.parametrize(
    ("attributes", "settings", "kinds"),
    [
        (CENSUS, {}, [SUMS, PRODUCTS]),
        (SHAPED, {}, [SUMS, PRODUCTS, f"{ROWS} {OF_HISTOGRAMS}"]),
        (CENSUS, {"tables": TABLE}, [SUMS, PRODUCTS, f"{ROWS} {OF_TABLES}"]),
        (
            SHAPED,
            {"tables": TABLE, "targets": ["sex"]},
            [SUMS, PRODUCTS, f"{ROWS} {OF_HISTOGRAMS}", f"{ROWS} {OF_TABLES}"],
        ),
        (CENSUS, {"tables": TABLE, "only_tables": True, **CONTINUES}, [f"{ROWS} {OF_TABLES}"]),
        (BALL, {"row_norm": {"include_sums": False}}, [PRODUCTS]),
        (CENSUS, {"neighbours": "added"}, [SUMS, PRODUCTS, "number of all rows"]),
        (SHAPED, PERSON, [SUMS, PRODUCTS, f"{PEOPLE} {OF_HISTOGRAMS}"]),
        (
            CENSUS,
            {**PERSON, "tables": TABLE, "neighbours": "added"},
            [SUMS, PRODUCTS, f"{PEOPLE} {OF_TABLES}", "number of all people"],
        ),
        (
            CENSUS,
            {**PERSON, "rows_counted": 3},
            [SUMS, PRODUCTS, "number of all weighted rows"],
        ),
        (CENSUS, {"mechanism": "matrix-laplace"}, [SUMS, PRODUCTS]),
    ],
)
def test_every_kind_of_number_that_leaves_is_said_with_its_count(
    attributes: Attributes, settings: dict[str, object], kinds: list[str]
) -> None:
    study = make_study(attributes, **settings)
    found = describe_entries(study)
    assert [each.what for each in found] == kinds
    assert sum(each.count for each in found) == study.table.layout.n_entries
    assert all(f"{each.count:,} {each.what}" in entries_text(found) for each in found)


@st.composite
def studies(draw: st.DrawFn) -> Study | None:
    """A study of any coding, unit, relation and noise; None where these do not go together."""
    schema: Schema | None = draw_schema(np.random.default_rng(draw(st.integers(0, 2**32 - 1))))
    if schema is None:
        return None
    document = schema.model_dump(mode="json") | {"resolution_bits": 10}
    if not document.get("tables") and draw(st.booleans()):
        document["tables"] = draw(partitions(document))
    document["max_rows_per_person"] = 1
    if draw(st.booleans()):
        del document["max_rows_per_person"]
        document |= {"unit": "person", "rows_counted": draw(st.sampled_from([1, 3]))}
    document["neighbours"] = draw(st.sampled_from(["replaced", "added"]))
    mechanism = draw(st.sampled_from(["laplace", "gaussian", "matrix-laplace"]))
    delta = {"delta": "1e-9"} if mechanism == "gaussian" else {}
    document["sum_weight"] = max(document["sum_weight"], 0.5)
    asked: dict[str, Any] = {"components": {"count": 1}}
    if document.get("tables") and draw(st.booleans()):
        document["only_tables"], asked = True, CONTINUES
    try:
        return make_study([], schema=document, mechanism=mechanism, **delta, **asked)
    except DppcaError:
        return None


@settings(max_examples=examples(150), deadline=None)
@given(studies())
def test_the_counts_of_any_study_add_up_to_what_its_release_holds(study: Study | None) -> None:
    """Its release is drawn, of no row."""
    if study is None:
        return
    schema = study.table
    event(f"{schema.unit.value}, {schema.neighbours.value}, {study.privacy.mechanism}")
    event(f"tables {len(schema.tables) > 0}, alone {schema.only_tables}")
    found = {each.what: each.count for each in describe_entries(study)}
    assert all(count > 0 for count in found.values())
    people = PeopleSums(schema).total({}) if schema.counted_of_person else None
    release = draw(
        study,
        calibrate(study),
        people or MomentSums(schema).total(),
        release_id=bytes(16),
        ledger_sequence=1,
        entropy=SeededEntropy(1),
    )
    assert sum(found.values()) == len(release.packed)
    counted = PEOPLE if schema.counted_of_person else ROWS
    cells = sum(each.n_cells for each in schema.partitions)
    assert found.get(f"{counted} {OF_TABLES}", 0) == cells
    secret = schema.has_secret_rows and not schema.only_tables
    assert found.get(f"number of all {study.unit.counts}", 0) == secret
