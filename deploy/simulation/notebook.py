"""Simulated study from Python: tables in memory, one process, a result with its own display.

The parties' steps are the real ones, on values in memory (`dppca.deploy.simulation.in_memory`):
coding, exact sums, noise of the operating system, admission, pooling, decomposition, synthetic
rows. Values that only a simulation has are marked in every display: the rows of all owners
are in this process, no ledger is charged, and some figures are computed from real rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dppca.common.analysis.estimates.answers import family_lines
from dppca.common.analysis.estimates.face import estimates
from dppca.common.analysis.estimates.forecast import ForecastWidth, forecast_widths
from dppca.common.analysis.estimates.questions import answer_study
from dppca.common.analysis.estimates.release import released_moments
from dppca.common.analysis.rows.synthesis import SyntheticRows, make_generator, synthesize
from dppca.common.analysis.values import ValueCounts, count_values
from dppca.common.kernel.attestation.results import Published, Result, result_to_bytes
from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.documents.tables import html_table, html_text
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.errors import DataError, PrivacyError, SettingError
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.moments.people import PeopleSums
from dppca.common.kernel.privacy.accounting import PrivacyCost
from dppca.common.kernel.privacy.composition import ComposedGuarantee, Round, compose_guarantee
from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema import Column, Schema, encode
from dppca.common.kernel.schema.frames import (
    FrameMapping,
    find_library,
    read_cells,
    read_frame,
    table_for,
    warn_of_rules,
)
from dppca.common.kernel.schema.units import Unit
from dppca.common.kernel.study import Study
from dppca.common.shell.charts import Chart, loadings_chart, scree_chart
from dppca.common.shell.pictures import biplot_figure
from dppca.common.verification.components import Components, make_components
from dppca.deploy.simulation.aggregation import (
    choose_aggregation,
    choose_refinement,
    describe_refinement,
)
from dppca.deploy.simulation.evaluate import (
    TableUtility,
    Utility,
    captured_variance,
    check_target,
    compare_tables,
    compute_pooled_covariance,
    evaluate,
    judge_real_rows,
)
from dppca.deploy.simulation.experiment import join_columns, with_owners
from dppca.deploy.simulation.figures import marginal_chart
from dppca.deploy.simulation.holdings import HELD_OUT_SHARE, number_people, rows_of
from dppca.deploy.simulation.in_memory import continue_study, make_parties, read_study, run_study
from dppca.deploy.simulation.synthesis import (
    OwnerSynthesis,
    SimulatedSynthesis,
    summarise_synthesis,
)
from dppca.owner.records.check import FaultCounts
from dppca.owner.records.faults import CheckReport, KeyReport, key_line
from dppca.owner.records.keys import count_rows_of_keys
from dppca.owner.records.people import count_people
from dppca.owner.render.faults import alarm_lines
from dppca.owner.synthesis.visible_relations import VisibleRelations, judge_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIMULATED = (
    "A simulation: the rows of all owners were in this process, and no ledger was charged. What is "
    "marked † is made of real rows, and no real study can know it."
)


@dataclass(frozen=True, slots=True)
class SimulatedRelease:
    """Release of one owner from ``n_rows`` rows or people, with its claim of epsilon and delta.

    Where the study keeps that number secret, no real study can know it.

    ``charge`` is what the owner's ledger would be charged; a simulation charges no ledger.
    """

    name: str
    n_rows: int
    epsilon: str
    delta: str
    charge: PrivacyCost


@dataclass(frozen=True, slots=True, repr=False)
class Simulation:
    """A simulated study. Values without † follow from the releases alone.

    Attributes
    ----------
    components
        The joint components, like `dppca.read_result`; without a receipt, as there is no signature.
    owners
        Release of each owner.
    guarantee
        Guarantee of all releases together for one person.
    decoded
        Synthetic rows within the schema, with labels, in the kind of frame that was given; as
        many as were asked for, else as all owners contributed.
    synthesis
        How the synthetic rows were made: whether their field converged, ``summary`` in words. One
        owner's generator, the first by name, draws the rows of all.
    coded
        Synthetic rows in coded units, shape (n_rows, p).
    utility
        † Accuracies on real rows, held out or of a test table; None without a target.
    tables
        † Distances of decoded synthetic rows from the owners' rows in tables of up to three
        attributes, and those of the rows that classifiers are tried on.
    relations
        Relations between attributes that exceed the noise, ``summary`` in words; None if no field
        can be fitted: unit-ball rows, one attribute.
    captured_variance
        † Share of the variance of real rows that the best k directions capture, in [0, 1].
    faults
        † Values of the real rows that coding replaced.
    alarms
        † First messages to each owner about its table.
    target
        Attribute that the classifiers of ``utility`` predict.
    refined
        Second study, which continues the first; None without one. ``decoded``, ``guarantee`` and
        ``released`` are then of both.
    released
        Study and result, for `dppca.estimates`.
    """

    components: Components
    owners: tuple[SimulatedRelease, ...]
    guarantee: ComposedGuarantee
    decoded: Any
    synthesis: SimulatedSynthesis
    coded: NDArray[np.float64]
    utility: Utility | None
    tables: TableUtility
    relations: VisibleRelations | None
    captured_variance: float
    faults: CheckReport
    alarms: tuple[str, ...]
    target: str | None
    refined: Study | None
    released: Published
    _tried_on: str
    _spectrum: NDArray[np.float64]
    _values: tuple[tuple[ValueCounts, ...], tuple[ValueCounts, ...]]

    @property
    def study(self) -> Study:
        """The simulated study, with the owners of the tables."""
        return self.components.study

    @property
    def components_(self) -> NDArray[np.float64]:
        """Components, shape (k, p); see `Components`."""
        return self.components.components_

    @property
    def explained_variance_(self) -> NDArray[np.float64]:
        """Explained variance, shape (k,); see `Components`."""
        return self.components.explained_variance_

    @property
    def mean_(self) -> NDArray[np.float64] | None:
        """Mean, shape (p,); see `Components`."""
        return self.components.mean_

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """Names of the p coded columns; see `Components`."""
        return self.components.feature_names_in_

    @property
    def feature_names(self) -> tuple[str, ...]:
        """`feature_names_in_` as a tuple, the attribute's name in 0.1.0."""
        return self.components.feature_names

    @property
    def widths(self) -> tuple[ForecastWidth, ...]:
        """Half the widths of 95 % intervals that `dppca.estimates` gives of this release."""
        return forecast_widths(released_moments(self.released))

    @property
    def _widths_text(self) -> str:
        found = "; ".join(f"{each.question} {each.text}" for each in self.widths)
        return f"Intervals of 95 % by dppca.estimates: {found}"

    @property
    def _questions(self) -> list[str]:
        """Return answers to the study's questions, a line for each."""
        return family_lines(answer_study(estimates(self.released)))

    def plot_scree(self) -> Chart:
        """Plot the eigenvalues beside the noise edge, and † those without noise."""
        return scree_chart(
            self.components.eigenvalues,
            self.components.noise_edge,
            count=len(self.components_),
            noise_free=self._spectrum,
        )

    def plot_loadings(self) -> Chart:
        """Plot the largest loadings of each component."""
        components = self.components
        return loadings_chart(
            self.study.table,
            components.components_,
            components.eigenvalues,
            components.noise_edge,
            components.mixed,
        )

    def plot_biplot(self) -> Figure:
        """Plot synthetic rows on two components; raise `SettingError` if fewer were kept."""
        components = self.components
        if len(components.components_) < 2:
            raise SettingError("a biplot needs two components, and one was kept")
        rows = [("synthetic rows", self.coded)]
        vectors, mixed = components.components_, components.mixed
        return biplot_figure(self.study.table, vectors, components.mean_, rows, mixed)

    def plot_marginals(self) -> Chart:
        """† Plot every attribute among real rows and synthetic ones."""
        real, synthetic = self._values
        return marginal_chart(self.study.table, real, synthetic)

    def __repr__(self) -> str:
        components, promise = self.components, self.guarantee
        n, counts = components.n_rows, self.study.unit.counts
        n_people = f"{'about ' * self.study.has_secret_rows}{n} {counts}"
        lines = [
            *(f"{line} †" for line in self.alarms),
            f"Simulation of {self.study.name}: {many(len(self.owners), 'owners')}, {n_people}",
            f"  {SIMULATED}",
            f"  to one person, all owners together: epsilon {promise.epsilon}, delta "
            f"{promise.delta}",
            *(f"  {line}" for line in self._questions),
            *(f"  {line}" for line in components.alarm),
            f"  {many(components.n_components_, 'components')} of {components.n_features_in_}; "
            f"they capture {self.captured_variance:.1%} of the variance that the best would †",
        ]
        lines += [f"  {self._widths_text}"] if self.widths else []
        if self.relations is not None:
            lines.append(f"  {self.relations.summary}")
        lines.append(f"  {self.synthesis.summary}")
        if self.refined is not None:
            lines.append(f"  {describe_refinement(self.refined)}")
        if self.utility is not None:
            figures = ", ".join(
                f"{name} {linear}{f' (trees {trees})' if trees else ''}"
                for name, linear, trees in self._accuracies()
            )
            lines.append(f"  accuracy for {self.target} on {self._tried_on} †: {figures}")
            lines.append(f"  {self.utility.verdict} †")
            lines += [f"  † {self.utility.sampled}"] if self.utility.sampled else []
        if self.tables.summary:
            lines.append(f"  † {self.tables.summary}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the charges, the guarantee, the components and the utility as HTML."""
        charges = [(each.name, str(each.n_rows), each.epsilon, each.delta) for each in self.owners]
        counts = f"{self.study.unit.counts}{' †' * self.study.has_secret_rows}"
        head = ("owner", counts, "epsilon", "delta")
        promise = (
            f"To one person, all owners together: epsilon {self.guarantee.epsilon}, delta "
            f"{self.guarantee.delta}. {' '.join(self.guarantee.assumptions)}"
        )
        parts = [
            *(f"<p><strong>{html_text(line)} †</strong></p>" for line in self.alarms),
            f"<p><strong>{html_text(SIMULATED)}</strong></p>",
            html_table(head, charges, caption=f"Simulation of {self.study.name}"),
            f"<p>{html_text(promise)}</p>",
            *(f"<p>{html_text(line)}</p>" for line in self._questions),
            self.components._repr_html_(),
            f"<p>The components capture {self.captured_variance:.1%} of the variance that the best "
            "possible ones would †.</p>",
        ]
        parts += [f"<p>{html_text(self._widths_text)}</p>"] if self.widths else []
        if self.relations is not None:
            parts.append(f"<p>{html_text(self.relations.summary)}</p>")
        said = html_text(self.synthesis.summary)
        lacking = self.synthesis.not_converged or self.synthesis.missed
        parts.append(f"<p><strong>{said}</strong></p>" if lacking else f"<p>{said}</p>")
        if self.refined is not None:
            parts.append(f"<p>{html_text(describe_refinement(self.refined))}</p>")
        if self.utility is not None:
            caption = f"Accuracy for {self.target} on {self._tried_on} †"
            names = ("a classifier, trained on", "linear", "boosted trees")
            parts.append(html_table(names, self._accuracies(), caption=caption))
            parts.append(f"<p>† {html_text(self.utility.verdict)}</p>")
            parts += [f"<p>† {self.utility.sampled}</p>"] if self.utility.sampled else []
        if self.tables.summary:
            parts.append(f"<p>† {html_text(self.tables.summary)}</p>")
        return "".join(parts)

    def _accuracies(self) -> list[tuple[str, str, str]]:
        return [
            (name, f"{linear:.3f}", "" if trees is None else f"{trees:.3f}")
            for name, linear, trees in ([] if self.utility is None else self.utility.accuracies)
        ]


def simulate(
    owners: Mapping[str, Any],
    study: Study | str | Path,
    target: str | None = None,
    *,
    seed: int = 0,
    n_rows: int | None = None,
    test: Any = None,
    refine: str | None = None,
    refine_epsilon: str | float | Decimal | None = None,
    key: str | None = None,
    mappings: Mapping[str, FrameMapping] | None = None,
) -> Simulation:
    """Run a study on tables in memory, to see its results before owners are asked.

    Each table's rows are coded, summed and noised by its owner's code, with fresh noise of the
    operating system; the curator's code pools and decomposes the sums; synthetic rows are drawn
    from the result. No data leave this process, and no ledger is charged.

    Parameters
    ----------
    owners
        A table of each owner, by its name: of pandas, polars or Arrow, or a mapping of names to
        sequences. The names replace the study's owners.
    study
        The study, or its file by text or path. With ``trust: aggregate`` owners get temporary keys,
        and the first are openers; so the file may be a draft, to which no keys have been added.
    target
        A binary or categorical attribute: a fifth of each owner's rows is then held out, and
        classifiers of it are tried on them. None contributes all rows.
    seed
        Selects the held-out rows; noise is never seeded.
    n_rows
        Synthetic rows to draw; None draws as many as all owners contributed.
    test
        A table of rows that no owner has: classifiers are tried on it, and no row is held out.
    refine
        Attribute of a second study that continues this one, of trees that predict it
        (``dppca-curator study refine``); decoded rows are then made of both results.
    refine_epsilon
        What the second study's releases cost, on top; with ``refine`` only. Its delta is the
        study's.
    key
        The column of each table that tells people apart, such as ``person_id``; it need not be in
        the study. The rows of each person are then counted, and all of them are held out or none. A
        study with ``unit: person`` needs it.
    mappings
        How an owner's own columns become the study's attributes, by the owner's name, each from
        `dppca.read_mapping`; ``test`` has the study's.

    Raises
    ------
    SettingError, DataError, StudyError, RangeError
        An argument, a table or a number of the study does not fit; the message says what to change.
    PrivacyError
        One person has more rows in a table than the study's ``max_rows_per_person``.

    Examples
    --------
    >>> from dppca import simulate, study_from_yaml
    >>> study = study_from_yaml('''
    ... name: example
    ... owners: [north, south]
    ... privacy: {mechanism: laplace, epsilon: "1.0"}
    ... components: {count: 1}
    ... schema:
    ...   max_rows_per_person: 1
    ...   attributes:
    ...     - {name: age, type: numeric, lower: 17, upper: 90}
    ...     - {name: smokes, type: binary, values: ["no", "yes"]}
    ... ''')
    >>> rows = {"age": [20, 40, 60, 80] * 500, "smokes": ["no", "no", "yes", "yes"] * 500}
    >>> found = simulate({"north": rows, "south": rows}, study)
    >>> found.components_.shape, found.owners[0].n_rows, found.owners[0].epsilon
    ((1, 2), 2000, '1')
    >>> sorted(set(found.decoded["smokes"]))
    ['no', 'yes']
    """
    if not isinstance(owners, Mapping) or not owners:
        raise SettingError('owners is a table by each name, such as {"north": frame}')
    entropy = OperatingSystemEntropy()
    if isinstance(study, str | Path):
        study = read_study(study, entropy=entropy)
    if not isinstance(study, Study):
        raise SettingError(
            "study is a dppca.Study, or its file by text or pathlib.Path: read one with "
            "study_from_yaml"
        )
    schema = study.table
    cells: dict[str, pa.Array] = {}
    if key is not None:
        for name, frame in owners.items():
            allowed = None if schema.unit is Unit.PERSON else study.max_rows_per_person
            cells[name] = _read_key(name, frame, key, allowed)
    elif schema.unit is Unit.PERSON:
        raise SettingError(
            "the study has unit: person: name the column that tells people apart, such as "
            'key="person_id"'
        )
    if target is not None:
        check_target(schema, target)
    elif test is not None:
        raise SettingError("test is for classifiers that are tried on it: name their target")
    refinement = choose_refinement(study, refine, refine_epsilon)
    if n_rows is not None and (not isinstance(n_rows, (int, np.integer)) or n_rows < 1):
        raise SettingError(f"n_rows is a whole number of synthetic rows, 1 or more, not {n_rows}")
    own_study = with_owners(study, list(owners))
    aggregation = choose_aggregation(study, trust=None, colluders=None, openers=None, spares=None)
    parties = make_parties(own_study, aggregation, entropy=entropy)
    tested = None if test is None else _read(test, schema, "the test table")
    if tested is not None and not len(tested[0]):
        raise DataError("the test table has no rows")
    hold_out = target is not None and test is None
    if unknown := {*(mappings or {})} - {*owners}:
        raise SettingError(f"mappings names no table: {', '.join(sorted(unknown))}")
    read = {
        name: _read(frame, schema, f"the table of {name}", (mappings or {}).get(name))
        for name, frame in owners.items()
    }
    training, split = _divide(read, cells, hold_out=hold_out, seed=seed)
    held_out = split if tested is None else tested
    sums = {name: _sum_rows(name, schema, rows, cells) for name, rows in training.items()}
    result, request = run_study(parties, sums, entropy=entropy, now=utc_now())
    study, charge = parties.study, request.price.charge
    rounds = [Round(study, calibrate(study))]
    last = result
    if refinement is not None:
        further = continue_study(parties, result, refinement, entropy=entropy)
        counts = {
            name: _sum_rows(name, further.study.table, rows, cells)
            for name, rows in training.items()
        }
        last, more = run_study(
            further, counts, entropy=entropy, now=utc_now(), first=Published(study, result)
        )
        charge += more.price.charge
        rounds.append(Round(further.study, calibrate(further.study)))
    pooled = join_columns(list(training.values()))
    # On another core: machines of real rows while synthetic ones are drawn, then the tables.
    with ThreadPoolExecutor(1) as beside:
        judged = (
            None
            if target is None
            else beside.submit(judge_real_rows, schema, target, training=pooled, held_out=held_out)
        )
        drawn = {
            Form.CODED: draw_rows(result, study, Form.CODED, n_rows=n_rows),
            Form.DECODED: draw_rows(last, rounds[-1].study, Form.DECODED, n_rows=n_rows),
        }
        tables = {form: make_table(rows) for form, rows in drawn.items()}
        coded = np.column_stack(
            [np.asarray(tables[Form.CODED][name]) for name in schema.column_names]
        )
        real = encode(schema, pooled)
        covariance = compute_pooled_covariance(schema, real)
        tally = FaultCounts(schema)
        tally.add(pooled)
        decoded = read_frame(tables[Form.DECODED], schema)
        compared = beside.submit(
            compare_tables, schema, training=pooled, held_out=held_out, decoded=decoded
        )
        utility = (
            None
            if target is None or judged is None
            else evaluate(
                schema,
                target,
                training=pooled,
                held_out=held_out,
                coded=coded,
                decoded=decoded,
                released_mean=result.mean,
                real=judged.result(),
            )
        )
    claimed, own = rounds[0].calibration, rounds[-1]
    return Simulation(
        components=make_components(result, study, None),
        owners=tuple(
            SimulatedRelease(
                name,
                sums[name].n_rows,
                decimal_text(claimed.epsilon),
                decimal_text(claimed.delta),
                charge,
            )
            for name in owners
        ),
        guarantee=compose_guarantee(
            own.study, own.calibration, first=rounds[0] if len(rounds) > 1 else None
        ),
        refined=rounds[1].study if len(rounds) > 1 else None,
        released=Published(rounds[-1].study, last),
        decoded=table_for(find_library(next(iter(owners.values()))), tables[Form.DECODED]),
        synthesis=_summarise(result.header.shares[0].owner, drawn[Form.DECODED]),
        coded=coded,
        utility=utility,
        tables=compared.result(),
        relations=judge_result(result, study),
        captured_variance=captured_variance(covariance, result.vectors),
        faults=tally.report(),
        alarms=tuple(
            f"{name}: {line}"
            for name, rows in {
                **training,
                **({} if tested is None else {"test table": tested}),
            }.items()
            for line in _alarms(schema, rows)
        ),
        target=target,
        _tried_on="held-out real rows" if tested is None else "the rows of the test table",
        _spectrum=np.asarray(np.linalg.eigvalsh(covariance)[::-1], np.float64),
        _values=(count_values(schema, pooled), count_values(schema, decoded)),
    )


def _alarms(schema: Schema, rows: list[Column]) -> list[str]:
    tally = FaultCounts(schema)
    tally.add(rows)
    return alarm_lines(tally.report())


def _read(
    frame: Any, schema: Schema, name: str, mapping: FrameMapping | None = None
) -> list[Column]:
    try:
        columns = read_frame(frame, schema, mapping)
    except DataError as error:
        raise DataError(f"{name}: {error}") from error
    warn_of_rules(schema, columns, name, stacklevel=4)
    return columns


def _read_key(name: str, frame: Any, key: str, allowed: int | None) -> pa.Array:
    """Return the key's cells; refuse more rows of a person than ``allowed``, None for any number.

    Raise `PrivacyError` for that, `DataError` where a site would refuse the column.
    """
    table = f"the table of {name}"
    try:
        cells = read_cells(frame, key)
        if allowed is None:
            count_people([cells], title=table, key=key)
            return cells
        found = KeyReport(key, allowed, *count_rows_of_keys([cells]))
    except DataError as error:
        said = str(error)
        raise DataError(said if table in said else f"{table}: {said}") from error
    if not found.is_kept:
        raise PrivacyError(f"{table}: {key_line(found)}")
    return cells


def _sum_rows(
    name: str, schema: Schema, rows: list[Column], cells: Mapping[str, pa.Array]
) -> Moments:
    """Exact sums over an owner's rows or, with ``unit: person``, over its people."""
    if schema.unit is not Unit.PERSON:
        return accumulate_moments(schema, rows)
    people = number_people(cells[name])
    k = np.bincount(people)
    sums = PeopleSums(schema)
    sums.add(rows, k[people])
    ks, counts = np.unique(k[k > 0], return_counts=True)
    return sums.total(dict(zip(ks.tolist(), counts.tolist(), strict=True)))


def _divide(
    owners: Mapping[str, list[Column]],
    cells: dict[str, pa.Array],
    *,
    hold_out: bool,
    seed: int,
) -> tuple[dict[str, list[Column]], list[Column]]:
    """Divide each owner's rows, by person where there are keys; ``cells`` of training rows stay."""
    rng = np.random.default_rng(seed)
    training: dict[str, list[Column]] = {}
    kept_back: list[list[Column]] = []
    for name, columns in owners.items():
        people = number_people(cells[name]) if name in cells else np.arange(len(columns[0]))
        order = rng.permutation(int(people.max(initial=-1)) + 1)
        n_held_out = round(HELD_OUT_SHARE * len(order)) if hold_out else 0
        if len(order) - n_held_out < 1 or (hold_out and n_held_out < 1):
            counts = "people" if name in cells else "rows"
            least = f"3 {counts}, one of which is held out" if hold_out else "a row"
            raise DataError(f"the table of {name} has {len(order)} {counts}; it needs {least}")
        kept, others = rows_of(order[n_held_out:], people), rows_of(order[:n_held_out], people)
        training[name] = [column[kept] for column in columns]
        kept_back.append([column[others] for column in columns])
        if name in cells:
            cells[name] = cells[name].take(pa.array(kept))
    return training, join_columns(kept_back)


def draw_rows(
    result: Result, study: Study, form: Form, *, n_rows: int | None = None
) -> SyntheticRows:
    """Draw synthetic rows, by default as many as all owners contributed.

    The generator is the first owner's.
    """
    n_rows = result.header.n_rows if n_rows is None else int(n_rows)
    digest = hashlib.sha256(result_to_bytes(result)).digest()
    rng = make_generator(result.header.shares[0].owner, digest, n_rows)
    return synthesize(result, study, form, n_rows=n_rows, rng=rng)


def make_table(rows: SyntheticRows) -> pa.Table:
    """Draw all rows into one table."""
    return pa.Table.from_batches(rows.batches(), schema=rows.fields)


def _summarise(owner: str, decoded: SyntheticRows) -> SimulatedSynthesis:
    assert decoded.method is not None  # noqa: S101 - decoded rows have one
    drawn = OwnerSynthesis(decoded.n_rows, decoded.method, decoded.misfit, decoded.missed)
    return summarise_synthesis({owner: drawn})
