"""Ctrl-C in a simulation says that nobody was charged."""

from __future__ import annotations

import pytest

from dppca.common.shell.console import run
from dppca.deploy.simulation.cli import cli


def test_an_interrupted_simulation_says_that_nobody_was_charged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dppca.deploy.simulation.experiment.simulate", stopped)
    with pytest.raises(SystemExit) as left:
        run(cli, ["demo"])
    assert left.value.code == 130
    assert capsys.readouterr().err.strip() == "error: interrupted: no simulation charges anybody"
