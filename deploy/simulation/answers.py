"""Commands that ask the result of a simulation, so that nobody has to look for the first one.

Each question is asked here. Listed are the first three that the result answers with an interval of
two ends; what predicts the target comes first.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from shlex import quote

import numpy as np

from dppca.common.analysis.estimates.face import estimates
from dppca.common.analysis.estimates.questions import QUESTIONS
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema import Schema
from dppca.common.kernel.schema.attributes import list_labels

MOST_ANSWERS = 3  # lines to paste: what somebody tries before they read on


def list_answers(
    published: Published, result: Path, authority: Path, target: str | None = None
) -> tuple[str, ...]:
    """Return commands of `dppca-owner estimate` that ``result``, a file, can answer: three at most.

    The study's own questions, all by one command, come first.
    ``target`` is the attribute that the study is about, if somebody named one.
    """
    face, lines = estimates(published), list[str]()
    command, signed = f"dppca-owner estimate {quote(str(result))}", f"--ca {quote(str(authority))}"
    if published.study.questions:
        lines.append(f"{command} {signed}")
    for question, *names in _candidates(published.study.table, target):
        if len(lines) == MOST_ANSWERS:
            break
        with suppress(SettingError):  # the study did not release it
            answer = QUESTIONS[question].ask(face, tuple(names), {})
            if not np.isfinite(answer.conf_int()).all(axis=1).any():
                continue  # no number, or none that the noise bounds
            asked = " ".join(map(quote, (question, *names)))
            lines.append(f"{command} {asked} {signed}")
    return tuple(lines)


def _candidates(schema: Schema, target: str | None) -> Iterator[tuple[str, ...]]:
    """Yield questions about the target and the first attributes."""
    ordered = sorted(schema.attributes, key=lambda each: each.name != target)
    numbers = [each.name for each in ordered if each.type == "numeric"]
    labelled = [each.name for each in ordered if list_labels(each) is not None]
    yield from (("mean", name) for name in numbers[:1])
    yield from (("share", name) for name in labelled[:1])
    if len(labelled) > 1:
        yield ("table", *labelled[:2])
    if len(numbers) > 1:
        yield ("correlation", *numbers[:2])
    if len(numbers) + len(labelled) > 2 and numbers:
        yield ("ols", *numbers[-1:], *numbers[:-1][:2], *labelled[:1])
