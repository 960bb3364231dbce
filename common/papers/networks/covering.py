"""Non-overlapping covering designs: blocks of attributes in which every pair occurs exactly once.

The joint counts of a block determine those of its pairs. Fewer blocks mean less noise on each cell,
larger blocks mean more cells to sum for a pair. With B blocks, a cell's noise has a variance
proportional to B^2, and the counts of a pair {i, j} are sums over the values of all others in the
pair's block. So a design costs

    B^2 mean over pairs {i, j} of  prod of the sizes of the others in the block of {i, j}       (1)

and the cheapest of these is taken:

- every pair is a block;
- all attributes are one block;
- *lines of a plane*: attributes are points (x, y), x below w, y below q, for a prime power q and w
  <= q. The lines ``y = a x + c`` over the field of q elements cover every two points of different
  columns x exactly once. Each column is a block of its own (*whole*), or each pair in it (*pairs*).
  Lines are cut to the existing points; lines of one point are left out.

The choice depends on sizes only, which are public.

*Our reading.* The paper's abstract names a non-overlapping covering design, and a dynamic programme
for its parameters; the sources available to us print neither. Affine planes are the classical
design of that kind, and the family above is small enough to try every member.

Source: Cheng and others (2020), "Multi-Party High-Dimensional Data Publishing under Differential
Privacy"; Colbourn and Dinitz (2007), "Handbook of Combinatorial Designs", for planes.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from math import ceil, prod

from dppca.common.papers.networks.noised_counts import Attributes

Design = tuple[Attributes, ...]
# Prime powers, with the monic polynomial of the field over its prime: coefficients from x^0 up.
_FIELDS = {
    2: (2, (0,)),
    3: (3, (0,)),
    4: (2, (1, 1)),
    5: (5, (0,)),
    7: (7, (0,)),
    8: (2, (1, 1, 0)),
    9: (3, (1, 0)),
    11: (11, (0,)),
    13: (13, (0,)),
    16: (2, (1, 1, 0, 0)),
}


def choose_design(sizes: Sequence[int]) -> Design:
    """Return the design of least cost (1) for attributes of these sizes, each 2 or more."""
    return min(_designs(len(sizes)), key=lambda design: design_cost(design, sizes))


def design_cost(design: Design, sizes: Sequence[int]) -> float:
    """Cost of a design, equation (1)."""
    total = 0
    for block in design:
        cells = prod(sizes[each] for each in block)
        total += sum(cells // (sizes[i] * sizes[j]) for i, j in combinations(block, 2))
    return len(design) ** 2 * total / (len(sizes) * (len(sizes) - 1) / 2)


def _designs(d: int) -> Iterator[Design]:
    yield tuple(combinations(range(d), 2))
    yield (tuple(range(d)),)
    for q in _FIELDS:
        if q < d <= q * q:
            for whole in (True, False):
                yield plane_design(d, q, whole_columns=whole)


def plane_design(d: int, q: int, *, whole_columns: bool) -> Design:
    """Return the lines of a plane of prime power q for q < d <= q^2 attributes.

    Attribute i is the point ``(i mod w, i div w)`` for w = ceil(d / q) columns.
    """
    w = ceil(d / q)
    columns = [tuple(range(x, d, w)) for x in range(w)]
    blocks: list[Attributes] = []
    for column in columns:
        blocks += [column] if whole_columns else combinations(column, 2)
    for a, c in product(range(q), repeat=2):
        points = (_add(_multiply(a, x, q), c, q) * w + x for x in range(w))
        blocks.append(tuple(sorted(point for point in points if point < d)))
    return tuple(block for block in blocks if len(block) > 1)


def _digits(element: int, q: int) -> list[int]:
    """Return an element of the field of q as coefficients, from x^0 up."""
    p, lower = _FIELDS[q]
    return [element // p**power % p for power in range(len(lower))]


def _number(digits: Sequence[int], q: int) -> int:
    p, _ = _FIELDS[q]
    return sum(digit % p * p**power for power, digit in enumerate(digits))


def _add(a: int, b: int, q: int) -> int:
    return _number([x + y for x, y in zip(_digits(a, q), _digits(b, q), strict=True)], q)


def _multiply(a: int, b: int, q: int) -> int:
    p, lower = _FIELDS[q]
    degree = len(lower)
    if degree == 1:
        return a * b % p
    result = [0] * (2 * degree - 1)
    for (i, x), (j, y) in product(enumerate(_digits(a, q)), enumerate(_digits(b, q))):
        result[i + j] += x * y
    for power in range(2 * degree - 2, degree - 1, -1):  # x^degree = -lower
        for below, coefficient in enumerate(lower):
            result[power - degree + below] -= result[power] * coefficient
    return _number(result[:degree], q)
