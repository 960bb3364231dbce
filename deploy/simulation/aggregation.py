"""Settings of a simulated study: its trust before owners have keys, and a second study."""

from dataclasses import dataclass
from decimal import Decimal

import yaml

from dppca.common.kernel.documents.amounts import parse_positive
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.study import Study, Trust

SECOND = "second"
"""End of the name of a study that continues another."""
OPEN_BY = "2100-01-01T00:00:00+00:00"
"""A deadline that no simulation reaches."""


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Settings of ``trust: aggregate``.

    Up to ``colluders`` (t) owners may collude with the curator, the first ``openers`` owners are
    openers, and ``spares`` of these may be missing for good.
    """

    colluders: int
    openers: int
    spares: int = 0


@dataclass(frozen=True, slots=True)
class Refinement:
    """A second study that continues the first: trees that predict ``target``, at ``epsilon``.

    Its noise is of the first study's kind, at the same delta.
    """

    target: str
    epsilon: Decimal

    def name(self, first: Study) -> str:
        """Return the second study's name."""
        return f"{first.name}-{SECOND}"


def choose_refinement(
    study: Study, target: str | None, epsilon: str | float | Decimal | None
) -> Refinement | None:
    """Return the second study that is asked for; `SettingError` if the two do not fit."""
    if target is None and epsilon is None:
        return None
    if target is None or epsilon is None:
        raise SettingError(
            "a second study needs both: the attribute that its trees predict, and what its "
            "releases may cost (refine and refine epsilon)"
        )
    try:
        amount = parse_positive(epsilon)
    except ValueError as error:
        raise SettingError(f"the epsilon of the second study {error}") from error
    if target not in (attribute.name for attribute in study.table.attributes):
        raise SettingError(f"{target}, which the second study would predict, is not an attribute")
    return Refinement(target, amount)


def describe_refinement(second: Study) -> str:
    """Return what a second study counted, in a sentence."""
    return (
        f"A second study, {second.name}, counted the rows in {' and '.join(second.table.counted)}; "
        "decoded rows are made of both results."
    )


def choose_aggregation(
    study: Study,
    *,
    trust: str | None,
    colluders: int | None,
    openers: int | None,
    spares: int | None,
) -> Aggregation | None:
    """Return the requested settings, else the study's; None if each owner adds all of the noise.

    Raise `SettingError` if a number is missing, or belongs to ``trust: aggregate``.
    """
    numbers = (colluders, openers, spares)
    if Trust(trust or study.trust) is Trust.OWNER:
        if any(number is not None for number in numbers):
            raise SettingError("--colluders, --openers and --spares belong to --trust aggregate")
        return None
    study_numbers = study.privacy.colluders, len(study.openers or {}) or None, study.spares
    chosen = [
        own if own is not None else there for own, there in zip(numbers, study_numbers, strict=True)
    ]
    if chosen[0] is None or chosen[1] is None:
        raise SettingError(
            "--trust aggregate needs --colluders, how many owners may work together with the "
            "curator, and --openers, one more than those at least"
        )
    return Aggregation(chosen[0], chosen[1], chosen[2] or 0)


def write_draft(study: Study, aggregation: Aggregation) -> str:
    """Return a study of ``trust: owner`` as the file to which ``study assemble`` adds keys."""
    document = study.model_dump(mode="json", by_alias=True, exclude_none=True)
    trust = {"trust": Trust.AGGREGATE.value, "colluders": aggregation.colluders}
    draft = {
        **document,
        "privacy": {**document["privacy"], **trust},
        "spares": aggregation.spares,
        "open_by": OPEN_BY,
    }
    return yaml.safe_dump(draft, sort_keys=False, allow_unicode=True)
