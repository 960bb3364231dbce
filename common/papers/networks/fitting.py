"""Base of both methods: rows as codes, parts of epsilon, limits of table sizes, drawn rows.

**Size of tables.** For d tables over n rows of m parties, with discrete Laplace noise for epsilon_3
in every cell of each party's, the mean count of a cell is n over the number of cells, and the noise
is about ``2 d sqrt(m) / epsilon_3``. Tables whose counts are at least ``theta`` times the noise
have

    cells <= n epsilon_3 / (2 d theta sqrt(m)),                                                 (1)

the theta-usefulness of PrivBayes, with its 2 and m = 1.

Source: Zhang and others (2017), "PrivBayes", section 4.5; the root of m is ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact
from math import floor, sqrt
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dppca.common.analysis.estimators.base.cautions import CountsCopies, warn_of_copies
from dppca.common.analysis.estimators.base.guarantee import Guarantee, Variant
from dppca.common.analysis.estimators.base.inputs import check_fit_table
from dppca.common.analysis.estimators.base.named_frames import RowForm
from dppca.common.analysis.estimators.base.settings import (
    EntropyMaker,
    check_positive_int,
    check_rows_per_person,
    check_share,
    choose_label,
    describe_repeatability,
    parse_epsilon,
)
from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.privacy.accounting import PrivacyCost
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.noise.entropy import EntropySource
from dppca.common.kernel.privacy.sensitivity import Relation
from dppca.common.kernel.schema import Schema
from dppca.common.papers.base.party_tables import resolve_schema
from dppca.common.papers.networks.domain import Domain
from dppca.common.papers.networks.network import Network, fit_tables
from dppca.common.papers.networks.noised_counts import Codes, maximal_sets, release_counts

_EXACT = Context(prec=100, traps=[Inexact])
_LEAST_BINS = 2  # of a number: one would say nothing


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkEstimator(CountsCopies, BaseEstimator):  # type: ignore[misc]
    """Base of methods that fit a Bayesian network and draw rows from it.

    Parameters
    ----------
    epsilon
        Each party's, above 0; there is no default.
    schema
        `Schema` of the columns: an array has one column per attribute, of numbers or codes of
        labels; a frame has columns of the attributes' names, with labels.
    max_rows_per_person
        The most rows that one person may have, if the schema does not give it; there is no default.
    n_bins
        Most cells of a numeric.
    theta
        Ratio of the mean count of a table's cells to the noise, above 0.
    entropy
        Maker of the entropy; None for the operating system's.
    random_state
        Seeds the rows that are drawn.

    Attributes
    ----------
    schema_
        The schema, with the resolved row limit.
    network_
        The structure: a family for each attribute, parents first.
    model_
        The structure with its tables.
    guarantee_
        The attributes that are private, epsilon and delta, and the rest.
    """

    method: ClassVar[str]
    source: ClassVar[str]

    epsilon: object = None
    schema: Schema | None = None
    max_rows_per_person: object = None
    n_bins: int = 16
    theta: float = 4.0
    entropy: EntropyMaker | None = None
    random_state: Any = None

    def sample(self, n_rows: int, *, random_state: Any = None) -> Any:
        """Draw rows that the schema allows, (n_rows, n_attributes), in the form of the fitted ones.

        The result is an array, or a frame with labels if the (first) fitted rows were a frame of
        the schema's columns. Rows cost nothing further. ``random_state`` replaces the estimator's.
        """
        check_is_fitted(self)
        size = check_positive_int("n_rows", n_rows)
        state = self.random_state if random_state is None else random_state
        rng = np.random.default_rng(check_random_state(state).randint(2**31))
        rows = self._domain.decode(self.model_.sample(size, rng), rng)
        return self._form.show(self._domain.columns(rows), self.schema_)

    def _encode(self, parties: Sequence[Any]) -> list[Codes]:
        """Return each party's rows as codes, by the schema alone."""
        if self.schema is None:
            raise SettingError(
                "give a schema: what values there are is public, not taken from rows"
            )
        if check_positive_int("n_bins", self.n_bins) < _LEAST_BINS:
            raise SettingError(f"n_bins is {self.n_bins}; it must be {_LEAST_BINS} or more")
        if not isinstance(parties, list | tuple):
            raise SettingError(
                "give a list with each party's rows, also where there is one: fit([rows])"
            )
        if not len(parties):
            raise DataError("no parties are given: give a list with each party's rows")
        tables = [
            check_fit_table(
                self, rows, row_norm=None, allow_constant=True, few_rows=True, schema=self.schema
            )
            for rows in parties
        ]
        self._form = RowForm.of(parties[0], self.schema)
        if len(self.schema.attributes) < 2:
            raise SettingError("the schema has one attribute: a network needs two or more")
        for table in tables:
            self.schema_ = resolve_schema(
                self.schema, None, table.shape[1], max_rows_per_person=self.max_rows_per_person
            )
        self._domain = Domain.of(self.schema_, n_bins=self.n_bins)
        warn_of_copies(self)
        return [self._domain.encode(table) for table in tables]

    def _keep(
        self,
        network: Network,
        codes: Sequence[Codes],
        *,
        epsilon: Decimal,
        entropy: EntropySource,
        before: tuple[Calibration, ...] = (),
        split: str,
    ) -> None:
        """Release the network's tables; store network, tables and guarantee.

        ``epsilon`` is for the tables; ``before`` is the noise drawn for the structure.
        """
        sizes, total = self._domain.sizes, parse_epsilon(self.epsilon)
        k = check_rows_per_person(self.schema_.max_rows_per_person)
        tables = release_counts(
            codes,
            maximal_sets([family.members for family in network.families]),
            sizes,
            epsilon=epsilon,
            max_rows_per_person=k,
            entropy=entropy,
        )
        self.network_ = network
        self.model_ = fit_tables(network, sizes, tables.marginal)
        self.guarantee_ = Guarantee(
            method=self.method,
            source=self.source,
            variant=Variant.SOUND,
            label=choose_label(self.entropy),
            private="network_, model_, sample",
            not_private=describe_repeatability(self.entropy).removeprefix("; "),
            epsilon=total,
            delta=Decimal(0),
            relation=Relation.REPLACE_ONE,
            max_rows_per_person=k,
            sensitivity=float(tables.calibration.sensitivity.l1),
            sensitivity_of=f"L1, counts of the {len(tables.tables)} tables of the network",
            split=split,
            charge=PrivacyCost(epsilon=total, rho=Decimal(0)),
            noise=(*before, tables.calibration),
        )


def split_epsilon(epsilon: Decimal, **shares: object) -> list[Decimal]:
    """Split epsilon by named shares; return the parts and the rest, exact decimals of sum epsilon.

    Raise `SettingError` if a share is not between 0 and 1 or no rest is left.
    """
    parts = []
    for name, share in shares.items():
        check_share(name, share)
        parts.append(_EXACT.multiply(epsilon, Decimal(str(share))))
    rest = epsilon
    for part in parts:
        rest = _EXACT.subtract(rest, part)
    if rest <= 0:
        raise SettingError(f"{' and '.join(shares)} leave no epsilon for the tables")
    return [*parts, rest]


def most_cells(
    n_rows: int, n_tables: int, *, epsilon: Decimal, theta: float, n_parties: int = 1
) -> int:
    """Largest number of cells of a table, equation (1), rounded down."""
    return floor(n_rows * float(epsilon) / (2 * n_tables * theta * sqrt(n_parties)))


def describe_parts(**parts: Decimal) -> str:
    """Return the parts of epsilon with their names as text."""
    return ", ".join(
        f"{decimal_text(part)} {name.replace('_', ' ')}" for name, part in parts.items()
    )
