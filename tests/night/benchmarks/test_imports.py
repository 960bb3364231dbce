"""What a site's commands load before they work: modules by room, and libraries; never seconds.

Seconds depend on the machine; what is loaded does not. A count above its bound asks for a reason:
an import for a type alone stands under ``TYPE_CHECKING``; a bound that must rise says so here.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from dppca.common.transport.testbed import OWNER
from tests.support import tracing
from tests.support.checkout import ROOT
from tests.support.curator import Curator
from tests.support.patience import HANG_S
from tests.support.sites import OwnerSite

LIBRARIES = {"cryptography", "grpc", "numpy", "pyarrow", "pydantic", "scipy", "sklearn"}
AT_A_CURATOR = {"cryptography", "grpc", "numpy", "pydantic"}
MOST = {
    "budget": ({"common": 37, "owner": 42}, {"pydantic"}),
    "studies": ({"common": 84, "owner": 51}, AT_A_CURATOR),
    "check": ({"common": 101, "owner": 61}, AT_A_CURATOR | {"pyarrow"}),
    "review": ({"common": 146, "owner": 83}, AT_A_CURATOR | {"pyarrow", "scipy"}),
}
"""For each command the most modules by room, and which of `LIBRARIES` it may load.

A mapping, a masked sum, a statement of people and a study file are loaded where there is one. A
study's form knows matrix noise, people, secret numbers and pinned signatures in thirteen; reasons
against questions are five. A review forecasts questions, so it loads what answers them. What
budgets promise is one of common, not of an owner; words of numbers are another.
"""


@pytest.mark.parametrize("command", MOST)
def test_a_command_loads_what_it_needs(
    command: str,
    curator: Curator,
    site: OwnerSite,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    study = curator.begin(site.name)
    named = (study.name,) if command in ("check", "review") else ()
    file = tmp_path / "loaded.json"
    line = (tracing.__file__, str(file), OWNER, "--site", str(site.folder), command, *named)
    done = subprocess.run(
        [sys.executable, *line], capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert done.returncode == 0, done.stderr
    trace = json.loads(file.read_text())
    rooms = Counter(name.partition("/")[0] for name in trace["loaded"])
    lines = sum(len((ROOT / name).read_text().splitlines()) for name in trace["loaded"])
    libraries = LIBRARIES & {*trace["others"]}
    with capsys.disabled():
        sys.stdout.write(f"\n{command}: {dict(rooms)}, {lines:,} lines, {sorted(libraries)}\n")
    most, wanted = MOST[command]
    assert {room: count for room, count in rooms.items() if count > most.get(room, 1)} == {}
    assert libraries <= wanted
