"""What decoded rows lack of the release that they are of, whoever drew them.

Rows are compared with the result alone, and both are released. A relation or a table is named if it
is missed by more than the noise and the rows' own chance explain
(`dppca.common.analysis.field.missed`).
"""

from collections.abc import Sequence

from dppca.common.analysis.field.missed import MOST_ROWS, Missed
from dppca.common.analysis.field.rows import find_missed_by, released_targets
from dppca.common.analysis.rows.synthesis import list_tables, noise_tail, released_noise
from dppca.common.kernel.attestation.results import Result
from dppca.common.kernel.moments.threads import one_blas_thread
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema import Column
from dppca.common.kernel.study import Study


@one_blas_thread()
def compare_with_release(
    result: Result, study: Study, columns: Sequence[Column]
) -> tuple[Missed, ...]:
    """Return what rows miss of a study's release, and of the study that it continues.

    ``columns`` has one array per attribute, shape (n_rows,), as `encode` takes them; no more than
    the first `MOST_ROWS` are looked at. The largest difference comes first. Nothing is found for a
    study that no field can be fitted to (`released_targets`).
    """
    columns = [column[:MOST_ROWS] for column in columns]
    first = result.rounds(study)[0]
    schema, tables = first.study.table, list_tables(result, study)
    targets = released_targets(
        schema,
        mean=first.result.mean,
        second=first.result.second_moment(first.study),
        histograms=first.result.histograms(first.study),
        entry_noise=released_noise(first.result, first.study),
        count_noise=released_noise(first.result, first.study, counts=True),
        joint=calibrate(first.study).law.is_joint,
        tables=tables,
    )
    if targets is None:
        return ()
    tail = noise_tail(first.result, first.study)
    return find_missed_by(schema, targets, columns, tables, tail=tail)
