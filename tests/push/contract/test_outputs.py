"""Every option that names a place to write obeys one law, before any work."""

import re
from pathlib import Path

import click
import pytest

from dppca.common.shell.outputs import MARKER, PARTY_FILES, FileLaw, FolderLaw, OutputOption
from dppca.curator.store.sqlite import DATABASE
from dppca.owner.site.config import Site
from tests.support.checkout import ROOT
from tests.support.commands import run_here
from tools.reference import programs, walk

COMMANDS = {
    context.command_path: context.command
    for program, group in programs().items()
    for context in walk(program, group)
}
READ = {
    *(
        "--acknowledgement",
        "--answers",
        "--ca",
        "--certificate",
        "--columns",
        "--crl",
        "--dictionary",
        "--data",
        "--first",
    ),
    *(
        "--grown-on",
        "--key",
        "--mapping",
        "--model",
        "--request",
        "--since",
        "--study",
        "--study-file",
        "--synthetic",
        "--test",
    ),
    *(
        "--uploads",
        "backup",
        "data",
        "file",
        "files",
        "folder",
        "identities",
        "request",
        "result",
        "study_file",
    ),
}
"""Names of what is read."""
STATE = {"--credentials", "--directory", "--site", "--state"}
"""Folders of parties, which their own commands keep."""
WRITING = {
    f"{name} {each.opts[0]}": (name, each)
    for name, command in COMMANDS.items()
    for each in command.params
    if isinstance(each, OutputOption)
}
FOLDERS = [name for name, (_, each) in WRITING.items() if isinstance(each.law, FolderLaw)]
FILES = [name for name, (_, each) in WRITING.items() if isinstance(each.law, FileLaw)]
WRITERS = {
    "common/analysis/rows/refinement.py",
    "common/shell/charts.py",
    "common/shell/plotting.py",
    "common/verification/approving.py",  # for ssh-keygen, in a folder of its own
    "common/verification/cli.py",  # a signature, beside the statement
    "common/verification/dossier/writing.py",
    "curator/operator/client.py",
    "curator/planning/plot.py",
    "deploy/simulation/containers/folder.py",
    "deploy/simulation/containers/image.py",  # build/pip of the checkout, while it builds
    "deploy/simulation/experiment.py",
    "deploy/simulation/runner.py",
    "owner/commands/approvals.py",
    "owner/commands/check.py",
    "owner/commands/mapping.py",  # into its own site, 0600; a file that is there needs --again
}
"""Modules of what people call that write files themselves, below a place that the law allows."""
_CALLS = re.compile(r"\b(?:write_(?:text|bytes|file)|create_file|replacing|savefig)\(")


def test_an_option_that_names_a_place_is_read_or_obeys_the_law() -> None:
    assert len(WRITING) >= 20
    for name, command in COMMANDS.items():
        for each in command.params:
            if isinstance(each.type, click.Path) and not isinstance(each, OutputOption):
                assert {each.opts[0]} <= READ | STATE, f"{name} {each.opts[0]}"


def test_no_other_module_of_what_people_call_writes_files() -> None:
    rooms = (
        *("common/analysis", "common/shell", "common/pages", "common/verification", "deploy"),
        *("curator/commands", "curator/operator", "curator/planning", "owner/commands"),
    )
    found = {
        path.relative_to(ROOT).as_posix()
        for room in rooms
        for path in (ROOT / room).rglob("*.py")
        if _CALLS.search(path.read_text("utf-8"))
    }
    assert found == WRITERS


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("DPPCA_CURATOR", "DPPCA_CREDENTIALS", "DPPCA_SITE", "DPPCA_IMAGE"):
        monkeypatch.delenv(name, raising=False)
    Path("there.txt").write_text("read")
    Path("there").mkdir()


def refused(name: str, option: OutputOption, place: Path, *more: str) -> str:
    """What a command says that may not write; nothing on the disk changes."""
    before = _everything()
    line = [*_needed(COMMANDS[name], option), option.opts[0], str(place), *more]
    code, _, told = run_here(programs()[name.split()[0]], *name.split()[1:], *line)
    assert code == 10, told
    assert _everything() == before
    return " ".join(told.split())


def _needed(command: click.Command, option: OutputOption) -> list[str]:
    line: list[str] = []
    for each in command.params:
        if each is option or not each.required:
            continue
        kind = each.type
        value = "1"
        if isinstance(kind, click.Path):
            value = "there.txt" if kind.file_okay else "there"
        if isinstance(kind, click.Choice):
            value = str(kind.choices[0])
        line += [value] if isinstance(each, click.Argument) else [each.opts[0], value]
    return line


def _everything() -> dict[str, bytes | str | None]:
    found: dict[str, bytes | str | None] = {}
    for path in sorted(Path().rglob("*")):
        link = path.is_symlink()
        found[str(path)] = (
            str(path.readlink()) if link else path.read_bytes() if path.is_file() else None
        )
    return found


@pytest.mark.parametrize("which", FILES)
def test_a_file_that_is_there_is_refused(which: str) -> None:
    name, option = WRITING[which]
    mine = Path("mine.csv")
    mine.write_text("my thesis")
    cure = f"exists and is not overwritten: give another {option.opts[0]}"
    told = refused(name, option, mine)
    assert cure in told
    assert isinstance(option.law, FileLaw)
    assert (", or say --replace" in told) == option.law.replaceable
    Path("nowhere").symlink_to("absent")
    assert cure in refused(name, option, Path("nowhere"))


@pytest.mark.parametrize("which", FILES)
def test_no_file_takes_the_place_of_a_partys(which: str) -> None:
    name, option = WRITING[which]
    assert isinstance(option.law, FileLaw)
    more = ["--replace"] if option.law.replaceable else []
    site = Path("site")
    for place in ("key.pem", "ledger.sqlite", "studies/s/study.json", "openers/1.key"):
        (site / place).parent.mkdir(parents=True, exist_ok=True)
        (site / place).write_text("secret")
        assert "keeps its own files" in refused(name, option, site / place, *more)
    assert "keeps its own files" in refused(name, option, site / "ledger.sqlite-wal", *more)
    if option.law.replaceable and len(needed := _needed(COMMANDS[name], option)):
        taken = Path("there.txt")
        if "there.txt" in needed:
            assert "the command reads this file" in refused(name, option, taken, *more)
    if more:
        assert "no regular file" in refused(name, option, Path("/dev/null"), *more)


@pytest.mark.parametrize("which", FOLDERS)
def test_a_folder_of_somebodys_own_is_refused(which: str) -> None:
    name, option = WRITING[which]
    Path("mine").mkdir()
    Path("mine/report.md").write_text("my thesis")
    Path("link").symlink_to("mine")
    for place in ("mine", "link", "."):
        assert "is not empty" in refused(name, option, Path(place))


@pytest.mark.parametrize("which", FOLDERS)
def test_a_partys_folder_is_never_taken(which: str) -> None:
    name, option = WRITING[which]
    for party, file in (("site", "policy.yaml"), ("hub", DATABASE), ("pki", "ca-key.pem")):
        Path(party).mkdir()
        Path(party, file).write_text("kept")
        Path(party, MARKER).write_text('{"files": {}}')
        assert "is a folder of a site" in refused(name, option, Path(party))
    (empty := Path("site/openers")).mkdir()
    assert "is a folder of a site" in refused(name, option, empty)


def test_every_file_that_a_party_keeps_is_known() -> None:
    site = Site(folder=Path("site"), name="a", curator="hub:1")
    kept = {each.name for each in site.private if each.suffix} - {"site"}
    assert [name for name in kept if not any(Path(name).match(each) for each in PARTY_FILES)] == []
