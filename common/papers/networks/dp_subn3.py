"""DP-SUBN3: several parties build one Bayesian network, one after the other.

Each party holds rows of the same attributes and trusts no other with them; a curator adds up the
parties' releases. Every release is private by itself, with

    epsilon = epsilon_1 + epsilon_2 + epsilon_3                                                 (1)

1. *Correlations.* Blocks cover each pair of attributes once
   (`dppca.common.papers.networks.covering`). Every party counts its rows in the blocks and adds
   noise: B tables, L1 sensitivity 2 B, epsilon_1. The curator adds the tables up and correlates
   every pair.
2. *First network and search frontier*, by the curator (`dppca.common.papers.networks.frontier`):
   free of cost, because it uses only 1.
3. *Updates.* The parties take turns. Each receives the network of the one before. For every
   attribute with two or more candidates in the frontier, C attributes in all, it chooses the
   parents again by the exponential mechanism, with the score of its own rows and
   ``epsilon_2 / C`` a choice (`dppca.common.papers.networks.dependence` proves the sensitivity,
   `dppca.common.papers.base.exponential` draws).
4. *Tables.* Every party counts its rows in the families of the last network and adds noise: S
   tables, L1 sensitivity 2 S, epsilon_3. A family contained in another has no table of its own. The
   curator adds the tables up, makes conditional tables of them and draws rows.

By sequential composition 1., 3. and 4. cost one party's rows (1), independently of the other
parties, because later steps depend on earlier ones through released values only. Rows of different
parties belong to different people.

*Published and ours.* The four steps, their order, the covering, the frontier and the exponential
mechanism are the paper's, by its abstract and by Gu and others (2022), who compare with it. We
could not read, and chose: the design of blocks, correlations, the construction of network and
frontier (each module says so), one turn of a party through all attributes, the score, the size of
tables, and the shares of epsilon: 0.3 for correlations, 0.1 for updates. The score is R of
PrivBayes and not mutual information: it is an integer, so the choice is exact. Tables are over the
schema's values, not over binary codes of them.

Limits: the number of rows of each party is public.

Source: Cheng, Tang, Su, Chen, Wu and Zhu (2020), "Multi-Party High-Dimensional Data Publishing
under Differential Privacy", IEEE TKDE 32(8).
"""

from collections.abc import Sequence
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
from dppca.common.papers.networks.covering import Design, choose_design
from dppca.common.papers.networks.dependence import dependence_sensitivity, family_scores
from dppca.common.papers.networks.fitting import (
    NetworkEstimator,
    describe_parts,
    most_cells,
    split_epsilon,
)
from dppca.common.papers.networks.frontier import (
    Matrix,
    correlate_pairs,
    first_network,
    search_frontier,
)
from dppca.common.papers.networks.network import Family, Network
from dppca.common.papers.networks.noised_counts import Attributes, Codes, release_counts

Frontier = tuple[tuple[Attributes, ...], ...]


@dataclass(kw_only=True, eq=False, repr=False)
class DPSUBN3(NetworkEstimator):
    """DP-SUBN3, all parties and the curator in one process.

    Parameters
    ----------
    epsilon, schema, max_rows_per_person, n_bins, theta, entropy, random_state
        As in `NetworkEstimator`; epsilon has no default.
    correlation_share, update_share
        Shares of epsilon: for step 1 and step 3; step 4 has the rest.
    reach
        Number of attributes in a frontier beyond the number of parents.

    Attributes
    ----------
    design_
        Blocks of the covering, B tuples of attributes' indices.
    correlations_
        Pooled correlations of pairs, (d, d).
    frontier_
        Candidates for each attribute's parents, in the order of the families.
    updates_
        The curator's first network, then the network after each party's turn.
    """

    method: ClassVar[str] = "DP-SUBN3"
    source: ClassVar[str] = "Cheng et al. 2020"

    correlation_share: float = 0.3
    update_share: float = 0.1
    reach: int = 1

    def fit(self, parties: Sequence[Any]) -> Self:
        """Fit to a list of each party's rows, (n_i, n_attributes) each: arrays or frames.

        Raise `SettingError`, `DataError` or `RangeError` if a setting, a row or the size of the
        integers is not allowed; the message says what to change.
        """
        first, second, third = split_epsilon(
            parse_epsilon(self.epsilon),
            correlation_share=self.correlation_share,
            update_share=self.update_share,
        )
        theta, reach = check_positive("theta", self.theta), check_positive_int("reach", self.reach)
        codes = self._encode(parties)
        k = check_rows_per_person(self.schema_.max_rows_per_person)
        source, sizes = make_entropy(self.entropy), self._domain.sizes
        n_rows, m = sum(map(len, codes)), len(codes)
        limit = most_cells(n_rows, len(sizes), epsilon=third, theta=theta, n_parties=m)

        self.design_: Design = choose_design(sizes)
        pairs = release_counts(
            codes, self.design_, sizes, epsilon=first, max_rows_per_person=k, entropy=source
        )
        self.correlations_: Matrix = correlate_pairs(pairs, sizes)
        network = first_network(self.correlations_, sizes, most_cells=limit)
        self.frontier_: Frontier = search_frontier(
            network, self.correlations_, sizes, most_cells=limit, reach=reach
        )
        self.updates_: list[Network] = [network]
        for own in codes:
            network = _update(
                network,
                self.frontier_,
                own,
                sizes,
                epsilon=second,
                max_rows_per_person=k,
                entropy=source,
            )
            self.updates_.append(network)
        self._keep(
            network,
            codes,
            epsilon=third,
            entropy=source,
            before=(pairs.calibration,),
            split="each party spends it on its own rows, no person has rows at two: "
            + describe_parts(correlations=first, updates=second, tables=third),
        )
        return self


def _update(
    network: Network,
    frontier: Frontier,
    codes: Codes,
    sizes: tuple[int, ...],
    *,
    epsilon: Decimal,
    max_rows_per_person: int,
    entropy: EntropySource,
) -> Network:
    """Return a network with parents chosen again by one party's rows, for epsilon in all."""
    n_choices = sum(len(candidates) > 1 for candidates in frontier)
    families = []
    for family, candidates in zip(network.families, frontier, strict=True):
        parents = candidates[0]
        if len(candidates) > 1:
            scale = choice_scale(
                dependence_sensitivity(len(codes), child_sizes=[sizes[family.child]]),
                epsilon=Fraction(epsilon) / n_choices,
                max_rows_per_person=max_rows_per_person,
            )
            scores = family_scores(codes, [(family.child, each) for each in candidates], sizes)
            parents = candidates[choose(scores, scale=scale, entropy=entropy)]
        families.append(Family(family.child, parents))
    return Network(tuple(families))
