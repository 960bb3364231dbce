"""What a study's noise will leave, in numbers, before anything is spent.

One function for `study new`, `study check`, `plan` and `review`. It needs the study and numbers of
rows alone, so that people may act on it as often as they like.

Two things are *assumptions*, not the rows':

* values are spread evenly over their bounds and labels, without relations
  (`dppca.common.analysis.estimates.forecast`);
* eigenvalues are in proportion to ``1/i``, ``i = 1 ... p``, with the largest sum that the schema
  allows (`dppca.common.analysis.forecast`). They are compared with the noise edge, the largest
  eigenvalue that noise alone would have. If it is above their sum, not even the best possible table
  has a component that stands out. `plan` puts other spectra into a longer simulation.

The released mean is taken as 0 (the middle of every bound), and all owners to have as many rows.

Limits: a real table has less variance, often by far, and rarer labels. So this shows which studies
cannot succeed, not which will.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from dppca.common.analysis.estimates.forecast import (
    ForecastWidth,
    QuestionForecast,
    forecast_questions,
    forecast_widths,
)
from dppca.common.kernel.documents.tables import text_table

if TYPE_CHECKING:
    from dppca.common.kernel.privacy.mechanisms import Calibration
    from dppca.common.kernel.study import Study

_MOST_DRAWS, _LEAST_DRAWS = 100, 8  # of the noise; the fewest where columns are many
_USUAL = (1_000, 10_000, 100_000)  # rows of an owner, where nobody said how many
_ENTRIES = 1 << 22  # of all draws' matrices: an outlook takes a second or two


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Forecast of the result from the study and the number of rows alone.

    Where this number is secret, all of it is site-only.
    """

    noise_edge: Annotated[float, "largest variance that noise alone reaches, squared coded units"]
    draws: Annotated[int, "simulated draws of noise behind it"]
    largest_variance: Annotated[float, "largest total variance that the schema allows"]
    assumed_spectrum: Annotated[str, "assumption about the eigenvalues"] = (
        "eigenvalues in proportion to 1/i, their sum the largest variance"
    )
    assumed_first: Annotated[float, "first eigenvalue under that assumption"]
    assumed_components: Annotated[int, "eigenvalues above the noise edge under it"]
    owners: Annotated[int, "owners that are assumed to take part"]
    rows_per_owner: Annotated[int, "rows that each of them is assumed to bring"]
    widths: Annotated[
        tuple[ForecastWidth, ...],
        "intervals that `estimate` will give, if values are spread evenly",
    ]
    questions: Annotated[
        tuple[QuestionForecast, ...], "what the study's own questions would get, likewise"
    ]


def look_at_sizes(
    study: Study, calibration: Calibration, n_rows: int | None
) -> tuple[Outlook, ...]:
    """Return the outlook for ``n_rows`` of each owner, or for usual numbers that the study takes.

    Empty as `look_ahead`. Raise `TooManyRowsError` for more rows than the study takes.
    """
    most = study.rows_per_owner
    if n_rows is not None:
        study.require_room("each owner", n_rows)
    usual = [size for size in _USUAL if size <= most] or [most]
    sizes = usual if n_rows is None else [n_rows]
    found = (look_ahead(study, calibration, n_rows=size) for size in sizes)
    return tuple(each for each in found if each is not None)


def look_ahead(study: Study, calibration: Calibration, *, n_rows: int) -> Outlook | None:
    """Return the outlook of a study whose owners have ``n_rows`` rows, or people, each.

    None for a study that continues another, which has no components and adds to answers, and for
    no row at all.
    """
    if study.continues is not None or n_rows == 0:
        return None
    import numpy as np

    from dppca.common.analysis.forecast import largest_total_variance, power_spectrum
    from dppca.common.analysis.spectrum.noise_edge import noise_edge  # not for a command's help

    layout, owner_rows = study.table.layout, [n_rows] * len(study.owners)
    edge = noise_edge(
        layout,
        law=calibration.law,
        owner_rows=owner_rows,
        mean=np.zeros(layout.n_columns) if layout.with_sums else None,
        covariance=study.covariance,
        seed=int(study.digest[:16], 16),
        draws=min(_MOST_DRAWS, max(_LEAST_DRAWS, _ENTRIES // layout.n_columns**2)),
        mechanisms=calibration.mechanisms(len(owner_rows)),
    )
    spectrum = power_spectrum(layout, exponent=1, share=1)
    return Outlook(
        noise_edge=edge.value,
        draws=edge.draws,
        largest_variance=largest_total_variance(layout),
        assumed_first=float(spectrum[0]),
        assumed_components=int(np.count_nonzero(spectrum > edge.value)),
        owners=len(owner_rows),
        rows_per_owner=n_rows,
        widths=expected_widths(study, calibration, owner_rows),
        questions=expected_answers(study, calibration, owner_rows),
    )


def expected_widths(
    study: Study, calibration: Calibration, owner_rows: Sequence[int]
) -> tuple[ForecastWidth, ...]:
    """Return half the widths of intervals, if values are spread evenly over their bounds."""
    from dppca.common.analysis.estimates.release import expected_moments

    return forecast_widths(expected_moments(study, calibration, owner_rows))


def expected_answers(
    study: Study, calibration: Calibration, owner_rows: Sequence[int]
) -> tuple[QuestionForecast, ...]:
    """Return what a study's questions would get, if values are spread evenly."""
    from dppca.common.analysis.estimates.release import expected_moments

    return forecast_questions(expected_moments(study, calibration, owner_rows))


def outlook_lines(found: Sequence[Outlook], counts: str, *, width: int | None = None) -> list[str]:
    """Return a table for people, with a column for each number of rows; none of nothing.

    ``counts`` are rows or people, ``width`` is the terminal's.
    """
    if not found:
        return []
    widths = [{each.question: each.text for each in own.widths} for own in found]
    rows = [
        (
            "  components above the noise, at most",
            *(str(each.assumed_components) for each in found),
        ),
        *((f"  {question}", *(own[question] for own in widths)) for question in widths[0]),
    ]
    names = (f"  {counts} of each owner", *(f"{each.rows_per_owner:,}" for each in found))
    return [
        "What the noise leaves: 95 % intervals by `estimate` if values are spread evenly over "
        "their bounds, components if variances are in proportion to 1, 1/2, 1/3 ...:",
        *text_table(names, rows, width=width, right=range(1, len(names))),
    ]
