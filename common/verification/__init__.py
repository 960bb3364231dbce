"""Verification of every kind of released file, models among them, and the command that prints it.

What holds a result and a table to their study is in `dppca.common.attestation`, which is part of
the kernel; a model is checked here, with the libraries that read one.
"""
