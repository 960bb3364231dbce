"""Hostile bytes for everything that reads what another party wrote.

`targets` says what is fed and what must hold; `stage` is a curator without a network;
``python -m tests.fuzz`` lets atheris look for inputs for as long as it is told.
"""
