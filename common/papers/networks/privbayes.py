"""PrivBayes: a Bayesian network of one table, with noise.

    epsilon = epsilon_1 + epsilon_2,        epsilon_1 = beta epsilon                            (1)

1. *Structure.* The first attribute is drawn at random. Then, d - 1 times, the exponential mechanism
   chooses an attribute and its parents among the placed ones together, with ``epsilon_1 / (d - 1)``
   a choice and the score R (`dppca.common.papers.networks.dependence`, which proves its
   sensitivity). Candidates are all largest sets of at most ``most_parents`` parents whose family's
   table is small enough (`dppca.common.papers.networks.fitting`, theta).
2. *Tables.* The families are counted and noised: S tables, L1 sensitivity 2 S, epsilon_2. A family
   contained in another has no table of its own.

By sequential composition (1) is the cost for one table's rows. Rows are drawn from the network.

*Published and ours.* beta = 0.3, theta = 4 and the neighbours are the paper's: one row is replaced.
Attributes stay as in the schema, the paper's vanilla encoding, and are not generalised along
taxonomies. The paper bounds parents by theta alone; ``most_parents`` bounds the work. Laplace noise
is the discrete one on counts, and choices are exact.

Limits: a curator sees the rows, or one party is alone. The number of rows is public.

Source: Zhang, Cormode, Procopiuc, Srivastava and Xiao (2017), "PrivBayes: Private Data Release via
Bayesian Networks", ACM TODS 42(4), algorithms 1 to 4.
"""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Self

from dppca.common.analysis.estimators.base.settings import (
    check_positive,
    check_positive_int,
    check_rows_per_person,
    make_entropy,
    parse_epsilon,
)
from dppca.common.kernel.privacy.noise.entropy import EntropySource
from dppca.common.papers.base.exponential import choice_scale, choose
from dppca.common.papers.base.randomized_response import draw_below
from dppca.common.papers.networks.dependence import dependence_sensitivity, family_scores
from dppca.common.papers.networks.fitting import (
    NetworkEstimator,
    describe_parts,
    most_cells,
    split_epsilon,
)
from dppca.common.papers.networks.frontier import largest_sets
from dppca.common.papers.networks.network import Family, Network
from dppca.common.papers.networks.noised_counts import Codes


@dataclass(kw_only=True, eq=False, repr=False)
class PrivBayes(NetworkEstimator):
    """PrivBayes on one table.

    Parameters
    ----------
    epsilon, schema, max_rows_per_person, n_bins, theta, entropy, random_state
        As in `NetworkEstimator`; epsilon has no default.
    structure_share
        beta: the share of epsilon for the structure.
    most_parents
        Largest number of parents of one attribute.
    """

    method: ClassVar[str] = "PrivBayes"
    source: ClassVar[str] = "Zhang et al. 2017"

    structure_share: float = 0.3
    most_parents: int = 5

    def fit(self, X: Any) -> Self:
        """Fit to rows (n_rows, n_attributes): an array or a frame.

        Raise `SettingError`, `DataError` or `RangeError` if a setting, a row or the size of the
        integers is not allowed; the message says what to change.
        """
        first, second = split_epsilon(
            parse_epsilon(self.epsilon), structure_share=self.structure_share
        )
        theta = check_positive("theta", self.theta)
        most_parents = check_positive_int("most_parents", self.most_parents)
        (codes,) = self._encode([X])
        k = check_rows_per_person(self.schema_.max_rows_per_person)
        source, sizes = make_entropy(self.entropy), self._domain.sizes
        network = _grow(
            codes,
            sizes,
            limit=most_cells(len(codes), len(sizes), epsilon=second, theta=theta),
            most_parents=most_parents,
            epsilon=first,
            max_rows_per_person=k,
            entropy=source,
        )
        split = describe_parts(structure=first, tables=second)
        self._keep(network, [codes], epsilon=second, entropy=source, split=split)
        return self


def _grow(
    codes: Codes,
    sizes: tuple[int, ...],
    *,
    limit: int,
    most_parents: int,
    epsilon: Decimal,
    max_rows_per_person: int,
    entropy: EntropySource,
) -> Network:
    """Choose the structure, step 1, for epsilon in all."""
    d = len(sizes)
    scale = choice_scale(
        dependence_sensitivity(len(codes), child_sizes=sizes),
        epsilon=Fraction(epsilon) / (d - 1),
        max_rows_per_person=max_rows_per_person,
    )
    families = [Family(int(draw_below(d, 1, entropy)[0]), ())]
    while len(families) < d:
        placed = sorted(family.child for family in families)
        candidates = [
            (child, parents)
            for child in range(d)
            if child not in placed
            for parents in largest_sets(
                placed, sizes, most_cells=limit // sizes[child], most_members=most_parents
            )
        ]
        scores = family_scores(codes, candidates, sizes)
        families.append(Family(*candidates[choose(scores, scale=scale, entropy=entropy)]))
    return Network(tuple(families))
