"""``dppca-curator plan``: cost and prospects of a study before it is made."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dppca.common.kernel.errors import ArtefactError, SettingError
from dppca.common.shell.console import FILE, Whole, emit, prints, progress, terminal_width
from dppca.common.shell.outputs import FileLaw, output_file
from dppca.curator.commands.options import Positive

if TYPE_CHECKING:
    from dppca.common.kernel.study import Study
    from dppca.curator.planning.assumptions import Assumption
    from dppca.curator.planning.plan import PlanSeconds, StudyPlan

_TIMED_ENTRIES = 1 << 18  # of noise that are drawn to tell the time of all
_DEFAULT_SPECTRUM = "power:1"


@click.command()
@click.argument("file", type=FILE)
@click.option(
    "--rows",
    "rows",
    multiple=True,
    required=True,
    metavar="N | OWNER=N",
    help="Expected rows of every owner, or of one owner; may be repeated.",
)
@click.option(
    "--spectrum",
    default=_DEFAULT_SPECTRUM,
    show_default=True,
    metavar="power:A[:SHARE] | FILE",
    help="Assumed eigenvalues: in proportion to i^-A, together SHARE (1 unless given) of the "
    "largest total variance the schema allows; or a file of them: numbers in .json, .csv or "
    ".txt, or the .npz of an earlier study.",
)
@click.option(
    "--epsilon",
    "grid",
    type=Positive(),
    multiple=True,
    help="Also forecast this epsilon; may be repeated. By default 0.05 to 20.",
)
@click.option(
    "--delta",
    type=Positive(),
    help="Delta of Gaussian noise, if the study has none; without it, only Laplace is shown.",
)
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="NAME",
    help="Show what it costs and gains to make this attribute a target; may be given often.",
)
@click.option(
    "--colluders",
    type=Whole(min=1),
    help="Compare the study with `trust: aggregate` and this number of owners that may collude.",
)
@click.option(
    "--bandwidth",
    type=click.FloatRange(min=0, min_open=True),
    default=100.0,
    show_default=True,
    help="Bandwidth of an owner's line, Mbit/s.",
)
@click.option("--details", is_flag=True, help="Print all figures, in wide tables.")
@output_file(
    "--plot",
    "picture",
    help="Draw the forecast into this file (.png, .svg or .pdf).",
    law=FileLaw(replaceable=True),
)
@prints("dppca.curator.planning.plan:StudyPlan")
def plan(
    file: Path,
    rows: tuple[str, ...],
    spectrum: str,
    grid: tuple[Decimal, ...],
    delta: Decimal | None,
    targets: tuple[str, ...],
    colluders: int | None,
    bandwidth: float,
    picture: Path | None,
    *,
    details: bool,
    as_json: bool,
) -> None:
    """Forecast the study in FILE (YAML) from public numbers alone.

    Sends and charges nothing, and reads FILE only. Says whether the study can work; the smallest
    epsilon, the rows and the owners that would be enough; bytes and time. With --details it shows,
    for both mechanisms and a grid of epsilons, which components would be seen above the noise. All
    of it depends on the assumed eigenvalues. Without --spectrum they are the best that the schema
    allows: then "cannot work" is certain, and "works" is not.

    With --details or --target it also says what choices of the schema (sum_weight, histograms,
    products of bins, targets) cost and gain. It warns where noise would hide relations between
    attributes from synthetic rows.

    \b
    Example:
      dppca-curator plan nltcs.yaml --rows 7000 --target outside
      dppca-curator plan nltcs.yaml --rows 7000 --colluders 1
      dppca-curator plan nltcs.yaml --rows 7000 --rows owner-3=900 --delta 1e-9 \\
          --spectrum pilot.npz --plot nltcs.png
    """
    from dppca.curator.commands.study_assembly import read_study
    from dppca.curator.planning.plan import GRID, make_plan
    from dppca.curator.planning.plan_text import SHORT_WIDTH, plan_text

    if picture is not None:
        from dppca.common.shell.plotting import check_plotting

        check_plotting()
    study = read_study(file)
    assumption = _assumption(study, spectrum)
    with progress("Forecasts", enabled=not as_json) as bar:
        forecast = make_plan(
            study,
            _rows(study, rows),
            assumption,
            delta=delta,
            targets=targets,
            colluders=colluders,
            grid=grid or GRID,
            advance=bar.advance,
        )
    forecast = replace(
        forecast,
        seconds=_seconds(study, forecast, bandwidth),
        plot=None if picture is None else str(picture),
    )
    width = terminal_width() if details else SHORT_WIDTH
    text = plan_text(forecast, width=width, details=details, choices=bool(targets))
    if picture is not None:
        _draw(picture, forecast)
        text += f"\nPlot: {picture}"
    emit(forecast, text, as_json=as_json)


def _rows(study: Study, given: tuple[str, ...]) -> dict[str, int]:
    everywhere = [text for text in given if "=" not in text]
    if len(everywhere) > 1:
        raise SettingError(
            f"--rows {' and '.join(everywhere)}: one number for every owner is enough"
        )
    forecast = dict.fromkeys(study.owners, _count(everywhere[0])) if everywhere else {}
    for text in given:
        owner, separator, number = text.partition("=")
        if separator:
            forecast[owner] = _count(number)
    return forecast


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise SettingError(f"--rows takes a number such as 6000, or OWNER=NUMBER, not {text!r}")
    return int(text)


def _assumption(study: Study, text: str) -> Assumption:
    from dppca.curator.planning.assumptions import given_eigenvalues, power_law

    layout = study.table.layout
    if text.startswith("power:"):
        parts = text.split(":")[1:]
        try:
            numbers = [float(part) for part in parts]
            exponent, share = numbers if len(numbers) == 2 else (*numbers, 1.0)
        except ValueError as error:
            raise SettingError(
                f"--spectrum {text}: write power:A or power:A:SHARE, such as power:1:0.5"
            ) from error
        return power_law(layout, exponent, share)
    path = Path(text)
    return given_eigenvalues(layout, _eigenvalues(path), path.name)


def _eigenvalues(path: Path) -> list[float]:
    """Return the numbers in a file; of an earlier study's result, those above its noise edge."""
    from dppca.common.kernel.attestation.results import released_spectrum

    try:
        content = path.read_bytes()
        if path.suffix == ".npz":
            values, noise_edge = released_spectrum(content)
            return [float(value) for value in values if value > noise_edge]
        if path.suffix == ".json":
            return [float(value) for value in json.loads(content)]
        return [float(word) for word in content.decode().replace(",", " ").split()]
    except (OSError, ValueError, TypeError, ArtefactError) as error:
        raise SettingError(
            f"{path} holds no eigenvalues: give numbers (.txt, .csv), a list of them (.json), or "
            "the result of an earlier study (.npz)"
        ) from error


def _seconds(study: Study, forecast: StudyPlan, megabits: float) -> PlanSeconds:
    """Measure on one core: a part of one owner's noise, and one decomposition."""
    import numpy as np

    from dppca.common.analysis.spectrum.pca import decompose
    from dppca.common.kernel.moments.threads import one_blas_thread
    from dppca.common.kernel.privacy.mechanisms import add_noise
    from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy
    from dppca.common.kernel.privacy.release import calibrate
    from dppca.curator.planning.plan import PlanSeconds

    layout = study.table.layout
    entries = min(layout.n_entries, _TIMED_ENTRIES)
    p = layout.n_columns
    noise = calibrate(study)
    square = np.random.default_rng(0).standard_normal((p, p))
    with one_blas_thread():
        start = time.perf_counter()
        if noise.law.is_joint:
            entries = layout.n_entries
            noise.law.draw_release(layout, noise.n_honest_owners, entropy=OperatingSystemEntropy())
        else:
            # As most entries have it.
            each = replace(noise, law=noise.law.of_entries.of_products)
            add_noise(np.zeros(entries, np.int64), each, entropy=OperatingSystemEntropy())
        drawn = time.perf_counter()
        decompose(square + square.T)
        done = time.perf_counter()
    return PlanSeconds(
        draw=(drawn - start) * layout.n_entries / entries,
        decompose=done - drawn,
        transfer=8 * (forecast.bytes_up + forecast.bytes_down) / (megabits * 1e6),
        megabits=megabits,
    )


def _draw(path: Path, forecast: StudyPlan) -> None:
    from dppca.curator.planning.plot import plot_plan

    try:
        plot_plan(path, forecast)
    except (OSError, ValueError) as error:
        raise SettingError(f"cannot draw {path}: {error}") from error
