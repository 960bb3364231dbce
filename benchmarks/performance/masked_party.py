"""One owner of a round with either trust, a process.

``python -m benchmarks.performance.masked_party KIND ADDRESS FOLDER STUDY NUMBER BEFORE SECRET``:
draws the noise of made-up moments, sends them, opens where it is an opener (``masked`` alone),
waits for components and takes them, as the owner's commands do.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from benchmarks.performance.federation import (
    credentials_in,
    make_moments,
    make_release_id,
    store,
)
from benchmarks.performance.round_party import await_go
from dppca.common.aggregation.contribution import draw_masked
from dppca.common.aggregation.opening import answer, open_set
from dppca.common.aggregation.seals import OpenerKey
from dppca.common.aggregation.terms import Terms
from dppca.common.messages import StudyState
from dppca.common.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.privacy.release import calibrate, draw
from dppca.common.study import Study
from dppca.common.study_document import study_from_canonical
from dppca.owner.client.calls import CuratorClient
from dppca.owner.site.agreement import own_key
from dppca.owner.site.config import load_site

_WAIT_S = 600.0
_POLL_S = 0.005


def main(
    kind: str, address: str, folder: str, study_file: str, number: str, before: str, secret: str
) -> None:
    """One owner, from its moments to the components."""
    study = study_from_canonical(Path(study_file).read_bytes())
    calibration, moments = calibrate(study), make_moments(study, int(number))
    site = load_site(Path(folder))
    key, name = own_key(site), site.name
    hidden = Path(secret).read_bytes()
    with CuratorClient(address, credentials_in(Path(folder))) as client:
        client.require_serving()
        await_go()
        release_id, entropy = make_release_id(study, int(number)), OperatingSystemEntropy()
        if kind == "masked":
            terms = Terms.from_study(study)
            masked = draw_masked(
                study,
                calibration,
                moments,
                terms=terms,
                owner=name,
                key=key,
                release_id=release_id,
                ledger_sequence=0,
                entropy=entropy,
            )
            client.contribute(*store(study, masked, before=int(before)))
            if hidden:
                _open(client, study, terms, OpenerKey(hidden), name=name, key=key)
        else:
            release = draw(
                study,
                calibration,
                moments,
                release_id=release_id,
                ledger_sequence=0,
                entropy=entropy,
            )
            client.contribute(*store(study, release, before=int(before)))
        progress = client.wait(study, wait_s=_WAIT_S)
        content = client.download(study, progress)
        print("done", flush=True)
    if not content:
        raise SystemExit(1)


def _open(
    client: CuratorClient,
    study: Study,
    terms: Terms,
    secret: OpenerKey,
    *,
    name: str,
    key: ec.EllipticCurvePrivateKey,
) -> None:
    while client.progress(study.digest).state is StudyState.OPEN:
        time.sleep(_POLL_S)
    shown = client.download_sealed(study, terms)
    sums = open_set(terms, shown, (), opener=name, secret=secret, bound=None)
    client.open(study, terms, opening=answer(terms, sums, terms.held(name), opener=name, key=key))


if __name__ == "__main__":
    main(*sys.argv[1:])
