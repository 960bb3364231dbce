"""Runner of the night tier, suite by suite; it records the results.

::

    python -m tools.night                every suite
    python -m tools.night audits spark   some of them
    python -m tools.night --touched      suites touched by changes since their last pass

A suite that ran on committed files gets its row in ``docs/reference/night.md``, with a digest of
the files that touch it: history may be rewritten or cut short, files cannot. ``TOUCHES`` lists the
suites that a file touches; a file that matches no pattern touches all of them. The exit code is 1
if a suite has failed.
"""

import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path

from tools.markdown import ROOT

PAGE = "docs/reference/night.md"
REPORTS = ROOT / "build" / "night"
PYTHON = ".venv/bin/python"
PYTEST = ("-m", "pytest")
PARALLEL = (*PYTEST, "-n", "2", "--dist", "worksteal")


def _java() -> str | None:
    java = shutil.which("java")
    return None if java else "needs Java 17: apt-get install openjdk-17-jre-headless"


def _engine() -> str | None:
    if not shutil.which("docker") or _quiet("docker", "info").returncode:
        return "needs a Docker engine that answers: apt-get install docker.io"
    if _quiet("sh", "deploy/compose.sh", "base").returncode:
        return "needs an image to build from: deploy/compose.sh says how to name or make one"
    return None


def _fuzzer() -> str | None:
    _quiet(PYTHON, "tools/install.py", ".venv", "fuzz")
    if _quiet(PYTHON, "-c", "import atheris").returncode:
        return "needs atheris, which has no wheel for this Python: see requirements/fuzz.lock"
    return None


def _statistics() -> str | None:
    named = {"pspp": "pspp", "Rscript": "r-cran-haven"}
    lacking = [package for program, package in named.items() if not shutil.which(program)]
    return f"needs PSPP and R: apt-get install {' '.join(lacking)}" if lacking else None


@dataclass(frozen=True, slots=True)
class Suite:
    """One part of the night tier.

    ``shows`` is its subject, for the page. Python (``python``, below the root) runs ``command``, by
    default pytest on the folder of ``tests/night`` with the suite's name, after ``make prepare``.
    ``missing`` returns the requirement that this machine lacks, or None; ``parallel`` means that
    two of its tests may run at once.
    """

    shows: str
    command: tuple[str, ...] = ()
    python: str = PYTHON
    prepare: str = ""
    missing: Callable[[], str | None] = lambda: None
    parallel: bool = True


SUITES: Mapping[str, Suite] = {
    "laws": Suite(
        "laws at full size: ten times the examples of a push",
        command=(
            *(*PARALLEL, "tests/push", "tests/merge"),
            *("-m", "hypothesis", "--hypothesis-profile=night"),
        ),
    ),
    "audits": Suite("statistical audits of every release and estimator"),
    "papers": Suite("the papers' experiments and claims"),
    "accuracy": Suite("accuracy of whole studies on public data"),
    "benchmarks": Suite("every benchmark, at tiny size"),
    "guides": Suite(
        "the commands, notebooks and examples of the documentation, as printed; its search",
        prepare="docs",
    ),
    "pictures": Suite("pages and charts beside their stored pictures"),
    "fuzz": Suite(
        "hostile bytes, guided by coverage",
        command=("-m", "tests.fuzz", "--minutes", os.environ.get("MINUTES", "5")),
        missing=_fuzzer,
    ),
    "exports": Suite(
        "the same integers from every export of PSPP, haven and pyreadstat", missing=_statistics
    ),
    "floors": Suite(
        "the lowest versions that are declared, installed: the demo, the verifier",
        prepare="build/tools/.installed",
        parallel=False,
    ),
    "faults": Suite("whole studies by processes, with every fault at every step"),
    "containers": Suite("studies in containers", prepare="image", missing=_engine, parallel=False),
    "spark": Suite(
        "the engine on Spark",
        python="build/engines/bin/python",
        prepare="build/engines/.installed",
        missing=_java,
        parallel=False,
    ),
}

TOUCHES: Mapping[str, str] = {
    # Files for people, and files that the other tiers and the static checks run in full.
    "*.md": "",
    "docs/*.json": "",
    "tests/push/*": "",
    "tests/merge/*": "",
    "findings/*": "",
    "tools/*": "",
    ".ci/*": "",
    ".gitignore": "",
    ".importlinter": "",
    "CITATION.cff": "",
    "Makefile": "",
    "requirements/build.lock": "",
    "requirements/demo.lock": "",
    "requirements/docs.lock": "",
    "requirements/site.lock": "",
    "requirements/verify.lock": "",
    "requirements/tools.lock": "floors",
    # Files that one suite tests by itself.
    "README.md": "guides",
    "mkdocs.yml": "guides",
    "tools/site_hook.py": "guides",
    "docs/how-to/*": "guides",
    "docs/pictures/*": "pictures",
    "docs/notebooks/*": "guides",
    "docs/tutorial/*": "guides",
    "docs/reference/api.md": "guides",
    "benchmarks/*": "benchmarks",
    "benchmarks/papers/*": "papers",
    "benchmarks/studies.py": "accuracy",
    "requirements/fuzz.lock": "fuzz",
    "requirements/spark.lock": "spark",
    "requirements/runtime.lock": "containers",
    "docker-compose.yml": "containers",
    ".dockerignore": "containers",
    "deploy/*": "containers guides",
    "deploy/simulation/*": "accuracy",
    "dppca/*": "guides",
    "proto/*": "guides containers",
    "wheels/*": "containers floors",
    # The product, by possible breakage beyond the runs of push and merge.
    "common/*": "guides",
    "common/kernel/aggregation/*": "laws audits",
    "common/kernel/attestation/*": "laws fuzz",
    "common/verification/*": "laws fuzz",
    "common/analysis/estimators/*": "laws audits papers",
    "common/papers/*": "laws audits papers",
    "common/analysis/*": "laws audits papers accuracy benchmarks spark",
    "common/kernel/moments/*": "laws audits papers accuracy benchmarks spark",
    "common/pages/*": "pictures",
    "common/shell/panels.py": "pictures",
    "common/kernel/privacy/*": "laws audits papers accuracy",
    "common/kernel/schema/*": "laws accuracy spark fuzz",
    "common/kernel/study.py": "laws fuzz",
    "common/kernel/durable/checkpoints.py": "faults",
    "common/transport/testbed.py": "containers faults",
    "common/transport/*": "containers fuzz",
    "common/wire/*": "containers",
    "curator/*": "guides",
    "curator/commands/page/*": "pictures",
    "curator/service/*": "laws fuzz containers faults",
    "curator/study/*": "laws audits fuzz",
    "owner/*": "guides",
    "owner/commands/page/*": "pictures",
    "owner/engines/*": "spark",
    "owner/ledger/*": "laws fuzz faults",
    "owner/models/*": "audits",
    "owner/records/*": "laws spark fuzz",
    "owner/records/statistical*": "exports",
    "owner/release/*": "laws audits faults",
    "owner/selftest/*": "audits",
    "owner/synthesis/*": "accuracy pictures",
    # The suites themselves, and their shared files.
    **{f"tests/night/{name}/*": name for name, suite in SUITES.items() if not suite.command},
    "tests/fuzz/*": "fuzz",
    "tests/golden/*": "",
    "tests/golden/pages/*": "pictures",
    "tests/__init__.py": "",
    "tests/night/conftest.py": "pictures guides",
    "tests/support/*": "",
    "tests/support/benchmarks.py": "benchmarks spark",
    "tests/support/browser.py": "pictures guides",
    "tests/support/compose_folder.py": "containers",
    "tests/support/containers.py": "containers",
    "tests/support/engines.py": "spark guides",
    "tests/fault_injection/*": "faults",
    "tests/support/laws.py": "audits",
    "tests/support/page_shell.py": "accuracy guides spark",
    "tests/support/pooling.py": "accuracy audits",
}
"""Suites that a change of a file touches, by pattern; all matching patterns count."""

_HEAD = """# What the night tier has shown

Tests come in [three tiers](../../CONTRIBUTING.md#tests-in-three-tiers). The night tier takes too
long for every change: `make test-night` runs it before an issue is called done and before a tag,
and writes this page. CI runs those suites whose files are no longer those of the row: *files* is
a digest of all that touch the suite.

| suite | what it tries | result | tests | minutes | files | commit | date |
| --- | --- | --- | ---: | ---: | --- | --- | --- |
"""
_ROW = re.compile(r"^\| `(\w+)` \| [^|]* \| (\w+) \| [^|]* \| [^|]* \| `(\w+)` \| ", re.MULTILINE)


def main(arguments: list[str]) -> int:
    """Run the suites; return the exit code."""
    rows = read_rows()
    names = [name for name in arguments if not name.startswith("-")] or list(SUITES)
    options = {name for name in arguments if name.startswith("-")} - {"--touched"}
    if unknown := (set(names) - SUITES.keys()) | options:
        sys.stderr.write(f"no suite {', '.join(sorted(unknown))}; there are {', '.join(SUITES)}\n")
        return 2
    if "--touched" in arguments:
        names = [name for name in names if is_touched(name, rows.get(name, ""))]
    ends = {name: _run(name, SUITES[name]) for name in names}
    if not ends:
        sys.stdout.write("NIGHT: nothing that changed touches a suite of the night tier\n")
    for name, end in ends.items():
        sys.stdout.write(f"NIGHT {name}: {end}\n")
    return 1 if any(end.startswith("failed") for end in ends.values()) else 0


def touched_suites(paths: Iterable[str]) -> set[str]:
    """Return the suites that changes of these files touch."""
    touched: set[str] = set()
    for path in paths:
        fitting = [TOUCHES[pattern] for pattern in TOUCHES if fnmatchcase(path, pattern)]
        if not fitting:
            return set(SUITES)
        touched.update(*(names.split() for names in fitting))
    return touched


def is_touched(name: str, row: str) -> bool:
    """Return True if a suite has to run: it has not passed, or a change since then touches it."""
    found = _ROW.match(row)
    if found is None or found[2] != "passed":
        return True
    return found[3] != files_of(name) or name in touched_suites(_uncommitted())


def files_of(name: str, commit: str = "HEAD") -> str:
    """Return a digest of a commit's files that touch a suite."""
    tree = _quiet("git", "ls-tree", "-r", "-z", commit).stdout.split("\0")[:-1]
    touching = [entry for entry in tree if name in touched_suites([entry.split("\t")[1]])]
    return sha256("\0".join(touching).encode()).hexdigest()[:12]


def read_rows(text: str | None = None) -> dict[str, str]:
    """Return the page's rows, by suite."""
    page = ROOT / PAGE
    text = text if text is not None else page.read_text() if page.exists() else ""
    return {found[1]: text[found.start() :].splitlines()[0] for found in _ROW.finditer(text)}


def page_of(rows: Mapping[str, str]) -> str:
    """Return the page with these rows, in the order of the suites."""
    never = "| `{}` | {} | never | | | | | |"
    lines = (rows.get(name, never.format(name, suite.shows)) for name, suite in SUITES.items())
    return _HEAD + "".join(f"{line}\n" for line in lines)


def _run(name: str, suite: Suite) -> str:
    """Run a suite and return its outcome, for the last lines of the run."""
    if missing := suite.missing():
        return f"NOT RUN: it {missing}"
    sys.stdout.write(f"NIGHT {name}: {suite.shows}\n")
    sys.stdout.flush()
    begun, report = time.monotonic(), REPORTS / f"{name}.xml"
    files = files_of(name)
    report.unlink(missing_ok=True)
    folder = (*(PARALLEL if suite.parallel else PYTEST), f"tests/night/{name}")
    passed = (not suite.prepare or _loud("make", suite.prepare)) and _loud(
        suite.python, *(suite.command or folder), PYTEST_ADDOPTS=f"--junitxml={report}"
    )
    minutes = (time.monotonic() - begun) / 60
    result, tests = "passed" if passed else "failed", _count(report)
    others = [path for path in _uncommitted() if path != PAGE]
    end = f"{result}, {tests or 'no'} tests, {minutes:.1f} min"
    if others or files != files_of(name):
        why = f"{others[0]} is not committed" if others else "its files were changed meanwhile"
        return f"{end}; not written down, because {why}"
    commit = _quiet("git", "rev-parse", "--short=12", "HEAD").stdout.strip()
    date = datetime.now(UTC).date().isoformat()
    digests = (f"`{files}`", f"`{commit}`")
    cells = (f"`{name}`", suite.shows, result, tests, f"{minutes:.1f}", *digests, date)
    row = f"| {' | '.join(cells)} |"
    (ROOT / PAGE).write_text(page_of({**read_rows(), name: row}))
    return end


def _count(report: Path) -> str:
    """Counts of run and skipped tests in pytest's report; empty without a report."""
    if not report.exists():
        return ""
    (found,) = ET.parse(report).getroot().iter("testsuite")  # noqa: S314 - pytest wrote it
    skipped = int(found.attrib["skipped"])
    ran = int(found.attrib["tests"]) - skipped
    return f"{ran:,}" + (f" of {ran + skipped:,}" if skipped else "")


def _uncommitted() -> Collection[str]:
    changed = _quiet("git", "diff", "--name-only", "--no-renames", "HEAD").stdout.splitlines()
    new = _quiet("git", "ls-files", "--others", "--exclude-standard").stdout.splitlines()
    return [*changed, *new]


def _quiet(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def _loud(*command: str, **variables: str) -> bool:
    """Run a command with visible output; return True if it succeeded."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **variables}
    return subprocess.run(command, cwd=ROOT, env=environment).returncode == 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
