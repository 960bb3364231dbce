"""The published experiments from the command line, at tiny size, and table 4's machines in full."""

import csv
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean

import pytest

from benchmarks.papers.__main__ import cli
from benchmarks.papers.experiments import EXPERIMENTS
from benchmarks.papers.gu import CENTRAL, NETWORK
from benchmarks.papers.gu import compute as synthesised
from benchmarks.papers.rows import PaperSource
from benchmarks.papers.sun import PLAIN, compute, printed
from benchmarks.papers.trials import PUBLISHED, SOUND, Scored, Trial
from tests.support.commands import run_here

pytestmark = pytest.mark.filterwarnings("ignore::dppca.NoiseWarning")  # tables are tiny
TINY = ("--quick", "--runs", "1", "--rows", "300", "--jobs", "1")
papers = partial(run_here, cli)


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_an_experiment_makes_runs_a_table_and_plots(
    name: str, tmp_path: Path, data_folder: Path
) -> None:
    code, out, err = papers(name, *TINY, "--output", tmp_path, "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    with Path(document["csv"]).open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == document["runs"]
    accuracies = [row["accuracy"] for row in rows]
    assert all(accuracies) == (name not in ("huang-table2", "huang-table3"))
    assert all(0 <= float(each) <= 1 for each in accuracies if each)
    suffixes = {path.suffix for path in tmp_path.iterdir()}
    assert suffixes == {".csv", ".jsonl", ".md", ".png", ".svg"}
    assert EXPERIMENTS[name].title in (tmp_path / f"{name}.md").read_text()


@pytest.mark.parametrize("name", ["huang-fig2", "sun-table4", "zhang-fig6"])
def test_an_experiment_runs_on_any_file(name: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    lines = [f"{n % 7},{n % 5},{n % 3},{'yes' if n % 7 > 3 else 'no'}" for n in range(200)]
    rows.write_text("a,b,c,answer\n" + "\n".join(lines) + "\n")
    given = ("--data", str(rows), "--label", "answer")
    code, out, err = papers(name, *given, *TINY, "--output", tmp_path / "out")
    assert code == 0, err
    assert "| rows-answer-" in out
    assert "printed" not in out.splitlines()[4]
    assert "holds only if they are public" in out
    assert "Adult" not in out


def test_processes_give_the_same_runs_as_one(tmp_path: Path, data_folder: Path) -> None:
    def accuracies(jobs: str) -> dict[str, str]:
        output = tmp_path / jobs
        given = (*TINY[:-1], jobs)
        assert papers("zhang-fig6", *given, "--output", output)[0] == 0
        with (output / "zhang-fig6.csv").open() as stream:
            return {row["cell"]: row["accuracy"] for row in csv.DictReader(stream)}

    assert accuracies("1") == accuracies("2")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("gu-fig9",), 10, "no experiment is called gu-fig9"),
        (("gu-fig3", "--label", "y"), 10, "give it with --data"),
        (("gu-fig3", "--data", "adult", "--label", "y"), 10, "adult is a named table"),
        (("gu-fig3", "--data", __file__), 10, "no CSV file by its name"),
        (("gu-fig3", "--data", "wine"), 10, "neither a file nor one of"),
        (("gu-fig3", "--data", "{file}"), 10, "schemas are known of nltcs, adult"),
        (("huang-fig2", "--data", "{file}", "--label", "z"), 13, "no column z"),
        (("gu-fig3", "--runs", "0"), 2, "--runs"),
        (("gu-fig3", "--keep", "--runs", "9"), 10, "a scope of its own"),
        (("--quick",), 10, "a scope of its own"),
    ],
)
def test_bad_names_and_options_are_named_errors(
    arguments: tuple[str, ...], code: int, says: str, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("a,y\n1,0\n2,1\n")
    given = [argument.format(file=rows) for argument in arguments]
    ended, _, err = papers(*given, "--output", tmp_path / "out")
    assert ended == code
    assert says in err
    assert "Traceback" not in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "accuracy", "vectors"),
    [
        ("a1a", 83.55, 754),  # printed 83.49: one row of 1605
        ("mushrooms", 99.90, 617),
        ("musk", 93.95, 1351),
        ("splice", 94.30, 607),
    ],
)
def test_table_4s_machines_are_met_to_the_digit(
    name: str, accuracy: float, vectors: int, data_folder: Path
) -> None:
    cell = Trial(PaperSource(name), PLAIN, scored=Scored.TRAINING)
    found = compute(cell)
    assert found.support_vectors == vectors == int(printed(cell)["support_vectors"])
    assert round(100 * found.accuracy, 2) == accuracy
    one_row = 100 / found.n
    assert abs(accuracy - float(printed(cell)["accuracy"])) < one_row + 0.005


"""The figures below are means of three to four runs."""


@pytest.mark.parametrize("method", [NETWORK, CENTRAL])
def test_networks_learn_nltcs_at_the_epsilon_that_is_asked(method: str, data_folder: Path) -> None:
    """Far above the commonest class, 55.3 %; seeds are fixed."""
    cell = Trial(PaperSource("nltcs"), method, SOUND, "0.5", owners=3, target="outside")
    runs = [synthesised(replace(cell, seed=seed)) for seed in (1, 2, 3)]
    assert fmean(run.accuracy for run in runs) > 0.72
    assert {run.true_epsilon for run in runs} == {"0.5"}
    assert all(run.decoded_accuracy == run.accuracy for run in runs)


@pytest.mark.parametrize(
    ("name", "epsilons", "runs", "points"),
    [
        ("a1a", ("0.1", "0.5", "1"), 5, 0.5),
        ("splice", ("0.1", "0.5", "1"), 5, 1.5),
        ("mushrooms", ("0.1",), 1, 0.5),
        ("musk", ("0.1",), 1, 0.5),
    ],
)
def test_table_4s_private_machine_is_met_within_its_noise(
    name: str, epsilons: tuple[str, ...], runs: int, points: float, data_folder: Path
) -> None:
    for epsilon in epsilons:
        cell = Trial(
            PaperSource(name), "DPSVD", PUBLISHED, epsilon, "1/n^2", scored=Scored.TRAINING
        )
        found = fmean(compute(replace(cell, seed=seed)).accuracy for seed in range(1, runs + 1))
        assert abs(100 * found - float(printed(cell)["accuracy"])) < points
