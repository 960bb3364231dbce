"""Form of ``format`` in ``policy.yaml``, and of ``--format``: how files are written."""

from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from dppca.owner.records.text_format import USUAL, TextFormat

_MARKS = {
    "comma": ",",
    "semicolon": ";",
    "tab": "\t",
    "bar": "|",
    "pipe": "|",
    "point": ".",
    "blank": " ",
    "space": " ",
    "apostrophe": "'",
}
_Mark = Annotated[str, AfterValidator(lambda text: _MARKS.get(text, text))]


def _word(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError(  # noqa: TRY004 - what pydantic takes for a fault of the field
            'write words as text, such as "null"; which numbers mean missing is the study\'s matter'
        )
    return value


class FormatDocument(BaseModel):
    """How the text files and workbooks of a data set are written.

    Attributes
    ----------
    delimiter
        Between cells: ``,``, ``;``, ``tab`` or ``|``.
    decimal
        The decimal mark: ``.`` or ``,``; between commas, cells with one need quotes.
    thousands
        Between groups of three digits: ``.``, ``,``, ``apostrophe`` or ``blank``.
    dates
        ``DD.MM.YYYY`` or the like, with ``M``, ``D`` without leading zeros, ``MON`` for a name; a
        time may follow. Or ``days since 1960-01-01`` (also ``seconds``,
        ``milliseconds``).
    missing
        Words for a missing value, in any column; no numbers, and no labels of the study.
    encoding
        Of text files: ``windows-1252`` as Excel in Western Europe, ``windows-1250`` to
        ``windows-1258``, ``iso-8859-1``, ``-2``, ``-15``. Default: ``utf-8``.
    sheet
        Of a workbook. Default: the only one with values.
    header
        The line, or row of a sheet, that names the columns; those above it are not read.
        Default: 1.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    delimiter: _Mark = USUAL.delimiter
    decimal: _Mark = USUAL.decimal
    thousands: _Mark | None = None
    dates: str = USUAL.dates
    missing: tuple[Annotated[str, BeforeValidator(_word)], ...] = ()
    encoding: Annotated[str, AfterValidator(str.lower)] = USUAL.encoding
    sheet: str = USUAL.sheet
    header: Annotated[int, Field(strict=True)] = USUAL.header

    @model_validator(mode="after")
    def _require_one_meaning(self) -> Self:
        self.read()
        return self

    def read(self) -> TextFormat:
        """Return the format; raise `ValueError` if a cell could have two meanings."""
        return TextFormat(**{**dict(self), "thousands": self.thousands or ""})
