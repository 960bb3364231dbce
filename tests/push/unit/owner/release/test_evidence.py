from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.moments.moments import Moments
from dppca.owner.ledger.entries import Evidence
from dppca.owner.models.training import TrainingRows
from dppca.owner.records.databases import PostgreSQLLocation
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.locations import Location, Secret
from dppca.owner.release.evidence import gather_evidence
from dppca.owner.site.config import load_site
from tests.support.sites import make_site

MOMENTS = Moments(10, np.arange(6, dtype=np.int64))
SERVICE = "[rows]\nhost=one\npassword=first\n[other]\nhost=x\n"


@pytest.fixture
def site(tmp_path: Path) -> Any:
    return load_site(make_site(tmp_path / "site").folder)


def found(site: Any, location: Location, rows: object = MOMENTS, **how: Any) -> Evidence:
    return gather_evidence(site, location, rows, **{"n_rows": 10, "is_live": False, **how})


def test_one_changed_number_is_another_fingerprint(site: Any) -> None:
    place = local_files(site.folder / "rows.csv")
    changed = replace(MOMENTS, packed=MOMENTS.packed + np.eye(6, dtype=np.int64)[3])
    others = [
        changed,
        replace(MOMENTS, n_rows=11),
        TrainingRows(np.eye(2), MOMENTS.packed[:2], None),
    ]
    prints = {found(site, place, rows).rows for rows in (MOMENTS, *others)}
    assert len(prints) == 4
    assert found(site, place) == found(site, place)
    assert found(site, place, is_live=True).rows == ""
    assert site.fingerprint.stat().st_mode & 0o077 == 0


def test_another_site_has_another_fingerprint_and_a_damaged_key_none(
    site: Any, tmp_path: Path
) -> None:
    place = local_files(site.folder / "rows.csv")
    other = load_site(make_site(tmp_path / "other").folder)
    assert found(site, place).rows != found(other, place).rows
    site.fingerprint.write_bytes(b"short")
    with pytest.raises(SettingError, match="damaged"):
        found(site, place)


def test_a_variable_that_leads_elsewhere_is_another_place(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = PostgreSQLLocation("rows", table="t", secret=Secret("ROWS"))
    addresses = ["postgresql://me:{}@one/db", "host=one password={} dbname=db"]
    for address in addresses:
        monkeypatch.setenv("ROWS", address.format("first"))
        before = found(site, location).place
        monkeypatch.setenv("ROWS", address.format("second"))
        assert found(site, location).place == before
        monkeypatch.setenv("ROWS", address.format("first").replace("one", "two"))
        assert found(site, location).place != before


def test_a_service_that_leads_elsewhere_is_another_place(
    site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "services"
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    location = PostgreSQLLocation("rows", table="t", service="rows")
    file.write_text(SERVICE)
    before = found(site, location).place
    file.write_text(SERVICE.replace("first", "second").replace("host=x", "host=y"))
    assert found(site, location).place == before
    file.write_text(SERVICE.replace("host=one", "host=two"))
    assert found(site, location).place != before
