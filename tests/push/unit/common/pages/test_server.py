"""A page is served on one address of loopback."""

import signal
import socket

from starlette.applications import Starlette

from dppca.common.pages.server import serve


def test_a_page_is_on_loopback_alone() -> None:
    reached = []

    def look(port: int) -> None:
        for host in ("127.0.0.1", "127.0.0.2"):  # what listens everywhere answers on both
            with socket.socket() as caller:
                reached.append(caller.connect_ex((host, port)) == 0)
        signal.raise_signal(signal.SIGINT)

    serve(Starlette(), port=0, opened=look)
    assert reached == [True, False]
