"""One kill (SIGKILL) of each party; the merge tier kills them at every step."""

from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import grpc

from dppca.common.kernel.documents.messages import StudyState
from dppca.common.transport.codec import state_from_wire
from tests.support.census import make_release
from tests.support.curator import Curator
from tests.support.federations import MaskedFederation
from tests.support.patience import WAIT_S
from tests.support.sites import OwnerSite
from tests.support.studies import make_study

KILLED = -9


def test_an_owner_killed_between_its_charge_and_its_release_is_charged_once(
    curator: Curator, site: OwnerSite
) -> None:
    study = curator.begin(site.name, "absent")
    assert site.run("contribute", study.name, "--yes", die_at="draw")[0] == KILLED
    died = site.history
    assert (len(died.charges), len(died.commitments)) == (1, 0)
    assert list(curator.operator().result(study, wait_s=0).contributed) == []
    assert site.run("contribute", study.name, "--yes")[0] == 0
    assert site.history.total("survey").epsilon == Decimal("1.0")
    assert list(curator.operator().result(study, wait_s=0).contributed) == [site.name]


def test_a_curator_killed_while_it_stores_a_contribution_ends_the_study_all_the_same(
    tmp_path: Path,
) -> None:
    study = make_study(owners=["owner-1", "owner-2"])
    releases = {owner: make_release(study, seed=n) for n, owner in enumerate(study.owners)}
    curator = Curator(tmp_path).start(fault="kill@store")
    try:
        curator.operator().create(study)
        with suppress(grpc.RpcError):
            curator.party("owner-1").contribute(releases["owner-1"])
        assert curator.process.wait(timeout=WAIT_S) == KILLED
        curator.start()
        for owner, release in releases.items():
            curator.party(owner).contribute(release)
        answer = curator.party("owner-1").result(study)
        assert state_from_wire(answer.state) is StudyState.DECOMPOSED
    finally:
        curator.stop()


def test_an_opener_killed_once_its_key_is_gone_sends_the_same_opening(
    federation: MaskedFederation,
) -> None:
    federation.contribute()
    name, first = federation.study.name, federation.openers[0]
    assert first.run("open", name, die_at="destroy")[0] == KILLED
    openings = [each.opening for each in first.history.openers.values()]
    assert None not in openings
    assert list((first.folder / "openers").iterdir()) == []
    for site in federation.openers:
        assert site.run("open", name)[0] == 0
    assert [each.opening for each in first.history.openers.values()] == openings
    assert federation.end() == "decomposed"
