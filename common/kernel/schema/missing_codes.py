"""Codes that a schema lists for missing values: how they are checked and found.

An attribute's own list takes the place of the schema's. A cell is a code by its own text or number
alone, whatever the format (`dppca.common.kernel.schema.columns`): numbers and days by their value,
others as labels are found.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.schema.attributes import (
    Attribute,
    Date,
    MissingValues,
    Numeric,
    list_labels,
)
from dppca.common.kernel.schema.texts import (
    day_of_text,
    label_finder,
    labels_of_one_number,
    number_of_text,
)


def codes_of(attribute: Attribute) -> tuple[str, ...]:
    """Return the codes for missing of an attribute of a schema, as texts."""
    return tuple(code for code, _ in attribute.missing_values or ())


@lru_cache(maxsize=256)
def number_codes(attribute: Numeric) -> NDArray[np.float64]:
    """Return the codes that are values of a number or date, shape (n,); read-only."""
    values = np.array([value_of(attribute, code) for code in codes_of(attribute)], np.float64)
    values = values[np.isfinite(values)]
    values.flags.writeable = False
    return values


def resolve_codes(attribute: Attribute, codes: MissingValues) -> Attribute:
    """Return the attribute with the schema's codes, unless it has its own.

    Raise `ValueError` if one code is a label or a spike, or two are the same.
    """
    if attribute.missing_values is None and codes:
        attribute = attribute.model_copy(update={"missing_values": codes})
    named = codes_of(attribute)
    if not named:
        return attribute
    if same := labels_of_one_number(named):
        both = " and ".join(same[0])
        raise ValueError(f"missing_values of {attribute.name}: {both} are one number, list it once")
    find = label_finder(list_labels(attribute) or ())
    spikes = (isinstance(attribute, Numeric) and attribute.spikes) or ()
    for code in named:
        if find(code) is not None or number_of_text(code) in spikes:
            raise ValueError(
                f"missing_values of {attribute.name}: {code} is also one of its labels or spikes; "
                "a value either means something or is missing"
            )
    return attribute


def value_of(attribute: Numeric, text: str) -> float:
    """Return the number or day of a text, as a cell of an attribute without labels has it."""
    return day_of_text(text) if isinstance(attribute, Date) else number_of_text(text)
