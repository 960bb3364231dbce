"""What intervals are about: the rows themselves, or the population that they are a sample of.

Owners are strata; taking their rows as one sample errs on the wide side. The owners are no sample
of owners. With several rows of a person, at most k, the sampling variance is at most k times that
of independent rows (Cauchy-Schwarz over each person's rows). With ``unit: person`` it is at most
that of as many independent rows as there are people (Jensen: the square of a mean over a person's
rows is at most the mean of squares).
"""

from dataclasses import dataclass
from math import inf

from dppca.common.analysis.estimates.answers import NotEstimable
from dppca.common.analysis.estimates.release import ReconciledMoments
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema.units import Person

_KNOWN = 2.0  # deviations, from which on a size is more than its noise
_OF_PEOPLE = (
    "All is about a random row of a random person: all rows of somebody count as {}. No number of "
    "rows, and nothing per year or visit, can be asked of it."
)


@dataclass(frozen=True, slots=True)
class EstimateScope:
    """Rows or population.

    ``these_rows`` leaves sampling out; ``population`` is its number of members N, if it is finite
    and known: sampling variances are then multiplied by ``1 - n/N``.
    """

    these_rows: bool = False
    population: int | None = None

    def check(self, n_rows: int) -> None:
        """Raise `SettingError` if the population is smaller than the rows."""
        if self.population is None:
            return
        if self.these_rows:
            raise SettingError("a population has no meaning for these rows alone")
        if self.population < n_rows:
            raise SettingError(
                f"a population of {self.population} is smaller than its sample of {n_rows} rows"
            )

    def rows(self, moments: ReconciledMoments) -> float:
        """Return how many independent rows of an endless population would vary as much."""
        if self.these_rows:
            return inf
        left = 1.0 if self.population is None else 1 - moments.n_rows / self.population
        return moments.n_rows / (moments.study.unit.weight * left) if left else inf

    @property
    def text(self) -> str:
        """What intervals are about."""
        if self.these_rows:
            return "for these rows"
        of = "" if self.population is None else f" of {self.population}"
        return f"for the population{of} that the rows are a sample of"

    def sentences(self, moments: ReconciledMoments) -> tuple[str, ...]:
        """Return what intervals rest on."""
        unit = moments.study.unit
        about = (_OF_PEOPLE.format(_weight(unit)),) if isinstance(unit, Person) else ()
        if self.these_rows:
            return ("The noise alone is in the intervals.", *about)
        told = [
            f"The owners' {unit.counts} are a random sample; the owners are not a sample of owners."
        ]
        told += about
        if (most := unit.weight) > 1:
            told.append(
                f"One person may count as {most} rows, so sampling variances are multiplied by "
                f"{most}."
            )
        return tuple(told)


def _weight(unit: Person) -> str:
    return "one" if unit.weight == 1 else f"up to {unit.weight}"


def too_weak(
    moments: ReconciledMoments,
    subject: str,
    reason: str,
    *,
    size: float,
    noise: float,
    sampling: float = 0.0,
    least: float = 4.0,
    remedies: tuple[str, ...] = (),
) -> NotEstimable | None:
    """Refuse a size below ``least`` deviations, from the variances of its noise and sampling."""
    variance = noise + sampling
    if size > 0 and size**2 >= least**2 * variance:
        return None
    strength = size / variance**0.5 if variance else 0.0
    rows = epsilon = None
    if strength >= _KNOWN:  # below it the size is noise, and nobody knows what would be enough
        rows, epsilon = moments.needed(size / least, noise, sampling)
    counts = moments.study.unit.counts
    return NotEstimable(reason, subject, strength, least, rows, epsilon, remedies, counts)
