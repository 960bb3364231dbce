"""``dppca-owner predict``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dppca.common.shell.console import FILE, emit, prints, progress
from dppca.common.shell.outputs import FileLaw, output_file
from dppca.owner.commands.options import format_option, mapping_option

if TYPE_CHECKING:
    from dppca.owner.records.mapping_places import MappingPlace
    from dppca.owner.records.text_format import TextFormat


@click.command("predict")
@click.option("--model", "model_path", type=FILE, required=True, help="File made by `train`.")
@click.option("--data", type=FILE, required=True, help="File of rows (CSV, Parquet or Arrow).")
@format_option
@mapping_option
@output_file(
    "--output",
    required=True,
    help="New file: .csv, .parquet or .arrow.",
    law=FileLaw(replaceable=True),
)
@prints("dppca.owner.models.training:Prediction")
def command(
    model_path: Path,
    data: Path,
    text_format: TextFormat | None,
    mapping: MappingPlace | None,
    output: Path,
    *,
    as_json: bool,
) -> None:
    """Classify rows with a trained model; the output is for this site only.

    The data need not hold the target. If they do, the share of right predictions is printed. A CSV
    file holds labels unchanged. A spreadsheet may read a label that begins with = + - or @ as a
    formula: import labels as text.

    \b
    Example:
      dppca-owner predict --model model-outside-linear.skops --data new.csv --output found.csv
    """
    from dppca.owner.models.loader import load_model
    from dppca.owner.models.training import predict_file
    from dppca.owner.records.text_format import USUAL
    from dppca.owner.render.models import prediction_text

    model = load_model(model_path)
    with progress("Classifying rows") as bar:
        prediction = predict_file(
            model,
            data,
            output,
            text_format=text_format or USUAL,
            mapping=mapping,
            progress=bar.advance,
        )
    emit(prediction, prediction_text(prediction), as_json=as_json)
