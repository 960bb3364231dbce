"""Attacks on a real curator's endpoint, by an operator who may start any study.

*Differencing.* A coin decides which of two rows a person has. The attacker has the table's release
with that person, then another study's release of the table with the person replaced by a known row,
and subtracts. Only one release depends on the coin, so every attacker guesses right with
probability at most ``e^epsilon / (1 + e^epsilon)``. If noise were used twice, the guess would
always be right.

*Asking again.* The same study again must give the same bytes and charge nothing. The same question
under new names is charged each time, until the budget ends it.
"""

import math
import secrets
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.results import result_from_bytes
from dppca.common.kernel.attestation.verify import verify_result
from dppca.common.kernel.errors import (
    AlteredError,
    BudgetExceededError,
    ReceiptError,
    SignatureError,
)
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study, study_from_mapping
from dppca.owner.ledger.file import read_history
from dppca.owner.records.table import moments_of_table, open_table
from dppca.owner.selftest.findings import Finding
from dppca.owner.selftest.judging import LEVEL
from dppca.owner.selftest.laws import dkw, dkw_limit
from dppca.owner.selftest.local_federation import VICTIM, TemporaryFederation
from dppca.owner.selftest.sent import DATA_SET

_EPSILON = "0.1"  # of each study
_DIFFERENCING_LEVEL = 9e-8  # probability that an honest site fails the check
_BUDGET = Decimal("0.5")  # of the site, five studies
_QUESTIONS: list[dict[str, object]] = [
    {"name": f"q{i}", "type": "binary", "values": ["no", "yes"]} for i in range(6)
]
_ATTRIBUTES: list[dict[str, object]] = [
    {"name": "age", "type": "numeric", "lower": 0, "upper": 100},
    *_QUESTIONS,
]
_OTHERS = [["40", *["no", "yes"] * 3], ["60", *["yes", "no"] * 3], ["50", *["no"] * 6]]
_SECRETS = (["0", *["no"] * 6], ["100", *["no", "no", "no", "yes", "yes", "yes"]])
_KNOWN = ["50", *["no", "yes"] * 3]


def attack_by_differencing(
    federation: TemporaryFederation, *, trials: int, advance: Callable[[int], None]
) -> list[Finding]:
    """Subtract releases of neighbouring tables, `trials` times; see the module's docstring."""
    table = federation.site / "survey.csv"
    guesses, noises = 0, []
    for trial in range(trials):
        coin = secrets.randbelow(2)
        answers, exact = [], []
        for query, row in enumerate((_SECRETS[coin], _KNOWN)):
            study = _study(f"difference-{trial}-{query}")
            _write(table, [*_OTHERS, row])
            answers.append(_released(federation, study, "survey"))
            exact.append(_exact(table, study))
            advance(1)
        noises += [a - e for a, e in zip(answers, exact, strict=True)]
        guesses += _guess(answers[0] - answers[1], table, study) == coin
    return [_differencing(guesses, trials), _wire(np.stack(noises))]


def attack_by_asking_again(
    federation: TemporaryFederation, *, advance: Callable[[int], None]
) -> list[Finding]:
    """Ask one study again, and one question under many names until the budget ends."""
    table = federation.site / "small.csv"
    _write(table, [*_OTHERS, _SECRETS[0]])
    study = _study("again")
    first = _released(federation, study, "small")
    before = read_history(federation.site / "ledger.sqlite")
    answers = [
        federation.owner("contribute", study.name, "--yes", "--data-set", "small") for _ in "12"
    ]
    same = (
        all(answer["already_stored"] for answer in answers)
        and read_history(federation.site / "ledger.sqlite") == before
        and bool((_pooled(federation, study) == first).all())
    )
    drawn, refused, most = [first], False, int(_BUDGET / Decimal(_EPSILON))
    for number in range(most + 2):
        advance(1)
        study = _study(f"again-{number}")
        try:
            drawn.append(_released(federation, study, "small"))
        except BudgetExceededError:
            refused = True
            break
    charged = read_history(federation.site / "ledger.sqlite").total("small").epsilon
    held = refused and len(drawn) == most and charged == _BUDGET
    distinct = len(np.unique(np.stack(drawn), axis=0))
    return [
        Finding(
            "asking again: same study",
            same,
            "the same bytes each time, and nothing is charged"
            if same
            else "another answer, or another charge",
            0.0,
        ),
        Finding(
            "asking again: new names",
            held and distinct == len(drawn),
            f"{len(drawn)} answers for a budget of {_BUDGET}, {charged} charged, "
            + ("then refused" if refused else "NOT refused")
            + f"; {distinct} of them differ",
            LEVEL,
            {"answers": len(drawn), "charged": str(charged), "distinct": distinct},
        ),
    ]


def audit_receipt(federation: TemporaryFederation) -> Finding:
    """Check that the components carry a receipt that verifies against the authority."""
    study = _study("receipt")
    _write(federation.site / "survey.csv", [*_OTHERS, _KNOWN])
    _released(federation, study, "survey")
    try:
        checked, _ = verify_result(federation.components(study), KnownParties(federation.ca))
        fault = "" if checked.study == study else "it is of another study"
    except (AlteredError, ReceiptError, SignatureError) as error:
        fault = str(error)
    return Finding(
        "receipt",
        not fault,
        fault or "the components' receipt verifies against the authority",
        0.0,
    )


def _differencing(guesses: int, trials: int) -> Finding:
    epsilon = float(Decimal(_EPSILON))
    bound = math.exp(epsilon) / (1 + math.exp(epsilon))
    chance = float(binom.sf(guesses - 1, trials, bound))
    return Finding(
        "differencing",
        chance > _DIFFERENCING_LEVEL,
        f"the attacker was right {guesses} of {trials} times; at epsilon {_EPSILON} it may be "
        f"right with probability {bound:.3f}",
        _DIFFERENCING_LEVEL,
        {"right": guesses, "trials": trials, "allowed": bound},
    )


def _wire(noises: NDArray[np.int64]) -> Finding:
    """Check the noise that came over the wire, all coordinates of all releases together."""
    law = calibrate(_study("law")).law.of_entries
    distance, limit = dkw(noises.ravel(), law), dkw_limit(noises.size, LEVEL)
    bare = [i for i in range(noises.shape[1]) if not noises[:, i].any()]
    twice = len(noises) - len(np.unique(noises, axis=0))
    good = distance <= limit and not bare and not twice
    return Finding(
        "noise on the wire",
        good,
        f"distance {distance:.4f} of {limit:.4f} allowed from the exact law, {noises.size} values; "
        f"{len(bare)} coordinates without noise, {twice} noises came twice",
        2 * LEVEL,
        {"distance": distance, "limit": limit, "without_noise": bare, "repeated": twice},
    )


def _guess(difference: NDArray[np.int64], table: Path, study: Study) -> int:
    """Return the index of the secret that explains a difference better."""
    expected = []
    for row in (*_SECRETS, _KNOWN):
        _write(table, [*_OTHERS, row])
        expected.append(_exact(table, study).astype(np.float64))
    towards_second = expected[1] - expected[0]
    middle = (expected[0] + expected[1]) / 2 - expected[2]
    return int((difference - middle) @ towards_second > 0)


def _released(federation: TemporaryFederation, study: Study, data_set: str) -> NDArray[np.int64]:
    """Return the victim's packed vector for a new study, from the pooled sums in the result."""
    federation.create(study)
    federation.owner("contribute", study.name, "--yes", "--data-set", data_set)
    return _pooled(federation, study)


def _pooled(federation: TemporaryFederation, study: Study) -> NDArray[np.int64]:
    return result_from_bytes(federation.components(study).content, study).pooled


def _exact(table: Path, study: Study) -> NDArray[np.int64]:
    return moments_of_table(open_table(table, study.table), study.table).packed


def _study(name: str) -> Study:
    return study_from_mapping(
        {
            "name": name,
            "owners": [VICTIM],
            "privacy": {"mechanism": "laplace", "epsilon": _EPSILON},
            "components": {"count": 1},
            "schema": {"resolution_bits": 4, "max_rows_per_person": 1, "attributes": _ATTRIBUTES},
        }
    )


def _write(table: Path, rows: list[list[str]]) -> None:
    head = [str(attribute["name"]) for attribute in _ATTRIBUTES]
    table.write_text("\n".join(",".join(row) for row in [head, *rows]) + "\n", encoding="utf-8")


def prepare(federation: TemporaryFederation) -> None:
    """Give the site people to attack, and some with a small budget."""
    unlimited = dict.fromkeys(("survey", "crashes", DATA_SET), "1000000")
    federation.policy({**unlimited, "small": str(_BUDGET)})
    for name in ("survey", "small", "crashes"):
        _write(federation.site / f"{name}.csv", [*_OTHERS, _KNOWN])


def study_for_crashes(name: str) -> Study:
    """Return a study of the data set ``crashes``."""
    return _study(name)
