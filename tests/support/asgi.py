"""Requests to an application of ASGI, without a socket."""

import asyncio
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

HOST = "127.0.0.1:8700"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: str
    content: bytes = b""


def ask(
    app: Any, target: str, *, form: dict[str, str] | None = None, **headers: str | None
) -> Answer:
    """Send a request; a header of None is left out, ``sec_fetch_site`` is a header.

    ``form`` makes it a POST that appears to come from the page itself unless the headers differ.
    """
    parts = urlsplit(target)
    sent: dict[str, str | None] = {"host": HOST}
    body = b""
    if form is not None:
        body = urlencode(form).encode()
        sent |= {"origin": f"http://{HOST}", "content-length": str(len(body))}
        sent["content-type"] = "application/x-www-form-urlencoded"
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET" if form is None else "POST",
        "scheme": "http",
        "path": parts.path,
        "raw_path": parts.path.encode(),
        "root_path": "",
        "query_string": parts.query.encode(),
        "headers": [(k.encode(), v.encode()) for k, v in sent.items() if v is not None],
        "server": ("127.0.0.1", 8700),
        "client": ("127.0.0.1", 50_000),
    }
    messages: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        messages.append(message)

    asyncio.run(app(scope, receive, send))
    start, content = messages[0], b"".join(each.get("body", b"") for each in messages[1:])
    return Answer(
        start["status"],
        {name.decode(): value.decode() for name, value in start["headers"]},
        content.decode(errors="surrogateescape"),
        content,
    )
