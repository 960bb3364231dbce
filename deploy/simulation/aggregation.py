"""A simulated study with ``trust: aggregate``: what is said of it before its owners have keys."""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from dppca.common.errors import SettingError
from dppca.common.study import Study, Trust

OPEN_BY = "2100-01-01T00:00:00+00:00"
"""In a simulation nobody waits that long."""


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Who may collude, and who takes the masks away.

    Attributes
    ----------
    colluders
        t, owners that may work together with the curator.
    openers
        How many of the first owners are openers.
    spares
        Openers that may be gone for good.
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
    """What was asked for, else what the study says; None where each owner adds all of the noise.

    Raises
    ------
    SettingError
        A number is missing, or belongs to ``trust: aggregate``.
    """
    numbers = (colluders, openers, spares)
    if Trust(trust or study.trust) is Trust.OWNER:
        if any(number is not None for number in numbers):
            raise SettingError("--colluders, --openers and --spares belong to --trust aggregate")
        return None
    said = study.privacy.colluders, len(study.openers or {}) or None, study.spares
    chosen = [own if own is not None else there for own, there in zip(numbers, said, strict=True)]
    if chosen[0] is None or chosen[1] is None:
        raise SettingError(
            "--trust aggregate needs --colluders, how many owners may work together with the "
            "curator, and --openers, one more than those at least"
        )
    return Aggregation(chosen[0], chosen[1], chosen[2] or 0)


def write_draft(study: Study, aggregation: Aggregation) -> str:
    """The study file to which ``study assemble`` adds the owners' keys.

    Parameters
    ----------
    study
        With ``trust: owner``.
    """
    document = study.model_dump(mode="json", by_alias=True, exclude_none=True)
    trust = {"trust": Trust.AGGREGATE.value, "colluders": aggregation.colluders}
    draft = {
        **document,
        "privacy": {**document["privacy"], **trust},
        "spares": aggregation.spares,
        "open_by": OPEN_BY,
    }
    return yaml.safe_dump(draft, sort_keys=False, allow_unicode=True)
