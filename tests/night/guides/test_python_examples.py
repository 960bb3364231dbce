"""The examples of the page of the Python interface run, and say what comes out."""

from __future__ import annotations

import doctest
import re
from importlib import import_module

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


def _modules_with_examples() -> list[str]:
    """Every module of the product with an example in a docstring, found by its text."""
    found = [
        path
        for room in ("common", "curator", "deploy", "dppca", "owner")
        for path in sorted((ROOT / room).rglob("*.py"))
        if ">>> " in path.read_text()
    ]
    return [f"dppca.{'.'.join(path.relative_to(ROOT).with_suffix('').parts)}" for path in found]


@pytest.mark.parametrize("module", _modules_with_examples())
def test_the_examples_in_docstrings_run(module: str) -> None:
    result = doctest.testmod(import_module(module), optionflags=doctest.ELLIPSIS)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("name", sorted(dppca.__all__))
def test_every_public_name_stands_in_an_example(name: str) -> None:
    blocks = re.findall(r"^```pycon\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert re.search(rf"\b{name}\b", "".join(blocks))
