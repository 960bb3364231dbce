"""What the federation fits and judges: a classifier that may leave, its noise, how useful rows are.

The papers' other methods stand on the same base, in `dppca.common.papers`.
"""
