from __future__ import annotations

from pathlib import Path

import pytest

from tools import wire


def test_the_generated_code_is_what_the_proto_makes() -> None:
    assert wire.drift() == []


def test_drift_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "GENERATED", (*wire.GENERATED, "missing.py"))
    generate = wire.generate

    def generate_more(target: Path) -> None:
        generate(target)
        (target / "dppca/common/wire/missing.py").write_text("new")
        (target / "dppca/common/wire/federation_pb2.py").write_text("other")

    monkeypatch.setattr(wire, "generate", generate_more)
    assert wire.drift() == ["federation_pb2.py", "missing.py"]
