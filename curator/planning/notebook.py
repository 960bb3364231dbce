"""Plan of a study from Python: the same forecast as ``dppca-curator plan``."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from dppca.common.kernel.documents.amounts import parse_positive
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.study import Study
from dppca.curator.planning.assumptions import given_eigenvalues, power_law
from dppca.curator.planning.plan import GRID, StudyPlan, make_plan


def plan(
    study: Study,
    *,
    rows: int | Mapping[str, int],
    eigenvalues: Sequence[float] | None = None,
    epsilons: Sequence[object] = GRID,
    delta: object = None,
    targets: Sequence[str] = (),
) -> StudyPlan:
    """Forecast a study from public numbers: its utility under noise, and its needs.

    No row is read and nothing is charged. Notebooks show the forecasts as a table.

    Parameters
    ----------
    rows
        Expected rows of each owner: one number, or one for each by name.
    eigenvalues
        Assumed eigenvalues of the joint covariance, coded units, such as
        `dppca.Components.eigenvalues` above the noise edge of an earlier study. None assumes the
        best that the schema allows, in proportion to 1/i: then "cannot work" is certain, and
        "works" is not.
    epsilons
        Epsilons besides the study's own; numbers or text, taken as they are written.
    delta
        Delta for Gaussian noise if the study gives none; None then leaves Gaussian noise out.
    targets
        Attributes whose products may weigh more, to compare.

    Returns
    -------
    StudyPlan
        ``requested`` is the forecast of the study as it stands, ``needs`` the smallest sufficient
        epsilon, rows and owners.

    Raises
    ------
    SettingError
        A value that is no number, rows of no owner, or eigenvalues that the schema does not allow.
    TooManyRowsError
        More rows of an owner than its part of the study's ``max_rows``.

    Examples
    --------
    >>> from dppca import plan, study_from_yaml
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
    >>> plan(study, rows=5000, epsilons=[]).requested.verdict.value
    'works'
    >>> plan(study, rows={"north": 3, "south": 4}, epsilons=[]).requested.verdict.value
    'cannot work'
    """
    if not isinstance(study, Study):
        raise SettingError("study is a dppca.Study: read one from its file with study_from_yaml")
    layout = study.table.layout
    assumption = (
        power_law(layout, 1.0, 1.0)
        if eigenvalues is None
        else given_eigenvalues(layout, eigenvalues, "eigenvalues")
    )
    return make_plan(
        study,
        dict.fromkeys(study.owners, rows) if isinstance(rows, int) else rows,
        assumption,
        delta=None if delta is None else _positive("delta", delta),
        targets=targets,
        grid=[_positive("epsilon", each) for each in epsilons],
    )


def _positive(name: str, value: object) -> Decimal:
    try:
        return parse_positive(value)
    except ValueError as error:
        raise SettingError(f"{name} is {value}, which {error}") from error
