"""Verification of every kind of released file, models among them, and the command that prints it.

`dppca.common.kernel.attestation`, part of the kernel, checks results and tables against their
study; a model is checked here, because reading one needs further libraries.
"""
