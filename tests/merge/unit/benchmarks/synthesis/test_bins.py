"""Trials of the rule for bins: its tables, its forms, and what counts as worse."""

import numpy as np

from benchmarks.synthesis.bins import (
    FIGURES,
    HISTOGRAMS,
    ONE,
    RULE,
    TWENTY,
    BinsTrial,
    list_trials,
    schema_document,
    summarize,
)
from benchmarks.synthesis.made import curved, rare, tiers


def test_made_tables_are_what_they_say() -> None:
    for make, share in ((curved, (0.2, 0.4)), (rare, (0.01, 0.04))):
        found, other = make(5, 4000), make(6, 4000)
        assert share[0] < found.columns[-1].mean() < share[1]
        assert not np.array_equal(found.columns[0], other.columns[0])
        again = make(5, 4000).columns
        assert all(np.array_equal(*pair) for pair in zip(again, found.columns, strict=True))
    labels = np.column_stack(tiers(5, 20_000).columns)
    assert len(np.unique(labels, axis=0)) == len(np.unique(labels[:, :-1], axis=0))


def test_forms_differ_in_their_numbers_alone() -> None:
    kinds = {
        form: [
            (each.get("products"), each.get("histogram"), each.get("bins"))
            for each in schema_document("rare-1", form, "3")["attributes"]
            if each["type"] == "numeric"
        ]
        for form in (HISTOGRAMS, TWENTY, RULE)
    }
    assert set(kinds[HISTOGRAMS]) == {(None, True, None)}
    assert {each[::2] for each in kinds[TWENTY]} == {("bins", 20)}
    assert {each[::2] for each in kinds[RULE]} == {("bins", 20)}


def test_worse_is_said_of_the_same_splits_beyond_the_error() -> None:
    def run(form: str, split: int, auc: float) -> dict[str, object]:
        trial = BinsTrial("x", form, ONE, "1", 1, split)
        return {**{name: getattr(trial, name) for name in BinsTrial.__slots__}} | {
            **dict.fromkeys(FIGURES, 0.5),
            "auc": auc,
        }

    rivals = [run(form, split, 0.6) for form in (HISTOGRAMS, TWENTY) for split in (0, 1)]
    far = [run(HISTOGRAMS, 2, 0.99)]
    level, worse = (
        summarize([*rivals, *far, *(run(RULE, split, 0.6 - less) for split in (0, 1))])[-1]
        for less in (0.0, 0.01)
    )
    assert level["worse"] == []
    assert worse["worse"] == [f"auc than {form} by 0.0100" for form in (HISTOGRAMS, TWENTY)]


def test_every_trial_has_its_own_key() -> None:
    keys = [trial.key for trial in list_trials()]
    assert len(keys) == len(set(keys))
