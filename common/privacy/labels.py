"""The labels: what may leave a site, what may not, and what is for benchmarks only."""

from __future__ import annotations

from enum import StrEnum

from dppca.common.errors import LabelError


class Label(StrEnum):
    """Carried by every artefact, in its type and in its file's metadata."""

    RELEASED = "released"
    """Differentially private, or computed from what is: may leave. Carries a receipt."""
    SITE_ONLY = "site-only"
    """Computed from raw rows: may be used at the site, never sent."""
    MASKED = "masked"
    """Random without the openings; for its study's curator alone. Carries a receipt."""
    PUBLISHED_METHOD = "published-method"
    """Made as a paper prints it although its claim does not hold: public data only."""


def require_released(label: Label, artefact: str) -> None:
    """Refuse to let anything but a release leave; `LabelError` says why."""
    if label is Label.RELEASED:
        return
    if label is Label.SITE_ONLY:
        message = (
            f"{artefact} is {label}: it was computed from raw rows without noise, so anybody who "
            "holds it can learn about single rows. Use it at this site; to share, publish "
            "synthetic rows or train a model on them"
        )
    elif label is Label.MASKED:
        message = (
            f"{artefact} is {label}: it holds a share of the noise only, and is for its study's "
            "curator alone. What the study's owners have in common is in its components"
        )
    else:
        message = (
            f"{artefact} is {label}: its privacy claim does not hold. It is for benchmarks on "
            "public data only"
        )
    raise LabelError(message)
