"""When the chain that was seen of an owner's ledger is set aside: pure decisions.

A curator takes no contribution whose ledger is shorter than it has seen
(`dppca.curator.study.admission`). Two things make that rule refuse an honest site:

* Somebody had the owner's key and sent a contribution with a chain that is not the owner's. An
  operator settles it (`settle_chain`): nothing counts as seen until the next contribution.
* The ledger was lost, and recovered from what is held here (`dppca-owner ledger recover`). The
  owner's new chain takes the old one's place (`continue_chain`) where its ledger accounts for every
  release that is held; a ledger that has forgotten one does not know its identifier.

Both are kept for ever, with who did it, when and why. Contributions are not touched. Of the chains
that an owner goes on with between two releases the last is kept, as one settlement, which sets
aside the chain that was there before the first of them. So an owner has at most two settlements,
one of its own and one of an operator, for each release that is held.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from dppca.common.documents.messages import accounts_for
from dppca.common.errors import ChainError, InputError
from dppca.curator.study.lifecycle import require_reason
from dppca.curator.study.study_record import MAX_LEDGER_LENGTH, LedgerHead, OwnerHistory, Settlement

CONTINUED = "The owner's ledger accounts for every release held here."


def settle_chain(
    history: OwnerHistory, owner: str, *, by: str, reason: str, now: datetime
) -> Settlement | None:
    """Set aside what was seen of an owner's chain; None where that has been done.

    Parameters
    ----------
    by
        ``operator:NAME``.
    reason
        One line.

    Raises
    ------
    InputError
        No reason, or nothing was ever seen of this owner.
    """
    require_reason(reason)
    if history.chain is None:
        if history.settlements:
            return None
        raise InputError(f"no ledger of {owner} has been seen here: there is nothing to settle")
    return Settlement(int(now.timestamp()), by, reason, history.chain, None, len(history.releases))


def continue_chain(
    history: OwnerHistory, owner: str, chain: LedgerHead, known: bytes, *, now: datetime
) -> Settlement | None:
    """Let another chain take the place of the one that was seen; None where it is that one.

    Parameters
    ----------
    known
        Digest of the releases that the owner's ledger knows
        (`dppca.common.documents.messages.accounts_for`).

    Raises
    ------
    ChainError
        The ledger does not know every release that is held.
    InputError
        No ledger has such a length.
    """
    if not 0 <= chain.length <= MAX_LEDGER_LENGTH:
        raise InputError(f"a ledger of {chain.length} entries from {owner}")
    if known != accounts_for(history.releases):
        raise ChainError(f"the ledger of {owner} does not account for every release that is held")
    if history.chain is None or history.chain == chain:
        return None
    made = Settlement(
        int(now.timestamp()),
        f"owner:{owner}",
        CONTINUED,
        history.chain,
        chain,
        len(history.releases),
    )
    before = next((each for each in history.settlements if each.kind == made.kind), made)
    return replace(made, seen=before.seen)
