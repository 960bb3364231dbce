"""Audit of the locked packages with a public database of weaknesses: ``python -m tools.audit``.

It runs pip-audit over the packages of the tests, which include the deployed ones, and over the
tools. pip-audit also exits with 0 if it could not look a package up; this program exits with

    0    every package was looked up, and none has a known weakness
    1    at least one has; they are named
    75   some package could not be looked up, for example without a network: its state is unknown.
         ``--where-reachable`` prints the same, and exits with 0.
"""

import json
import subprocess
import sys

from tools.lock import FOLDER

WEAK, UNKNOWN = 1, 75


def main() -> int:
    """Run the audit; return the exit code."""
    codes = set()
    for lock in ("dev", "tools"):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip_audit", "--require-hashes", "--disable-pip"),
                *("--format=json", "--progress-spinner=off", f"--requirement={lock}.lock"),
            ],
            capture_output=True,
            text=True,
            cwd=FOLDER,
        )
        code, lines = verdict(done.stdout, done.stderr)
        sys.stdout.writelines(f"{lock}.lock: {line}\n" for line in lines)
        codes.add(code)
    if WEAK in codes:
        return WEAK
    return UNKNOWN if UNKNOWN in codes and "--where-reachable" not in sys.argv else 0


def verdict(answer: str, complaint: str) -> tuple[int, list[str]]:
    """Exit code and lines to print, from pip-audit's JSON and its standard error."""
    try:
        packages = json.loads(answer)["dependencies"]
    except (ValueError, KeyError, TypeError):
        packages = []
    if not packages:
        reason = (complaint.strip().splitlines() or ["pip-audit said nothing"])[-1]
        return UNKNOWN, [f"NOT AUDITED: no package could be looked up ({reason})"]
    weak = [
        f"{package['name']} {package['version']}: {weakness['id']}, mended in "
        f"{', '.join(weakness['fix_versions']) or 'no version yet'}"
        for package in packages
        for weakness in package.get("vulns", ())
    ]
    skipped = [package["skip_reason"] for package in packages if "skip_reason" in package]
    if not skipped:
        return (WEAK, weak) if weak else (0, [f"{len(packages)} packages, no known weakness"])
    unknown = (
        f"NOT AUDITED: {len(skipped)} of {len(packages)} packages could not be looked up "
        f"({skipped[0]})"
    )
    return WEAK if weak else UNKNOWN, [*weak, unknown]


if __name__ == "__main__":
    raise SystemExit(main())
