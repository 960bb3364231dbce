"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dppca.common.shell.console import FILE
from dppca.owner.engines.addresses import require_engine

if TYPE_CHECKING:
    from dppca.owner.records.mapping_places import MappingPlace
    from dppca.owner.records.text_format import TextFormat


def complete_study(context: click.Context, _argument: click.Parameter, begun: str) -> list[str]:
    """Return studies that this site keeps, and studies of the curator that name it."""
    from dppca.common.shell.console import ASK_S, find_names
    from dppca.owner.client.calls import connect
    from dppca.owner.site.config import load_site
    from dppca.owner.site.kept_studies import kept_names

    folder = context.find_root().params["site"]

    def ask() -> list[str]:
        with connect(load_site(folder), warn=lambda _: None) as client:
            return [each.name for each in client.studies(deadline_s=ASK_S)]

    return find_names((lambda: kept_names(load_site(folder)), ask), begun)


study_argument = click.argument("study_name", metavar="STUDY", shell_complete=complete_study)

data_set_option = click.option(
    "--data-set",
    "data_set_name",
    metavar="NAME",
    help="Data set of policy.yaml; not needed if it names only one.",
)

study_file_option = click.option(
    "--study-file", type=FILE, help="Your copy of the study file; it must equal the curator's."
)

digest_option = click.option(
    "--digest",
    metavar="HEX",
    help="Digest of the study, 64 digits, from another owner's steward (trust: aggregate).",
)


def _engine(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    try:
        return None if value is None else require_engine(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _text_format(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> TextFormat | None:
    if value is None:
        return None
    from dppca.owner.site.file_forms import parse_document
    from dppca.owner.site.format_document import FormatDocument

    return parse_document(value, FormatDocument, "--format").read()


def _mapping(
    _context: click.Context, _option: click.Parameter, path: Path | None
) -> MappingPlace | None:
    if path is None:
        return None
    from dppca.owner.records.mapping_places import MappingPlace

    return MappingPlace(path)


format_option = click.option(
    "--format",
    "text_format",
    metavar="YAML",
    callback=_text_format,
    help="How text files are written, as `format` in policy.yaml, such as '{delimiter: \";\"}'.",
)

mapping_option = click.option(
    "--mapping",
    type=FILE,
    callback=_mapping,
    help="File that says how its columns become attributes, as `mapping` in policy.yaml.",
)

engine_option = click.option(
    "--engine",
    metavar="ENGINE",
    callback=_engine,
    help="Where rows are read: local, spark, dask://HOST:PORT or tls://HOST:PORT; by default as "
    "policy.yaml says, or here.",
)
