"""``dppca-owner predict``."""

from __future__ import annotations

import time
from pathlib import Path

import click

from common.console import emit, json_option, progress
from owner.commands.options import file_path
from owner.render_models import prediction_text


@click.command("predict")
@click.option("--model", "model_path", type=file_path, required=True, help="Made by `train`.")
@click.option("--data", type=file_path, required=True, help="CSV, Parquet or Arrow.")
@click.option("--output", type=file_path, required=True, help=".csv, .parquet or .arrow")
@json_option
def command(model_path: Path, data: Path, output: Path, *, as_json: bool) -> None:
    """Classify rows with a trained model; what comes out is for this site only.

    The data need not have the target. Where they do, the share of right predictions is given.

    \b
    Example:
      dppca-owner predict --model model-outside-linear.skops --data new.csv --output found.csv
    """
    from owner.any_model import load_any_model
    from owner.training import predict_file

    started = time.perf_counter()
    model = load_any_model(model_path)
    with progress("Classifying rows") as bar:
        found = predict_file(model, data, output, progress=bar.advance)
    document = {
        "command": "predict",
        "target": model.target,
        "rows": found.n_rows,
        "output": str(found.output),
        "label": found.label.value,
        "accuracy": found.accuracy,
        "seconds": round(time.perf_counter() - started, 6),
    }
    emit(document, prediction_text(document), as_json=as_json)
