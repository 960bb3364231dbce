"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

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

file_path = click.Path(path_type=Path, dir_okay=False)
folder_path = click.Path(path_type=Path, file_okay=False)
