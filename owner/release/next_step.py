"""The next step of a request, by the ledger alone: what a list of studies needs of a release."""

from enum import StrEnum

from dppca.owner.ledger.chain import History


class NextStep(StrEnum):
    """Next step of `contribute` for a request."""

    RESERVE = "reserve"
    """Charge it, then draw."""
    DRAW = "draw"
    """It is charged, but no bytes were kept: draw again under the same reservation."""
    NOTHING = "nothing"
    """The curator holds a release that was recovered or disowned: it takes no other."""
    SEND = "send"
    """Its bytes are stored: send them as they are, at no further charge."""


def decide_step(history: History, request_digest: str) -> NextStep:
    """Next step for a request, according to the ledger."""
    if history.settled_for(request_digest) is not None:
        return NextStep.NOTHING
    if history.reservation_for(request_digest) is None:
        return NextStep.RESERVE
    return NextStep.DRAW if history.commitment_for(request_digest) is None else NextStep.SEND
