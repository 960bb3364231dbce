"""A regression in one line: ``ill ~ age + sex + sex:smoking``, or its names one by one.

``a:b`` is the product of two regressors, ``a*b`` is ``a + b + a:b``. Names are those of the study,
with blanks around them left out; whoever has ``~``, ``+``, ``*`` or ``:`` in a name gives names one
by one, where a product is a pair.
"""

from __future__ import annotations

from collections.abc import Sequence

from dppca.common.kernel.errors import SettingError

Term = tuple[str, ...]
"""A regressor, or the product of two."""


def read_formula(y: str, x: Sequence[str | Term] | None) -> tuple[str, tuple[Term, ...]]:
    """Return outcome and terms, each once; `SettingError` for what is no formula."""
    if x is not None:
        terms = [(each,) if isinstance(each, str) else tuple(each) for each in x]
    else:
        outcome, mark, right = y.partition("~")
        if not mark or not outcome.strip() or not right.strip() or "~" in right:
            raise SettingError(
                f"{y} is no formula: write OUTCOME ~ NAME + NAME, or give the names one by one"
            )
        y, terms = outcome.strip(), [term for part in right.split("+") for term in _terms(part)]
    if wrong := [each for each in terms if not 1 <= len(each) <= 2 or not all(each)]:
        raise SettingError(f"{':'.join(wrong[0])} is no term: it has one name, or two as NAME:NAME")
    return y, tuple(dict.fromkeys(terms))


def _terms(part: str) -> list[Term]:
    names = tuple(each.strip() for each in part.split("*"))
    if len(names) == 1:
        return [tuple(each.strip() for each in part.split(":"))]
    if len(names) == 2:
        return [(names[0],), (names[1],), names]
    return [names]
