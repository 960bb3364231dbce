"""Setting aside the recorded chain of an owner's ledger: pure decisions.

A curator accepts no contribution whose ledger is shorter than the recorded chain
(`dppca.curator.study.admission`). In two cases that rule refuses an honest site:

* An attacker had the owner's key and sent a contribution with a chain that is not the owner's. An
  operator settles it (`settle_chain`): no chain is recorded until the next contribution. The roles
  of people that were seen there are set aside with it, also those of an owner that only opens.
* The ledger was lost, and recovered from this curator's records (`dppca-owner ledger recover`). The
  owner's new chain replaces the old one (`continue_chain`) if its ledger accounts for every release
  that is held; a ledger that has forgotten one does not know its identifier.

Both are kept for ever, with actor, time and reason. Contributions are not touched. If an owner
continues with several chains between two releases, the last is kept as one settlement, which sets
aside the chain that was there before the first of them. So an owner has at most two settlements,
one of its own and one of an operator, for each release that is held.
"""

from dataclasses import replace
from datetime import datetime

from dppca.common.kernel.documents.messages import accounts_for
from dppca.common.kernel.errors import ChainError, InputError
from dppca.curator.study.lifecycle import require_reason
from dppca.curator.study.study_record import MAX_LEDGER_LENGTH, LedgerHead, OwnerHistory, Settlement

_NO_LEDGER = LedgerHead(0, bytes(32))  # where people were seen to sign, and nothing else
CONTINUED = "The owner's ledger accounts for every release held here."


def settle_chain(
    history: OwnerHistory, owner: str, *, by: str, reason: str, now: datetime
) -> Settlement:
    """Set aside the record of an owner's chain; return the last settlement if that has been done.

    ``by`` is ``operator:NAME``; ``reason`` is one line. `InputError` is raised without a reason, or
    if no ledger of this owner was ever seen.
    """
    require_reason(reason)
    if history.chain is None and history.roles is None:
        if history.settlements:
            return history.settlements[-1]
        raise InputError(f"no ledger of {owner} has been seen here: nothing can be settled")
    seen = history.chain or _NO_LEDGER
    return Settlement(int(now.timestamp()), by, reason, seen, None, len(history.releases))


def continue_chain(
    history: OwnerHistory, owner: str, chain: LedgerHead, known: bytes, *, now: datetime
) -> Settlement | None:
    """Replace the recorded chain by another; return None if it is the recorded one, or none is.

    ``known`` is the digest of the releases that the owner's ledger knows
    (`dppca.common.kernel.documents.messages.accounts_for`). `ChainError` is raised if the ledger
    does not know every release that is held, `InputError` if no ledger can have such a length.
    """
    if not 0 <= chain.length <= MAX_LEDGER_LENGTH:
        raise InputError(f"a ledger of {chain.length} entries from {owner}")
    if known != accounts_for(history.releases):
        raise ChainError(f"the ledger of {owner} does not account for every release that is held")
    if history.chain is None or history.chain == chain:
        return None
    settlement = Settlement(
        int(now.timestamp()),
        f"owner:{owner}",
        CONTINUED,
        history.chain,
        chain,
        len(history.releases),
    )
    before = next(
        (each for each in history.settlements if each.kind == settlement.kind), settlement
    )
    return replace(settlement, seen=before.seen)
