"""Only the browser that came with the token is answered, once, from this machine's own page."""

from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from dppca.common.pages.guard import (
    BACK,
    COOKIE,
    FORM_TOKEN,
    MOST_BYTES,
    MOST_FIELDS,
    LocalSessionMiddleware,
    Session,
    read_form,
)
from tests.support.asgi import HOST, Answer, ask


async def _secrets(scope: Any, receive: Any, send: Any) -> None:
    fields = read_form(Request(scope))
    await PlainTextResponse(f"secret {sorted(fields.items())}")(scope, receive, send)


class _Page:
    """A guarded application, and a browser that has logged in."""

    def __init__(self) -> None:
        self.session = Session()
        self.app = LocalSessionMiddleware(
            _secrets, self.session, lambda _, status, said: PlainTextResponse(said, int(status))
        )
        self.first = ask(self.app, f"/login?token={self.session.token}")
        self.cookie = self.first.headers["set-cookie"].partition(";")[0]

    def ask(self, path: str = "/", **changes: Any) -> Answer:
        fields = {"cookie": self.cookie, **changes}
        return ask(self.app, self.session.place + path, **fields)

    def send(self, *, proof: str | None = None, **changes: Any) -> Answer:
        form = {FORM_TOKEN: proof or self.session.form_token, "name": "nltcs"}
        return self.ask(form=form, **changes)


@pytest.fixture
def page() -> _Page:
    return _Page()


def test_the_token_is_taken_once_for_a_cookie_that_scripts_and_other_paths_do_not_get(
    page: _Page,
) -> None:
    assert (page.first.status, page.first.headers["location"]) == (303, f"{page.session.place}/")
    cookie = page.first.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}={page.session.cookie};")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert f"Path={page.session.place}/;" in cookie
    assert page.ask().body.startswith("secret")
    again = ask(page.app, f"/login?token={page.session.token}")
    assert (again.status, "set-cookie" in again.headers) == (403, False)
    assert "used before" in again.body


def test_the_used_address_leads_only_the_browser_that_brought_it_back(page: _Page) -> None:
    used, back = f"/login?token={page.session.token}", f"{BACK}={page.session.back}"
    again = ask(page.app, used, cookie=back)
    assert (again.status, again.headers["location"]) == (303, f"{page.session.place}/")
    assert "set-cookie" not in again.headers
    for path, cookie in (
        (used, f"{BACK}=x"),
        (used, page.cookie),
        ("/login", back),
        ("/login?token=x", back),
        ("/", back),
        (f"{page.session.place}/", back),
    ):
        refused = ask(page.app, path, cookie=cookie)
        assert refused.status == 403
        assert page.session.place not in refused.body


@pytest.mark.parametrize("token", ["", "x", "%C3%A9", "a" * 10_000])
def test_a_wrong_token_gets_nothing_and_does_not_use_up_the_right_one(token: str) -> None:
    session = Session()
    app = LocalSessionMiddleware(
        _secrets, session, lambda _, status, said: PlainTextResponse(said, int(status))
    )
    refused = ask(app, f"/login?token={token}")
    assert (refused.status, "set-cookie" in refused.headers) == (403, False)
    assert ask(app, f"/login?token={session.token}").status == 303


def test_without_the_cookie_or_outside_its_place_nothing_is_told(page: _Page) -> None:
    for answer in (
        page.ask(cookie=None),
        page.ask(cookie=f"{COOKIE}=x"),
        ask(page.app, "/", cookie=page.cookie),
        ask(page.app, "/" + "0" * 32 + "/", cookie=page.cookie),
    ):
        assert answer.status == 403
        assert "secret" not in answer.body
        assert "address that the command printed" in answer.body
        assert "stop the command with Ctrl-C and start it again" in answer.body


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8700", "127.0.0.1.evil.example", "", "[", "0.0.0.0:8700"]
)
def test_a_name_that_was_rebound_to_this_machine_is_refused(page: _Page, host: str) -> None:
    assert page.ask(host=host).status == 403
    assert page.send(host=host, origin=f"http://{host}").status == 403
    assert "Paste the address that the command printed" in page.ask(host=host).body


@pytest.mark.parametrize("host", ["localhost:9000", "127.0.0.1:9000", "[::1]:9000"])
def test_through_a_tunnel_the_port_may_be_another(page: _Page, host: str) -> None:
    assert page.ask(host=host).status == 200
    assert page.send(host=host, origin=f"http://{host}").status == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", f"https://{HOST}", None]
)
def test_a_form_of_another_page_is_refused(page: _Page, origin: str | None) -> None:
    assert page.send().status == 200
    assert page.send(origin=origin).status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_request_that_another_page_makes_is_refused(page: _Page, site: str) -> None:
    assert page.ask(sec_fetch_site=site).status == 403
    assert ask(page.app, f"/login?token={page.session.token}", sec_fetch_site=site).status == 403
    assert page.ask(sec_fetch_site="same-origin").status == 200


def test_a_form_without_its_token_is_refused_and_the_token_is_kept_from_the_application(
    page: _Page,
) -> None:
    assert page.send().body == "secret [('name', 'nltcs')]"
    assert page.send(proof="x").status == 403
    assert page.ask(form={"name": "nltcs"}).status == 403


def test_a_form_that_is_too_large_or_no_form_is_refused(page: _Page) -> None:
    assert page.send(content_length=str(MOST_BYTES + 1)).status == 413
    assert page.send(content_length=None).status == 413
    assert page.ask(form={str(n): "x" for n in range(MOST_FIELDS + 1)}).status == 400


def test_every_answer_forbids_what_is_from_elsewhere_and_copies(page: _Page) -> None:
    for answer in (page.first, page.ask(), page.ask(cookie=None), page.send(proof="x")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "same-origin"


def test_two_pages_share_no_secret() -> None:
    one, other = Session(), Session()
    for name in ("place", "token", "cookie", "back", "form_token"):
        assert len(getattr(one, name)) > 30
        assert getattr(one, name) != getattr(other, name)
