"""What a first user waits for, beside an older revision: ``python -m benchmarks.first_run``.

Both revisions are cloned and installed, each for itself, and do the same in turn. A command costs
what all its processes cost (`reaper`), daemons and forked ones too. Each revision runs its own code
in its own environment; this program alone makes the rows, the study and the federation.
"""
