"""Numbers of things in a sentence agree with what they count."""

import pytest

from dppca.common.kernel.documents.counts import many


@pytest.mark.parametrize(
    ("number", "things", "said"),
    [
        (0, "rows", "0 rows"),
        (1, "rows", "1 row"),
        (2, "rows", "2 rows"),
        (1, "people", "1 person"),
        (3, "people", "3 people"),
        (1, "weighted rows", "1 weighted row"),
        (1, "entries", "1 entry"),
        (1, "studies", "1 study"),
    ],
)
def test_a_number_agrees_with_what_it_counts(number: int, things: str, said: str) -> None:
    assert many(number, things) == said


def test_a_form_of_the_number_may_be_given() -> None:
    assert many(2000, "rows", ",") == "2,000 rows"
