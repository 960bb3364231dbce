"""Origin of a simulation's synthetic rows, for its report and for notebooks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from dppca.common.analysis.field.missed import Missed, missed_text
from dppca.common.analysis.rows.synthesis import DecodingMethod
from dppca.common.kernel.errors import SettingError


@dataclass(frozen=True, slots=True)
class OwnerSynthesis:
    """Synthetic rows that one owner drew; fields are those of `SyntheticRows`."""

    n_rows: int
    method: DecodingMethod
    misfit: float | None
    missed: tuple[Missed, ...] = ()


@dataclass(frozen=True, slots=True)
class SimulatedSynthesis:
    """Synthetic rows of a simulation."""

    rows: Annotated[int, "synthetic rows in each form, of all owners together"]
    decoded_by: Annotated[
        DecodingMethod,
        "how decoded rows were made; where fields of some owners alone converged, as the others'",
    ]
    not_converged: Annotated[tuple[str, ...], "owners whose field did not converge"]
    misfit: Annotated[
        float | None, "largest misfit of a field, in standard deviations; null without a field"
    ]
    missed: Annotated[
        tuple[Missed, ...],
        "what the release knows and decoded rows of some owner miss, the largest difference first",
    ]
    summary: Annotated[str, "the same in words"]


def divide_rows(n_rows: int, owners: Sequence[str]) -> dict[str, int]:
    """Divide a number of synthetic rows among owners; the parts differ by at most one.

    Raise `SettingError` if there are fewer rows than owners.
    """
    each, left = divmod(n_rows, len(owners))
    if each < 1:
        raise SettingError(
            f"{n_rows} synthetic rows cannot be divided among {len(owners)} owners, each of which "
            "draws at least 1: ask for more"
        )
    return {name: each + (place < left) for place, name in enumerate(owners)}


def summarise_synthesis(drawn: Mapping[str, OwnerSynthesis]) -> SimulatedSynthesis:
    """Summarise the rows of at least one owner, by its name."""
    lacking = tuple(
        name for name, each in drawn.items() if each.method is DecodingMethod.NOT_CONVERGED
    )
    missing = [name for name, each in drawn.items() if each.missed]
    worst = next(iter([*lacking, *missing, *drawn]))
    largest: dict[str, Missed] = {}
    for found in sorted(
        (one for each in drawn.values() for one in each.missed), key=lambda one: -one.deviations
    ):
        largest.setdefault(found.relation, found)
    missed = tuple(largest.values())
    misfits = [each.misfit for each in drawn.values() if each.misfit is not None]
    misfit = max(misfits, default=None)
    method = drawn[worst].method
    return SimulatedSynthesis(
        rows=sum(each.n_rows for each in drawn.values()),
        decoded_by=method,
        not_converged=lacking,
        misfit=misfit,
        missed=missed,
        summary=_describe(method, lacking, misfit, missed, n_owners=len(drawn)),
    )


def _describe(
    method: DecodingMethod,
    lacking: tuple[str, ...],
    misfit: float | None,
    missed: tuple[Missed, ...],
    *,
    n_owners: int,
) -> str:
    off = "" if misfit is None else f" (misfit {misfit:.2f}; chance alone would give 1)"
    if method is DecodingMethod.FIELD:
        return f"The field of the decoded synthetic rows converged{off}."
    if method is DecodingMethod.MISSES:
        return f"{missed_text(missed)}."
    if method is DecodingMethod.THRESHOLDS:
        return (
            "A study like this has no field: decoded synthetic rows are the coded ones, brought to "
            "valid values by thresholds."
        )
    where = "" if len(lacking) == n_owners else f" at {', '.join(lacking)}"
    return (
        f"The field of the decoded synthetic rows did not converge{where}{off}: decoded rows "
        f"{'there ' if where else ''}are the coded ones, brought to valid values by thresholds."
        + (f" {missed_text(missed)}." if missed else "")
    )
