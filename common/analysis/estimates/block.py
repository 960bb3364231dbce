"""Reconciled moments of some columns, with their noise in the parts of equation (2) of `noise`."""

from collections.abc import Iterable, Sequence
from copy import copy
from functools import lru_cache

import numpy as np

from dppca.common.analysis.estimates.noise import Array, JointPart, MomentNoise, Noise
from dppca.common.kernel.privacy.noise_law import ReleaseLaw


class Block:
    """Reconciled moments of (1, some columns), and their noise; b counts the one, too.

    Gradients are symmetric as `form` makes them, shape (k, b, b); columns belong to whole
    attributes.
    """

    matrix: Array
    sent: Array

    def __init__(self, noise: MomentNoise, attributes: Sequence[int]) -> None:
        columns = np.r_[0, np.flatnonzero(np.isin(noise.attribute, attributes))]
        self.columns, self._entry = columns, noise.entry
        self._upper = np.triu_indices(len(columns), 1)
        self._of, self._noise = noise.attribute[columns], noise
        self._label, self._numeric = noise.label[columns], noise.numeric[columns]
        self._of_mean = noise.of_mean[columns]
        same = self._of[:, None] == self._of
        self._q = np.where(self._label, 1 / noise.n_labels[columns], 0.0)
        self._centre = np.eye(len(columns)) - same * self._q
        self._apart = ~same & (self._of >= 0) & (self._of[:, None] >= 0)
        self._omega = noise.weights(self._of, self._of)
        self._scale = noise.scales(self._of)
        precision = noise.precision[columns]
        self._mean_variance = np.divide(
            1, precision, out=np.zeros(len(columns)), where=precision > 0
        )
        self._elsewhere = noise.elsewhere(columns)

    @classmethod
    def of(cls, noise: MomentNoise, attributes: Iterable[int], reconciled: Array) -> "Block":
        """Return a block of all reconciled moments, shape (p + 1, p + 1)."""
        block = copy(_without_numbers(noise, tuple(sorted(set(attributes)))))
        places = np.ix_(block.columns, block.columns)
        block.matrix = reconciled[places]
        if noise.entry.of_rows:
            block.sent = block.matrix - noise.unsent[places]
        return block

    def place(self, column: int) -> int:
        """Return the place in the block of a column of the coded row, which counts from 0."""
        return int(np.searchsorted(self.columns, column + 1))

    def unit(self, place: int) -> Array:
        """Return the unit vector of a place, shape (b,); 0 is the one."""
        unit = np.zeros(len(self.columns))
        unit[place] = 1
        return unit

    def value(self, u: Array, v: Array) -> float:
        """Return ``u' G v``."""
        return float(u @ self.matrix @ v)

    def _parts(self, gradients: Array) -> tuple[Array, Array, Array]:
        """Gradients by nu, Z and the squares of numerics of equation (2)."""
        between = gradients * self._apart
        own = np.diagonal(gradients, axis1=1, axis2=2)
        by_mean = gradients[:, 0] + own * self._of_mean + between @ self._q
        by_mean[:, 0] = 0
        return by_mean @ self._centre, self._centre @ between @ self._centre, own * self._numeric

    def noise(self, gradients: Array) -> Noise:
        """Return the noise of functionals of the reconciled moments, by gradients (k, b, b)."""
        by_mean, between, squares = self._parts(gradients)
        if (law := self._entry.joint) is not None:
            found = self._joint_noise(law, by_mean, between, squares)
            return self._with_rows(found, gradients)
        by_mean = by_mean * self._mean_variance  # as (1) weighs what each mean is made of
        crossed = by_mean[:, :, None] * self._q
        crossed = (crossed + np.swapaxes(crossed, 1, 2)) * self._apart * self._omega
        inside = (between / self._omega + crossed)[:, *self._upper]
        weights, sizes = self._elsewhere
        elsewhere = (by_mean[:, :, None] * weights).reshape(len(by_mean), -1)
        squares = squares / self._noise.layout.square_weight
        own = np.concatenate([by_mean * self._noise.sum_weight, inside, squares], axis=1)
        contributions = self._entry.deviation * np.concatenate([own, elsewhere], axis=1)
        copies = np.r_[np.ones(own.shape[1]), np.tile(sizes, len(weights))]
        found = Noise(contributions, copies, np.full_like(copies, self._entry.excess))
        return self._with_rows(found, gradients)

    def _with_rows(self, noise: Noise, gradients: Array) -> Noise:
        """Return the noise with that of the number of rows, where it has some."""
        if not self._entry.of_rows:
            return noise
        moved = np.einsum("kij,ij->k", np.triu(gradients), self.sent)
        return noise.with_rows(moved, self._entry)

    def _joint_noise(
        self, law: type[ReleaseLaw], by_mean: Array, between: Array, squares: Array
    ) -> Noise:
        """The same under noise of a whole release: its parts are entries of one matrix."""
        entry, side = self._entry, len(self.columns)
        own, (upper, right) = np.arange(1, side), self._upper
        upper, right = upper[upper > 0], right[upper > 0]
        contributions = np.concatenate(
            [
                (by_mean * np.sqrt(self._mean_variance))[:, 1:],
                (between / np.outer(self._scale, self._scale))[:, upper, right],
                np.sqrt(2) * (squares / self._scale**2)[:, 1:],
            ],
            axis=1,
        )
        columns = entry.columns or 1
        part = JointPart(
            law,
            0,
            side,
            np.concatenate([np.zeros_like(own), upper, own]),
            np.concatenate([own, right, own]),
            max(1, round(columns * entry.mechanisms)),
        )
        ones = np.ones(contributions.shape[1])
        return Noise(entry.deviation * contributions, ones, ones * entry.excess, joint=(part,))

    def variances_between(self, left: Array, right: Array) -> Array:
        """Variances of the noise of ``u' G v`` for all u and v, shape (len(left), len(right)).

        ``left`` and ``right`` hold vectors as rows, shapes (l, b) and (r, b). It takes time for
        vectors, where `noise` takes it for a matrix of each pair.
        """
        columns = self._scale if self._entry.joint is not None else 1
        x, y, starts = (
            left @ self._centre / columns,
            right @ self._centre / columns,
            np.unique(self._of, return_index=True),
        )
        attributes, firsts = starts[0][1:], starts[1][1:]
        xx, yy = (np.add.reduceat(each**2, firsts, axis=1) for each in (x, y))
        xy = np.add.reduceat(x[:, None] * y, firsts, axis=2)
        target = np.isin(attributes, self._noise.layout.targets)
        layout = self._noise.layout
        joint = self._entry.joint is not None  # whose columns of targets have their scale
        light = 1 / float(layout.target_weight) ** 2 if target.any() and not joint else 1.0

        def pairs(f: Array, g: Array, h: Array) -> Array:
            """Sum over pairs of attributes of ``f_a g_b + f_b g_a + 2 h_a h_b``."""
            crossed = np.outer(f.sum(1), g.sum(1)) - f @ g.T
            return np.asarray(crossed + h.sum(2) ** 2 - (h**2).sum(2))

        between = light * pairs(xx, yy, xy)
        if layout.halved_products:  # of all pairs; there are no targets
            between /= 2
        if light < 1:
            between += (1 - light) * pairs(xx[:, ~target], yy[:, ~target], xy[:, :, ~target])
        means = [np.add.reduceat(each * self._q, firsts, axis=1) for each in (left, right)]
        own = np.repeat(np.arange(len(firsts)), np.diff(np.r_[firsts, len(self.columns)]))
        # A column's product with each other attribute's labels moves with the column's mean.
        u, v = left[:, 1:], right[:, 1:]
        rest = [each.sum(1, keepdims=True) - each[:, own] for each in means]
        by_mean = u[:, None] * (right[:, :1] + rest[1]) + v * (left[:, :1] + rest[0])[:, None]
        by_mean += (u * self._of_mean[1:])[:, None] * v
        by_mean = by_mean @ self._centre[1:, 1:]
        weighted = self._numeric[1:] * (2 / self._scale[1:] ** 4 if joint else 1)
        squares = (u**2 * weighted) @ v.T**2 / layout.square_weight**2
        total = between + by_mean**2 @ self._mean_variance[1:] + squares
        total *= self._entry.deviation**2
        if self._entry.of_rows:
            total += (self._entry.of_rows * (left @ self.sent @ right.T)) ** 2
        return np.asarray(total)


@lru_cache(maxsize=64)
def _without_numbers(noise: MomentNoise, attributes: tuple[int, ...]) -> Block:
    return Block(noise, attributes)
