"""A pairwise Markov random field fitted to noised moments, and rows drawn from it.

Over the values of the attributes (labels, or cells of a numeric), this field is ::

    p(x) ~ exp( sum_a b_a(x_a) + sum_{a<b} z_a' Theta_ab z_b )                            (1)

with z the coded columns of x minus their means: of all laws with given marginals and products, it
has the largest entropy. The products are known with noise of variance S_ij, and the prior of a
coupling is ``N(0, tau_ab^2)`` (`coupling_scales`). At the most probable couplings, with C the
products of the law and the Fisher matrix approximated by ``diag(v_i v_j)``, ::

    T_ij - C_ij = lambda_ij Theta_ij,    lambda_ij = S_ij / (tau_ab^2 v_i v_j)              (2)

so products are ignored as far as noise could explain them. The couplings begin as those of the
normal law with the shrunk products, minus the inverse of its covariance (`_start`): Gibbs sampling
mixes slowly if numerics are strongly correlated, so changes of a chain lag behind those of the
couplings, and a start from independence would stop short. Stochastic maximum likelihood then
corrects the couplings: chains are kept from one sweep of Gibbs sampling to the next, after each
sweep all parameters move against their error on the chains, and the mean of the last half is taken.
A numeric may fill a small part of its bounds, so steps of couplings are measured per reach of their
columns (`FieldTargets`). The biases meet the marginals; values expected in less than a tenth of a
chain are excluded, since otherwise a few chains in a far corner without rows could meet a product
alone. If equation (2) is not met then for every pair of attributes, up to four more turns follow.

Rows begin as copies of the chains and are swept a few times more, block by block, so memory does
not grow with their number. The last sweep chooses values by argmax of log-odds plus Gumbel noise
under quotas: the marginals are met to within a row of each block. A numeric's value is drawn inside
its cell (`dppca.common.analysis.field.cell_values`).

Rows are float32: with another number of BLAS threads a product, and with it a value, can round
differently, so all work uses one thread.

References: T. Tieleman, Training restricted Boltzmann machines using approximations to the
likelihood gradient, ICML 2008; B. Polyak, A. Juditsky, Acceleration of stochastic approximation by
averaging, 1992.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.field.marginals import apportion, balance
from dppca.common.analysis.field.targets import FieldTargets
from dppca.common.kernel.moments.threads import one_blas_thread

_CHAINS = 2048  # of Gibbs sampling: a mean over them is off by 0.02
_SWEEPS = 120  # of a turn; the last half is averaged
_TURNS = 5  # at most; most fits need one
_MOST_MISFIT = 1.0  # as far off as chance alone
_MOST_MARGINAL_MISFIT = 0.05  # corrected by the quotas of the last sweep
_SETTLED = 0.02  # total variation, the chance of a mean over the chains
_SETTLED_PAIR = 1.5  # deviations: a pair above it has something left that chance does not explain
_RATE = 0.3  # share of Newton's step that a sweep takes at first
_LEAST_PACE = 2e-4  # of the order of one chain's share of a product
_LEAST_SHARE = 0.5 / _CHAINS
_NOBODY = 0.1 / _CHAINS
_SHUT = -1e4  # beyond any coupling
_LEAST_EIGENVALUE = 0.05  # of a correlation matrix; smaller ones make the inverse unreliable
_NORMAL_REACH = 4.0  # standard deviations
_LIKELY = 3.0  # standard deviations of the prior
_RARE = 0.02  # of a column's variance, near which the normal law is a poor guide
_DRAWING_SWEEPS = 6  # from copied chains to rows of their own
_BLOCK_ROWS = 4096  # swept together, so that memory does not grow with the rows
_APART = 16  # numbers: rows a power of two apart share a few places of the cache
_TINY = np.float32(1e-30)  # a waiting time may be 0, which has no logarithm

Codes = NDArray[np.int32]
Rows = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Field:
    """A law over the values of all attributes: equation (1).

    ``couplings`` is Theta, shape (p, p), symmetric and 0 inside an attribute; ``biases`` has shape
    (K,) for each attribute.
    """

    couplings: NDArray[np.float64]
    biases: tuple[NDArray[np.float64], ...]


@dataclass(frozen=True, slots=True)
class FittedField:
    """A field, the chains last drawn from it, and the quality of the fit.

    Attributes
    ----------
    codes
        Shape (chains, attributes): a value of each attribute.
    misfit
        Root mean square residual of equation (2), in standard deviations of the noise and the
        chains' own chance together; 1 would be as far off as chance alone.
    pair_misfit
        The largest such figure of one pair of attributes.
    marginal_misfit
        Largest total variation between a marginal and the chains' over the last half.
    """

    field: Field
    codes: Codes
    misfit: float
    pair_misfit: float
    marginal_misfit: float
    marginals: tuple[NDArray[np.float64], ...]

    @property
    def converged(self) -> bool:
        """Return True if rows may be drawn."""
        return self.misfit <= _MOST_MISFIT and self.marginal_misfit <= _MOST_MARGINAL_MISFIT

    @property
    def settled(self) -> bool:
        """Return True if another turn would gain little."""
        return (
            self.converged
            and self.pair_misfit <= _SETTLED_PAIR
            and self.marginal_misfit <= _SETTLED
        )


def fit_field(
    targets: FieldTargets,
    scales: NDArray[np.float64],
    *,
    rng: np.random.Generator,
    progress: Callable[[float], None] | None = None,
) -> FittedField:
    """Fit the field by equation (2).

    ``scales`` is tau of each pair of columns, shape (p, p): `coupling_scales`. ``progress``
    receives the share that is done, from 0 to 1: the first turn is half of it, each further turn
    half of the rest, because most fits need one turn.
    """
    chains = Chains.start(targets, _CHAINS, rng)
    field = _start(targets, scales)
    for turn in range(_TURNS):

        def of_all(share: float, turn: int = turn) -> None:
            if progress is not None:
                progress(1 - (1 - share / 2) / 2**turn)

        fitted = _improved(field, targets, scales, chains, rng, first=turn == 0, progress=of_all)
        if fitted.settled:
            break
        field = fitted.field
    if progress is not None:
        progress(1.0)
    return fitted


def _start(targets: FieldTargets, scales: NDArray[np.float64]) -> Field:
    """Couplings of the normal law with shrunk products, in the field's form.

    A product is shrunk by its prior: ``T g / (g + S)``, ``g = (tau v_i v_j)^2``. A numeric's own
    square goes into its biases. No coupling of standardised columns begins above 1, nor beyond
    `_LIKELY` deviations of its prior: the steps back would be many.
    """
    # The shrunk products between attributes; inside one, the covariance of its marginal.
    reach = (scales * np.outer(targets.variance, targets.variance)) ** 2
    covariance = targets.products * reach / (reach + targets.noise_variance) * targets.between
    ridge = np.full(len(targets.mean), _LEAST_EIGENVALUE)
    first, numerics = 0, []
    for index, (values, q) in enumerate(zip(targets.values, targets.marginals, strict=True)):
        columns = slice(first, first + values.shape[1])
        centred = values - targets.mean[columns]
        covariance[columns, columns] = (centred.T * q) @ centred
        if targets.numeric[columns.stop - 1] and len(values) > 2:
            numerics.append((index, columns.stop - 1))
            columns = slice(first, columns.stop - 1)
        ridge[columns] += 0.1 + _RARE / targets.variance[columns]
        first += values.shape[1]
    # The precision matrix of the nearest correlation matrix, with a ridge so that it exists.
    deviation = np.sqrt(targets.variance)
    eigenvalues, vectors = np.linalg.eigh(covariance / np.outer(deviation, deviation))
    correlation = (vectors * np.maximum(eigenvalues, 0)) @ vectors.T
    inverse = np.linalg.inv(correlation + np.diag(ridge))
    # A coupling also acts on the farthest cell; far outside the normal range it is no guide.
    for index, column in numerics:
        farthest = np.abs(targets.values[index][:, -1] - targets.mean[column]).max()
        normal = min(1.0, _NORMAL_REACH * deviation[column] / farthest)
        inverse[column] *= normal
        inverse[:, column] *= normal
    # exp(-z' P z / 2) has the couplings -P between attributes, here back in coded units.
    couplings = -np.clip(inverse, -1, 1) * targets.between / np.outer(deviation, deviation)
    couplings = np.clip(couplings, -_LIKELY * scales, _LIKELY * scales)
    biases = [np.log(q) for q in targets.marginals]
    # P's diagonal beyond 1 narrows a numeric; the 1 is in its marginal's logarithm.
    for index, column in numerics:
        centred = targets.values[index][:, -1] - targets.mean[column]
        own = max(inverse[column, column] - 1, 0.0) / targets.variance[column]
        biases[index] = biases[index] - own * centred**2 / 2
    return Field(couplings, tuple(biases))


def _largest_mean_of_a_pair(entries: NDArray[np.float64], targets: FieldTargets) -> float:
    """Largest mean of the entries, shape (p, p), over pairs of different attributes."""
    widths = [values.shape[1] for values in targets.values]
    starts = np.cumsum(widths) - widths
    sums = np.add.reduceat(np.add.reduceat(entries, starts, axis=0), starts, axis=1)
    means = sums / np.outer(widths, widths)
    np.fill_diagonal(means, 0.0)
    return float(means.max())


def _improved(
    field: Field,
    targets: FieldTargets,
    scales: NDArray[np.float64],
    chains: Chains,
    rng: np.random.Generator,
    *,
    first: bool,
    progress: Callable[[float], None],
) -> FittedField:
    """Run one round of Gibbs sweeps; return the field averaged over the second half."""
    # lambda of (2), and Newton's step by the Fisher matrix's diagonal, v_i v_j, with the prior.
    variance = np.outer(targets.variance, targets.variance)
    pull = targets.noise_variance / (scales**2 * variance)
    reach = np.outer(targets.reach, targets.reach)
    pace = np.where(targets.between, 1 / (variance + pull + _LEAST_PACE * reach), 0.0)
    couplings, biases = field.couplings.copy(), [each.copy() for each in field.biases]
    kept = _Averages.zeros(targets)
    for sweep in range(_SWEEPS):
        products, shares = chains.products(), chains.shares()
        # The first round is fast for a third of its sweeps; later ones begin at a quarter of it.
        late = sweep - _SWEEPS // 3 if first else _SWEEPS // 2 + sweep
        rate = _RATE / (1 + 6 * max(0, late) / _SWEEPS)
        # The gradient of the log posterior, 0 where (2) holds; the chains stand in for the law.
        error = targets.products - products - pull * couplings
        couplings += rate * np.clip(pace * error, -1 / reach, 1 / reach)
        # The same for biases, whose Fisher information is about q; they have no prior.
        for bias, q, share in zip(biases, targets.marginals, shares, strict=True):
            bias += rate * np.clip((q - share) / (q + _LEAST_SHARE), -1, 1)
            bias[q < _NOBODY] = _SHUT
        if sweep >= _SWEEPS // 2:  # Polyak and Juditsky's average
            kept.add(couplings, biases, products, shares, weight=1 / (_SWEEPS - _SWEEPS // 2))
        chains.sweep(Field(couplings, tuple(biases)), rng)
        progress((sweep + 1) / _SWEEPS)
    # What is left of (2), against the noise and the chance of a mean over independent chains.
    left = targets.products - kept.products - pull * kept.couplings
    chance = targets.noise_variance + variance / _CHAINS
    squares = left**2 / chance
    return FittedField(
        Field(kept.couplings, tuple(kept.biases)),
        chains.codes,
        misfit=float(np.sqrt(np.mean(squares[targets.between]))),
        pair_misfit=float(np.sqrt(_largest_mean_of_a_pair(squares, targets))),
        marginal_misfit=max(
            float(np.abs(q - share).sum() / 2)
            for q, share in zip(targets.marginals, kept.shares, strict=True)
        ),
        marginals=targets.marginals,
    )


def draw_blocks(
    fitted: FittedField, targets: FieldTargets, n_rows: int, *, rng: np.random.Generator
) -> Iterator[Codes]:
    """Draw rows as codes of values, shape (rows of the block, attributes), block by block.

    Over all blocks together, the number of rows with each value meets its marginal to within one.
    """
    left = [apportion(q, n_rows) for q in fitted.marginals]
    for first in range(0, n_rows, _BLOCK_ROWS):
        places = np.arange(first, min(first + _BLOCK_ROWS, n_rows)) % len(fitted.codes)
        chains = Chains(targets, fitted.codes[places])
        # Away from the chains that were copied, then once more under the quotas.
        for _ in range(_DRAWING_SWEEPS):
            chains.sweep(fitted.field, rng)
        block = [apportion(each / each.sum(), len(places)) for each in left]
        chains.sweep(fitted.field, rng, quota=block)
        for each, taken in zip(left, block, strict=True):
            each -= taken
        yield chains.codes


class Chains:
    """States of Gibbs sampling: codes of values, and their columns minus the means.

    Columns are stored one after the other, shape (p, n), so that every step reads contiguous
    memory.
    """

    def __init__(self, targets: FieldTargets, codes: Codes) -> None:
        self._targets = targets
        self._codes = np.ascontiguousarray(codes.T)
        self._centred = np.empty((len(targets.mean), len(codes)), np.float32)
        ends = np.cumsum([values.shape[1] for values in targets.values])
        self._variables = [
            _Variable(
                slice(int(end) - values.shape[1], int(end)),
                values.astype(np.float32),
                targets.mean[end - values.shape[1] : end].astype(np.float32)[:, None],
            )
            for end, values in zip(ends, targets.values, strict=True)
        ]
        for variable, each in zip(self._variables, self._codes, strict=True):
            variable.write(self._centred, each)

    @classmethod
    def start(cls, targets: FieldTargets, n: int, rng: np.random.Generator) -> Chains:
        """Return states of independent attributes with the marginals."""
        codes = np.empty((n, len(targets.marginals)), np.int32)
        for index, q in enumerate(targets.marginals):
            codes[:, index] = rng.permutation(np.repeat(np.arange(len(q)), apportion(q, n)))
        return cls(targets, codes)

    @property
    def codes(self) -> Codes:
        """Codes, shape (n, attributes)."""
        return self._codes.T

    def products(self) -> NDArray[np.float64]:
        """Return C, shape (p, p)."""
        with one_blas_thread():
            sums: NDArray[np.float64] = (self._centred @ self._centred.T).astype(np.float64)
        products: NDArray[np.float64] = sums / self._codes.shape[1]
        return products

    def shares(self) -> list[NDArray[np.float64]]:
        """Return the share of each value of each attribute."""
        return [
            np.bincount(codes, minlength=len(q)) / len(codes)
            for codes, q in zip(self._codes, self._targets.marginals, strict=True)
        ]

    def sweep(
        self,
        field: Field,
        rng: np.random.Generator,
        *,
        quota: list[NDArray[np.int64]] | None = None,
        keep: bool = False,
    ) -> None:
        """Redraw every attribute of all states once, in a random order.

        ``quota``, if given, is the number of states with each value of each attribute. With
        ``keep``, only as many values change as the quota needs.
        """
        couplings = field.couplings.astype(np.float32)
        with one_blas_thread():
            for index in rng.permutation(len(self._variables)):
                variable = self._variables[index]
                # By (1), the law of one attribute given the others has these log-odds.
                # Couplings are zero inside an attribute, so its own columns have no effect.
                odds = variable.odds(couplings[variable.columns] @ self._centred)
                odds += field.biases[index].astype(np.float32)[:, None]
                if quota is None:
                    codes = _choose(odds, rng)
                else:
                    waits = rng.standard_exponential(odds.shape, dtype=np.float32)
                    odds -= np.log(waits + _TINY)  # minus the log of a waiting time is Gumbel
                    likeliest = _likeliest(odds)
                    if keep:  # no other value is likelier than the present one
                        states, own = np.arange(len(likeliest)), self._codes[index]
                        odds[own, states] = odds[likeliest, states]
                        likeliest = own
                    codes = balance(_by_state(odds), likeliest, quota[index])
                self._codes[index] = codes
                variable.write(self._centred, codes)


@dataclass(frozen=True, slots=True)
class _Variable:
    """One attribute: its columns, the values that they take, shape (K, width), and their means."""

    columns: slice
    values: Rows
    mean: Rows

    @property
    def _indicators(self) -> bool:
        """Return True if one of several columns is 1, and the others are 0."""
        return len(self.mean) > 1 and bool((self.values.max(axis=1) == 1).all())

    @property
    def _all_held(self) -> bool:
        """Return True if each indicator has a value; a numeric's bin may hold none."""
        return self._indicators and len(self.values) == len(self.mean)

    def odds(self, scores: Rows) -> Rows:
        """Log-odds of the values up to a constant, shape (K, n), from scores of the columns."""
        if len(scores) == 1:
            return self.values * scores
        return scores if self._all_held else self.values @ scores

    def write(self, centred: Rows, codes: Codes) -> None:
        """Write the columns of the codes, minus their means, into the centred matrix."""
        if self._indicators:
            rows = centred[self.columns]
            if not self._all_held:
                codes = self.values.argmax(axis=1)[codes]
            np.equal(codes, np.arange(len(rows))[:, None], out=rows, casting="unsafe")
            rows -= self.mean
        else:
            for place, column in enumerate(range(self.columns.start, self.columns.stop)):
                centred[column] = (self.values[:, place] - self.mean[place, 0])[codes]


def _choose(odds: Rows, rng: np.random.Generator) -> Codes:
    """Draw a value for each state by its log-odds, shape (K, n), which are overwritten."""
    n_values, n = odds.shape
    uniform = rng.random(n, dtype=np.float32)
    if n_values == 2:  # the logistic function of the difference
        with np.errstate(over="ignore"):
            second = 1 / (1 + np.exp(odds[0] - odds[1]))
        flipped: Codes = (uniform < second).astype(np.int32)
        return flipped
    # The inverse of the cumulated weights at a uniform number, without normalising them.
    odds -= odds.max(axis=0)
    np.exp(odds, out=odds)
    for index in range(1, n_values):
        odds[index] += odds[index - 1]
    uniform *= odds[-1]
    counted = np.uint8 if n_values <= 256 else np.int32  # bytes are added up faster
    below = (odds[:-1] <= uniform).view(np.uint8)
    codes: Codes = below.sum(axis=0, dtype=counted).astype(np.int32)
    return codes


def _by_state(odds: Rows) -> Rows:
    """Return log-odds as shape (n, K).

    Rows whose distance is a power of two share a few places of the cache: apart, they are read
    several times as fast.
    """
    apart = np.empty((len(odds), odds.shape[1] + _APART), np.float32)[:, : odds.shape[1]]
    apart[:] = odds
    return np.ascontiguousarray(apart.T)


def _likeliest(odds: Rows) -> Codes:
    """Return the first of the largest values of each state, of log-odds of shape (K, n)."""
    largest, codes = odds.max(axis=0), np.zeros(odds.shape[1], np.int32)
    for value in reversed(range(len(odds))):  # several times as fast as argmax over axis 0
        np.copyto(codes, value, where=odds[value] == largest)
    return codes


@dataclass(frozen=True, slots=True)
class _Averages:
    """Means over the last sweeps, accumulated in place."""

    couplings: NDArray[np.float64]
    products: NDArray[np.float64]
    biases: list[NDArray[np.float64]]
    shares: list[NDArray[np.float64]]

    @classmethod
    def zeros(cls, targets: FieldTargets) -> _Averages:
        empty = [[np.zeros_like(q) for q in targets.marginals] for _ in range(2)]
        return cls(np.zeros_like(targets.products), np.zeros_like(targets.products), *empty)

    def add(
        self,
        couplings: NDArray[np.float64],
        biases: list[NDArray[np.float64]],
        products: NDArray[np.float64],
        shares: list[NDArray[np.float64]],
        *,
        weight: float,
    ) -> None:
        totals = [self.couplings, self.products, *self.biases, *self.shares]
        values = [couplings, products, *biases, *shares]
        for total, value in zip(totals, values, strict=True):
            total += weight * value
