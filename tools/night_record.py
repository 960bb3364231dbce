"""What the night tier has shown, file by file, and what of it is due; no test is run here.

The unit of record is a *part*: a file of tests, or one target of the fuzzer. It is due while its
digest differs from that of its last pass. The digest is of the contents of all that it imports,
the product too, and of the files whose pattern in ``TOUCHES`` names its suite. It is of contents,
not commits: history may be rewritten, and a pass on uncommitted files is a pass of those files.

A landing runs first what failed, then what it changed itself, then what has been due longest,
until its minutes are spent. What did not run stays due, since its digest still differs, so that
nothing is forgotten; a part that has been due for `MOST_LANDINGS` landings fails the next one.
"""

import ast
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path

MOST_LANDINGS = 12
UNKNOWN_S = 60.0
"""Worker seconds that a part is taken to need before it has run once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """Last run of a part.

    ``digest`` is that of the last pass (empty: none); ``own`` is of the files that the part alone
    tries. ``seconds`` are of one worker, at the last run. ``due_since`` is the number of the
    landing that first left it out, or None.
    """

    digest: str = ""
    own: str = ""
    result: str = "never"
    tests: int = 0
    seconds: float = UNKNOWN_S
    commit: str = ""
    date: str = ""
    due_since: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """All rows, by part.

    ``landings`` counts landings, and ``state`` is a digest of all parts' digests at the last one:
    the same files are the same landing. ``prepared`` has the seconds of each suite's preparation.
    """

    landings: int = 0
    state: str = ""
    prepared: Mapping[str, float]
    rows: Mapping[str, LastRun]

    @classmethod
    def read(cls, text: str) -> "Record":
        """Return the record that `text` wrote; the empty one for an empty text."""
        document = json.loads(text or '{"prepared": {}, "rows": {}}')
        rows = {part: LastRun(**row) for part, row in document.pop("rows").items()}
        return cls(**document, rows=rows)

    def text(self) -> str:
        """JSON, a line for each part, so that two runs differ in the lines of what ran."""
        head = {"landings": self.landings, "state": self.state, "prepared": self.prepared}
        lines = [f" {json.dumps(key)}: {json.dumps(head[key], sort_keys=True)}" for key in head]
        rows = ",\n".join(
            f"  {json.dumps(part)}: {json.dumps(_said(self.rows[part]))}"
            for part in sorted(self.rows)
        )
        return "{\n" + ",\n".join([*lines, f' "rows": {{\n{rows}\n }}']) + "\n}\n"

    def with_rows(self, rows: Mapping[str, LastRun]) -> "Record":
        """Return the record with these rows in place of those of the same parts."""
        return replace(self, rows={**self.rows, **rows})

    def only(self, parts: Collection[str]) -> "Record":
        """Return the record without parts that are no more."""
        return replace(self, rows={part: self.rows[part] for part in self.rows if part in parts})


def _said(row: LastRun) -> dict[str, object]:
    default = LastRun()
    return {name: value for name, value in asdict(row).items() if value != getattr(default, name)}


def order_due(record: Record, digests: Mapping[str, str], owns: Mapping[str, str]) -> list[str]:
    """Return the parts that are due, in the order in which a landing runs them.

    Those that failed come first, then those whose own files changed, then the others by the landing
    since which they are due; among equals the one whose last run is longest ago.
    """
    due = [part for part, digest in digests.items() if row_of(record, part).digest != digest]

    def rank(part: str) -> tuple[bool, bool, int, str, str]:
        row = row_of(record, part)
        since = record.landings if row.due_since is None else row.due_since
        return row.result != "failed", row.own == owns[part], since, row.date, part

    return sorted(due, key=rank)


def row_of(record: Record, part: str) -> LastRun:
    """LastRun of a part; that of one which never ran if the record lacks it."""
    return record.rows.get(part, LastRun())


def count_landing(record: Record, digests: Mapping[str, str]) -> Record:
    """Return the record in which these files are a landing: a new one unless they were the last."""
    state = sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()[:12]
    if state == record.state:
        return record
    return replace(record, landings=record.landings + 1, state=state)


def leave_due(record: Record, left: Iterable[str]) -> Record:
    """Return the record after a landing that did not run these due parts."""
    rows = {part: row_of(record, part) for part in left}
    return record.with_rows(
        {
            part: row if row.due_since is not None else replace(row, due_since=record.landings)
            for part, row in rows.items()
        }
    )


def age(record: Record, part: str) -> int:
    """Landings that have left a part out, before the present one."""
    since = row_of(record, part).due_since
    return 0 if since is None else record.landings - since


def find_overdue(record: Record, left: Iterable[str]) -> list[str]:
    """Return the parts among ``left`` that too many landings have left out."""
    return [part for part in left if age(record, part) >= MOST_LANDINGS]


def choose(
    due: Sequence[str], cost_s: Callable[[str], float], suite_of: Callable[[str], str], *,
    left_s: float, prepare_s: Mapping[str, float], most_s: float = 120.0,
) -> list[str]:  # fmt: skip
    """Return the parts of one suite to run next, for at most ``most_s`` seconds if they are many.

    The first part in the order that fits into what is left of the time leads, and later ones of
    its suite go with it. ``cost_s`` is a part's time by the clock, ``prepare_s`` that of a suite
    that is not prepared yet. Empty where nothing fits.
    """

    def needs(part: str) -> float:
        return cost_s(part) + prepare_s.get(suite_of(part), 0.0)

    leader = next((part for part in due if needs(part) <= left_s), None)
    if leader is None:
        return []
    chosen, spent = [leader], needs(leader)
    for part in due:
        if part != leader and suite_of(part) == suite_of(leader):
            if spent + cost_s(part) > min(left_s, most_s):
                break
            chosen.append(part)
            spent += cost_s(part)
    return chosen


class Digests:
    """Digests of parts from the contents of a checkout's files.

    ``contents`` are digests of files by path below the root; ``touched`` tells the suites that a
    path touches.
    """

    def __init__(
        self, root: Path, contents: Mapping[str, str], touched: Callable[[str], Collection[str]]
    ) -> None:
        self._root = root
        self._contents = contents
        self._suites = {path: frozenset(touched(path)) for path in contents}
        self._imports: dict[str, frozenset[str]] = {}

    def digest(self, part: str, suite: str) -> str:
        """Digest of all files on which a part's result rests."""
        file = part.partition("::")[0]
        others = f"tests/night/{suite}/test_*.py"
        named = {path for path, suites in self._suites.items() if suite in suites}
        named = {path for path in named if not fnmatchcase(path, others)}
        return self._of(part, named | self.reached(file))

    def own(self, part: str, patterns: Iterable[str]) -> str:
        """Digest of the part's file and of the files of its suite's own patterns."""
        named = [
            path for path in self._contents if any(fnmatchcase(path, each) for each in patterns)
        ]
        return self._of(part, {part.partition("::")[0], *named})

    def _of(self, part: str, paths: Iterable[str]) -> str:
        lines = [f"{path} {self._contents[path]}" for path in sorted(paths)]
        return sha256("\n".join([part, *lines]).encode()).hexdigest()[:12]

    def reached(self, file: str) -> set[str]:
        """Files of the checkout that a file imports, through others too, and itself."""
        found, left = {file}, [file, *self._conftests(file)]
        while left:
            path = left.pop()
            found.add(path)
            left += self._imported(path) - found
        return found

    def _conftests(self, file: str) -> list[str]:
        places = [str(folder / "conftest.py") for folder in Path(file).parents]
        return [place for place in places if place in self._contents]

    def _imported(self, path: str) -> frozenset[str]:
        if path not in self._imports:
            self._imports[path] = frozenset(self._find(path))
        return self._imports[path]

    def _find(self, path: str) -> Iterable[str]:
        for name in imported_names(ast.walk(ast.parse((self._root / path).read_text("utf-8")))):
            parts = name.removeprefix("dppca.").split(".")
            for n in range(1, len(parts) + 1):
                module = "/".join(parts[:n])
                for file in (f"{module}.py", f"{module}/__init__.py"):
                    if file in self._contents:
                        yield file


def imported_names(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Names that a module of these nodes imports, anywhere: modules, and what it takes of them."""
    found = set[str]()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module)
            found.update(f"{node.module}.{each.name}" for each in node.names)
    return frozenset(found)
