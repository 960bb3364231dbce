"""The daemon's own certificate, as time goes by."""

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dppca.common.kernel.identity.tls import Role
from dppca.curator.observability.log import LOGGER
from dppca.curator.service.authenticator import Authenticator
from tests.support.certificates import Authority, write_credentials

NOW = datetime.now(UTC).replace(microsecond=0)


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, str, dict[str, object]]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.getMessage(), record.levelname, vars(record)["fields"]))


@pytest.mark.parametrize("days_later", [0, 19, 20, 21, 56])
def test_a_certificate_ends_soon_until_it_has_ended(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days_later: int
) -> None:
    end = NOW + timedelta(days=20)
    issued = authority.issue(Role.CURATOR, "hub", start=NOW - timedelta(days=100), end=end)
    now = [NOW]
    authenticator = Authenticator(write_credentials(tmp_path, issued), clock=lambda: now[0])
    kept = _Kept()
    monkeypatch.setattr(LOGGER, "handlers", [kept])
    now[0] = NOW + timedelta(days=days_later)
    for _ in range(3):
        authenticator.refresh()
    said = [line for line in kept.lines if line[2]["party"] == "curator"]
    if not days_later:
        assert said == [], "it was said at the start"
        return
    ((event, level, fields),) = said
    if days_later < 20:
        assert (event, level, fields["days"]) == ("certificate ends soon", "WARNING", 1)
    else:
        assert (event, level) == ("certificate has ended", "ERROR")
        assert fields["days_ago"] == days_later - 20


def test_a_certificate_that_ends_today_is_said_to_end_and_then_to_have_ended(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [NOW.replace(hour=6, minute=0, second=0)]
    end = now[0] + timedelta(hours=3)
    issued = authority.issue(Role.CURATOR, "hub", start=now[0] - timedelta(days=9), end=end)
    kept = _Kept()
    monkeypatch.setattr(LOGGER, "handlers", [kept])
    authenticator = Authenticator(write_credentials(tmp_path, issued), clock=lambda: now[0])
    assert authenticator.ended == ""
    for _ in range(3):
        now[0] += timedelta(hours=2)
        authenticator.refresh()
    said = [(event, fields["expires"]) for event, _, fields in kept.lines]
    until = f"{end:%Y-%m-%d %H:%M} UTC"
    assert said == [("certificate ends soon", until), ("certificate has ended", until)]
    assert all("pki issue --role curator --name hub" in f["next"] for *_, f in kept.lines)  # type: ignore[operator]
    assert authenticator.ended == (
        f"the certificate of curator hub expired on {until} by the curator's clock: the operator "
        "makes another one (`dppca-curator pki issue --role curator --name hub`, with the same "
        "--host)"
    )


def test_an_authoritys_secret_key_beside_the_daemons_is_named_at_the_start_and_once_a_day(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    issued = authority.issue(Role.CURATOR, "hub", start=NOW, end=NOW + timedelta(days=300))
    folder = write_credentials(tmp_path, issued)
    kept, now = _Kept(), [NOW]
    monkeypatch.setattr(LOGGER, "handlers", [kept])
    Authenticator(folder, clock=lambda: now[0])
    assert kept.lines == []
    (folder / "ca-key.pem").write_bytes(issued.key)
    authenticator = Authenticator(folder, clock=lambda: now[0])
    for days in (0, 0, 1, 1):
        now[0] = NOW + timedelta(days=days)
        authenticator.refresh()
    said = [(level, fields["file"]) for _, level, fields in kept.lines]
    assert said == [("WARNING", str(folder / "ca-key.pem"))] * 2
