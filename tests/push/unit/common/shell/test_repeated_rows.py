"""Which names of columns say that a person may have several rows."""

import pytest

from dppca.common.shell.repeated_rows import find_repeating


@pytest.mark.parametrize(
    "name",
    [
        *("redcap_event_name", "redcap_repeat_instrument", "redcap_repeat_instance"),
        *("visit", "VISITNUM", "visit_date", "Encounter ID", "wave", "hadm_id", "stay_id"),
        *("timepoint", "event_name", "visit_occurrence_id", "Follow-up no.", "session_id"),
    ],
)
def test_such_a_column_is_found_by_its_name(name: str) -> None:
    assert find_repeating(["record_id", name, "age"]) == (name,)


def test_other_columns_are_not() -> None:
    names = ["event", "n_visits", "visits_per_year", "redcap_survey_identifier", "wavelength"]
    assert find_repeating([*names, "repeated", "stay", "admission_type", ""]) == ()
