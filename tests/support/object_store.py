"""A local server that speaks S3, and files in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.fs
import pytest
from moto.server import ThreadedMotoServer

BUCKET = "rows-of-a-site"


@contextmanager
def object_store(patch: pytest.MonkeyPatch) -> Iterator[pyarrow.fs.FileSystem]:
    """Run a server with an empty bucket; its address and credentials are in the environment."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    patch.setenv("AWS_ACCESS_KEY_ID", "key-of-the-environment")
    patch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-environment")
    patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    try:
        # With an address: only then is the server's taken from the environment.
        system, _ = pyarrow.fs.FileSystem.from_uri(f"s3://{BUCKET}?allow_bucket_creation=true")
        system.create_dir(BUCKET)
        yield system
    finally:
        server.stop()


def upload(system: pyarrow.fs.FileSystem, folder: Path, *, below: str) -> str:
    root = f"{BUCKET}/{below}"
    pyarrow.fs.copy_files(str(folder), root, destination_filesystem=system)
    return f"s3://{root}"
