"""Proof of what was claimed: signatures, receipts that travel with files, and their verification.

Everything that is released carries a receipt. An owner signs the receipt of its own release with
the key of its certificate; the curator puts all of them, the study's document and the digests of
what it computed into the receipt of the components, and countersigns that; anybody who writes a
file seals its bytes. `verify` checks all of it without a network, and computes sensitivity and
noise again from the study's document. The formats are in ``docs/reference/receipts.md``.

Limits: a signature says who claims something. That noise was in fact drawn cannot be seen in a
file: `dppca-owner selftest` audits that, where the rows are.
"""
