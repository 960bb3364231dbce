"""The difference of two Wishart matrices, as integers with a bounded error.

For independent d x m matrices G and H of standard normals and an integer c,

    Z = c (G G' - H H').

G and H are drawn by `exact_normals`, real numbers of which only the first digits exist. Their
products are taken of the digits, exactly: cut into limbs of 16 bits, the matrices multiply in
float64 without rounding, since a sum of 2^16 products of limbs stays below 2^53. Only the digits
that were not drawn make an error. A number is cut by less than 2^-B, so a sum of m products is off
by less than ``m (2 v + 1) 2^-B``, v being above all magnitudes; as many words of digits are drawn
as keep what comes of both matrices, and the last rounding, below 2^-`KEPT_BITS` together.

**Never a grid on G.** Sums of products of *rounded* numbers are sparse: g1^2 + g2^2 - h1^2 - h2^2
over the integers is 0 modulo 3 with probability 33/81 and not 27/81, however fine the grid is. So
entries of the data modulo 3 would show through a release that is exact. What is rounded is Z, once,
and the release does not rest on that rounding (`dppca.common.kernel.privacy.matrix_noise`).
"""

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.noise.entropy import EntropySource
from dppca.common.kernel.privacy.noise.normals import Normals, exact_normals, refine
from dppca.common.kernel.privacy.noise.sampler import LARGEST_SCALE, require_integer

LARGEST_SIDE = 2**10  # of a matrix that is drawn
FRACTION_BITS = 52  # of an entry as a whole number
KEPT_BITS = 48  # an error is below 2^-48

_LIMB_BITS = 16  # of factors whose sums of products float64 holds exactly
_WORD_BITS = 64  # binary digits of a number that are drawn at once


def wishart_difference(
    scale: int, side: int, columns: int, *, entropy: EntropySource
) -> NDArray[np.object_]:
    """Draw ``scale (G G' - H H')``, with G and H of ``columns`` columns each.

    Return a new symmetric array of Python integers, (side, side), in units of 2^-`FRACTION_BITS`.
    Each entry is less than 2^-`KEPT_BITS` from the entry of a matrix that has exactly the stated
    law. Raise `SettingError` if an argument is out of range.
    """
    scale = require_integer(scale, name="scale", least=1, largest=LARGEST_SCALE)
    side = require_integer(side, name="side", least=1, largest=LARGEST_SIDE)
    columns = require_integer(columns, name="columns", least=1, largest=LARGEST_SIDE + 1)
    drawn = exact_normals(2 * side * columns, entropy=entropy)
    largest = int(drawn.whole.max(initial=0)) + 1
    # c m (2 v + 1) 2^-B for each of two matrices: at most 2^-49. The shift below takes 2^-52.
    spread = 2 * scale * columns * (2 * largest + 1)
    bits = spread.bit_length() + KEPT_BITS + 1
    drawn = refine(drawn, -(-bits // _WORD_BITS), entropy=entropy)
    half = side * columns
    plus = _gram(_cut(drawn, slice(0, half)), side)
    minus = _gram(_cut(drawn, slice(half, None)), side)
    shift = 2 * _WORD_BITS * drawn.digits.shape[0] - FRACTION_BITS
    noise: NDArray[np.object_] = ((plus - minus) * scale) >> shift
    return noise


def _cut(drawn: Normals, part: slice) -> Normals:
    return Normals(drawn.negative[part], drawn.whole[part], drawn.digits[:, part])


def _gram(drawn: Normals, side: int) -> NDArray[np.object_]:
    """Return the products of the rows of a matrix, exact, in units of 2^-(2 B): (side, side)."""
    limbs = _limbs(drawn, side)
    total = np.zeros((side, side), dtype=object)
    for place in range(2 * len(limbs) - 1):
        # Pairs of limbs that stand for the same power; at most 2^16 products of 32 bits.
        summed = np.zeros((side, side))
        for first in range(max(0, place - len(limbs) + 1), min(place, len(limbs) - 1) + 1):
            summed += limbs[first] @ limbs[place - first].T
        total += summed.astype(np.int64).astype(object) << (_LIMB_BITS * place)
    return total


def _limbs(drawn: Normals, side: int) -> list[NDArray[np.float64]]:
    """Cut signed numbers into limbs of 16 bits, the lowest first: each (side, columns)."""
    words = [*drawn.digits[::-1], drawn.whole.astype(np.uint64)]
    limbs = [
        (word >> np.uint64(shift)) & np.uint64((1 << _LIMB_BITS) - 1)
        for word in words
        for shift in range(0, _WORD_BITS, _LIMB_BITS)
    ]
    while len(limbs) > 1 and not limbs[-1].any():
        del limbs[-1]
    if len(limbs) * drawn.whole.size // side >= 1 << 16:
        raise SettingError("the matrices of normals are too large to be multiplied exactly")
    signs = np.where(drawn.negative, -1.0, 1.0)
    return [(signs * limb.astype(np.float64)).reshape(side, -1) for limb in limbs]
