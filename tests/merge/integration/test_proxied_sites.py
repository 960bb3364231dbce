"""A site that reaches its curator through an HTTP proxy alone."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.support.curator import Curator
from tests.support.http_proxy import ConnectProxy, connect_proxy
from tests.support.sites import OwnerSite, error_of, make_enrolled_site

LOGIN = "hospital:MARKED-secret-9313"


def make_proxied_site(
    curator: Curator, folder: Path, proxy: ConnectProxy, *, login: str = ""
) -> OwnerSite:
    """An enrolled site with `proxy`, and where its login is kept if it has one."""
    name = f"marked-owner-{uuid4().hex[:12]}"
    site = make_enrolled_site(curator, folder, name=name)
    settings = site.folder / "site.yaml"
    text = f"{settings.read_text()}proxy: {proxy.address}\n"
    if login:
        kept = site.folder / "proxy.login"
        kept.write_text(f"{login}\n")
        kept.chmod(0o600)
        text += "proxy_login: {file: proxy.login}\n"
    settings.write_text(text)
    return site


def findings(answer: tuple[int, Any]) -> dict[str, str]:
    """State of each area of a diagnosis."""
    return {each["area"]: each["state"] for each in answer[1]["findings"]}


@pytest.mark.parametrize("login", ["", LOGIN])
def test_a_whole_study_goes_through_the_proxy_and_it_sees_no_word_of_it(
    curator: Curator, tmp_path: Path, login: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    with connect_proxy(login=login) as proxy:
        site = make_proxied_site(curator, tmp_path, proxy, login=login)
        study = curator.begin(site.name, name=f"marked-study-{uuid4().hex[:12]}")
        assert findings(site.run("doctor"))["proxy"] == "ok"
        assert site.contribute(study)[0] == 0
        assert site.run("components", study.name, "--wait", "300")[0] == 0
        assert site.run("synthesize", study.name, "--publish")[0] == 0
    assert set(proxy.asked) == {curator.address}
    assert len(proxy.asked) == 5, "one connection a command, and doctor's own"
    for word in (site.name, study.name, "marked", "MARKED", "age", "private", "dppca", "urn:"):
        # Three letters may come by chance in so many bytes that look random.
        assert len(word) < 5 or word.encode() not in proxy.passed, word
    assert "MARKED" not in "".join(
        path.read_text(errors="replace")
        for path in site.folder.rglob("*")
        if path.is_file() and path.name != "proxy.login"
    )


def test_init_writes_the_proxy_and_refuses_one_with_a_password(tmp_path: Path) -> None:
    site = OwnerSite(tmp_path / "site", "s")
    line = ("init", "--name", "s", "--curator", "hub.example:7443")
    code, said = error_of(site.run(*line, "--proxy", "http://u:MARKED@proxy.example:3128"))
    assert (code, "proxy_login" in said, "MARKED" in said) == (10, True, False)
    assert not site.folder.exists()
    code, made = site.run(*line, "--proxy", "proxy.example:3128")
    assert (code, made["proxy"]) == (0, "proxy.example:3128")
    assert "through the proxy proxy.example:3128" in str(site.run("doctor", "--offline")[1])


def test_a_login_that_others_may_read_or_that_is_none_is_refused(
    curator: Curator, tmp_path: Path
) -> None:
    with connect_proxy(login=LOGIN) as proxy:
        site = make_proxied_site(curator, tmp_path, proxy, login=LOGIN)
        kept = site.folder / "proxy.login"
        kept.chmod(0o640)
        assert "may be read by others" in error_of(site.run("components", "x"))[1]
        kept.chmod(0o600)
        kept.write_text("MARKED-without-a-name\n")
        said = error_of(site.run("components", "x"))[1]
        assert "must be NAME:PASSWORD" in said
        kept.unlink()
        assert "does not exist or is empty" in error_of(site.run("components", "x"))[1]
    assert proxy.asked == []


@pytest.mark.parametrize(
    ("settings", "words", "options"),
    [
        # That the proxy forbids it is no absence: nobody waits for ten minutes.
        ({"refusal": "403 Forbidden"}, "allow CONNECT", ()),
        ({"cut_after": 400}, "check the address and that the curator is running", ("--wait", "0")),
    ],
)
def test_a_contribution_that_the_proxy_stops_costs_nothing_and_goes_no_other_way(
    curator: Curator,
    tmp_path: Path,
    settings: dict[str, Any],
    words: str,
    options: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dppca.owner.client.calls.CONNECT_TIMEOUT_S", 3)
    with connect_proxy(**settings) as proxy:
        site = make_proxied_site(curator, tmp_path, proxy)
        study = curator.begin(site.name)
        seen = findings(site.run("doctor"))
        is_cut = "cut_after" in settings
        assert seen["proxy"] == ("ok" if is_cut else "broken")
        assert seen["connection"] == ("broken" if is_cut else "skipped")
        monkeypatch.setattr("dppca.common.transport.channels.CALL_TIMEOUT_S", 3)
        code, said = error_of(site.contribute(study, *options))
    assert code == 40
    assert words in said
    assert site.history.length == 0
