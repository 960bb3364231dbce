"""A simulation of a wide table with three classes; run in an environment of its revision.

::

    python wide_guest.py ROWS COLUMNS
"""

import sys

import numpy as np

import dppca

OWNERS = 3
CLASSES = ("low", "middle", "high")


def main(n_rows: int, n_columns: int) -> None:
    """Simulate numeric columns and a class that follows from two directions in them."""
    rng = np.random.default_rng(39)
    factors = rng.normal(size=(n_rows, 6))
    mixed = factors @ rng.normal(size=(6, n_columns)) + 2 * rng.normal(size=(n_rows, n_columns))
    values = np.clip(mixed / 8, -1, 1)
    labels = np.digitize(factors[:, 0] + 0.5 * rng.normal(size=n_rows), (-0.5, 0.5))
    table = {f"x{i}": column for i, column in enumerate(values.T)}
    table["class"] = np.array(CLASSES)[labels]
    owners = [f"owner-{number}" for number in range(1, OWNERS + 1)]
    dppca.simulate(
        {
            name: {each: column[place::OWNERS] for each, column in table.items()}
            for place, name in enumerate(owners)
        },
        dppca.study_from_yaml(_study(owners, n_columns)),
        "class",
        seed=1,
    )


def _study(owners: list[str], n_columns: int) -> str:
    numerics = [
        f"    - {{name: x{i}, type: numeric, lower: -1, upper: 1}}" for i in range(n_columns)
    ]
    lines = [
        "name: wide",
        f"owners: [{', '.join(owners)}]",
        'privacy: {mechanism: gaussian, epsilon: "1.0", delta: "1e-9"}',
        "components: {count: 5}",
        "schema:",
        "  max_rows_per_person: 1",
        "  attributes:",
        *numerics,
        f"    - {{name: class, type: categorical, categories: [{', '.join(CLASSES)}]}}",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
