"""What an operator reads of an owner's ledger."""

from dppca.curator.commands.owners import _describe
from dppca.curator.operator.responses import SeenOwner


def test_an_owner_that_sent_nothing_may_be_misspelt() -> None:
    unseen = "Owner north: no ledger counts as seen."
    for length, said in ((0, f"{unseen} It has sent nothing, or has another name"), (3, "Owner")):
        seen = SeenOwner(ledger_length=length, ledger_head="", contributions=(), settlements=())
        told = _describe("north", seen, width=None)
        assert told.startswith(said)
        assert ("another name" in told) == (length == 0)
