"""The generated code is the proto's, and what a party may send in pieces the curator takes so."""

from dppca.common.transport.channels import CHUNK_BYTES
from dppca.common.wire import federation_pb2 as pb
from dppca.curator.service.calls import LARGE_BYTES
from tools import wire


def test_the_generated_code_is_what_the_proto_makes() -> None:
    assert wire.drift() == []


def test_every_upload_may_have_whole_chunks() -> None:
    services = pb.DESCRIPTOR.services_by_name.values()
    uploads = [each for service in services for each in service.methods if each.client_streaming]
    assert {each.name for each in uploads} >= {"Contribute", "Open", "PublishSynthetic"}
    for each in uploads:
        assert LARGE_BYTES.get(each.name, 0) > CHUNK_BYTES, each.name
