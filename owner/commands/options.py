"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

from dppca.owner.engines.addresses import require_engine

study_argument = click.argument("study_name", metavar="STUDY")

data_set_option = click.option(
    "--data-set",
    "data_set_name",
    metavar="NAME",
    help="Data set of policy.yaml; not needed if there is only one.",
)

study_file_option = click.option(
    "--study-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Your copy of the study file; it must equal the curator's.",
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


engine_option = click.option(
    "--engine",
    metavar="ENGINE",
    callback=_engine,
    help="Where rows are read: local, dask://HOST:PORT or tls://HOST:PORT; by default as "
    "policy.yaml says, or here.",
)

file_path = click.Path(path_type=Path, dir_okay=False)
folder_path = click.Path(path_type=Path, file_okay=False)
