"""Sites of a study with ``trust: aggregate``, whose document is made of what they print."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from dppca.common.aggregation.terms import Terms
from dppca.common.study import Study
from dppca.common.study_document import study_from_mapping
from dppca.common.transport.codec import state_from_wire
from tests.support.census import ATTRIBUTES
from tests.support.curator import Curator
from tests.support.owner_site import OwnerSite, make_enrolled_site
from tests.support.studies import study_document

POLICY = (
    "data_sets:\n"
    '  survey: {path: rows.csv, epsilon: "3.0", delta: "1e-6", aggregate: {colluders: 1}}\n'
)


@dataclass(frozen=True)
class MaskedSites:
    """Sites and their study, which the curator has; the first are openers."""

    curator: Curator
    sites: list[OwnerSite]
    study: Study

    @property
    def terms(self) -> Terms:
        return Terms.from_study(self.study)

    @property
    def openers(self) -> list[OwnerSite]:
        return [site for site in self.sites if site.name in self.terms.openers]

    def contribute(self, *sites: OwnerSite) -> None:
        """Contribute from some sites, or from all."""
        for site in sites or self.sites:
            code, document = site.run(
                "contribute", self.study.name, "--yes", "--digest", self.study.digest
            )
            assert code == 0, document

    def end(self) -> str:
        """The study's state once it waits for nobody."""
        return state_from_wire(self.curator.operator().end(self.study).state).value

    def state(self) -> str:
        """The study's state now."""
        answer = self.curator.operator().result(self.study, wait_s=0)
        return state_from_wire(answer.state).value


def identity_of(site: OwnerSite, study: str, *, opener: bool = False) -> dict[str, Any]:
    code, document = site.run("identity", study, *(["--opener"] if opener else []))
    assert code == 0, document
    return document  # type: ignore[no-any-return]


def masked_study(
    sites: list[OwnerSite], *, n_openers: int = 2, name: str = "", **changes: Any
) -> Study:
    """The study of some sites, of what their command `identity` prints."""
    name = name or f"study-{uuid4().hex[:8]}"
    colluders = changes.pop("colluders", 1)
    privacy = {"epsilon": "1.0", "trust": "aggregate", "colluders": colluders}
    if changes.pop("mechanism", "gaussian") == "gaussian":
        privacy |= {"mechanism": "gaussian", "delta": "1e-6"}
    else:
        privacy |= {"mechanism": "laplace"}
    said = {
        site.name: identity_of(site, name, opener=place < n_openers)
        for place, site in enumerate(sites)
    }
    fields: dict[str, Any] = {
        "version": 2,
        "name": name,
        "owners": sorted(said),
        "components": {"count": 2},
        "max_rows": 1_000_000,
        "resolution_bits": 6,
        "privacy": privacy,
        "identities": {owner: each["key"] for owner, each in said.items()},
        "openers": {
            owner: {field: each["opener"][field] for field in ("key", "signature")}
            for owner, each in said.items()
            if each["opener"] is not None
        },
        "open_by": (datetime.now(UTC) + timedelta(days=2)).isoformat(timespec="seconds"),
        **changes,
    }
    return study_from_mapping(study_document(ATTRIBUTES, **fields))


def make_masked_sites(
    curator: Curator, folder: Path, n_sites: int = 3, *, n_openers: int = 2, **changes: Any
) -> MaskedSites:
    """Sites that never were, with rows, a policy for masked sums, and a study at the curator."""
    sites = [make_enrolled_site(curator, folder) for _ in range(n_sites)]
    for site in sites:
        (site.folder / "policy.yaml").write_text(POLICY)
    study = masked_study(sites, n_openers=n_openers, **changes)
    curator.operator().create(study)
    return MaskedSites(curator, sites, study)
