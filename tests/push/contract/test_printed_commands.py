"""Every command that a page, a unit of systemd or a help text prints is one that can be given."""

import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import dropwhile, groupby
from pathlib import Path

import click
import pytest

from tests.support.page_shell import read_blocks
from tools.markdown import ROOT
from tools.reference import programs, walk

PROGRAMS = programs()
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"(?:^(?: {4}|\t)\S.*\n)+", re.MULTILINE)
BEFORE = ("do", "then", "nohup", "exec", "time")
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def _pages() -> list[Path]:
    """All pages but decisions, which keep the commands of their day."""
    below = (ROOT / "docs", ROOT / "deploy", ROOT / "benchmarks")
    found = [*ROOT.glob("*.md"), *(page for folder in below for page in folder.rglob("*.md"))]
    return sorted(page for page in found if "decisions" not in page.parts)


def _shell_texts(page: Path) -> Iterator[str]:
    text = page.read_text()
    for language, block in FENCE.findall(text):
        if language in ("", "sh", "console"):
            yield block
    yield from INDENTED.findall(FENCE.sub("", text))


def _commands(text: str) -> Iterator[list[str]]:
    """Words of each command in a shell's text, cut at whatever ends a command there."""
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(re.sub(r"^ *[#$] (?=\S)", "", line), posix=True, punctuation_chars=True)
        lexer.wordchars += ":{}[],$%…@^+"
        try:
            words = list(lexer)
        except ValueError:  # a quotation over several lines: a file's text, or a reason
            continue
        for ends, command in groupby(words, key=lambda word: set(word) <= set("();<>|&")):
            begun = list(dropwhile(lambda word: word in BEFORE or "=" in word, command))
            if not ends and begun and begun[0] in (*PROGRAMS, "make", "python"):
                yield begun


def _parse(command: click.Command, words: list[str], parent: click.Context | None = None) -> None:
    """`click.UsageError` where the words are no command; runs nothing."""
    name, *arguments = words
    try:
        context = command.make_context(name, arguments, parent)
    except click.exceptions.Exit:  # it asks for the help or the version
        return
    if isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        if not rest and command.invoke_without_command:
            return
        found, child, below = command.resolve_command(context, rest)
        assert found is not None
        assert child is not None
        _parse(child, [found, *below], context)


def _fault(words: list[str], *, whole: bool = True) -> str | None:
    """What is wrong with a command; one that is not ``whole`` is mentioned, and may lack a part."""
    if words[0] == "make":
        goals = [each for each in words[1:] if "=" not in each]
        return None if set(goals) <= TARGETS else "no such target"
    if words[0] == "python":
        module = words[2] if words[1:2] == ["-m"] and len(words) > 2 else "tests"
        ours = module.partition(".")[0] in ("benchmarks", "dppca", "tests", "tools")
        return None if not ours or find_spec(module) else "no such module"
    try:
        _parse(PROGRAMS[words[0]], words)
    except click.exceptions.NoArgsIsHelpError:
        return "no command" if whole else None
    except click.UsageError as error:
        lacking = isinstance(error, click.MissingParameter)
        return None if lacking and not whole else error.format_message()
    return None


@pytest.fixture
def _no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file of a page is there; where the curator is, its pages say by these variables."""
    monkeypatch.setattr(click.Path, "convert", lambda _self, value, *_: Path(value))
    monkeypatch.setenv("DPPCA_CURATOR", "hub.example:7443")
    monkeypatch.setenv("DPPCA_CREDENTIALS", "olga")


@pytest.mark.usefixtures("_no_files")
@pytest.mark.parametrize("page", _pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_on_a_page_is_one(page: Path) -> None:
    text = page.read_text()
    mentioned = [each.replace("\n", " ") for each in re.findall(r"`([^`]+)`", FENCE.sub("", text))]
    faults = [
        f"{shlex.join(words)}: {fault}"
        for texts, whole in ((_shell_texts(page), True), (mentioned, False))
        for each in texts
        for words in _commands(each)
        if (fault := _fault(words, whole=whole)) is not None
    ]
    assert faults == []


@pytest.mark.usefixtures("_no_files")
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_example_in_a_help_text_is_one(program: str) -> None:
    examples = [
        words
        for context in walk(program, PROGRAMS[program])
        for words in _commands((context.command.help or "").partition("Example:")[2])
    ]
    assert len(examples) > 5
    assert [f"{shlex.join(each)}: {said}" for each in examples if (said := _fault(each))] == []


PASTED = ("move-a-site", "runbook", "share-one-sum")
"""Pages of blocks in which no step may follow a refused one."""


@pytest.mark.parametrize("page", PASTED)
def test_a_pasted_block_ends_with_the_exit_code_of_its_refused_step(page: str) -> None:
    blocks = read_blocks(ROOT / f"docs/how-to/{page}.md")
    assert blocks
    for name, block in blocks.items():
        if "<<" in block:  # a file that the reader writes
            continue
        whole = re.sub(r"\s#\s.*", "", block.replace("\\\n", " ")).strip()
        steps = [line.rstrip() for line in whole.splitlines() if line.strip()]
        lost = [step for step in steps[:-1] if not step.endswith(("&&", "|"))]
        assert lost == [], f"{page}, {name}"
