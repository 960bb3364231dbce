"""All limits stand on one page, by room, and each says why it is so."""

import pytest

from tools.limits import Limit, list_limits, page

LIMITS = list_limits()


@pytest.mark.parametrize("limit", LIMITS, ids=lambda each: f"{each.module}-{each.name}")
def test_each_limit_has_a_reason_and_stands_on_the_page(limit: Limit) -> None:
    assert limit.reason
    assert f"| `{limit.name}` | `{limit.module}` | {limit.value} |" in page()


def test_a_limit_is_shown_as_a_number_and_several_of_one_line_each() -> None:
    shown = {(each.module, each.name): each.value for each in LIMITS}
    assert shown["common/kernel/schema/document", "MAX_COLUMNS"] == "8,192"
    assert shown["common/kernel/documents/stated_fields", "MAX_UNIT"] == "32"
    assert shown["common/kernel/privacy/noise/sampler", "LARGEST_SIGMA_SQUARED"] == (
        "`LARGEST_SCALE ** 2`"
    )
