"""The study of a cell: three owners with a few rows, keys, certificates, policies.

Everything that the field's parties would have is made here at once, in a folder, for a runtime to
give to its parties. The lifetime budget of every data set is what the study costs, so that a
second charge would not only be seen but refused.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import yaml

from common.privacy.release import calibrate
from common.study import Study, decimal_text, study_from_mapping
from common.transport.tls import Identity, Role
from curator import pki
from deploy.faults.catalogue import CERTIFICATE_DAYS
from owner.enrolment import enrol

STUDY_NAME = "faults"
DATA_SET = "rows"
QUORUM = 2
OWNERS = ("owner-1", "owner-2", "owner-3")
_ROWS = 60
_SCHEMA = {
    "resolution_bits": 6,
    "attributes": [
        {"name": "age", "type": "numeric", "lower": 17, "upper": 90},
        {"name": "sex", "type": "binary", "values": ["Female", "Male"]},
        {"name": "work", "type": "categorical", "categories": ["private", "state", "other"]},
        {"name": "ill", "type": "binary", "values": ["no", "yes"]},
    ],
}


@dataclass(frozen=True, slots=True)
class Scene:
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
        }
        (self.site(owner) / "policy.yaml").write_text(
            yaml.safe_dump({"data_sets": {DATA_SET: budget}})
        )


def make_scene(folder: Path, *, hosts: tuple[str, ...]) -> Scene:
    """Make everything but the study's document, whose deadline is counted from `begin`.

    Parameters
    ----------
    hosts
        Names and addresses under which the curator is reached.
    """
    now = datetime.now(UTC)
    scene = Scene(study_of(now), folder)
    authority = folder / "authority"
    pki.init_authority(authority, name="faults", days=CERTIFICATE_DAYS, now=now)
    for identity, names, output in (
        (Identity("curator", Role.CURATOR), hosts, scene.curator),
        (Identity("operator", Role.OPERATOR), (), scene.operator),
    ):
        pki.issue(
            authority,
            identity=identity,
            hosts=names,
            output=output,
            days=CERTIFICATE_DAYS,
            now=now,
        )
    for number, owner in enumerate(OWNERS):
        site = scene.site(owner)
        enrol(site, name=owner, curator="localhost:7443")
        pki.sign_request(
            authority,
            request=(site / "request.pem").read_bytes(),
            name=owner,
            output=site / "certificate.pem",
            days=CERTIFICATE_DAYS,
            now=now,
        )
        shutil.copy(authority / "ca.pem", site)
        scene.rows(owner).parent.mkdir(exist_ok=True)
        scene.rows(owner).write_text(_rows(seed=number))
    return scene


def begin(scene: Scene, *, deadline_s: float) -> Scene:
    """The scene with a study whose deadline is so far from now, written for the operator."""
    begun = Scene(study_of(datetime.now(UTC) + timedelta(seconds=deadline_s)), scene.folder)
    begun.study_file.write_bytes(begun.study.canonical_bytes())
    return begun


def study_of(deadline: datetime) -> Study:
    """The study of every cell; only the deadline differs."""
    return study_from_mapping(
        {
            "name": STUDY_NAME,
            "owners": list(OWNERS),
            "quorum": QUORUM,
            "deadline": deadline.isoformat(),
            "privacy": {"mechanism": "laplace", "epsilon": "1.0"},
            "components": {"count": 2},
            "max_rows": 1_000_000,
            "schema": _SCHEMA,
        }
    )


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
