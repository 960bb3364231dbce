"""Whether rows can be coded by a study's schema, which is known before any row is read.

A study is not begun otherwise: each owner would find out alone, after having agreed to it.
"""

from dppca.common.kernel.errors import StudyError
from dppca.common.kernel.moments.accumulation import ProductMethod, choose_method
from dppca.common.kernel.moments.encoder import BatchEncoder
from dppca.common.kernel.schema import Numeric, Schema

MOST_WHOLE = 2**53
"""Largest whole number up to which a float64 holds every one."""


def require_codable(schema: Schema) -> None:
    """Raise `StudyError` if whole numbers between an attribute's bounds are not exact.

    Also make the encoder of its rows once: what fails in it, fails here.
    """
    for each in schema.attributes:
        if isinstance(each, Numeric) and each.integer and max(map(abs, each.bounds)) > MOST_WHOLE:
            raise StudyError(
                f"attribute {each.name}: integer: whole numbers beyond {MOST_WHOLE} (2^53) are not "
                "exact here: give smaller bounds, or leave integer out"
            )
    BatchEncoder(schema, dense=choose_method(schema) is ProductMethod.DENSE)
