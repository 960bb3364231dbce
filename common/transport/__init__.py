"""Transport: certificates, channels, statuses, messages.

TLS 1.3 and nothing older. gRPC's Python interface has no setting for the version. Its core takes a
list of cipher suites from the environment, which is for TLS 1.2 alone (TLS 1.3 allows no choice of
suites). The list set here holds one suite that needs a pre-shared key, and gRPC has no way to
supply one: no certificate can be used with it, so a handshake of TLS 1.2 finds no common suite and
ends, on either side.

The core reads the environment once, when it is loaded. So ``owner/__init__.py`` and
``curator/__init__.py`` import this package before any of their modules imports gRPC. In a process
that had loaded gRPC before, no channel is opened and no port served: see `require_tls_13`.

References: gRPC, doc/environment_variables.md; RFC 5489 (suites with ECDHE_PSK); RFC 8446, B.4.
"""

import os
import sys

from dppca.common.kernel.errors import SettingError

VARIABLE = "GRPC_SSL_CIPHER_SUITES"
NO_TLS_12 = "ECDHE-PSK-CHACHA20-POLY1305"

_TOO_LATE = "grpc._cython.cygrpc" in sys.modules and os.environ.get(VARIABLE) != NO_TLS_12
os.environ[VARIABLE] = NO_TLS_12


def require_tls_13() -> None:
    """Raise `SettingError` if gRPC may have been loaded with TLS 1.2."""
    if _TOO_LATE:
        raise SettingError(
            "gRPC was imported before dppca, so it would take TLS 1.2 too: import dppca's modules "
            f"first, or start Python with {VARIABLE}={NO_TLS_12}"
        )
