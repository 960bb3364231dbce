from __future__ import annotations

from tools import wire


def test_the_generated_code_is_what_the_proto_makes() -> None:
    assert wire.drift() == []
