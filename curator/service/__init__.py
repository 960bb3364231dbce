"""The two services of ``federation.proto``: messages become values, decisions become answers."""

from grpc.aio import Server

from dppca.common.wire import federation_pb2 as pb
from dppca.common.wire import federation_pb2_grpc as rpc
from dppca.curator.config import Limits
from dppca.curator.service.admin import AdminService
from dppca.curator.service.coordinator import StudyCoordinator
from dppca.curator.service.federation import FederationService
from dppca.curator.service.recent_refusals import RecentRefusals

__all__ = ["SERVICE_NAMES", "add_services"]

SERVICE_NAMES = tuple(service.full_name for service in pb.DESCRIPTOR.services_by_name.values())


def add_services(
    server: Server, studies: StudyCoordinator, limits: Limits, refusals: RecentRefusals
) -> None:
    """Register both services with the server."""
    rpc.add_FederationServicer_to_server(FederationService(studies, limits, refusals), server)
    rpc.add_AdminServicer_to_server(AdminService(studies, limits, refusals), server)
