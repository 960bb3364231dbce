"""What one side says of itself in the first call of a command, before anything is charged.

Each says its version, and the curator its clock. DPPCA 0.2.0 and earlier say nothing. What is said
is not trusted: it leads to warnings alone, never to a decision.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.metadata import version

from dppca.common.kernel.durable.clock import duration_text, utc_now
from dppca.common.wire import federation_pb2 as pb

VERSION = version("dppca")
APART = timedelta(minutes=1)
"""Least difference between two clocks that is told."""
_VERSION = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6}){0,3}([a-z+.-][a-z0-9+.-]{0,30})?")


@dataclass(frozen=True, slots=True)
class Greeting:
    """What the other side said.

    ``version`` is empty if it said none, as earlier versions; ``ahead`` how far its clock was
    ahead of ours, None if it said no time; ``held`` whether its clock has jumped, so that it holds
    back what follows from time alone.
    """

    version: str = ""
    ahead: timedelta | None = None
    held: bool = False

    def remarks(self) -> list[str]:
        """What a curator's greeting tells people at a command: nothing if all is as usual."""
        remarks = [version_remark(self.version, who="the curator", here="this machine")]
        if self.held:
            remarks.append(
                "the curator's clock has jumped: until it is believed again, the curator ends "
                "nothing at a deadline. Tell the operator"
            )
        return [each for each in remarks if each]


def make_greeting(*, now: datetime | None = None, held: bool = False) -> pb.Greeting:
    """Make this side's greeting; a curator adds the time ``now`` of its clock, aware."""
    clock_ms = 0 if now is None else int(now.timestamp() * 1000)
    return pb.Greeting(version=VERSION, clock_ms=clock_ms, clock_held=held)


def read_greeting(said: pb.Greeting, *, asked: datetime | None = None) -> Greeting:
    """Read the other side's greeting, which answers a call that began at ``asked``, aware.

    Its clock is compared with the middle of the call. A version or a time that cannot be is as if
    none was said.
    """
    version = said.version if _VERSION.fullmatch(said.version) else ""
    if not said.clock_ms or asked is None:
        return Greeting(version, held=said.clock_held)
    ours = asked + (utc_now() - asked) / 2
    try:
        ahead = timedelta(milliseconds=said.clock_ms) - timedelta(seconds=ours.timestamp())
    except OverflowError:  # a time outside the calendar
        ahead = None
    return Greeting(version, ahead, said.clock_held)


def version_remark(theirs: str, *, who: str, here: str, ours: str = VERSION) -> str:
    """Say which side is older; empty if both are of one version.

    ``who`` names the other side, such as ``the curator``, and ``here`` this one.
    """
    if not theirs:
        return (
            f"{who} is of an earlier version than {here} ({ours}): it says none, as DPPCA 0.2.0 "
            f"and before. What is new since then is not possible until it is updated"
        )
    if _release(theirs) == _release(ours):
        return ""
    if _release(theirs) < _release(ours):
        return (
            f"{who} runs DPPCA {theirs}, and {here} the newer {ours}: what is new here is not "
            "possible until it is updated"
        )
    return (
        f"{who} runs DPPCA {theirs}, and {here} the older {ours}: what is new there may be refused "
        "here until this side is updated"
    )


def clock_remark(ahead: timedelta, *, who: str) -> str:
    """Say how far another side's clock is from ours; empty if it is less than `APART`."""
    if abs(ahead) < APART:
        return ""
    direction = "ahead of" if ahead > timedelta(0) else "behind"
    return (
        f"the clock of {who} is {duration_text(abs(ahead))} {direction} this machine's. One of the "
        "two is wrong, and deadlines pass by the curator's: compare both with a third clock"
    )


def _release(text: str) -> tuple[int, ...]:
    numbers = re.match(r"[\d.]*\d", text)
    return tuple(map(int, numbers[0].split("."))) if numbers else ()
