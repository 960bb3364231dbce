import subprocess
import sys

import click
import pytest

from dppca.common.kernel.study import Trust
from dppca.common.shell.console import JsonOption
from tools.reference import programs, walk

COMMANDS = {
    context.command_path: context
    for program, group in programs().items()
    for context in walk(program, group)
    if not isinstance(context.command, click.Group) or context.command.invoke_without_command
}
GROUPS = {
    context.command_path: context.command
    for program, group in programs().items()
    for context in walk(program, group)
    if isinstance(context.command, click.Group)
}
HEAVY = {
    "grpc",
    "numpy",
    "pyarrow",
    "pydantic",
    "scipy",
    "skops",
    "sklearn",
    "pandas",
    "matplotlib",
}
PROMISED = {
    "dppca-owner": "init doctor check review contribute components synthesize train predict budget "
    "verify selftest",
    "dppca-owner budget": "show export verify plan",
    "dppca-curator": "serve",
    "dppca-curator study": "template create list show close abort",
    "dppca-curator pki": "init issue sign",
    "dppca-simulate": "run",
}


@pytest.mark.parametrize("group", PROMISED)
def test_every_promised_command_exists(group: str) -> None:
    for name in PROMISED[group].split():
        assert f"{group} {name}" in COMMANDS


_ORDER = {
    "dppca-curator": "pki serve health plan study page refusals owner verify estimate backup "
    "restore",
    "dppca-curator study": "template new check assemble create list show components synthetic "
    "refine close abort",
    "dppca-curator pki": "init issue show sign list revoke",
}


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_lists_its_commands_in_the_order_of_work_one_line_each(name: str) -> None:
    group, context = GROUPS[name], click.Context(GROUPS[name])
    formatter = click.HelpFormatter(width=78)
    group.format_commands(context, formatter)
    lines = formatter.getvalue().splitlines()[1:]
    names = group.list_commands(context)
    assert [line.split()[0] for line in lines] == names
    assert " ".join(names) == _ORDER.get(name, " ".join(names))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_its_options_and_its_json(name: str) -> None:
    command = COMMANDS[name].command
    assert any(isinstance(each, JsonOption) and each.documents for each in command.params)
    for parameter in command.params:
        assert not isinstance(parameter, click.Option) or parameter.help, parameter.opts[0]
    text = command.get_help(COMMANDS[name])
    assert "-h, --help" in text
    assert name.split(maxsplit=1)[0] in text.partition("Example")[2]


@pytest.mark.parametrize(
    ("program", "written", "meant"),
    [
        ("dppca-owner", "revew", "review"),
        ("dppca-owner budget", "exprt", "export"),
        ("dppca-curator", "stdy", "study"),
        ("dppca-simulate", "dmo", "demo"),
    ],
)
def test_a_command_that_is_written_wrongly_is_guessed(
    program: str, written: str, meant: str
) -> None:
    name, *group = program.split()
    for line in ([*group, written], [*group, "qqqqqqqq"]):
        with pytest.raises(click.UsageError) as refused:
            programs()[name].main(line, standalone_mode=False)
        said = refused.value.format_message()
        assert f"No such command {line[-1]!r}" in said
        assert (f"Did you mean {meant!r}" in said) == (line[-1] == written)


@pytest.mark.parametrize("program", programs())
def test_help_of_every_command_loads_none_of_the_heavy_libraries(program: str) -> None:
    code = f"""
import sys
from tools.reference import programs, walk
for context in walk({program!r}, programs()[{program!r}]):
    assert "--help" in context.command.get_help(context)
print(sorted({HEAVY} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_reading_a_ledger_and_verifying_components_load_no_scikit_learn() -> None:
    modules = "dppca.owner.commands.budget_totals, dppca.common.verification.files"
    code = f"import sys, {modules}; print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_simulations_offer_every_trust_that_a_study_may_ask_for() -> None:
    for name in ("run", "compose"):
        (option,) = (
            each
            for each in COMMANDS[f"dppca-simulate {name}"].command.params
            if each.name == "trust"
        )
        assert isinstance(option.type, click.Choice)
        assert [*option.type.choices] == [*Trust]
