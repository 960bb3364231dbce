"""Mappings that a site states, in a file and by ``one_hot``, and what they say of a study.

The file is read once by each command that opens the rows, so that what is shown is what is used.
It may hold words of rows: nothing of it leaves the site, and messages name its lines.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pydantic import BaseModel, ValidationError

from dppca.common.kernel.documents.faults import explain_faults
from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.documents.yaml_text import NotYamlError, compose_tree, find_line, load_yaml
from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.schema import Column, Schema
from dppca.owner.records.mapping_cells import MappedColumns, plan_columns
from dppca.owner.records.mapping_faults import MappingFault, find_column_faults, find_faults
from dppca.owner.records.mapping_places import MappingPlace, OneHot
from dppca.owner.records.mapping_rules import MappingDocument, Rule
from dppca.owner.records.sources import Source

MOST_BYTES: Final = 1 << 20  # of a mapping, before it is read
_MOST_FAULTS: Final = 50  # named in one message


@dataclass(frozen=True, slots=True)
class SiteMapping:
    """A mapping as it was read; ``title`` and ``text`` are for messages.

    ``one_hot`` may name attributes that a study does not have.
    """

    title: str
    text: str
    document: MappingDocument
    one_hot: OneHot

    def rules(self, schema: Schema, *, absent: Iterable[str] = ()) -> MappedColumns:
        """Return the rules of a study's attributes without those that are ``absent``."""
        return plan_columns(schema, self._whole(schema), [*absent])

    def plan(self, schema: Schema, source: Source, *, absent: Iterable[str] = ()) -> MappedColumns:
        """Return the rules of a study's attributes for the columns of a source.

        ``absent`` are attributes that the source need not have. Raise `SettingError` or
        `DataError` for all that does not fit the study or the source.
        """
        _require_groups(source, self.one_hot)
        mapped, names = self.rules(schema), {*source.names}
        lacking = [
            name
            for name in absent
            if name in mapped.rules and not names.issuperset(mapped.rules[name].columns)
        ]
        mapped = self.rules(schema, absent=lacking)
        faults = [
            *(
                MappingFault(("attributes", name), f"{name} is in one_hot of the policy, too")
                for name in self.one_hot
                if name in self.document.attributes
            ),
            *find_faults(self._whole(schema), mapped),
            *find_column_faults(mapped, source),
        ]
        if faults:
            raise SettingError(self._explain(faults))
        return mapped

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns of a table in memory that are read (`FrameMapping`)."""
        mapped = self.rules(schema)
        if faults := [*find_faults(self._whole(schema), mapped)]:
            raise SettingError(self._explain(faults))
        if not mapped.columns:
            raise SettingError(f"{self.title} reads no column, so that no row could be counted")
        return mapped.columns

    def convert(self, schema: Schema, arrays: Mapping[str, pa.Array]) -> list[Column]:
        """Return a study's columns of a table in memory (`FrameMapping`)."""
        n_rows = len(next(iter(arrays.values())))
        return self.rules(schema).convert(arrays, n_rows)

    def _whole(self, schema: Schema) -> MappingDocument:
        """Return the file's rules, and those of ``one_hot`` for attributes of the study."""
        names = {attribute.name for attribute in schema.attributes}
        joined = {n: Rule(one_hot=dict(g)) for n, g in self.one_hot.items() if n in names}
        rules = {**joined, **self.document.attributes}
        return self.document.model_copy(update={"attributes": rules})

    def _explain(self, faults: list[MappingFault]) -> str:
        tree, lines = compose_tree(self.text) if self.text else None, []
        for fault in faults[:_MOST_FAULTS]:
            line = find_line(tree, fault.path)
            where = "" if line is None else f"line {line}, "
            place = ".".join(str(part) for part in fault.path[1:2])
            lines.append(one_line(f"{where}{place}: {fault.words}"))
        if len(faults) > _MOST_FAULTS:
            lines.append(f"and {len(faults) - _MOST_FAULTS:,} faults more")
        return f"{self.title} does not fit:\n  " + "\n  ".join(lines)


def read_mapping(place: MappingPlace) -> SiteMapping:
    """Read a place's file; `SettingError` names every fault by its line."""
    text, document = "", MappingDocument()
    if place.path is not None:
        text = _read_text(place.path)
        document = parse_mapping(text, place.path.name)
    return SiteMapping(place.path.name if place.path else "one_hot", text, document, place.one_hot)


def parse_mapping(text: str, title: str) -> MappingDocument:
    """Read a mapping file's text; `SettingError` names every fault by its line."""
    try:
        document = load_yaml(text)
    except NotYamlError as error:
        raise SettingError(f"{title} is not YAML: {error}") from None
    if not isinstance(document, Mapping):
        raise SettingError(f"{title} must be a mapping with version, missing and attributes")
    try:
        return MappingDocument.model_validate(dict(document))
    except ValidationError as error:
        kind: type[BaseModel] = MappingDocument
        explanation = explain_faults(error, document, kind=kind, title=title, text=text)
        raise SettingError(explanation) from None


def digest_mapping(mapped: MappedColumns | None, *, without: str) -> str:
    """SHA-256, hexadecimal, of the rules of all attributes but one, such as a target to predict.

    Empty if each is the column of its own name and no code means missing. It stays at the site.
    """
    if mapped is None:
        return ""
    stated = mapping_wire(mapped)
    rules = {name: rule for name, rule in stated["rules"].items() if name != without}
    if not stated["missing"] and all(
        rule == {"column": name.strip()} for name, rule in rules.items()
    ):
        return ""
    return hashlib.sha256(canonical_json({**stated, "rules": rules})).hexdigest()


def mapping_wire(mapped: MappedColumns) -> dict[str, Any]:
    """Return the rules as plain values, for a digest and for workers (`read_wire`)."""
    rules = {
        name: rule.model_dump(mode="json", exclude_none=True, by_alias=True)
        for name, rule in mapped.rules.items()
    }
    return {"rules": rules, "missing": sorted(mapped.missing)}


def read_wire(schema: Schema, stated: Mapping[str, Any]) -> MappedColumns:
    """Read what `mapping_wire` returned, after JSON."""
    rules = {name: Rule.model_validate(rule) for name, rule in stated["rules"].items()}
    return MappedColumns(schema, rules, tuple(stated["missing"]))


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        raise SettingError(
            f"the mapping {path} is not there: correct its path in policy.yaml"
        ) from None
    except (OSError, UnicodeDecodeError):
        raise SettingError(f"the mapping {path} cannot be read, or is not UTF-8") from None
    if len(content) > MOST_BYTES:
        raise SettingError(f"the mapping {path} has more than {MOST_BYTES:,} bytes")
    return text


def _require_groups(source: Source, one_hot: OneHot) -> None:
    """Raise `DataError` unless every file has each one-hot column once."""
    wanted = [column for group in one_hot.values() for column in group]
    source.require_known(wanted)
    for part in source.parts:
        wrong = {
            "lacks the one-hot columns": [name for name in wanted if name not in part.names],
            "has more than one of the one-hot columns": [
                name for name in wanted if part.names.count(name) > 1
            ],
            "has as columns of its own what one_hot joins": [
                name for name in one_hot if name in part.names and name not in wanted
            ],
        }
        said = [f"{what} {', '.join(names)}" for what, names in wrong.items() if names]
        if said:
            raise DataError(
                f"{part.title} {' and '.join(said)}: correct its header, or one_hot in the policy"
            )
