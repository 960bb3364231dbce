"""What a Docker engine says, as errors of `dppca.common.errors`.

The engine answers most requests it cannot fulfil with status 500 and a sentence, so the sentence
decides. Sentences are those of moby (``daemon/``, ``libnetwork/``); the last rule takes all others
with the engine's own words.

====================================================  =====================
no connection, no answer in time, permission denied   `EngineError`
no such image                                         `ImageMissingError`
no space left on device, disk quota exceeded          `DiskSpaceError`
address pools exhausted, subnet in use                `AddressSpaceError`
all else                                              `EngineError`
====================================================  =====================
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import requests
from docker.errors import APIError, DockerException, ImageNotFound
from docker.utils.socket import SocketError

from dppca.common.errors import (
    AddressSpaceError,
    DiskSpaceError,
    DppcaError,
    EngineError,
    ImageMissingError,
)

NO_SPACE = ("no space left on device", "disk quota exceeded", "not enough space")
NO_ADDRESSES = (
    "non-overlapping ipv4 address pool",
    "predefined address pools have been fully subnetted",
    "pool overlaps with other one",
)
FAILURES = (DockerException, requests.RequestException, SocketError, OSError)
"""What a call of the Docker SDK can raise."""


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Errors of the Docker SDK within the block become ours.

    Parameters
    ----------
    doing
        What was being done, for the message: "making network curator-owner-1".
    """
    try:
        yield
    except FAILURES as error:
        raise translate_failure(error, doing) from error


def translate_failure(error: Exception, doing: str) -> DppcaError:
    """Translate an error of the SDK into one of `dppca.common.errors`; pure."""
    if isinstance(error, ImageNotFound):
        return ImageMissingError(f"{doing}: the image is not on this engine")
    said = _said(error)
    known = refusal(said, doing)
    if known is not None:
        return known
    if isinstance(error, APIError):
        return EngineError(f"{doing}: the engine refused: {said}")
    if "permission denied" in said.lower():
        return EngineError(
            f"{doing}: this user may not use the Docker engine: join its group (docker), or use "
            f"rootless Docker; {said}"
        )
    return EngineError(
        f"{doing}: no Docker engine answers: start it, or set DOCKER_HOST to where it listens; "
        f"{said}"
    )


def refusal(said: str, doing: str) -> DppcaError | None:
    """The error for what an engine said, itself or through Compose; None for all other words."""
    low = said.lower()
    if any(words in low for words in NO_SPACE):
        return DiskSpaceError(
            f"{doing}: the engine's disk is full ({said}); free some of it, for instance with "
            "`docker system prune`, and run the command again"
        )
    if any(words in low for words in NO_ADDRESSES):
        return AddressSpaceError(
            f"{doing}: no free addresses ({said}); remove networks that are not used "
            "(`dppca-simulate clean`, `docker network prune`) or give others with --subnet"
        )
    return None


def _said(error: Exception) -> str:
    text = error.explanation if isinstance(error, APIError) else None
    return " ".join(str(text or error).split())
