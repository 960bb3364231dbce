"""Repetition of a simulated study on the same rows with fresh noise: the spread of its draws.

Rows are coded and summed once, by a site's reader, which also knows whose rows they are. Every draw
adds noise, pools and decomposes in this process
(`dppca.deploy.simulation.in_memory`), makes synthetic rows, and trains the classifiers of a
simulation. Rows, division and classifiers are the same each time, so that only the noise makes the
accuracies differ. They are measured on real rows that no owner has: only a simulation knows them.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dppca.common.analysis.estimators.judgement import Judgement
from dppca.common.kernel.attestation.results import Result
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.kernel.schema import Column, known_labels
from dppca.common.kernel.schema.frames import read_frame
from dppca.common.kernel.study import Study
from dppca.deploy.simulation.evaluate import Utility, evaluate
from dppca.deploy.simulation.experiment import ExperimentRequest, join_columns, read_columns
from dppca.deploy.simulation.holdings import hold_rows, write_table
from dppca.deploy.simulation.in_memory import make_parties, run_study
from dppca.deploy.simulation.notebook import draw_rows, make_table
from dppca.owner.models.catalogue import DPPCA_SVM, LINEAR, METHODS
from dppca.owner.models.training import train
from dppca.owner.records.table import Table, moments_of_table, open_table


@dataclass(frozen=True, slots=True)
class Draw:
    """Accuracies of one draw of the noise, on held-out rows.

    ``utility`` is for classifiers trained on synthetic rows, and on all real ones; ``at_home`` is
    for the classifier that each owner trains on its own rows, by name.
    """

    utility: Utility
    at_home: Mapping[str, float]


def draw_again(
    request: ExperimentRequest,
    *,
    count: int,
    on_draw: Callable[[], None],
    like: Utility | None = None,
) -> list[Draw]:
    """Repeat a study of ``trust: owner`` with a target on the rows of `simulate`'s owners.

    ``like`` is what `simulate` found of it: figures of real rows do not change with the noise.
    """
    study, schema, target = request.study, request.study.table, request.target
    assert target is not None  # noqa: S101 - see the docstring
    entropy = OperatingSystemEntropy()
    parties = make_parties(study, None, entropy=entropy)
    holdings = hold_rows(
        request.data,
        study.owners,
        schema=schema,
        seed=request.seed,
        split=request.split,
        text_format=request.text_format,
        readings=request.readings,
        keys=request.keys,
    )
    rows = [read_columns(schema, table) for table in holdings.owners.values()]
    pooled, held_out = join_columns(rows), read_columns(schema, holdings.held_out)
    draws: list[Draw] = []
    with tempfile.TemporaryDirectory(prefix="dppca-draws-") as folder, ExitStack() as opened:
        sites = {
            owner: opened.enter_context(
                open_table(
                    write_table(table, Path(folder), stem=owner, like=holdings.like), schema
                ).latest(request.key_of(owner))
            )
            for owner, table in holdings.owners.items()
        }
        sums = {owner: moments_of_table(table, schema) for owner, table in sites.items()}
        for _ in range(count):
            result, _ = run_study(parties, sums, entropy=entropy, now=utc_now())
            coded = make_table(draw_rows(result, study, Form.CODED))
            draws.append(
                Draw(
                    evaluate(
                        schema,
                        target,
                        training=pooled,
                        held_out=held_out,
                        coded=np.column_stack(
                            [coded[name].to_numpy() for name in schema.column_names]
                        ),
                        decoded=read_frame(
                            make_table(draw_rows(result, study, Form.DECODED)), schema
                        ),
                        released_mean=result.mean,
                        real=_known_of_real_rows(draws[0].utility if draws else like),
                    ),
                    {
                        owner: _accuracy_at_home(result, study, table, target, held_out)
                        for owner, table in sites.items()
                    },
                )
            )
            on_draw()
    return draws


def _known_of_real_rows(like: Utility | None) -> tuple[Judgement, Judgement] | None:
    judged = None if like is None else like.judged
    return None if judged is None else (judged.linear_real, judged.trees_real)


def _accuracy_at_home(
    result: Result, study: Study, table: Table, target: str, held_out: Sequence[Column]
) -> float:
    """Accuracy of the model from ``dppca-owner train`` on one owner's rows."""
    method = METHODS[DPPCA_SVM]
    model = train(
        result,
        study,
        table,
        target=target,
        kernel=LINEAR,
        C=method.C,
        max_rows=None,
        rng=np.random.default_rng(),  # draws nothing: all rows are taken
    )
    truth = known_labels(model.target_attribute, held_out[study.table.find_index(target)])
    return float((model.classify([*held_out]) == truth)[truth >= 0].mean())
