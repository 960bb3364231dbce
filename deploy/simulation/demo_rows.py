"""``python -m dppca.deploy.simulation.demo_rows FOLDER``: write the demo's rows, a folder an owner.

It is the compose file's first step. It divides people like ``dppca-simulate demo``: a fifth is
held out and reaches no owner, the rest goes to the owners of the demo's study.
"""

import sys
from pathlib import Path

from dppca.deploy.simulation.demo import KEY, SEED, demo_study, demo_table
from dppca.deploy.simulation.holdings import divide, write_table

_NAME = "rows.csv"


def write_rows(folder: Path) -> dict[str, int]:
    """Write ``FOLDER/OWNER/rows.csv`` for each owner; return each owner's number of rows."""
    owners = demo_study().owners
    table = demo_table()
    division = divide(table, owners=len(owners), seed=SEED, key=KEY)
    counts = {}
    for owner, part in zip(owners, division.owners, strict=True):
        (folder / owner).mkdir(parents=True, exist_ok=True)
        write_table(table.take(part), folder / owner, stem="rows", like=Path(_NAME))
        counts[owner] = len(part)
    return counts


def main() -> None:
    """Run the command line."""
    for owner, count in write_rows(Path(sys.argv[1])).items():
        sys.stdout.write(f"{owner}: {count} rows\n")


if __name__ == "__main__":
    main()
