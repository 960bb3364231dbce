"""Descriptors for connections: provided, or the daemon does not start."""

import resource

import pytest

from dppca.common.kernel.errors import SettingError
from dppca.curator.config import Limits
from dppca.curator.daemon import OTHER_DESCRIPTORS, provide_descriptors

FEW, MANY = 512, 65_536
NEEDED = Limits().max_connections + OTHER_DESCRIPTORS


@pytest.mark.parametrize(
    ("soft", "hard", "raised"),
    [
        (NEEDED, NEEDED, []),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, []),
        (FEW, MANY, [(NEEDED, MANY)]),
        (FEW, resource.RLIM_INFINITY, [(NEEDED, resource.RLIM_INFINITY)]),
    ],
)
def test_every_connection_has_a_descriptor(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, raised: list[tuple[int, int]]
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: asked.append(both))
    provide_descriptors(Limits())
    assert asked == raised


@pytest.mark.parametrize("refusal", [ValueError, PermissionError])
def test_a_system_that_allows_fewer_is_told_so(
    monkeypatch: pytest.MonkeyPatch, refusal: type[Exception]
) -> None:
    def refuse(_: int, __: tuple[int, int]) -> None:
        raise refusal

    monkeypatch.setattr(resource, "getrlimit", lambda _: (FEW, FEW))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    with pytest.raises(SettingError, match=f"needs {NEEDED} open files .* may have {FEW}"):
        provide_descriptors(Limits())


def test_the_usual_limit_of_a_process_is_enough() -> None:
    assert NEEDED <= 1024
