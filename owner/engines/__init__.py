"""The owner's pass over all rows on more than one machine, with the same integers as on one.

::

    table ──▶ manifest of parts ──▶ engine ──▶ an answer for each part ──▶ merge ──▶ Moments
              (before any charge)   workers    exact sums and counts       each once

An `engine` adds up: this process, or a cluster of the site's own (`dask`, `spark`). Rows and sums
without noise stay inside that cluster; `dppca.owner.ledger.path` draws the noise on the site's own
machine. Workers run `kernel`, from the same DPPCA, installed there.
"""
