"""Codes of a study for missing values, in words for people."""

from collections.abc import Iterable, Sequence

from dppca.common.kernel.schema.attributes import Attribute, MissingValues


def describe_missing(attributes: Sequence[Attribute]) -> tuple[str, ...]:
    """Return the codes in words, a text for each group of attributes that have the same."""
    groups: dict[MissingValues, list[str]] = {}
    for attribute in attributes:
        groups.setdefault(attribute.missing_values or (), []).append(attribute.name)
    return tuple(
        f"{', '.join(describe_codes(codes))}: "
        f"{'all attributes' if len(names) == len(attributes) else ', '.join(names)}"
        for codes, names in groups.items()
        if codes
    )


def describe_codes(codes: Iterable[tuple[str, str]]) -> list[str]:
    """Return each code with its words, such as ``-99 (refused)``."""
    return [f"{code} ({words})" if words else code for code, words in codes]
