"""Runner of the night tier, part by part; it records the results.

::

    python -m tools.night                      everything
    python -m tools.night audits spark         some suites
    python -m tools.night tests/night/...py    some files of tests
    python -m tools.night --due --commit       all that is due; commits its record
    python -m tools.night --landing 300        what a landing runs, for so many seconds

Rows stand in ``docs/reference/night.json``, from which ``night.md`` is made; `night_record` says
when a part is due. Passes are kept outside the checkout, too (``DPPCA_NIGHT_PASSES``, by default in
``~/.cache``): CI works in a clone that is thrown away, and the next run here takes them into the
record. ``TOUCHES`` lists the suites that a file touches; a file that matches no pattern touches all
of them. The exit code is 1 if a part has failed or has been due for too many landings.
"""

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import cache
from hashlib import sha256
from pathlib import Path

from tools.markdown import ROOT
from tools.night_record import (
    Digests,
    LastRun,
    Record,
    age,
    choose,
    count_landing,
    find_overdue,
    imported_names,
    leave_due,
    order_due,
    row_of,
)
from tools.syntax import nodes, parse

RECORD = "docs/reference/night.json"
PAGE = "docs/reference/night.md"
LANDING_S = 480.0
"""Seconds that a landing gives the night at most: half an hour of CI, less its other phases."""
LEAST_S = 120.0
"""Seconds that it gives at least, on a machine whose other phases took the half hour."""
REPORTS = ROOT / "build" / "night"
LAWS = ("tests/push", "tests/merge")
FUZZ = "tests/fuzz/targets.py"
KEPT_DAYS = 60
"""Days for which a pass is kept outside the checkout."""
PYTHON = ".venv/bin/python"
PYTEST = ("-m", "pytest", "-o", "junit_family=xunit1")
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


def _debootstrap() -> str | None:
    if shutil.which("debootstrap") and os.geteuid() == 0:
        return None
    return "needs root and debootstrap: apt-get install debootstrap"


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
    """One folder of the night tier, or what stands for one.

    ``shows`` is its subject, for the page. Python (``python``, below the root) runs pytest with
    ``options`` on its parts, after ``make prepare``; or, part by part, what ``command`` returns.
    ``own`` are the patterns of files that this suite alone tries: a landing that changes one runs
    it first. ``missing`` returns the requirement that this machine lacks, or None; ``parallel``
    means that two of its tests may run at once.
    """

    shows: str
    options: tuple[str, ...] = ()
    command: Callable[[str], tuple[str, ...]] | None = None
    python: str = PYTHON
    prepare: str = ""
    own: tuple[str, ...] = ()
    missing: Callable[[], str | None] = lambda: None
    parallel: bool = True


def _fuzz(part: str) -> tuple[str, ...]:
    """Command of one target, with its even share of the minutes."""
    minutes = float(os.environ.get("MINUTES", "5")) / len(_fuzz_targets())
    return ("-m", "tests.fuzz", "--target", part.partition("::")[2], "--minutes", f"{minutes:.2f}")


SUITES: Mapping[str, Suite] = {
    "laws": Suite(
        "laws at full size: ten times the examples of a push",
        options=("-m", "hypothesis", "--hypothesis-profile=night"),
    ),
    "audits": Suite("statistical audits of every release and estimator"),
    "papers": Suite("the papers' experiments and claims"),
    "accuracy": Suite("accuracy of whole studies on public data"),
    "benchmarks": Suite("every benchmark, at tiny size"),
    "guides": Suite(
        "the commands, notebooks and examples of the documentation, as printed; its search",
        prepare="docs",
    ),
    "pictures": Suite(
        "pages and charts beside their stored pictures",
        own=("tests/golden/pages/*", "docs/pictures/*"),
    ),
    "fuzz": Suite(
        "hostile bytes, guided by coverage",
        command=_fuzz,
        own=("tests/fuzz/*",),
        missing=_fuzzer,
        parallel=False,
    ),
    "exports": Suite(
        "the same integers from every export of PSPP, haven and pyreadstat",
        own=("owner/records/statistical*",),
        missing=_statistics,
    ),
    "floors": Suite(
        "the lowest versions that are declared, installed: the demo, the verifier",
        prepare="build/tools/.installed",
        own=("requirements/tools.lock", "wheels/*"),
        parallel=False,
    ),
    "debian": Suite(
        "both commands of the README on a fresh newest Debian",
        own=("tests/support/debian.py", "deploy/setup.sh"),
        missing=_debootstrap,
        parallel=False,
    ),
    "faults": Suite(
        "whole studies by processes, with every fault at every step",
        own=("common/kernel/durable/checkpoints.py", "tests/fault_injection/*"),
    ),
    "containers": Suite(
        "studies in containers",
        prepare="image",
        own=("docker-compose.yml", "deploy/Dockerfile", "deploy/compose.sh"),
        missing=_engine,
        parallel=False,
    ),
    "spark": Suite(
        "the engine on Spark",
        python="build/engines/bin/python",
        prepare="build/engines/.installed",
        own=("owner/engines/spark*", "owner/records/spark*", "requirements/spark.lock"),
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
    "tests/static/*": "",
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
    "deploy/setup.sh": "debian",
    "deploy/simulation/*": "accuracy",
    "dppca/*": "guides",
    "proto/*": "guides containers",
    "wheels/*": "containers floors",
    "clients/*": "guides",
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
    **{f"tests/night/{name}/*": name for name in SUITES if name not in {"laws", "fuzz"}},
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
    "tests/support/debian.py": "debian",
    "tests/support/engines.py": "spark guides",
    "tests/fault_injection/*": "faults",
    "tests/support/laws.py": "audits",
    "tests/support/page_shell.py": "accuracy guides spark",
    "tests/support/pooling.py": "accuracy audits",
}
"""Suites that a change of a file touches, by pattern; all matching patterns count."""

_HEAD = """# What the night tier has shown

Tests come in [three tiers](../../CONTRIBUTING.md#tests-in-three-tiers). The night tier takes too
long for every change. A landing runs what it changed itself, then what has been due longest, for at
most {minutes:.0f} minutes; `make test-night DUE=1` runs all that is due. A part, which is a file of
tests or a target of the fuzzer, is due when a file on which it rests is not that of its last pass.
`night.json` beside this page has a row for each part; *waits* counts those that landings left out.

| suite | what it tries | parts | waits | worker minutes | oldest run |
| --- | --- | ---: | ---: | ---: | --- |
"""


def main(arguments: Sequence[str]) -> int:
    """Run parts; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.night")
    parser.add_argument("names", nargs="*", metavar="SUITE|FILE", help="all where none is named")
    parser.add_argument("--due", action="store_true", help="of these, what is due")
    parser.add_argument(
        "--landing",
        type=float,
        metavar="SECONDS",
        help=f"what a landing runs in these, from {LEAST_S:.0f} to {LANDING_S:.0f}",
    )
    parser.add_argument("--commit", action="store_true", help="commit the record afterwards")
    given = parser.parse_args(arguments)
    parts = find_parts()
    asked = [part for part in parts if _is_asked(part, parts[part], given.names)]
    if lost := [
        name for name in given.names if not any(_is_asked(*each, [name]) for each in parts.items())
    ]:
        parser.error(f"no suite or file {', '.join(lost)}; suites are {', '.join(SUITES)}")
    night = Night(parts)
    if given.landing is not None:
        ends = night.land(min(max(given.landing, LEAST_S), LANDING_S))
    else:
        ends = night.run([part for part in asked if not given.due or night.is_due(part)])
    if given.commit:
        _commit()
    return 1 if ends else 0


def _is_asked(part: str, suite: str, names: Sequence[str]) -> bool:
    return not names or suite in names or part in names or part.partition("::")[0] in names


@cache
def find_parts() -> Mapping[str, str]:
    """Return all parts of the night, with their suites."""
    parts = {
        str(path.relative_to(ROOT)): name
        for name in SUITES
        for path in sorted((ROOT / "tests/night" / name).glob("test_*.py"))
    }
    laws = (path for tier in LAWS for path in sorted((ROOT / tier).rglob("test_*.py")))
    parts |= {str(path.relative_to(ROOT)): "laws" for path in laws if _has_laws(path)}
    return parts | {f"{FUZZ}::{target}": "fuzz" for target in _fuzz_targets()}


def _has_laws(path: Path) -> bool:
    """Whether pytest marks tests of a file as hypothesis' own: decorated ones, and machines."""
    if "hypothesis.stateful" in imported_names(nodes(path)):
        return True
    body = parse(path).body
    methods = (each for node in body if isinstance(node, ast.ClassDef) for each in node.body)
    functions = (node for node in (*body, *methods) if isinstance(node, ast.FunctionDef))
    decorators = (each for function in functions for each in function.decorator_list)
    return any(ast.unparse(each).startswith("given(") for each in decorators)


@cache
def _fuzz_targets() -> tuple[str, ...]:
    """Names of the fuzzer's targets, without the packages that it needs."""
    for node in ast.parse((ROOT / FUZZ).read_text()).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict):  # TARGETS
            return tuple(ast.literal_eval(key) for key in node.value.keys if key is not None)
    raise ValueError(f"{FUZZ} has no TARGETS")


class Night:
    """The parts of a checkout, their digests, and the record that runs change."""

    def __init__(self, parts: Mapping[str, str]) -> None:
        self.parts = parts
        self._contents = _read_contents()
        digests = Digests(ROOT, self._contents, lambda path: touched_suites([path]))
        self._digests = {part: digests.digest(part, suite) for part, suite in parts.items()}
        self._owns = {part: digests.own(part, SUITES[suite].own) for part, suite in parts.items()}
        self.record = _read_record().only(parts)
        self._prepared = dict[str, bool]()
        self._missing = dict[str, str | None]()
        self._take_kept()

    def is_due(self, part: str) -> bool:
        """Whether a part's files are not those of its last pass."""
        return row_of(self.record, part).digest != self._digests[part]

    def due(self) -> list[str]:
        """Parts that are due, in the order in which a landing runs them."""
        return order_due(self.record, self._digests, self._owns)

    def run(self, parts: Sequence[str]) -> list[str]:
        """Run parts, suite by suite; return those that failed."""
        chosen = defaultdict[str, list[str]](list)
        for part in parts:
            chosen[self.parts[part]].append(part)
        failed = [part for name in chosen for part in self._run(name, chosen[name])]
        _say("nothing is due" if not parts else f"{len(parts)} parts, {len(failed)} failed")
        for part in failed:
            _say(f"FAILED {part}")
        return failed

    def land(self, seconds: float) -> list[str]:
        """Run for some seconds what a landing runs; return what makes it fail."""
        self.record = count_landing(self.record, self._digests)
        end = time.monotonic() + seconds
        failed, tried, slower = list[str](), set[str](), 1.0
        while chosen := self._choose(end - time.monotonic(), tried, slower):
            name, begun = self.parts[chosen[0]], time.monotonic()
            expected = sum(map(self._cost_s, chosen)) + self._prepare_s().get(name, 0.0)
            failed += self._run(name, chosen)
            tried.update(chosen)
            slower = max(1.0, (time.monotonic() - begun) / expected)
        left = self.due()
        self.record = leave_due(self.record, left)
        self._write()
        minutes = sum(map(self._cost_s, left)) / 60
        oldest = max((age(self.record, part) for part in left), default=0)
        _say(
            f"DUE NEXT: {len(left)} parts, {minutes:.0f} min, oldest left out by {oldest} landings"
        )
        for part in left:
            _say(f"due {part}")
        overdue = [part for part in find_overdue(self.record, left) if part not in failed]
        for part in failed:
            _say(f"FAILED {part}")
        for part in overdue:
            _say(f"OVERDUE {part}: run `make test-night DUE=1`")
        return failed + overdue

    def _choose(self, left_s: float, tried: set[str], slower: float) -> list[str]:
        """Parts to run next, none of ``tried``, of a suite for which this machine has all."""
        due = [part for part in self.due() if part not in tried]
        while due:
            chosen = choose(
                due,
                lambda part: slower * self._cost_s(part),
                self.parts.__getitem__,
                left_s=left_s,
                prepare_s=self._prepare_s(),
            )
            if not chosen or self._lacks(self.parts[chosen[0]]) is None:
                return chosen
            due = [part for part in due if self.parts[part] != self.parts[chosen[0]]]
        return []

    def _cost_s(self, part: str) -> float:
        """Seconds by the clock, as the last run took them."""
        return row_of(self.record, part).seconds / (2 if SUITES[self.parts[part]].parallel else 1)

    def _prepare_s(self) -> Mapping[str, float]:
        done = self.record.prepared.items()
        return {name: seconds for name, seconds in done if name not in self._prepared}

    def _lacks(self, name: str) -> str | None:
        """What this machine lacks for a suite, said once; None if nothing."""
        if name not in self._missing:
            self._missing[name] = SUITES[name].missing()
            if lacking := self._missing[name]:
                _say(f"{name} NOT RUN: it {lacking}")
        return self._missing[name]

    def _prepare(self, name: str) -> bool:
        """Prepare a suite, once; return False if that failed."""
        if name not in self._prepared and SUITES[name].prepare:
            begun = time.monotonic()
            self._prepared[name] = _loud("make", SUITES[name].prepare)
            prepared = {**self.record.prepared, name: round(time.monotonic() - begun, 1)}
            self.record = replace(self.record, prepared=prepared)
        return self._prepared.get(name, True)

    def _run(self, name: str, parts: Sequence[str]) -> list[str]:
        """Run parts of one suite, write their rows, and return those that failed."""
        if self._lacks(name):
            return []
        _say(f"{name}: {len(parts)} parts ({SUITES[name].shows})")
        outcomes = _run_parts(SUITES[name], parts) if self._prepare(name) else {}
        changed = self._find_changed()
        rows, failed = dict[str, LastRun](), list[str]()
        for part in parts:
            outcome = outcomes.get(part, _Outcome(failed=True))
            row = self._row_of(part, outcome)
            if outcome.failed:
                failed.append(part)
            elif part in changed:
                _say(f"{part}: not written down, because its files were changed meanwhile")
                continue
            rows[part] = row
            _say(f"{part}: {row.result}, {outcome.tests} tests, {outcome.seconds:.0f} s")
        self.record = self.record.with_rows(rows)
        self._write()
        return failed

    def _find_changed(self) -> set[str]:
        """Parts whose files are not those that this run began with."""
        contents = _read_contents()
        if contents == self._contents:
            return set()
        digests = Digests(ROOT, contents, lambda path: touched_suites([path]))
        parts = self.parts.items()
        return {p for p, suite in parts if digests.digest(p, suite) != self._digests[p]}

    def _row_of(self, part: str, outcome: "_Outcome") -> LastRun:
        before = row_of(self.record, part)
        run = replace(
            before,
            tests=outcome.tests,
            seconds=round(outcome.seconds, 1) or before.seconds,
            commit=_head(),
            date=_today(),
        )
        if outcome.failed or not outcome.tests:
            return replace(run, result="failed" if outcome.failed else "skipped")
        digest, own = self._digests[part], self._owns[part]
        row = replace(run, digest=digest, own=own, result="passed", due_since=None)
        _keep(row)
        return row

    def _take_kept(self) -> None:
        """Take passes of the same files, which another checkout has left, into the record."""
        kept = (_read_kept(self._digests[part]) for part in self.parts if self.is_due(part))
        found = {row.digest: row for row in kept if row is not None}
        rows = {part: found[each] for part, each in self._digests.items() if each in found}
        self.record = self.record.with_rows(rows)

    def _write(self) -> None:
        (ROOT / RECORD).write_text(self.record.text())
        (ROOT / PAGE).write_text(page_of(self.record, self.parts))


@dataclass(slots=True)
class _Outcome:
    """What pytest or the fuzzer says of one part."""

    failed: bool = False
    tests: int = 0
    seconds: float = 0.0


def _run_parts(suite: Suite, parts: Sequence[str]) -> dict[str, _Outcome]:
    if suite.command is not None:
        return {part: _run_command(suite, suite.command(part)) for part in parts}
    report = REPORTS / "report.xml"
    report.unlink(missing_ok=True)
    pytest = PARALLEL if suite.parallel else PYTEST
    passed = _loud(suite.python, *pytest, *suite.options, f"--junitxml={report}", *parts)
    outcomes = {part: _Outcome() for part in parts}
    for case in _cases(report):
        outcome = outcomes.get(case.attrib.get("file", ""))
        if outcome is not None:
            outcome.seconds += float(case.attrib["time"])
            outcome.tests += case.find("skipped") is None
            outcome.failed |= any(case.find(kind) is not None for kind in ("failure", "error"))
    blamed = any(outcome.failed for outcome in outcomes.values())
    if not passed and not blamed:  # something that is no test's, such as a file that has no tests
        return {part: replace(outcome, failed=True) for part, outcome in outcomes.items()}
    return outcomes


def _cases(report: Path) -> Iterator[ET.Element]:
    if report.exists():
        yield from ET.parse(report).getroot().iter("testcase")  # noqa: S314 - pytest wrote it


def _run_command(suite: Suite, command: Sequence[str]) -> _Outcome:
    begun = time.monotonic()
    passed = _loud(suite.python, *command)
    return _Outcome(failed=not passed, tests=1, seconds=time.monotonic() - begun)


def touched_suites(paths: Iterable[str]) -> set[str]:
    """Return the suites that changes of these files touch."""
    touched: set[str] = set()
    for path in paths:
        fitting = [TOUCHES[pattern] for pattern in TOUCHES if fnmatchcase(path, pattern)]
        if not fitting:
            return set(SUITES)
        touched.update(*(names.split() for names in fitting))
    return touched


def _read_record() -> Record:
    path = ROOT / RECORD
    return Record.read(path.read_text() if path.exists() else "")


def night_page() -> str:
    """Return the page of the committed record."""
    return page_of(_read_record(), find_parts())


def page_of(record: Record, parts: Mapping[str, str]) -> str:
    """Return the page of a record."""
    lines = []
    for name, suite in SUITES.items():
        rows = [row_of(record, part) for part in parts if parts[part] == name]
        dates = sorted(row.date for row in rows if row.date)
        cells = (
            f"`{name}`",
            suite.shows,
            f"{len(rows)}",
            f"{sum(row.due_since is not None for row in rows)}",
            f"{sum(row.seconds for row in rows if row.date) / 60:.1f}",
            dates[0] if dates else "never",
        )
        lines.append(f"| {' | '.join(cells)} |\n")
    return _HEAD.format(minutes=LANDING_S / 60) + "".join(lines)


def _read_contents() -> dict[str, str]:
    """Digest of each file that git tracks or would, by path; a link's is of where it leads.

    The record and its page are left out: a run writes them.
    """
    listed = _quiet("git", "ls-files", "-z", "-c", "-o", "--exclude-standard").stdout
    contents = dict[str, str]()
    for name in set(listed.split("\0")[:-1]) - {RECORD, PAGE}:
        path = ROOT / name
        if path.is_symlink():
            contents[name] = sha256(os.fsencode(path.readlink())).hexdigest()
        elif path.is_file():
            contents[name] = sha256(path.read_bytes()).hexdigest()
    return contents


def _kept_folder() -> Path:
    default = Path.home() / ".cache" / "dppca" / "night"
    return Path(os.environ.get("DPPCA_NIGHT_PASSES") or default)


def _keep(row: LastRun) -> None:
    """Keep a pass outside the checkout, and drop what is older than `KEPT_DAYS`."""
    folder = _kept_folder()
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.json"):
        if path.stat().st_mtime < time.time() - 86_400 * KEPT_DAYS:
            path.unlink()
    (folder / f"{row.digest}.json").write_text(json.dumps(asdict(row)))


def _read_kept(digest: str) -> LastRun | None:
    path = _kept_folder() / f"{digest}.json"
    return LastRun(**json.loads(path.read_text())) if path.exists() else None


def _commit() -> None:
    """Commit the record alone, if it changed."""
    if _quiet("git", "status", "--porcelain", "--", RECORD, PAGE).stdout:
        _quiet("git", "add", "--", RECORD, PAGE)
        _loud(
            "git",
            "commit",
            "--quiet",
            "-m",
            "Record what the night tier has shown",
            "--",
            RECORD,
            PAGE,
        )


def _head() -> str:
    changed = _quiet("git", "status", "--porcelain", "--", ".", f":!{RECORD}", f":!{PAGE}").stdout
    return _quiet("git", "rev-parse", "--short=12", "HEAD").stdout.strip() + "+" * bool(changed)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _say(line: str) -> None:
    sys.stdout.write(f"NIGHT {line}\n")
    sys.stdout.flush()


def _quiet(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def _loud(*command: str) -> bool:
    """Run a command with visible output; return True if it succeeded."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment).returncode == 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
