"""A site that has the components of a study, made without a curator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from common.results import result_to_bytes
from common.study import Study
from common.transport.tls import Role
from owner.config import load_site
from owner.enrolment import enrol
from owner.studies import components_path, keep_study, save
from tests.support.authority import new_authority
from tests.support.daemon import write_credentials
from tests.support.owner_site import OwnerSite
from tests.support.site import make_result, make_rows, make_study

N_ROWS = 600


def make_trained_site(
    folder: Path, *, budget: str = 'epsilon: "10", delta: "0"', rows: Any = None, **changes: Any
) -> tuple[OwnerSite, Study]:
    """A site with `tests.support.site`'s rows as data set ``survey``; nothing was charged."""
    study = make_study(**changes)
    enrol(folder, name="owner-1", curator="127.0.0.1:1")
    write_credentials(folder, new_authority().issue(Role.OWNER, "owner-1"))
    path = folder / "rows.csv"
    pa.csv.write_csv(make_rows(N_ROWS) if rows is None else rows, path)
    (folder / "policy.yaml").write_text(f"data_sets:\n  survey: {{path: rows.csv, {budget}}}\n")
    site = load_site(folder)
    keep_study(site, study)
    save(components_path(site, study.name), result_to_bytes(make_result(study, path)))
    return OwnerSite(folder, "owner-1"), study
