"""Reference pages of the files that people write, made from the models that read them.

A field's meaning is its entry in the section "Attributes" of the model's docstring.
"""

import inspect
import json
import re
import textwrap
import typing
from collections.abc import Iterator
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any

import annotated_types
from pydantic import AwareDatetime, BaseModel
from pydantic.fields import FieldInfo

from dppca.common.analysis.random_trees import RandomTrees
from dppca.common.analysis.study_file import SchemaOfFile, StudyFile
from dppca.common.kernel import study
from dppca.common.kernel.documents.stated_fields import PartyName
from dppca.common.kernel.schema import attributes, partitions, splits
from dppca.common.kernel.schema.document import RowNorm
from dppca.curator.commands.study_template import TEMPLATE
from dppca.owner.site.agreement import PeersDocument
from dppca.owner.site.file_forms import (
    AggregateDocument,
    DataSetDocument,
    PolicyDocument,
    PopulationDocument,
    SiteDocument,
)
from dppca.owner.site.format_document import FormatDocument
from dppca.owner.site.source_documents import AddressDocument, SourceDocument
from tools.markdown import slug

_MADE = """\
<!-- made by tools.pages -->

A field that is not listed is refused, and one that is not *required* may be left out. A *short
name* has 1 to 64 characters `a-z 0-9 . _ -` and begins and ends with a letter or digit. Decimals
are text in quotes, because an amount of privacy is an exact number.
"""
_STUDY = f"""# The study file

A study is one YAML file that all parties agree on before anybody looks at rows. `dppca-curator
study template` prints the one below, `study new` drafts one from a
[data dictionary](../how-to/draft-a-study.md), `study check` says what is wrong with one,
`dppca-curator plan` forecasts what it can find, and `dppca-curator study create` makes it known to
the curator. The SHA-256 of its canonical JSON form, with defaults written out, names the study.

{_MADE}
An *attribute name* has 1 to 128 characters. A *label* is text, a number or a boolean. Only `true`
and `false` are booleans: `No` and `010` are labels. Editors complete the file by a
[JSON Schema](study-file.schema.json).

```yaml
{TEMPLATE}```
"""
_SITE = f"""# site.yaml and policy.yaml

`dppca-owner init` makes both files in the site's folder, and no command writes to them afterwards.
Without an entry in `policy.yaml` nothing can be released. Editors complete them by JSON Schemas:
[site.yaml](site-file.schema.json), [policy.yaml](policy-file.schema.json).

{_MADE}
```yaml
# site.yaml
version: 1
name: hospital
curator: "hub.example:7443"
```

```yaml
# policy.yaml
populations:
  patients: {{who: Everyone treated here since 2010, epsilon: "3.0", delta: "0"}}
data_sets:
  survey: {{population: patients, path: survey.csv}}
  claims:
    population: patients
    source: {{postgresql: {{service: warehouse}}}}  # or uri: {{env: NAME}}, or {{file: PATH}}
    query: queries/claims.sql                   # or table: omop.claims
    key: person_id                              # the number of a person, not needed
```

A budget belongs to people: what is charged for any data set of a population, by any name or query,
adds up ([rules](../decisions/0139-a-budget-belongs-to-people.md)). If a data set or population gets
another name, its charges follow it while its data set, its population or its source stays what it
was. If all three change, nothing more is charged until the population says what it `was`. A
population that was charged stays in the file, with or without data sets.
"""
_STUDY_MODELS: dict[type[BaseModel], str] = {
    StudyFile: "Study",
    **{law: law.__name__.replace("Privacy", " privacy") for law in study.PRIVACIES},
    study.ComponentRule: "Components",
    study.FaultRule: "Faults",
    study.Continued: "Continues",
    study.GrownTrees: "Grown trees",
    study.OpenerEntry: "Opener",
    study.PinnedRoles: "Pinned roles",
    SchemaOfFile: "Schema",
    RowNorm: "Row norm",
    attributes.Numeric: "Numeric attribute",
    attributes.Date: "Date attribute",
    attributes.Ordinal: "Ordinal attribute",
    attributes.Binary: "Binary attribute",
    attributes.Categorical: "Categorical attribute",
    partitions.CountedTable: "Table",
    splits.TreeNode: "Tree node",
    RandomTrees: "Random trees",
}
_SITE_MODELS: dict[type[BaseModel], str] = {
    SiteDocument: "site.yaml",
    PolicyDocument: "policy.yaml",
    PopulationDocument: "Population",
    DataSetDocument: "Data set",
    FormatDocument: "Format",
    AggregateDocument: "Masked sums",
    PeersDocument: "peers.yaml",
    SourceDocument: "Source",
    **{
        form: form.__name__.removesuffix("Document")
        for each in SourceDocument.model_fields.values()
        for form in typing.get_args(each.annotation)
        if form is not NoneType
    },
    AddressDocument: "Address",
}
_SECTIONS = _STUDY_MODELS | _SITE_MODELS
_NAMED: tuple[tuple[object, str], ...] = (  # compared by identity: some cannot be hashed
    (study.ExactDecimal, "decimal above 0"),
    (PartyName, "short name"),
    (study.Base64, "base64"),
    (study.Overlap, "true, false, or list of groups of owners"),
    (attributes.Label, "label"),
    (attributes.Name, "attribute name"),
    (attributes.Finite, "finite number"),
    (splits.Threshold, "number, date or level"),
    (attributes.Day, "date"),
    (bool, "true or false"),
    (AwareDatetime, "date and time with a zone, ISO 8601"),
    (int, "whole number"),
    (float, "number"),
    (str, "text"),
)
_SITE_FIELDS = {  # rules of validators that annotations lack
    (SiteDocument, "name"): "short name",
    (SiteDocument, "curator"): "`HOST:PORT`",
    (PopulationDocument, "epsilon"): "decimal",
    (PopulationDocument, "delta"): "decimal",
    (PopulationDocument, "was"): "list of short names",
    (DataSetDocument, "population"): "a [population](#population)'s name",
    (DataSetDocument, "epsilon"): "decimal",
    (DataSetDocument, "delta"): "decimal",
    (AggregateDocument, "trusted_openers"): "list of short names",
    (PeersDocument, "peers"): "map, short name: base64",
    (PolicyDocument, "populations"): "map, short name: [population](#population)",
    (PolicyDocument, "data_sets"): "map, short name: [data set](#data-set)",
}


def study_page() -> str:
    """Return ``docs/reference/study-file.md``."""
    return "\n".join([_STUDY, *(_section(model) for model in _STUDY_MODELS)])


def site_page() -> str:
    """Return ``docs/reference/site-files.md``."""
    return "\n".join([_SITE, *(_section(model) for model in _SITE_MODELS)])


def study_schema() -> str:
    """Return ``docs/reference/study-file.schema.json``, for completion in editors."""
    return _editor_schema(StudyFile, "study.yaml")


def site_schema() -> str:
    """Return ``docs/reference/site-file.schema.json``."""
    return _editor_schema(SiteDocument, "site.yaml")


def policy_schema() -> str:
    """Return ``docs/reference/policy-file.schema.json``."""
    return _editor_schema(PolicyDocument, "policy.yaml")


def _editor_schema(model: type[BaseModel], title: str) -> str:
    """Make a JSON Schema for an editor, with the meaning of each field."""
    schema = model.model_json_schema(by_alias=True)
    models = {each.__name__: each for each in _SECTIONS}
    for name, part in {model.__name__: schema, **schema.get("$defs", {})}.items():
        _explain_fields(part, models.get(name))
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
    return json.dumps({**schema, **head}, indent=2, ensure_ascii=False) + "\n"


def _explain_fields(part: dict[str, Any], model: type[BaseModel] | None) -> None:
    """Replace the docstring's text by the meaning of each field."""
    own = part.pop("description", "")
    summary, meanings = _read_meanings(own) if model is None else _read_docstring(model)
    if summary:
        part["description"] = summary.partition("\n")[0]
    for name, field in part.get("properties", {}).items():
        field.pop("title", None)
        if name in meanings:
            field["description"] = meanings[name]


def _section(model: type[BaseModel]) -> str:
    summary, meanings = _read_docstring(model)
    hints = typing.get_type_hints(model, include_extras=True)
    fields: dict[tuple[str, str], list[str]] = {}  # names by what is said of them
    for name, field in model.model_fields.items():
        if name not in getattr(model, "HIDDEN", ()):
            kind = _SITE_FIELDS.get((model, name)) or _describe(hints[name])
            said = (kind + _default(name, field), meanings[name])
            fields.setdefault(said, []).append(f"`{field.alias or name}`")
    entries = [
        _wrap(f"- {', '.join(names)} ({kind}): {meaning}", "  ")
        for (kind, meaning), names in fields.items()
    ]
    return "\n".join([f"## {_SECTIONS[model]}\n\n{summary}\n", *entries, ""])


def _wrap(text: str, indent: str = "") -> str:
    """Lines of at most 120 characters."""
    return textwrap.fill(
        text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _read_docstring(model: type[BaseModel]) -> tuple[str, dict[str, str]]:
    """Text above the section "Attributes", and each field's meaning, those of its bases too."""
    read = [_read_meanings(inspect.getdoc(each) or "") for each in model.__mro__ if each.__doc__]
    read = read[: model.__mro__.index(BaseModel)]
    return read[0][0], {name: words for _, each in reversed(read) for name, words in each.items()}


def _read_meanings(docstring: str) -> tuple[str, dict[str, str]]:
    summary, _, body = docstring.partition("\n\nAttributes\n----------\n")
    meanings: dict[str, str] = {}
    for names, lines in re.findall(r"^(\w.*)\n((?: {4}.*\n?)+)", body, re.MULTILINE):
        for name in names.split(", "):
            meanings[name] = _as_markdown(" ".join(lines.split()))
    return _as_markdown(summary), meanings


def _as_markdown(text: str) -> str:
    """Convert to single backquotes, without references to Python names."""
    return re.sub(r"`Schema\.(\w+)`", r"`\1`", text.replace("``", "`"))


def _default(name: str, field: FieldInfo) -> str:
    if field.is_required() or name == "type":  # only Python may leave it out
        return ", required"
    value = field.default
    return "" if value is None else f", default `{json.dumps(value)}`".replace('"', "")


def _describe(annotation: object) -> str:
    for named, words in _NAMED:
        if annotation is named:
            return words
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return " or ".join(f"`{member}`" for member in annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        title = _SECTIONS[annotation].lower()
        return f"[{title}](#{slug(title)})"
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        bounds = "".join(_bounds(arguments[1:]))
        if arguments[0] is str:
            bounds = bounds.replace("; at least 1", ", not empty")
        return _describe(arguments[0]) + _RANGE.sub(r"\1 \2 to \3", bounds)
    if origin is typing.Literal:
        return " or ".join(f"`{json.dumps(each)}`".replace('"', "") for each in arguments)
    if origin in {UnionType, typing.Union}:
        return " or ".join(_describe(each) for each in arguments if each is not NoneType)
    if origin is dict:
        return f"map, {_describe(arguments[0])}: {_describe(arguments[1])}"
    assert origin is tuple, annotation  # noqa: S101 - another kind needs words of its own
    if arguments[-1] is Ellipsis:
        return f"list of {_plural(_describe(arguments[0]))}"
    return f"list of {len(arguments)} {_plural(_describe(arguments[0]))}"


def _plural(words: str) -> str:
    return words.replace("](", "s](") if "](" in words else f"{words}s"


_RANGE = re.compile(r"([,;]) at least (\S+)[,;] at most (\S+)")


def _bounds(metadata: tuple[object, ...]) -> Iterator[str]:
    for each in metadata:
        for bound in each.metadata if isinstance(each, FieldInfo) else ():
            match bound:
                case annotated_types.Ge(value):
                    yield f", at least {value:,}"
                case annotated_types.Gt(value):
                    yield f", above {value:,}"
                case annotated_types.Le(value):
                    yield f", at most {value:,}"
                case annotated_types.Lt(value):
                    yield f", below {value:,}"
                case annotated_types.MinLen(value):
                    yield f"; at least {value:,}"
                case annotated_types.MaxLen(value):
                    yield f"; at most {value:,}"
                case _:
                    pass
