"""Reference pages of the files that people write, made from the models that read them.

A field's meaning is its entry in the section "Attributes" of the model's docstring.
"""

import inspect
import json
import re
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
from dppca.owner.site.source_documents import AddressDocument, SourceDocument
from tools.markdown import slug

_MADE = (
    "Made from the models that read the file, by `python -m tools.pages`; a test compares them. A\n"
    "field that the tables do not name is refused.\n"
)
_STUDY = f"""# The study file

{_MADE}
A study is one YAML file that all parties agree on before anybody looks at rows. `dppca-curator
study template` prints one to begin with, `dppca-curator study new` drafts one from a [data
dictionary](../how-to/draft-a-study.md), `dppca-curator study check` says what is wrong with one,
`dppca-curator plan` forecasts what it can find, and `dppca-curator study create` makes it known to
the curator. Editors complete it by a [JSON Schema](study-file.schema.json). Decimals are text in
quotes, because an amount of privacy is an exact number. Only `true` and `false` are booleans: `No`
and `010` are labels. What is agreed on is the canonical JSON form of the document, with every
default written out; its SHA-256 names the study.

```yaml
{TEMPLATE}```
"""
_SITE = f"""# site.yaml and policy.yaml

{_MADE}
`dppca-owner init` makes both files in the site's folder, and no command writes to them afterwards.
Editors complete them by JSON Schemas: [site.yaml](site-file.schema.json),
[policy.yaml](policy-file.schema.json).
Without an entry in `policy.yaml` nothing can be released. Decimals are text in quotes.

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

A budget belongs to people. What is charged for any data set of a population, by any name or
query, adds up ([rules](../decisions/0139-a-budget-belongs-to-people.md)). A data set or population
may get another name: its charges follow it where its data set, its population or its source stays
what it was. Where all three change, nothing more is charged until the population says what it
`was`. A population that was charged stays in the file, with or without data sets.
"""
_STUDY_MODELS: dict[type[BaseModel], str] = {
    StudyFile: "Study",
    **{law: law.__name__.replace("Privacy", " privacy") for law in study.PRIVACIES},
    study.ComponentRule: "Components",
    study.FaultRule: "Faults",
    study.Continued: "Continues",
    study.GrownTrees: "Grown trees",
    study.OpenerEntry: "Opener",
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
    (study.PartyName, "name (`a-z 0-9 . _ -`)"),
    (study.Base64, "text in base64"),
    (study.Overlap, "true or false, or a list of groups of owners"),
    (attributes.Label, "label (text, number or boolean)"),
    (attributes.Name, "text, 1 to 128 characters"),
    (attributes.Finite, "finite number"),
    (splits.Threshold, "number, date or level"),
    (attributes.Day, "date, such as `2020-01-31`"),
    (bool, "true or false"),
    (AwareDatetime, "date and time with a zone (ISO 8601)"),
    (int, "whole number"),
    (float, "number"),
    (str, "text"),
)
_SITE_FIELDS = {  # rules of validators that annotations lack
    (SiteDocument, "name"): "name (`a-z 0-9 . _ -`)",
    (SiteDocument, "curator"): "`HOST:PORT`",
    (PopulationDocument, "epsilon"): "decimal",
    (PopulationDocument, "delta"): "decimal",
    (PopulationDocument, "was"): "list of names",
    (DataSetDocument, "population"): "name of a [population](#population)",
    (DataSetDocument, "epsilon"): "decimal",
    (DataSetDocument, "delta"): "decimal",
    (AggregateDocument, "trusted_openers"): "list of names",
    (PeersDocument, "peers"): "mapping of a name to text in base64",
    (PolicyDocument, "populations"): "mapping of a name to a [population](#population)",
    (PolicyDocument, "data_sets"): "mapping of a name to a [data set](#data-set)",
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
    rows = []
    for name, field in model.model_fields.items():
        if name in getattr(model, "HIDDEN", ()):
            continue
        kind = _SITE_FIELDS.get((model, name)) or _describe(hints[name])
        row = (f"`{field.alias or name}`", kind, _default(name, field), meanings[name])
        rows.append(f"| {' | '.join(row)} |\n")
    table = "| field | type | default | meaning |\n| --- | --- | --- | --- |\n" + "".join(rows)
    return f"## {_SECTIONS[model]}\n\n{summary}\n\n{table}"


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
        return "required"
    value = field.default
    return "none" if value is None else f"`{json.dumps(value)}`".replace('"', "")


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
        return _describe(arguments[0]) + "".join(_bounds(arguments[1:]))
    if origin is typing.Literal:
        return " or ".join(f"`{json.dumps(each)}`".replace('"', "") for each in arguments)
    if origin in {UnionType, typing.Union}:
        return " or ".join(_describe(each) for each in arguments if each is not NoneType)
    if origin is dict:
        return f"mapping of a {_describe(arguments[0])} to a {_describe(arguments[1])}"
    assert origin is tuple, annotation  # noqa: S101 - another kind needs words of its own
    if arguments[-1] is Ellipsis:
        return f"list, each a {_describe(arguments[0])}"
    return f"list of {len(arguments)}, each a {_describe(arguments[0])}"


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
