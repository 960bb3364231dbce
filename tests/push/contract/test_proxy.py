"""``deploy/proxy/``: its numbers beside the software's; HAProxy runs it in the merge tier."""

import re

from dppca.common.transport.channels import KEEPALIVE_S
from dppca.curator.config import Limits
from dppca.curator.daemon import CONNECTIONS_OF_ADDRESS
from tests.support.proxy import CONFIGURATION

TEXT = CONFIGURATION.read_text()


def numbers(pattern: str) -> list[int]:
    return [int(number) for number in re.findall(pattern, TEXT)]


def test_the_proxy_passes_on_what_the_curator_takes_together_and_of_one_address() -> None:
    together, owners, operators = numbers(r"\bmaxconn (\d+)")
    assert together == owners + operators
    assert together < Limits().max_connections
    assert numbers(r"sc0_conn_cur gt (\d+)") == [CONNECTIONS_OF_ADDRESS]


def test_tls_passes_through_and_no_connection_that_answers_pings_is_ended() -> None:
    assert numbers(r"timeout (?:client|server) (\d+)m\n") == [2, 2]
    assert 2 * KEEPALIVE_S < 2 * 60
    assert re.findall(r"\bmode (\w+)", TEXT) == ["tcp"]
    assert not re.search(r"\b(ssl|crt)\b", re.sub("#.*", "", TEXT))
