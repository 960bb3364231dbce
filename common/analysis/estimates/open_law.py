"""What pairs alone know of the joint law of some labels, and what they leave open.

Without a table of all attributes, ``E[f]`` of a function f of K cells lies between two numbers:
over all laws that have the released products z of pairs, with q(c) those at cell c, ::

    upper = min_u u' z   such that   u' q(c) >= f(c) in every cell                              (1)

and the lower end alike. Each end is a polynomial of pairs, so that its released value has a known
noise; and since it is above f in every cell, it holds whatever the law is. Its sampling varies with
``u' q - f``, too.

Noisy pairs may be those of no law. The law that starts everything is the one of most entropy, with
the misfit of pairs weighed by their noise (Dudik, Phillips and Schapire): convex, and positive in
every cell. For two attributes pairs know all, and both ends are the same.

Limits: labels alone, since a number has no cells here; `MOST_OPEN_CELLS`, since each end is a
linear programme of all cells.

Source: (1) is the dual of a moment problem (Isii, Annals of the Institute of Statistical
Mathematics 14, 1962); M. Dudik, S. Phillips, R. Schapire, Maximum entropy density estimation with
generalized regularization, JMLR 8 (2007) 1217-1260.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.estimates.block import Block
from dppca.common.analysis.estimates.joint_law import Axis, all_codes, pair_products
from dppca.common.analysis.estimates.noise import Array
from dppca.common.analysis.estimates.release import Linear, ReconciledMoments, bilinear
from dppca.common.analysis.estimates.variables import Variable
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema import ColumnKind

MOST_OPEN_CELLS = 2048  # of a regression without a table: seconds for each coefficient
_STEPS = 200  # of Newton's method
_CONVERGED = 1e-10  # by which a step lets the aim fall
_RIDGE = 1e-10  # so that a law without noise has a solution, too


@dataclass(frozen=True, eq=False)
class OpenLaw:
    """Ends of expectations, from products of pairs; attributes as those of `JointLaw`."""

    axes: tuple[Axis, ...]
    codes: NDArray[np.intp]
    shares: Array
    products: Linear
    _q: Array

    def values(self, variable: Variable) -> Array:
        """Return a coded variable at each cell, shape (K,)."""
        place = [axis.attribute for axis in self.axes].index(variable.attribute)
        return self.axes[place].values(variable)[self.codes[:, place]]

    def ends(
        self, f: Array, asked: Array | None = None, own: Array | None = None
    ) -> tuple[Linear, Linear, Array]:
        """Return both ends of ``E[f]``, f (r, K), plus ``asked`` (r, j) times products asked for.

        The third are the sampling variances of one row that the ends add, shape (2, r), to that of
        ``own`` (r, K), the part of f that varies with the attributes.
        """
        m = self._q.shape[1]
        more = np.zeros((len(f), len(self.products.values) - m))
        if asked is not None:
            more += asked
        known, found, slack = self._q.T @ self.shares, list[Linear](), []
        for sign in (-1, 1):
            u = sign * np.array([_dominate(self._q, known, sign * each) for each in f])
            found.append(self.products.combine(np.concatenate([u, more], axis=1)))
            beyond = u @ self._q.T - f
            if own is not None:
                beyond += own
            slack.append(self._variances(beyond))
        without = 0.0 if own is None else self._variances(own)
        return found[0], found[1], np.array(slack) - without

    def _variances(self, f: Array) -> Array:
        """Return the variances of f (r, K), shape (r,)."""
        return np.maximum(f**2 @ self.shares - (f @ self.shares) ** 2, 0.0)


def open_law(
    moments: ReconciledMoments,
    attributes: Sequence[int],
    block: Block,
    asked: tuple[Array, Array],
) -> OpenLaw:
    """Return what pairs know; arguments as `joint_law`'s.

    Raise `SettingError` if an attribute is a number, or the cells are too many.
    """
    schema, labels = moments.names.schema, moments.names.labels
    listed = ", ".join(schema.attributes[each].name for each in attributes)
    for each in attributes:
        if moments.names.kind(each) is ColumnKind.NUMERIC:
            raise SettingError(
                f"study {moments.study.name} released no table of {listed}: products do not know "
                f"the law of {schema.attributes[each].name}, which is a number"
            )
    axes = tuple(Axis(each, len(labels[each] or ())) for each in attributes)
    size = prod(axis.size for axis in axes)
    if size > MOST_OPEN_CELLS:
        raise SettingError(
            f"study {moments.study.name} released no table of {listed}, and of {size} cells pairs "
            f"are not searched ({MOST_OPEN_CELLS} at most): take fewer labels or regressors"
        )
    codes = all_codes(axes)
    left, right, q = pair_products(moments, axes, codes, block)
    products = bilinear(block, np.concatenate([left, asked[0]]), np.concatenate([right, asked[1]]))
    m = len(left)
    covariance = products.noise.covariance[1:m, 1:m]
    shares = _most_entropy(q[:, 1:], products.values[1:m], covariance)
    return OpenLaw(axes, codes, shares, products, q)


def _most_entropy(q: Array, z: Array, covariance: Array) -> Array:
    """Return p > 0 of most entropy with ``q' p`` near z; q has no column of ones.

    It minimises ``log sum_c exp(q eta) - eta' z + eta' C eta / 2`` by Newton's method.
    """
    eta = np.zeros(len(z))
    penalty = covariance + _RIDGE * np.eye(len(z))

    def value(eta: Array) -> tuple[float, Array]:
        exponent = q @ eta
        highest = float(exponent.max())
        p = np.exp(exponent - highest)
        total = float(p.sum())
        return highest + np.log(total) - eta @ z + eta @ penalty @ eta / 2, p / total

    now, p = value(eta)
    for _ in range(_STEPS):
        mean = p @ q
        gradient = mean - z + penalty @ eta
        curvature = (q * p[:, None]).T @ q - np.outer(mean, mean) + penalty
        step = np.linalg.solve(curvature, -gradient)
        fall, scale = float(gradient @ step), 1.0
        if -fall < _CONVERGED:
            break
        while (after := value(eta + scale * step))[0] > now + 0.25 * scale * fall and scale > 1e-8:
            scale /= 2
        eta = eta + scale * step
        now, p = after
    return p


def _dominate(q: Array, known: Array, f: Array) -> Array:
    """Return u of equation (1), with z those of a law."""
    from scipy.optimize import linprog

    scale = max(float(np.abs(f).max()), 1e-300)
    found = linprog(known, A_ub=-q, b_ub=-f / scale, bounds=(None, None), method="highs")
    if found.x is None:
        raise AssertionError(f"a programme that always has an end: {found.message}")
    return np.asarray(found.x * scale, dtype=np.float64)
