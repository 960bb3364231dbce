"""The two services of ``federation.proto``, translated: message, value, decision, answer."""

from __future__ import annotations

from grpc.aio import Server

from common.wire import federation_pb2 as pb
from common.wire import federation_pb2_grpc as rpc
from curator.config import Limits
from curator.service.admin import AdminService
from curator.service.federation import FederationService
from curator.studies import Studies

__all__ = ["SERVICE_NAMES", "add_services"]

SERVICE_NAMES = tuple(service.full_name for service in pb.DESCRIPTOR.services_by_name.values())


def add_services(server: Server, studies: Studies, limits: Limits) -> None:
    """Serve both services."""
    rpc.add_FederationServicer_to_server(FederationService(studies, limits), server)
    rpc.add_AdminServicer_to_server(AdminService(studies), server)
