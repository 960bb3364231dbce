"""Every door by which an amount of privacy comes in refuses what is not plainly a number.

``0_5``, a slip for ``0.5``, is 5 to Python; so are other scripts' digits, and 05.
"""

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest
from pydantic import ValidationError

from dppca import plan, simulate
from dppca.common.analysis.study_file import study_from_yaml
from dppca.common.kernel.errors import PeerError, SettingError, StudyError
from dppca.common.kernel.study import make_privacy
from dppca.common.papers import PrivBayes
from dppca.common.transport.codec import read_message
from dppca.common.wire import federation_pb2 as pb
from dppca.curator.cli import cli as curator_cli
from dppca.curator.operator.responses import ListedStudy
from dppca.deploy.simulation.cli import cli as simulate_cli
from dppca.owner.cli import cli as owner_cli
from dppca.owner.release.weights import request_weights
from dppca.owner.site.file_forms import PolicyDocument, parse_document
from tests.support.commands import run_here
from tests.support.estimators import ALL, names_with
from tests.support.sites import make_site

SLIPS = ("0_5", "\uff10.5", " 0.5", "05")
OPTIONS = ("--epsilon", "--delta", "--colluders", "--rows-per-person", "--refine-epsilon")
LINES = {
    "dppca-owner budget plan": "--data-set survey",
    "dppca-curator study new": "--columns study.yaml --output new.yaml",
    "dppca-curator study refine": "study.yaml --target sex --name b --output new.yaml",
    "dppca-curator plan": "study.yaml --rows 100",
    "dppca-simulate run": "--study study.yaml --data study.yaml --owners 2 --output o --refine sex",
    "dppca-simulate compose": "--study study.yaml --data study.yaml --owners 2 --output o",
    "dppca-simulate containers": "--study study.yaml --data study.yaml --owners 2 --output o",
}
STUDY = """
name: s
owners: [north, south]
privacy: {{mechanism: gaussian, {privacy}, delta: {delta}}}
components: {{count: 1}}
schema:
  max_rows_per_person: {rows}
  sum_weight: {weight}
  attributes:
    - {{name: age, type: numeric, lower: {lower}, upper: 110}}
    - {{name: sex, type: binary, values: [f, m]}}
"""
PLAIN = {"privacy": "epsilon: 1", "delta": "0.1", "rows": 1, "weight": 1, "lower": 0}
ROWS = {"age": [1, 2], "sex": ["f", "m"]}
POLICY = """
populations: {{people: {{who: people, epsilon: {epsilon}, delta: {delta}}}}}
data_sets: {{rows: {{path: rows.csv, population: people, aggregate: {{colluders: {colluders}}}}}}}
"""
BUDGET = {"epsilon": '"1"', "delta": '"0.1"', "colluders": 1}


@pytest.mark.parametrize("slip", SLIPS)
@pytest.mark.parametrize(
    ("field", "form"),
    [
        *(("privacy", f'{key}: "{{}}"') for key in ("epsilon", "scale")),
        ("privacy", 'scale: 9, nominal_epsilon: "{}"'),
        *((key, '"{}"') for key in PLAIN if key != "privacy"),
        ("privacy", 'epsilon: !!int "{}"'),
        ("delta", '!!float "{}"'),
    ],
)
def test_a_study_takes_no_slip_for_a_number(field: str, form: str, slip: str) -> None:
    assert study_from_yaml(STUDY.format(**PLAIN)).privacy.delta is not None
    with pytest.raises(StudyError, match="line"):
        study_from_yaml(STUDY.format(**{**PLAIN, field: form.format(slip)}))


@pytest.mark.parametrize("field", ["rows", "weight", "lower", "delta"])
@pytest.mark.parametrize("octets", [b"5", b"0_5"])
def test_a_study_takes_no_bytes_for_a_number(field: str, octets: bytes) -> None:
    """Pydantic would: ``!!binary MF81`` is ``0_5``."""
    text = f"!!binary {b64encode(octets).decode()}"
    with pytest.raises(StudyError, match="line"):
        study_from_yaml(STUDY.format(**{**PLAIN, field: text}))


@pytest.mark.parametrize("slip", SLIPS)
@pytest.mark.parametrize("field", BUDGET)
def test_a_policy_takes_no_slip_for_a_budget(field: str, slip: str) -> None:
    parse_document(POLICY.format(**BUDGET), PolicyDocument, "policy.yaml")
    text = POLICY.format(**{**BUDGET, field: f'"{slip}"'})
    with pytest.raises(SettingError, match=field):
        parse_document(text, PolicyDocument, "policy.yaml")


@pytest.mark.parametrize(
    ("name", "setting"),
    [(name, each) for each in ("epsilon", "delta", "label_epsilon") for name in names_with(each)],
)
def test_an_estimator_takes_no_slip_for_an_amount(name: str, setting: str) -> None:
    X = np.random.default_rng(1).uniform(-0.45, 0.45, size=(60, 4))
    for slip in SLIPS:
        with pytest.raises(SettingError, match=setting):
            ALL[name](**{setting: slip}).fit(X, X[:, 0] > 0)


def test_functions_take_no_slip_for_an_amount() -> None:
    study = study_from_yaml(STUDY.format(**PLAIN))
    for slip in SLIPS:
        for given in ({"epsilons": [slip]}, {"delta": slip}):
            with pytest.raises(SettingError, match="must be a decimal"):
                plan(study, rows=100, **given)
        with pytest.raises(SettingError, match="second study must be a decimal"):
            simulate(dict.fromkeys(study.owners, ROWS), study, refine="sex", refine_epsilon=slip)
        for epsilon, delta in ((slip, None), (1, slip)):
            with pytest.raises(SettingError, match="must be a decimal"):
                request_weights(
                    study, data_set="d", target="sex", epsilon=epsilon, delta=delta, C=1.0
                )
        with pytest.raises(ValidationError, match="colluders"):
            make_privacy(mechanism="laplace", epsilon="1", trust="aggregate", colluders=slip)
        with pytest.raises(SettingError, match="epsilon"):
            PrivBayes(epsilon=slip, max_rows_per_person=1).fit([[0, 1]])
        with pytest.raises(PeerError, match="an amount that no study can have"):
            read_message(ListedStudy, pb.StudySummary(state=pb.STUDY_STATE_OPEN, epsilon=slip))


def _options(command: click.Command, line: str) -> Iterator[tuple[str, str]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _options(found, f"{line} {name}")
    for each in command.params:
        yield from ((line, name) for name in each.opts if name in OPTIONS)


CLIS = {"dppca-owner": owner_cli, "dppca-curator": curator_cli, "dppca-simulate": simulate_cli}
DOORS = sorted(door for name, cli in CLIS.items() for door in _options(cli, name))
# `train` asks for its study first: tests/push/unit/owner/release/test_weights.py
DOORS = [door for door in DOORS if door[0] != "dppca-owner train"]


@pytest.mark.parametrize(("line", "option"), DOORS)
def test_an_option_takes_no_slip_for_an_amount(
    line: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text(STUDY.format(**PLAIN))
    program, *command = line.split()
    site = ("--site", make_site(tmp_path / "site").folder) if program == "dppca-owner" else ()
    needed = ("--epsilon", "1") if option == "--delta" else ()
    for slip in SLIPS:
        given = (*site, *command, *LINES[line].split(), *needed, option, slip)
        code, _, told = run_here(CLIS[program], *given)
        assert code in (2, SettingError.exit_code)
        assert "must be a decimal" in told or f"{slip!r} is not a whole number" in told
