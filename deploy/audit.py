"""Asks a public database whether a locked package has a known weakness.

``python -m deploy.audit``. Runs pip-audit over `requirements/dev.lock`, which holds what is
deployed too, and `requirements/tools.lock`, as they are pinned: nothing is installed or resolved.
Leaves with

    0    every package was looked up, and none has a known weakness
    1    at least one has; they are named
    75   not every package could be looked up, as without a network: nothing is known about those.
         What stands then is the lock alone: no other bytes than those pinned are installed.
         With ``--where-reachable`` this is said as loudly, and no failure.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from deploy.lock import FOLDER

WEAK, UNKNOWN = 1, 75
LOCKS = ("dev", "tools")


def main() -> int:
    """Entry point."""
    worst = 0
    for name in LOCKS:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip_audit", "--requirement", str(FOLDER / f"{name}.lock")),
                *("--require-hashes", "--disable-pip", "--format", "json", "--progress-spinner"),
                "off",
            ],
            capture_output=True,
            text=True,
        )
        code, lines = verdict(done.stdout, done.stderr)
        sys.stdout.writelines(f"{name}.lock: {line}\n" for line in lines)
        worst = code if worst == 0 or code == WEAK else worst
    return 0 if worst == UNKNOWN and "--where-reachable" in sys.argv else worst


def verdict(answer: str, complaint: str) -> tuple[int, list[str]]:
    """Exit code and what to say, from pip-audit's JSON and its standard error."""
    try:
        packages: list[dict[str, Any]] = json.loads(answer)["dependencies"]
    except (ValueError, KeyError, TypeError):
        reason = (complaint.strip().splitlines() or ["pip-audit said nothing"])[-1]
        return UNKNOWN, [f"NOT AUDITED: the database cannot be reached ({reason})"]
    weak = [
        f"{package['name']} {package['version']}: {weakness['id']}, mended in "
        f"{', '.join(weakness['fix_versions']) or 'no version yet'}"
        for package in packages
        for weakness in package.get("vulns", ())
    ]
    unknown = [package["name"] for package in packages if "skip_reason" in package]
    lines = list(weak)
    if unknown:
        first = next(package for package in packages if "skip_reason" in package)
        lines.append(
            f"NOT AUDITED: {len(unknown)} of {len(packages)} packages could not be looked up "
            f"({first['skip_reason']})"
        )
    if not packages:
        return UNKNOWN, ["NOT AUDITED: the lock file was not read"]
    if not lines:
        lines = [f"{len(packages)} packages, no known weakness"]
    return (WEAK if weak else UNKNOWN if unknown else 0), lines


if __name__ == "__main__":
    raise SystemExit(main())
