"""Search for inputs that break a promise of `targets`, guided by what the code does (atheris).

::

    python -m tests.fuzz --minutes 10
    python -m tests.fuzz --target rows --reproduce build/fuzz/rows/crash-...

Minutes are of CPU time, shared out by each target's weight; children run at the lowest priority.
Inputs that led somewhere new are kept in ``build/fuzz`` and are where the next search begins.
Leaves with 1 where a promise was broken; the input lies beside them.
"""

import argparse
import importlib
import resource
import subprocess
import sys
from pathlib import Path

from tests.support.checkout import ROOT

MADE = ROOT / "build" / "fuzz"
LARGEST_INPUT = 16 << 10


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="of CPU time, in all")
    parser.add_argument("--target", help="one target only")
    parser.add_argument("--reproduce", type=Path, help="feed one file to the target")
    parser.add_argument("--search-s", type=int, help=argparse.SUPPRESS)  # a child's own
    given = parser.parse_args()
    if given.search_s is not None:
        return _search(given.target, given.search_s)
    from tests.fuzz.targets import TARGETS, close

    names = [given.target] if given.target else list(TARGETS)
    if set(names) - set(TARGETS):
        parser.error(f"--target is one of {', '.join(TARGETS)}")
    try:
        if given.reproduce is not None:
            TARGETS[names[0]][0](given.reproduce.read_bytes())
            return 0
        for name in names:
            folder = MADE / name
            folder.mkdir(parents=True, exist_ok=True)
            for number, seed in enumerate(TARGETS[name][1]()):
                (folder / f"seed-{number}").write_bytes(seed)
    finally:
        close()
    shares = {name: TARGETS[name][2] for name in names}
    broken = [
        name
        for name in names
        if not _run(name, cpu_s=60 * given.minutes * shares[name] / sum(shares.values()))
    ]
    print(f"{_cpu_s() / 60:.1f} CPU minutes; broken: {', '.join(broken) or 'none'}")  # noqa: T201
    return 1 if broken else 0


def _run(name: str, *, cpu_s: float) -> bool:
    """Search one target for so much CPU time; whether it held."""
    begun, number = _cpu_s(), 0
    log = MADE / f"{name}.log"
    log.unlink(missing_ok=True)
    while (left := cpu_s - (_cpu_s() - begun)) > 1:
        number += 1
        with log.open("ab") as output:
            search = ("-m", "tests.fuzz", "--target", name, "--search-s", f"{max(2.0, left):.0f}")
            done = subprocess.run(
                ["nice", "-n", "19", sys.executable, *search],
                stdout=output,
                stderr=output,
                cwd=ROOT,
            )
        if done.returncode:
            print(f"{name}: broken after {_cpu_s() - begun:.0f} s: see {log}")  # noqa: T201
            return False
    found = len(list((MADE / name).iterdir()))
    print(f"{name}: held for {_cpu_s() - begun:.0f} CPU s, {found} inputs kept")  # noqa: T201
    return True


def _search(name: str, seconds: int) -> int:
    try:
        atheris = importlib.import_module("atheris")
    except ImportError:
        print("atheris is not installed: run make fuzz", file=sys.stderr)  # noqa: T201
        return 2
    with atheris.instrument_imports(include=["dppca", "tests.fuzz"]):
        targets = importlib.import_module("tests.fuzz.targets")
    target = targets.TARGETS[name][0]
    target(b"")  # what is made once is not part of any input's path
    folder = MADE / name
    arguments = [
        sys.argv[0],
        f"-max_total_time={seconds}",
        f"-max_len={LARGEST_INPUT}",
        f"-artifact_prefix={folder}/",
        "-timeout=60",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        str(folder),
    ]
    atheris.Setup(arguments, target)
    atheris.Fuzz()
    return 0


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
