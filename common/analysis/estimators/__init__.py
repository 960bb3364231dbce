"""The federation's classifier that may leave, its noise, and the utility of synthetic rows.

The papers' other methods, in `dppca.common.papers`, use the same base.
"""
