import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from dppca.common.kernel.errors import IdentityError
from dppca.common.kernel.identity.tls import Role
from dppca.common.transport import NO_TLS_12, VARIABLE
from dppca.owner.client.calls import CuratorClient
from tests.support.checkout import ROOT
from tests.support.curator import Curator
from tests.support.patience import WAIT_S
from tests.support.tls import listening, shake_hands


def test_a_curator_refuses_tls_1_2(curator: Curator, tmp_path: Path) -> None:
    owner = curator.authority.issue(Role.OWNER, "owner-1")
    version, _ = shake_hands(curator.address, owner, tmp_path, ssl.TLSVersion.TLSv1_3)
    assert version == "TLSv1.3"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        shake_hands(curator.address, owner, tmp_path, ssl.TLSVersion.TLSv1_2)


@pytest.mark.parametrize(
    ("version", "error", "says", "end"),
    [
        (ssl.TLSVersion.TLSv1_2, IdentityError, r"TLS 1\.3", "NO_SHARED_CIPHER"),
        # The control: by the version alone it fails; the server does not speak HTTP/2 either.
        (ssl.TLSVersion.TLSv1_3, IdentityError, "without a reason", "TLSv1.3"),
    ],
)
def test_an_owner_refuses_a_server_that_speaks_tls_1_2_only(
    curator: Curator,
    tmp_path: Path,
    version: ssl.TLSVersion,
    error: type[Exception],
    says: str,
    end: str,
) -> None:
    server = curator.authority.issue(Role.CURATOR, "hub")
    owner = curator.authority.issue(Role.OWNER, "owner-1")
    with (
        listening(server, tmp_path, version) as (address, ends),
        CuratorClient(address, owner) as client,
        pytest.raises(error, match=says),
    ):
        client.require_serving()
    assert ends[0] == end


@pytest.mark.parametrize(("given", "refused"), [("", True), (NO_TLS_12, False)], ids=["late", "ok"])
def test_nothing_is_opened_where_grpc_was_loaded_before(given: str, refused: bool) -> None:
    code = (
        "import grpc\n"
        "from dppca.common.transport.channels import open_channel\n"
        "from dppca.common.kernel.identity.tls import Credentials\n"
        "open_channel('localhost:1', Credentials(b'', b'', b''))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != VARIABLE}
        | ({VARIABLE: given} if given else {}),
    )
    assert ("import dppca's modules first" in done.stderr) == refused, done.stderr
