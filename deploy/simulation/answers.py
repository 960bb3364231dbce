"""Commands that ask the result of a simulation, so that nobody has to look for the first one.

A question is listed if the result answers it: each is asked once, here.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from shlex import quote

from dppca.common.analysis.estimates.face import estimates
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema import Schema
from dppca.common.kernel.schema.attributes import list_labels
from dppca.common.verification.estimation import QUESTIONS


def list_answers(published: Published, result: Path, authority: Path) -> tuple[str, ...]:
    """Return commands of `dppca-owner estimate` that ``result``, a file, can answer."""
    face, lines = estimates(published), []
    for question, *names in _candidates(published.study.table):
        with suppress(SettingError):  # the study did not release it
            QUESTIONS[question].ask(face, tuple(names), {})
            asked = " ".join(map(quote, (question, *names)))
            lines.append(
                f"dppca-owner estimate {quote(str(result))} {asked} --ca {quote(str(authority))}"
            )
    return tuple(lines)


def _candidates(schema: Schema) -> Iterator[tuple[str, ...]]:
    """Yield a question of each kind that the first attributes allow."""
    numbers = [each.name for each in schema.attributes if each.type == "numeric"]
    labelled = [each.name for each in schema.attributes if list_labels(each) is not None]
    yield from (("mean", name) for name in numbers[:1])
    yield from (("share", name) for name in labelled[:1])
    if len(labelled) > 1:
        yield ("table", *labelled[:2])
    if len(numbers) > 1:
        yield ("correlation", *numbers[:2])
    if len(numbers) + len(labelled) > 2 and numbers:
        yield ("ols", *numbers[-1:], *numbers[:-1][:2], *labelled[:1])
