"""The owner's pass on more than one machine, with the same integers.

::

    table ──▶ manifest of parts ──▶ engine ──▶ an answer for each part ──▶ merge ──▶ Moments
              (before any charge)   workers    exact sums and counts       each once

`engine` chooses who adds up: this process, or a cluster of the site's own (`dask`, `spark`). Rows
and sums without noise stay inside of that cluster; noise is drawn on the site's own machine, by
`dppca.owner.release.path`. What a worker runs is `kernel`, of the same DPPCA, installed there.
"""
