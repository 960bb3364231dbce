"""Named checkpoints at which a party can be killed or held, for tests of faults only.

Tests show that a crash, a cut or a full disk between any two steps loses nothing and charges
nothing twice; they need a process that is at exactly that step. Both sides pass these checkpoints;
unless the environment names one, a checkpoint does nothing::

    DPPCA_FAULT=kill@STEP   the process ends as by ``kill -9``
    DPPCA_FAULT=hold@STEP   it stops as by ``kill -STOP``, until ``kill -CONT``

Each happens the first time that the step is passed; several steps are separated by commas. There
are no other faults: no checkpoint changes, skips or repeats anything, and a user who sets the
environment of a process can end or stop it anyway. A held process does nothing, so the network can
be cut or the disk filled at that moment, from outside.
"""

import os
import signal
import threading
from typing import Literal

VARIABLE = "DPPCA_FAULT"

OwnerStep = Literal[
    "fetch",
    "read",
    "mark",
    "reserve",
    "draw",
    "store",
    "commit",
    "send",
    "acknowledge",
    "wait",
    "download",
]
"""Steps of an owner, in order: it asks for the study's document; no row is read; the first
transaction of the ledger is complete, its mark does not know it; the charge is in the ledger; the
noise is drawn; the ledger's transaction is not complete; the bytes are stored; the header is on its
way, its bytes are not; the curator has them, the ledger does not know it; it asks for the result;
it fetches it."""

ModelStep = Literal["write"]  # of an owner: a model is stored, its file is about to be written

OpenerStep = Literal["offer", "check", "vote", "open", "destroy"]
"""Further steps of an owner that is an opener, in order: its key is in the ledger and not yet kept;
a set was checked; the vote is in the ledger; the sums are; the key is destroyed. It sends then."""

CuratorStep = Literal[
    "receive",
    "store",
    "commit",
    "seal",
    "sealed",
    "vote",
    "opening",
    "opened",
    "decompose",
    "result",
    "serve",
    "close",
]
"""Steps of a curator, in order: a contribution is admitted, its bytes are on their way; they are on
disk, the transaction is not complete; they are stored, the owner has not been told; a set is about
to be sealed, is stored; a vote is stored; an opening arrives, is stored; nothing is computed; the
result is computed, is stored; the study is closed, the operator has not been told."""

_passed: set[str] = set()


def checkpoint(step: OwnerStep | ModelStep | OpenerStep | CuratorStep) -> None:
    """Pass a step: end or stop this process if the environment requests it here."""
    setting = os.environ.get(VARIABLE)
    if setting is None:
        return
    what, _, where = setting.partition("@")
    if step not in where.split(",") or step in _passed:
        return
    _passed.add(step)
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "hold":
        # To this thread, which therefore stops here and takes the others with it; if sent to the
        # process, another thread might receive it while this one continues.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
