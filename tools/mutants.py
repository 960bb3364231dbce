"""Which changes of a module its tests do not see: mutants by mutmut's operators, each in a fork.

mutmut itself leaves out decorated functions and what is computed at import, and wants no links.
Here a source is changed in memory when it is imported, in a process for each mutant, forked from
one that has the libraries. hypothesis draws few examples, always the same, and does not shrink.
A mutant is killed if a test fails, if nothing can be imported, or by the limit of time. Use::

    python3 tools/install.py pip install --no-deps --target build/mutmut mutmut==3.8.1 libcst
    PYTHONPATH=build/mutmut nice .venv/bin/python -m tools.mutants common/kernel/privacy/laws.py
    TESTS ...

where TESTS are arguments of pytest, the fastest first; none that start processes.
"""

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from difflib import unified_diff
from importlib import import_module
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

LIMIT_S, EXAMPLES = 60, 14
OURS = ("dppca", "tests", "tools", "grpc", "google", "_pytest")  # not imported before a fork
FLAGS = ["-xq", "-pno:cacheprovider", "-pno:xdist", "-Wignore::pytest.PytestAssertRewriteWarning"]


class FewExamples:
    """A plugin of pytest, which loads a profile of hypothesis after the one of `tests/conftest`."""

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        """Draw few examples, the same each time, and do not shrink."""
        import_module("tests.support.examples").PROFILES["mutants"] = lambda n: min(n, EXAMPLES)
        phases, checks = (Phase.explicit, Phase.generate), list(HealthCheck)
        few = settings(max_examples=EXAMPLES, phases=phases, derandomize=True, database=None)
        settings.register_profile("mutants", few, deadline=None, suppress_health_check=checks)
        settings.load_profile("mutants")


def mutants(source: str) -> Iterator[str]:
    """Every changed source that compiles, once."""
    cst, metadata = import_module("libcst"), import_module("libcst.metadata")
    visitors: Any = import_module("mutmut.mutation.file_mutation").MutationVisitor
    operators = import_module("mutmut.mutation.mutators").mutation_operators
    ignored = import_module("mutmut.mutation.pragma_handling").IgnoredCode(set(), set(), set())

    class Visitor(visitors):  # type: ignore[misc]
        def _skip_node_and_children(self, node: Any) -> Any:
            if isinstance(node, cst.FunctionDef):
                node = node.with_changes(decorators=[])
            return super()._skip_node_and_children(node)

    visitor = Visitor(operators, ignored)
    wrapper = metadata.MetadataWrapper(cst.parse_module(source))
    wrapper.visit(visitor)
    seen = {source}
    for each in visitor.mutations:
        changed = wrapper.module.deep_replace(each.original_node, each.mutated_node).code
        with suppress(SyntaxError):
            if changed not in seen and compile(changed, "mutant", "exec"):
                yield changed
        seen.add(changed)


def run(arguments: list[str], log: Path, module: str = "", source: str = "") -> bool:
    """Whether the tests pass in a fork, with a module's source replaced."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.dup2(1, 2)
        usual: Any = SourceFileLoader.get_code

        def get_code(self: Any, name: str) -> Any:
            return compile(source, name, "exec") if name == module else usual(self, name)

        SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
        status = pytest.main([*FLAGS, *arguments], plugins=[FewExamples()])
        log.with_suffix(".modules").write_text(json.dumps(list(sys.modules)))
        os._exit(int(status))
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if (ended := os.waitpid(child, os.WNOHANG))[0]:
            return ended[1] == 0
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1] == 0


def main(path: str, *arguments: str) -> None:
    """Print the mutants that survive, and how many did not."""
    module, source = "dppca." + path.removesuffix(".py").replace("/", "."), Path(path).read_text()
    log = Path(tempfile.mkdtemp()) / "log"
    if not run([*arguments], log):
        raise SystemExit(f"the tests fail without a mutant:\n{log.read_text()}")
    for name in json.loads(log.with_suffix(".modules").read_text()):
        with suppress(ImportError):
            if name.split(".")[0] not in OURS and not name.startswith("__"):
                import_module(name)
    every = list(mutants(source))
    survivors = [changed for changed in every if run([*arguments], log, module, changed)]
    for changed in survivors:
        old, new = source.splitlines(keepends=True), changed.splitlines(keepends=True)
        sys.stdout.writelines(unified_diff(old, new, path, path, n=0))
    sys.stdout.write(f"{path}: {len(every) - len(survivors)} of {len(every)} killed\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
