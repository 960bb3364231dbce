"""Health check of a curator: the standard gRPC health service over mutual TLS.

The daemon answers (`dppca.curator.daemon`): SERVING while it can store studies, another status
while it starts, drains or cannot write. Any certificate of the authority may ask, including the
curator's own: a container's health check has no other.

Reference: GRPC Health Checking Protocol (grpc/grpc, doc/health-checking.md).
"""

from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dppca.common.kernel.errors import UnreachableError
from dppca.common.kernel.identity.tls import Credentials, Role
from dppca.common.transport.channels import explain_failure, open_channel
from dppca.common.transport.hosts import DialTarget


def ask_health(
    address: str, credentials: Credentials, *, timeout_s: float, live: bool = False
) -> str:
    """Ask once, without retries; return the answered status.

    ``address`` is ``HOST:PORT`` with a host of the curator's certificate; ``timeout_s`` limits
    connection and answer together; ``live`` accepts any answer, otherwise only ``SERVING``. Raise
    `UnreachableError` for another status or no answer in time, and `IdentityError` if the
    certificate was refused.
    """
    with open_channel(address, credentials) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)  # its stubs do not know Check
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=timeout_s)
        except grpc.RpcError as error:
            dialled = DialTarget(
                address, credentials.ca, Role.OPERATOR, certificate=credentials.certificate
            )
            raise explain_failure(error, dialled, limit_s=timeout_s) from error
    status = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    if not live and answer.status != health_pb2.HealthCheckResponse.SERVING:
        raise UnreachableError(f"the curator at {address} answers {status}: see its log")
    return status
