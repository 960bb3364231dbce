"""Nothing but the noised vector tells two numbers of rows apart that differ by one.

Two sites contribute to studies alike but in their names: one n rows, one n + 1. What the curator is
sent, stores, shows, logs and signs is compared, and what the ledgers keep.
"""

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from dppca.common.kernel.attestation.contributions import read_acknowledgement
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.errors import DataError, SettingError, StudyError
from dppca.owner.ledger.database import open_ledger
from tests.support.census import census_rows
from tests.support.curator import Curator
from tests.support.noise import seed_noise
from tests.support.sites import BUDGET, OwnerSite, error_of, make_enrolled_site, policy_text
from tests.support.studies import make_study

FALSE_ALARMS = 0.0  # all noise has a seed
N_ROWS = 7131
_NEW_EACH_TIME = re.compile(
    r"[0-9a-f]{16,}|owner-[0-9a-f]{12}|study-[0-9a-f]{8}|\d{4}-\d\d-\d\d[T ][\d:.+]*Z?"
    r"|\"(sequence|received_s)\": \d+"
    r"|\"(read|draw|send|seconds|length|ledger_sequence|remaining)\": \"?[\d.e-]+\"?"
)
"""Digests, names, times and the place in the ledger."""


def contributed(
    curator: Curator, site: OwnerSite, monkeypatch: pytest.MonkeyPatch, *, n_rows: int, unit: str
) -> tuple[list[str], bytes]:
    """Contribute rows to a new study; return what can be seen of it elsewhere, and its bytes.

    By person each has three rows, but for the last one.
    """
    rows = census_rows(N_ROWS + 1).slice(0, n_rows)
    rows = rows.append_column("whose", pa.array(np.arange(n_rows) // 3))
    pyarrow.csv.write_csv(rows, site.folder / "rows.csv")
    key = ", key: whose" if unit == "person" else ""
    (site.folder / "policy.yaml").write_text(policy_text({"survey": f"path: rows.csv{key}"}))
    most = None if unit == "person" else 1
    study = curator.begin(
        site.name, "absent", neighbours="added", unit=unit, max_rows_per_person=most
    )
    began = curator.log.stat().st_size
    seed_noise(monkeypatch, seed=1)
    code, sent = site.run("contribute", study.name, "--yes")
    assert code == 0
    with open_ledger(site.folder / "ledger.sqlite", lock=site.folder / "site.lock") as ledger:
        stored = ledger.stored(study.digest)
    signed = Path(sent["acknowledgement"]).read_bytes()
    acknowledged, _ = read_acknowledgement(
        signed, KnownParties((site.folder / "ca.pem").read_bytes())
    )
    seen: list[Any] = [
        json.loads(stored.receipt),
        asdict(acknowledged),
        asdict(stored.commitment),
        curator.operate("study", "show", study.name),
        site.run("budget")[1]["releases"][-1],
        {name: value for name, value in sent.items() if name != "coded_by_rule"},  # site-only
        curator.log.read_bytes()[began:].decode(),
    ]
    texts = [json.dumps(each, default=repr, sort_keys=True) for each in seen]
    return [_NEW_EACH_TIME.sub("*", each) for each in texts], stored.payload


@pytest.mark.parametrize("n_rows", [N_ROWS, 0])
@pytest.mark.parametrize("unit", ["row", "person"])
def test_n_and_one_more_differ_in_the_noised_vector_alone(
    unit: str, n_rows: int, curator: Curator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None and one, too: a site without a row brings noise."""
    one, other = (make_enrolled_site(curator, tmp_path) for _ in range(2))
    first, vector = contributed(curator, one, monkeypatch, n_rows=n_rows, unit=unit)
    second, longer = contributed(curator, other, monkeypatch, n_rows=n_rows + 1, unit=unit)
    assert second == first
    if n_rows:
        assert not any(str(n) in each for each in first for n in (n_rows, n_rows // 3))
    moved = np.frombuffer(longer, "<i8") - np.frombuffer(vector, "<i8")
    assert moved[-1] == 4**6, "the same noise, and one row or person more"


def test_a_steward_without_a_row_is_asked_so_and_other_studies_refuse(
    curator: Curator, tmp_path: Path
) -> None:
    site = make_enrolled_site(curator, tmp_path, rows=census_rows(1).slice(0, 0))
    secret = curator.begin(site.name, "absent", neighbours="added")
    code, reviewed = site.run("review", secret.name)
    assert (code, reviewed["secret_rows"], reviewed["forecast"]) == (0, 0, None)
    assert "noised numbers on a secret number of rows" in reviewed["question"]
    assert site.run("check", secret.name)[0] == 0
    public = curator.begin(site.name, "absent")
    for command in ("check", "review"):
        code, message = error_of(site.run(command, public.name))
        assert code == DataError.exit_code
        assert "has columns but no rows: export it again" in message


def test_a_small_limit_that_would_ask_for_a_secret_number_is_no_study(
    curator: Curator, tmp_path: Path
) -> None:
    made = make_study("small", neighbours="added").model_dump(mode="json", by_alias=True)
    file = tmp_path / "study.json"
    file.write_text(json.dumps(made | {"max_rows": 5000}))
    code, message = error_of(curator.operate("study", "create", file))
    assert code == StudyError.exit_code
    assert "max_rows is 5000, but neighbours: added keeps numbers of rows secret" in message


def test_a_study_that_publishes_a_number_is_refused_where_the_budget_hides_it(
    curator: Curator, tmp_path: Path
) -> None:
    site = make_enrolled_site(curator, tmp_path, budget=f"{BUDGET}, neighbours: added")
    study = curator.begin(site.name, "absent")
    code, message = error_of(site.run("contribute", study.name, "--yes"))
    assert code == SettingError.exit_code
    assert "publishes a number that population people keeps secret" in message
    assert not site.entries
