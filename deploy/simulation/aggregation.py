"""Trust of a simulated study: the settings of ``trust: aggregate`` before its owners have keys."""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from dppca.common.errors import SettingError
from dppca.common.study import Study, Trust

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
