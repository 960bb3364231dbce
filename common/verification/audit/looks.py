"""Exports of a site's record, one after the other, and what a bundle continues. Pure.

The site keeps a line for each export, written before anything is handed over. A bundle names the
SHA-256 of the bundle before it, and each line the ledger that was shown. So nobody at the site can
take back a bundle that an auditor has kept: the next one repeats it to the byte, or does not
continue it.
"""

from collections.abc import Iterator, Sequence

from dppca.common.kernel.errors import ChainError, ReceiptError
from dppca.common.verification.audit.chain import Chain
from dppca.common.verification.audit.form import AuditDocument, Look, PastLook

FIRST = "0" * 64
"""Stands in the first export for the digest of the one before it."""


def past(look: Look, sha256: str) -> PastLook:
    """Return the line that a site keeps of an export."""
    return PastLook(**look.model_dump(), sha256=sha256)


def require_looks(looks: Sequence[PastLook], look: Look | None = None) -> None:
    """Raise `ReceiptError` unless exports are numbered from 1, and each names the one before it."""
    before = FIRST
    for number, each in enumerate((*looks, *([] if look is None else [look])), start=1):
        if (each.number, each.previous) != (number, before):
            raise ReceiptError(f"export {number} of the site does not follow the one before it")
        before = each.sha256 if isinstance(each, PastLook) else before


def find_replaced(looks: Sequence[PastLook], chain: Chain) -> Iterator[int]:
    """Yield the numbers of earlier exports whose ledger is no part of this one."""
    return (each.number for each in looks if chain.head_at(each.entries) != each.head)


def require_continued(document: AuditDocument, before: AuditDocument, sha256: str) -> None:
    """Raise `ChainError` unless a bundle continues an earlier one, whose SHA-256 this is."""
    number = before.look.number
    if document.owner != before.owner:
        raise ChainError(
            f"the bundle is of site {document.owner}, and the one that you hold of {before.owner}"
        )
    if document.look.number <= number:
        raise ChainError(
            f"the bundle is export {document.look.number}, and you hold export {number}, which is "
            "not earlier: the site's log of exports was put back, or these are the wrong way round"
        )
    if document.looks[:number] != [*before.looks, past(before.look, sha256)]:
        raise ChainError(
            f"export {number} of the bundle is not the one that you hold: the site's log of "
            "exports is another one"
        )
    for place, each in enumerate(before.entries):
        if place >= len(document.entries):
            raise ChainError(
                f"the ledger has {len(document.entries)} entries, and had {len(before.entries)} in "
                f"export {number}: the last ones were taken away"
            )
        if document.entries[place] != each:
            raise ChainError(
                f"entry {place + 1} of the ledger is not the one of export {number}, which you "
                "hold: it was changed since, or is another ledger"
            )
