"""What is tried, and how: each subject gives figures for some rows of the table."""

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.first_run import clinic
from benchmarks.first_run.measuring import RunError, Taken, take
from benchmarks.first_run.sides import Installation, Side
from benchmarks.studies import data_folder
from dppca.common.transport.testbed import CommandAuthority, LocalFederation, Processes

WIDE_GUEST = Path(__file__).with_name("wide_guest.py")
POLICY = """populations:
  patients: {{who: Everyone treated here, epsilon: "3.0", delta: "0"}}
data_sets:
  rows: {{population: patients, path: {path}}}
"""
WAIT_S = 300


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much there is to do.

    Attributes
    ----------
    rows
        Of each of three files.
    wide_rows, wide_columns, wide_limit_s
        Of the wide table, and when its simulation is given up.
    starts
        How often a command that only starts is started in a round.
    label_rounds
        Races of labels beside pyarrow in a round.
    """

    rows: int = 6000
    wide_rows: int = 50_000
    wide_columns: int = 128
    wide_limit_s: float = 120.0
    starts: int = 5
    label_rounds: int = 3


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure, in the unit of its row; and the largest process, if it is a row of processes."""

    value: float
    peak_mib: float | None = None


Found = Iterator[tuple[str, Measured]]
Subject = Callable[[Side, Sizes], Found]


def measure_first_demo(side: Side, _: Sizes) -> Found:
    """``make demo`` in a fresh clone."""
    made = side.install("demo")
    yield "first-demo", _of_processor(made.taken)
    yield "first-demo-clock", Measured(made.taken.clock_s)
    yield "packages", Measured(made.count_packages())
    yield "disk", Measured(made.measure_disk() / 1e9)


def measure_set_up(side: Side, _: Sizes) -> Found:
    """What ``make test`` does before the tests."""
    yield "set-up", _of_processor(side.install("install").taken)


def measure_demo(side: Side, _: Sizes) -> Found:
    """``make demo`` where it was made before."""
    taken = take(["make", "demo"], side.find("demo").folder)
    yield "demo", _of_processor(taken)
    yield "demo-clock", Measured(taken.clock_s)


def measure_run(side: Side, sizes: Sizes) -> Found:
    """``dppca-simulate run`` of three files."""
    with _scratch() as folder:
        study, files = clinic.write_files(folder, sizes.rows)
        given = [part for name, path in files.items() for part in ("--owner", f"{name}={path}")]
        program = _tools(side).programs / "dppca-simulate"
        asked = ("run", "--study", study, *given, "--target", clinic.TARGET, "--output", "trial")
        yield "run", _of_processor(take([program, *asked], folder))


def measure_site(side: Side, sizes: Sizes) -> Found:
    """A steward's commands at a site of three, with a real curator."""
    programs = _tools(side).programs
    with _scratch() as folder, Processes(python=str(programs / "python")) as live:
        federation = LocalFederation(live, folder, CommandAuthority(live, folder / "authority"))
        federation.start()
        study, files = clinic.write_files(folder, sizes.rows)
        for name, path in files.items():
            federation.join(name)
            shutil.copy(path, federation.site(name))
            (federation.site(name) / "policy.yaml").write_text(POLICY.format(path=path.name))
        federation.operate("study", "create", study)
        first, *others = clinic.OWNERS
        site = federation.site(first)

        def steward(command: str, *arguments: object) -> tuple[str, Measured]:
            line = [programs / "dppca-owner", "--site", site, command, *arguments]
            return command, _of_processor(take(line, folder))

        yield steward("review", clinic.NAME)
        yield steward("contribute", clinic.NAME, "--yes")
        for name in others:
            federation.own(name, "contribute", clinic.NAME, "--yes")
        # Another owner waits for the curator's work, so that this command does not.
        federation.own(others[0], "components", clinic.NAME, "--wait", WAIT_S)
        yield steward("components", clinic.NAME)
        yield steward("verify", site / "studies" / clinic.NAME / "components.npz")
        yield steward("studies")


def measure_wide(side: Side, sizes: Sizes) -> Found:
    """``dppca.simulate(target=)`` of a wide table; seconds of the clock."""
    python = _tools(side).programs / "python"
    line = [python, "-P", WIDE_GUEST, sizes.wide_rows, sizes.wide_columns]
    with _scratch() as folder:
        taken = take(line, folder, limit_s=sizes.wide_limit_s)
    yield "wide", Measured(taken.clock_s, taken.peak_mib)


def measure_starts(side: Side, sizes: Sizes) -> Found:
    """A Python that imports ``dppca``, and a page of help."""
    programs = _tools(side).programs
    lines: Mapping[str, list[object]] = {
        "import": [programs / "python", "-P", "-c", "import dppca"],
        "help": [programs / "dppca-owner", "--help"],
    }
    with _scratch() as folder:
        for name, line in lines.items():
            all_taken = [take(line, folder) for _ in range(sizes.starts)]
            yield (
                name,
                Measured(
                    median(each.processor_s for each in all_taken),
                    median(each.peak_mib for each in all_taken),
                ),
            )


def measure_labels(side: Side, sizes: Sizes) -> Found:
    """The revision's own benchmark of labels, without what it measures beside files."""
    made = _tools(side)
    with _scratch() as folder:
        figures = folder / "figures.json"
        program = (
            "from benchmarks.performance import labels; labels.ROWS = 1; "
            "from benchmarks.performance.__main__ import cli; cli()"
        )
        line = [made.programs / "python", "-c", program, "labels", "--json", figures]
        variables = {"DPPCA_DATA": str(data_folder())}
        take([*line, "--repeat", sizes.label_rounds], made.folder, variables=variables)
        (section,) = json.loads(figures.read_text()).values()
    for table in section["tables"]:
        if "pyarrow alone" in table["columns"]:  # the first row is of texts that the file lists
            return (yield "labels", Measured(table["rows"][0][table["columns"].index("ratio")]))
    raise RunError("its benchmark of labels has no table with pyarrow alone")


SUBJECTS: dict[str, Subject] = {
    "first-demo": measure_first_demo,
    "set-up": measure_set_up,
    "demo": measure_demo,
    "run": measure_run,
    "site": measure_site,
    "wide": measure_wide,
    "starts": measure_starts,
    "labels": measure_labels,
}


def _of_processor(taken: Taken) -> Measured:
    return Measured(taken.processor_s, taken.peak_mib)


def _tools(side: Side) -> Installation:
    return side.find("install")


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dppca-first-") as folder:
        yield Path(folder)
