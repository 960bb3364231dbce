"""Proof of claims: signatures, receipts that travel with files, and their verification.

Everything that is released carries a receipt. An owner signs the receipt of its own release with
the key of its certificate. The curator puts these receipts, the study's document and the digests of
its results into the receipt of the components, and countersigns that. The writer of a file signs
the file's digest. `verify` checks all of it without a network, and computes sensitivity and noise
again from the study's document. The formats are in ``docs/reference/receipts.md``.

Limits: a signature shows the author of a claim. A file cannot show that noise was in fact drawn:
`dppca-owner selftest` audits that at the site of the rows.
"""
