"""Attributes: one column of a table, with what is public about it.

An attribute says which values can occur, agreed before any row is read. Nothing here is ever
computed from data. Labels of binaries and categoricals are text; numbers and booleans in a study
file or a data file are compared by their canonical text (`label_text`), so ``1``, ``1.0`` and
``"1"`` are the same label.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

MAX_LABEL_LENGTH = 256


def label_text(value: object) -> str:
    """Canonical text of a label.

    Parameters
    ----------
    value
        A string (outer blanks are dropped), boolean, integer or float.

    Returns
    -------
    str
        ``true``/``false`` for booleans, no fraction for integral floats.
    """
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _label(value: object) -> str:
    if value is None or isinstance(value, (list, dict)):
        message = "a label is text, a number or a boolean; quote words such as null"
        raise ValueError(message)
    text = label_text(value)
    if not text or len(text) > MAX_LABEL_LENGTH:
        message = f"a label has 1 to {MAX_LABEL_LENGTH} characters"
        raise ValueError(message)
    return text


def _finite(value: float) -> float:
    if not math.isfinite(value):
        message = "must be finite"
        raise ValueError(message)
    return value + 0.0  # -0.0 and 0.0 are one number, and must be one digest


def _name(value: str) -> str:
    if value != value.strip():
        message = "a name neither starts nor ends with blanks, which a file's header may have"
        raise ValueError(message)
    return value


Label = Annotated[str, BeforeValidator(_label)]
Finite = Annotated[float, AfterValidator(_finite)]
Name = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_name)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Numeric(_Strict):
    """A number.

    Box coding needs ``lower < upper``: values are clipped to them, scaled and centred to
    ``[-1/2, 1/2]``. Unit-ball rows (`Schema.row_norm`) need ``centre`` and ``scale > 0``.
    A missing or non-finite value is coded as the middle.
    """

    name: Name
    type: Literal["numeric"]
    lower: Finite | None = None
    upper: Finite | None = None
    centre: Finite | None = None
    scale: Finite | None = None

    @model_validator(mode="after")
    def _one_pair(self) -> Self:
        box = (self.lower is not None, self.upper is not None)
        ball = (self.centre is not None, self.scale is not None)
        if any(box) == any(ball) or any(box) != all(box) or any(ball) != all(ball):
            message = "a numeric needs lower and upper (or, with row_norm, centre and scale)"
            raise ValueError(message)
        if self.lower is not None and self.upper is not None:
            if not self.lower < self.upper:
                message = "lower must be below upper"
                raise ValueError(message)
            if not math.isfinite(self.upper - self.lower):
                message = "upper - lower must be finite"
                raise ValueError(message)
        if self.scale is not None and not self.scale > 0:
            message = "scale must be above 0"
            raise ValueError(message)
        return self

    @property
    def middle(self) -> float:
        """What a missing value is taken for."""
        if self.centre is not None:
            return self.centre
        assert self.lower is not None  # noqa: S101 - the validator saw to it
        assert self.upper is not None  # noqa: S101
        return self.lower + (self.upper - self.lower) / 2


class Binary(_Strict):
    """One of two labels; the second is coded positive.

    A missing or unknown value is coded as ``missing``, else as the first.
    """

    name: Name
    type: Literal["binary"]
    values: tuple[Label, Label]
    missing: Label | None = None

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        _check_labels(self.values, self.missing)
        return self

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels in the order of their codes."""
        return self.values

    @property
    def missing_code(self) -> int:
        """Code of a missing or unknown value."""
        return 0 if self.missing is None else self.values.index(self.missing)


class Categorical(_Strict):
    """One of three or more labels, coded as indicators.

    A missing or unknown value is coded as ``missing``, else as the first.
    """

    name: Name
    type: Literal["categorical"]
    categories: Annotated[tuple[Label, ...], Field(min_length=3)]
    missing: Label | None = None

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        _check_labels(self.categories, self.missing)
        return self

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels in the order of their codes."""
        return self.categories

    @property
    def missing_code(self) -> int:
        """Code of a missing or unknown value."""
        return 0 if self.missing is None else self.categories.index(self.missing)


Attribute = Annotated[Numeric | Binary | Categorical, Field(discriminator="type")]


def _check_labels(labels: tuple[str, ...], missing: str | None) -> None:
    if len(set(labels)) != len(labels):
        message = "labels must differ"
        raise ValueError(message)
    if missing is not None and missing not in labels:
        message = "missing must be one of the labels"
        raise ValueError(message)
