"""Fields of documents that people write: paragraphs, numbers, names of parties.

Texts of a study that say what it is for are one paragraph each, bounded, and nothing in them is
invisible. Blanks and ends of lines are one blank (`dppca.common.kernel.documents.names` for the
rest).
"""

import re
from functools import partial
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticKnownError
from pydantic_core.core_schema import ErrorType

from dppca.common.kernel.documents.amounts import is_numeral
from dppca.common.kernel.documents.names import check_visible, require_party_name

_BLANKS = re.compile(r"[ \n\u00a0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000\u3164\uffa0]+")


def _paragraph(value: object) -> object:
    return check_visible(_BLANKS.sub(" ", value).strip()) if isinstance(value, str) else value


def _numeral(value: object, *, fault: ErrorType) -> object:
    if isinstance(value, bool | str | bytes) and not is_numeral(value):
        raise PydanticKnownError(fault)
    return value


def _truth(value: object) -> object:
    if isinstance(value, str | bytes):  # of which pydantic takes some, such as "yes", for true
        raise PydanticKnownError("bool_parsing")
    return value


TRUTH = BeforeValidator(_truth)
NUMBER = BeforeValidator(partial(_numeral, fault="float_parsing"))
WHOLE = BeforeValidator(partial(_numeral, fault="int_parsing"))
PartyName = Annotated[str, AfterValidator(require_party_name)]
Title = Annotated[str, Field(min_length=1, max_length=120), BeforeValidator(_paragraph)]
Purpose = Annotated[str, Field(min_length=1, max_length=1000), BeforeValidator(_paragraph)]
Line = Annotated[str, Field(min_length=1, max_length=200), BeforeValidator(_paragraph)]
Question = Annotated[str, Field(min_length=1, max_length=500), BeforeValidator(_paragraph)]
Sector = Literal["Healthcare", "Education", "Government", "Finance", "Energy", "Technology"]
MAX_DESCRIPTION, MAX_UNIT, MAX_CONCEPT = 300, 32, 128  # characters of what an attribute says
Unit = Annotated[str, Field(min_length=1, max_length=MAX_UNIT), BeforeValidator(_paragraph)]
Concept = Annotated[str, Field(min_length=1, max_length=MAX_CONCEPT), BeforeValidator(_paragraph)]
Description = Annotated[
    str, Field(min_length=1, max_length=MAX_DESCRIPTION), BeforeValidator(_paragraph)
]
