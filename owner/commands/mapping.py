"""A mapping of a file is proposed, decided by a person and written into the site: command, page.

Nothing of it leaves: words of rows are shown to the steward alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dppca.common.kernel.errors import DataError, SettingError

if TYPE_CHECKING:
    from dppca.common.kernel.study import Study
    from dppca.common.shell.dictionaries.dictionary import Dictionary
    from dppca.owner.records.faults import CheckReport
    from dppca.owner.records.locations import Location
    from dppca.owner.records.mapping_drafts import Columns, Draft
    from dppca.owner.records.text_format import TextFormat

FOLDER_NAME = "mappings"


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingPlan:
    """What a mapping of a file is for.

    Attributes
    ----------
    path
        The file that is written.
    place
        The rows, with the format that reads most cells unless one was stated.
    key
        The column that tells people apart; empty without one.
    missing
        Codes that the codebook says mean missing, in every column.
    before
        The document of the file that is there; empty without one.
    """

    study: Study
    data: Path
    path: Path
    place: Location
    key: str
    missing: tuple[str, ...]
    dictionary: Dictionary | None
    before: Mapping[str, Any]

    @property
    def form(self) -> TextFormat:
        """How the file is written."""
        from dppca.owner.records.text_format import USUAL

        return self.place.text_format or USUAL

    def columns(self, *, also: Collection[str] = ()) -> Columns:
        """Read the words of columns that may be an attribute with labels, and of ``also``."""
        from dppca.owner.records.mapping_drafts import site_columns

        attributes, source = self.study.table.attributes, self.place.open()
        return site_columns(source, attributes, self.key, self.dictionary, also=also)

    def draft(
        self,
        columns: Columns,
        *,
        accepted: Collection[str] = (),
        decided: Mapping[str, str] = MappingProxyType({}),
        labels: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    ) -> Draft:
        """Return the draft (`make_draft`)."""
        from dppca.owner.records.mapping_drafts import make_draft

        return make_draft(
            self.study.table,
            columns,
            accepted=accepted,
            missing=self.missing,
            before=self.before,
            decided=decided,
            labels=labels,
        )

    def write(self, draft: Draft) -> None:
        """Write the file, for its owner alone; `SettingError` if it cannot be written."""
        from dppca.common.kernel.durable.files import write_file

        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            text = draft.text(f"how {self.data.name} becomes the attributes of {self.study.name}")
            write_file(self.path, text.encode())
        except OSError as error:
            raise SettingError(f"{self.path} cannot be written: {error.strerror}") from error

    def count(self) -> CheckReport:
        """Read the rows by the file that was written, as `check` does."""
        return _count(self.place, self.path, self.study, self.key)


def plan_mapping(
    site: Path,
    study: Study,
    data: Path,
    *,
    text_format: TextFormat | None = None,
    name: str | None = None,
    key: str | None = None,
    missing: tuple[str, ...] = (),
    dictionary: Path | None = None,
    again: bool = False,
) -> MappingPlan:
    """Return the plan for a file; the arguments are those of the command.

    Raise `SettingError` or `DataError` for a file that is there or cannot be read, or no such key.
    """
    from dppca.common.shell.dictionaries.recognition import read_dictionary
    from dppca.owner.records.file_locations import local_files
    from dppca.owner.records.text_format import USUAL

    path = site / FOLDER_NAME / f"{_file_name(name or data.name.partition('.')[0])}.yaml"
    before = _before(path, again=again)
    said = None if dictionary is None else read_dictionary(dictionary)
    place: Location = local_files(data, text_format or USUAL)
    place = place if text_format is not None else _written(place, study, said)
    source = place.open()
    if key and key not in source.names:
        raise SettingError(
            f"--key {key} is no column of {source.title}: name one as it stands there"
        )
    return MappingPlan(
        study=study,
        data=data,
        path=path,
        place=place,
        key=key or "",
        missing=missing,
        dictionary=said,
        before=before,
    )


def _file_name(name: str) -> str:
    from dppca.common.kernel.documents.names import require_party_name

    try:
        return require_party_name(name)
    except ValueError as error:
        raise SettingError(f"{name!r} cannot name a mapping (--name NAME): {error}") from None


def _before(path: Path, *, again: bool) -> dict[str, Any]:
    """Return the document of the file that is there; empty without one."""
    from dppca.common.kernel.documents.yaml_text import NotYamlError, load_yaml

    if not path.exists():
        return {}
    if not again:
        raise SettingError(f"{path} is there: --again keeps its rules and adds what is new")
    try:
        document = load_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, NotYamlError):
        raise SettingError(f"{path} cannot be read as YAML: correct it, or remove it") from None
    if not isinstance(document, dict) or not isinstance(document.get("attributes") or {}, dict):
        raise SettingError(f"{path} is no mapping: correct it, or remove it")
    return document


def _written(place: Location, study: Study, said: Dictionary | None) -> Location:
    """Return the place with the one format that reads the most cells."""
    from dppca.common.kernel.schema import Attribute
    from dppca.owner.records.mapping_drafts import said_of
    from dppca.owner.records.mapping_proposals import propose_columns
    from dppca.owner.records.recognition import propose_formats
    from dppca.owner.render.formats import format_lines

    attributes, likely = study.table.attributes, dict[str, Attribute]()
    for _ in range(2):  # the header is found first, and then the cells below its names
        formats = propose_formats(place, study.table, likely=likely)
        if len(formats) > 1:
            lines = format_lines(formats, None)
            raise DataError("\n".join([f"{place.title} can be read in several ways", *lines]))
        place = place.written(formats[0]) if formats else place
        names = [said_of(name, said) for name in dict.fromkeys(place.open().parts[0].names)]
        found = propose_columns(attributes, names)
        likely = {found[a.name].column: a for a in attributes if found[a.name].column}
    return place


def _count(place: Location, path: Path, study: Study, key: str) -> CheckReport:
    from dppca.owner.records.check import check_table
    from dppca.owner.records.mapping_places import MappingPlace
    from dppca.owner.records.table import open_table

    with open_table(place.mapped(MappingPlace(path)), study.table).latest(key) as table:
        return check_table(table, study.table).under(study.faults)
