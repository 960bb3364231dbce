from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from dppca.common.documents.messages import Form
from dppca.common.study import Study
from dppca.common.wire import federation_pb2 as pb
from tests.support.callers import OWNERS, TOO_LONG, UPLOAD, refused
from tests.support.census import arrow, decoded_rows, make_release
from tests.support.curator import Curator
from tests.support.party import Party
from tests.support.patience import WAIT_S
from tests.support.studies import make_study

ROWS: dict[str, Callable[[], tuple[bytes, int]]] = {
    "garbage": lambda: (b"\xff" * 500, 3),
    "other count": lambda: (arrow(decoded_rows(3)), 4),
    "other order": lambda: (arrow(decoded_rows().select(["sex", "age", "work"])), 3),
    "out of bounds": lambda: (
        arrow(decoded_rows().set_column(0, "age", pa.array([20.0, 90.1, 30.0]))),
        3,
    ),
}


@pytest.fixture(scope="module")
def shared(owners: dict[str, Party], operator: Party) -> tuple[Study, bytes]:
    """A decomposed study that no test publishes to successfully, and its result's digest."""
    study = make_study(name="shared")
    operator.create(study)
    for seed, owner in enumerate(OWNERS):
        owners[owner].contribute_next(make_release(study, seed=seed))
    return study, owners["owner-1"].result(study).sha256


@pytest.mark.parametrize("kind", ROWS)
def test_rows_that_do_not_conform_are_refused(
    kind: str, shared: tuple[Study, bytes], owners: dict[str, Party], curator: Curator
) -> None:
    study, digest = shared
    content, n_rows = ROWS[kind]()
    assert (
        refused(
            lambda: owners["owner-1"].publish(
                study, Form.DECODED, content, n_rows=n_rows, components=digest
            )
        )
        == UPLOAD
    )
    curator.until_nothing_arrives()


def test_rows_above_the_cap_are_refused_before_any_is_taken(
    shared: tuple[Study, bytes], owners: dict[str, Party]
) -> None:
    study, digest = shared
    header = pb.SyntheticHeader(
        study_digest=bytes.fromhex(study.digest),
        form=pb.SYNTHETIC_FORM_CODED,
        n_rows=1,
        total_bytes=1 << 40,
        sha256=bytes(32),
        components_sha256=digest,
    )
    parts = [pb.PublishSyntheticRequest(header=header)]
    assert (
        refused(lambda: owners["owner-1"].federation.PublishSynthetic(iter(parts), timeout=WAIT_S))
        == TOO_LONG
    )
