import re
from collections.abc import Iterator

import grpc
import pytest

from dppca.common.kernel import errors
from dppca.common.shell.console import INTERRUPTED_EXIT_CODE, UNEXPECTED_EXIT_CODE, USAGE_EXIT_CODE
from dppca.common.transport.status import choose_status
from tests.support.checkout import ROOT

PAGE = ROOT / "docs/reference/errors.md"


def _tree(kind: type[errors.DppcaError]) -> Iterator[type[errors.DppcaError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _tree(child)


ALL = [kind for kind in _tree(errors.DppcaError) if kind.__module__ == errors.__name__]


def test_every_class_and_every_bad_answer_has_an_exit_code_of_its_own() -> None:
    codes = [*(kind.exit_code for kind in ALL), *errors.ExitCode]
    reserved = {0, UNEXPECTED_EXIT_CODE, INTERRUPTED_EXIT_CODE}
    assert len(set(codes)) == len(codes)
    assert not reserved & set(codes)
    assert errors.InputError.exit_code == USAGE_EXIT_CODE


def test_every_class_is_defined_in_the_one_tree() -> None:
    assert list(_tree(errors.DppcaError)) == ALL


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_class_has_a_status_and_a_line_in_the_page_of_errors(
    kind: type[errors.DppcaError],
) -> None:
    assert isinstance(choose_status(kind()), grpc.StatusCode)
    row = re.search(rf"^\| `{kind.__name__}` \| {kind.exit_code} \| (.+)$", PAGE.read_text(), re.M)
    assert row, f"{kind.__name__} is not in {PAGE.name} with its exit code"
    assert len(row.group(1).split("|")[0].split()) >= 3, "the page says what to do"


def test_the_page_of_errors_lists_nothing_else() -> None:
    listed = re.findall(r"^\| `(\w+)` \| (\d+) \|", PAGE.read_text(), re.M)
    codes = {**{kind.__name__: kind.exit_code for kind in ALL}, **errors.ExitCode.__members__}
    assert sorted(listed) == sorted((name, str(int(code))) for name, code in codes.items())


def test_public_sentences_are_constant_sentences() -> None:
    for kind in ALL:
        assert re.fullmatch(r"[A-Z][^{}%]*\.", kind.public), kind.__name__
