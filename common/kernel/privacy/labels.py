"""Labels: they say if an artefact may leave a site."""

from enum import StrEnum

from dppca.common.kernel.errors import LabelError


class Label(StrEnum):
    """Label of an artefact, in its type and in its file's metadata."""

    RELEASED = "released"
    """Differentially private, or computed from such data: it may leave, with a receipt."""
    SITE_ONLY = "site-only"
    """Computed from raw rows: it may be used at the site and is never sent."""
    MASKED = "masked"
    """Random without the openings: it goes to its study's curator only, with a receipt."""
    PUBLISHED_METHOD = "published-method"
    """Made as a paper prints it although its privacy claim does not hold: for public data only."""


def require_released(label: Label, artefact: str) -> None:
    """Raise `LabelError`, with the reason, unless an artefact is a release."""
    if label is Label.RELEASED:
        return
    if label is Label.SITE_ONLY:
        message = (
            f"{artefact} is {label}: it was computed from raw rows without noise. Anybody who "
            "holds it can learn about single rows. Use it at this site. To share something, "
            "publish synthetic rows or train a model on them"
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
