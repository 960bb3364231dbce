"""The examples of the page of the Python interface run, and say what comes out."""

from __future__ import annotations

import doctest
import re

import pytest

import dppca
from tools.markdown import ROOT

PAGE = ROOT / "docs/reference/api.md"


def test_the_examples_of_the_python_interface_run() -> None:
    blocks = re.findall(r"^```pycon\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    name = PAGE.name
    examples = doctest.DocTestParser().get_doctest("".join(blocks), {}, name, name, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
    said: list[str] = []
    runner.run(examples, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)


@pytest.mark.parametrize("name", sorted(dppca.__all__))
def test_every_public_name_stands_in_an_example(name: str) -> None:
    blocks = re.findall(r"^```pycon\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert re.search(rf"\b{name}\b", "".join(blocks))
