"""The study of a cell: three owners with a few rows, keys, certificates, policies.

Everything that the field's parties would have is made here at once, in a folder, for a runtime to
give to its parties. The lifetime budget of every data set is what the study costs, so that a
second charge would not only be seen but refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from dppca.common.amounts import decimal_text
from dppca.common.privacy.release import calibrate
from dppca.common.study import Study
from dppca.common.study_document import study_from_mapping
from dppca.common.transport.tls import Role
from dppca.curator.certificates.local import make_authority
from dppca.curator.study.assembly import assemble_study
from dppca.owner.site.enrolment import enrol
from tests.fault_injection.catalogue import CERTIFICATE_DAYS

STUDY_NAME = "faults"
DATA_SET = "rows"
QUORUM = 2
OWNERS = ("owner-1", "owner-2", "owner-3")
OPENERS = OWNERS[:2]
_OPENING_S = 5.0
_ROWS = 60
_SCHEMA = {
    "resolution_bits": 6,
    "max_rows_per_person": 1,
    "attributes": [
        {"name": "age", "type": "numeric", "lower": 17, "upper": 90},
        {"name": "sex", "type": "binary", "values": ["Female", "Male"]},
        {"name": "work", "type": "categorical", "categories": ["private", "state", "other"]},
        {"name": "ill", "type": "binary", "values": ["no", "yes"]},
    ],
}


_MASKED: dict[str, Any] = {
    "version": 2,
    "quorum": len(OWNERS),
    "privacy": {"mechanism": "laplace", "epsilon": "1.0", "trust": "aggregate", "colluders": 1},
}


@dataclass(frozen=True, slots=True)
class Fixture:
    """What the parties are given; `study_file` is the operator's."""

    study: Study
    folder: Path

    @property
    def study_file(self) -> Path:
        """The study's document."""
        return self.folder / "study.json"

    @property
    def curator(self) -> Path:
        """The curator's credentials."""
        return self.folder / "curator"

    @property
    def operator(self) -> Path:
        """The operator's credentials."""
        return self.folder / "operator"

    def site(self, owner: str) -> Path:
        """An owner's site: settings, policy, credentials."""
        return self.folder / "sites" / owner

    def rows(self, owner: str) -> Path:
        """An owner's data file."""
        return self.folder / "data" / f"{owner}.csv"

    def write_site(self, owner: str, *, curator: str, server_name: str, rows: str) -> None:
        """Tell a site where the curator is and where its rows are."""
        settings = {"version": 1, "name": owner, "curator": curator, "server_name": server_name}
        (self.site(owner) / "site.yaml").write_text(yaml.safe_dump(settings))
        cost = calibrate(self.study)
        budget = {
            "path": rows,
            "epsilon": decimal_text(cost.epsilon),
            "delta": decimal_text(cost.delta),
            "aggregate": {"colluders": _MASKED["privacy"]["colluders"]},
        }
        (self.site(owner) / "policy.yaml").write_text(
            yaml.safe_dump({"data_sets": {DATA_SET: budget}})
        )


def make_fixture(folder: Path, *, hosts: tuple[str, ...]) -> Fixture:
    """Make everything but the study's document, whose deadline is counted from `begin`.

    Parameters
    ----------
    hosts
        Names and addresses under which the curator is reached.
    """
    authority = make_authority(folder / "authority", days=CERTIFICATE_DAYS)
    scene = Fixture(make_study(authority.now), folder)
    authority.issue(Role.CURATOR, "curator", hosts=hosts, output=scene.curator)
    authority.issue(Role.OPERATOR, "operator", hosts=(), output=scene.operator)
    for number, owner in enumerate(OWNERS):
        enrol(scene.site(owner), name=owner, curator="localhost:7443")
        authority.sign(owner, scene.site(owner))
        scene.rows(owner).parent.mkdir(exist_ok=True)
        scene.rows(owner).write_text(_rows(seed=number))
    return scene


def begin(
    scene: Fixture, *, deadline_s: float, identities: Mapping[str, Mapping[str, Any]]
) -> Fixture:
    """The scene with a study whose deadline is so far from now, written for the operator.

    Parameters
    ----------
    identities
        What ``dppca-owner identity`` said at each site of a study with ``trust: aggregate``, by
        owner; empty for any other study.
    """
    deadline = datetime.now(UTC) + timedelta(seconds=deadline_s)
    study = _make_masked(deadline, identities) if identities else make_study(deadline)
    begun = Fixture(study, scene.folder)
    begun.study_file.write_bytes(begun.study.canonical_bytes())
    return begun


def make_study(deadline: datetime) -> Study:
    """The study of every cell with ``trust: owner``; only the deadline differs."""
    return study_from_mapping(_document(deadline))


def _make_masked(deadline: datetime, identities: Mapping[str, Mapping[str, Any]]) -> Study:
    """The study of every cell with ``trust: aggregate``."""
    open_by = deadline + timedelta(seconds=_OPENING_S)
    draft = {**_document(deadline), **_MASKED, "open_by": open_by.isoformat()}
    parts = [(owner, json.dumps(said)) for owner, said in identities.items()]
    return assemble_study(yaml.safe_dump(draft), parts)[1]


def _document(deadline: datetime) -> dict[str, Any]:
    return {
        "name": STUDY_NAME,
        "owners": list(OWNERS),
        "quorum": QUORUM,
        "deadline": deadline.isoformat(),
        "privacy": {"mechanism": "laplace", "epsilon": "1.0"},
        "components": {"count": 2},
        "max_rows": 1_000_000,
        "schema": _SCHEMA,
    }


def _rows(*, seed: int) -> str:
    """Made-up rows; the same in every run, because nothing here depends on them."""
    random = np.random.default_rng(seed)
    columns = (
        random.integers(17, 90, _ROWS),
        random.choice(["Female", "Male"], _ROWS),
        random.choice(["private", "state", "other"], _ROWS),
        random.choice(["no", "yes"], _ROWS),
    )
    lines = [",".join(str(value) for value in row) for row in zip(*columns, strict=True)]
    return "\n".join(["age,sex,work,ill", *lines]) + "\n"
