"""The components of a study for Python: a verified result file as a value.

A result file names no columns: its receipt holds the study, and the study's schema names them. So
files of every version have names, and the signed arrays are unchanged
(docs/explanation/showing-results.md, 137).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.estimates.components import find_mixtures
from dppca.common.analysis.loadings import (
    MOST_LOADINGS,
    KeptComponent,
    Loading,
    Mixtures,
    largest_loadings,
    mixture_text,
)
from dppca.common.analysis.nothing_found import nothing_found
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.results import Published, Result
from dppca.common.kernel.attestation.signatures import UNVOUCHED, UNVOUCHED_WHY, VouchingAuthority
from dppca.common.kernel.attestation.verify import verify_result_file
from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.documents.tables import html_table, html_text
from dppca.common.kernel.errors import ArtefactError
from dppca.common.kernel.identity.revoked import RevocationList
from dppca.common.kernel.study import Study
from dppca.common.shell.packages import require_package
from dppca.common.shell.study_words import released_number
from dppca.common.verification.files import UnvouchedWarning

if TYPE_CHECKING:
    import pandas as pd

    from dppca.common.kernel.schema.frames import FrameMapping


@dataclass(frozen=True, slots=True)
class Components:
    """Joint components of a study, named as in scikit-learn's PCA; p coded columns, k kept.

    Nothing is fitted here: a study did that. `read` and `dppca.read_result` make one of a file.

    Attributes
    ----------
    components_
        float64, shape (k, p): rows are components, of length 1.
    explained_variance_
        float64, shape (k,), descending, squared coded units; noise is part of it.
    mean_
        float64, shape (p,), coded units; None for unit-ball rows without sums.
    feature_names_in_
        Names of the p columns of `components_`, an array of str; a category's indicator is called
        ``attribute=category``.
    eigenvalues
        float64, shape (p,), descending: the kept ones, and the others.
    noise_edge
        What noise alone reaches, in the units of the eigenvalues.
    n_rows
        Rows of all owners that took part.
    study
        What was asked for, with the schema that codes rows.
    receipt
        What the curator signed; None in a simulation, which signs nothing.
    released
        Study and result, for `dppca.estimates`.
    vouched_by
        Authority that certified all parties; None where none was given: then nobody vouches.
    """

    components_: NDArray[np.float64]
    explained_variance_: NDArray[np.float64]
    mean_: NDArray[np.float64] | None
    feature_names_in_: NDArray[np.object_]
    eigenvalues: NDArray[np.float64]
    noise_edge: float
    n_rows: int
    study: Study
    receipt: Mapping[str, Any] | None
    released: Published = field(repr=False)
    vouched_by: VouchingAuthority | None = None

    @classmethod
    def read(
        cls,
        path: Path | str,
        *,
        ca: bytes | None = None,
        revoked: RevocationList | None = None,
        study: Study | None = None,
    ) -> Components:
        """Read the result file of a study; everything is as in `dppca.read_result`."""
        return _read(path, KnownParties(ca, revoked=revoked), study)

    @property
    def n_components_(self) -> int:
        """Number of kept components, k."""
        return len(self.components_)

    @property
    def n_features_in_(self) -> int:
        """Number of coded columns, p."""
        return len(self.feature_names_in_)

    @property
    def explained_variance_ratio_(self) -> NDArray[np.float64]:
        """Explained variance as a share of the sum of the positive eigenvalues, shape (k,)."""
        whole = float(np.maximum(self.eigenvalues, 0).sum())
        return self.explained_variance_ / whole if whole else np.zeros(self.n_components_)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """`feature_names_in_` as a tuple, the attribute's name in 0.1.0."""
        return tuple(self.feature_names_in_)

    def transform(self, frame: Any, *, mapping: FrameMapping | None = None) -> NDArray[np.float64]:
        """Return the scores of rows in the components: float64, shape (n_rows, k).

        As in scikit-learn's PCA, coded rows minus `mean_` (nothing if it is None), times the
        transposed `components_`. Arguments, errors and warnings are as for `dppca.encode`. Scores
        are exactly as private as the rows.
        """
        from dppca.common.kernel.schema.frames import encode

        rows = encode(frame, self.study.table, mapping=mapping)
        centred = rows if self.mean_ is None else rows - self.mean_
        scores: NDArray[np.float64] = centred @ self.components_.T
        return scores

    def largest_loadings(self, most: int = MOST_LOADINGS) -> tuple[tuple[Loading, ...], ...]:
        """Return the largest loadings of each component by magnitude, descending."""
        return largest_loadings(self.study.table, self.components_, most=most)

    @property
    def mixed(self) -> Mixtures:
        """For each component the numbers of those that it cannot be told apart from; else none.

        Any mixture of these is as good, so that their loadings say nothing.
        """
        return find_mixtures(self.released)

    def to_frame(self) -> pd.DataFrame:
        """Loadings, shape (p, k): one row for each column, named; ``component 1`` is the first.

        Raise `SettingError` if pandas is not installed.
        """
        require_package("pandas", purpose="to_frame")
        import pandas as pd

        names = [f"component {number + 1}" for number in range(self.n_components_)]
        index = pd.Index(self.feature_names_in_, name="column")
        return pd.DataFrame(self.components_.T, index=index, columns=names)

    def __repr__(self) -> str:
        """Description in a few lines for people."""
        most = 8
        lines = [
            f"  {number}: {variance}, above noise: {above}; {loadings}"
            for number, variance, above, loadings in self._rows[:most]
        ]
        left = len(self._rows) - most
        more = [f"  and {left} more"] if left > 0 else []
        return "\n".join([*self.alarm, self._title, *lines, *more])

    def _repr_html_(self) -> str:
        """Table of the components with their largest loadings, for notebooks."""
        head = ("component", "variance", "above noise", "largest loadings")
        alarm = "".join(f"<p><strong>{html_text(line)}</strong></p>" for line in self.alarm)
        return alarm + html_table(head, self._rows, caption=self._title)

    @property
    def alarm(self) -> list[str]:
        """What is said first where all components may be noise; else nothing."""
        spent = None if self.receipt is None else self.receipt["guarantee"]["epsilon"]
        nothing = nothing_found(self.eigenvalues.tolist(), self.noise_edge, spent)
        return [] if nothing is None else [nothing]

    @property
    def _title(self) -> str:
        title = (
            f"{self.study.name}: {many(self.n_components_, 'components')} of "
            f"{self.n_features_in_}, from {released_number(self.study, self.n_rows)}"
        )
        if self.receipt is None:
            return title
        if self.vouched_by is None:
            return f"{UNVOUCHED}: {title}"
        return f"{title}; all parties were certified by {one_line(str(self.vouched_by))}"

    @property
    def _rows(self) -> list[tuple[str, str, str, str]]:
        return [
            (
                str(number),
                f"{variance:.4g}",
                "yes" if variance > self.noise_edge else "no",
                ", ".join(f"{each.loading:+.2f} {each.name}" for each in loadings)
                if variance > self.noise_edge and not mixed
                else mixture_text(mixed)
                if variance > self.noise_edge
                else "noise alone can make it",
            )
            for number, (variance, loadings, mixed) in enumerate(
                zip(self.explained_variance_, self.largest_loadings(), self.mixed, strict=True),
                start=1,
            )
        ]


def read_result(
    path: Path | str,
    *,
    ca: bytes | None = None,
    revoked: RevocationList | None = None,
    study: Study | None = None,
) -> Components:
    """Read the result file of a study, and check every signature, digest and claim in it.

    Parameters
    ----------
    ca
        PEM of the authority that certified the parties. Without it the certificates in the file are
        accepted; this shows that the file is complete and unaltered but not who made it: a warning
        (`UnvouchedWarning`) says so, and the printed result too.
    revoked
        The authority's revocation list.
    study
        The study to which the file must belong.

    Raises
    ------
    ArtefactError
        The file cannot be read, is no result, or belongs to another study.
    ReceiptError, SignatureError, AlteredError
        A check fails; the message names the part at fault.
    """
    return _read(path, KnownParties(ca, revoked=revoked), study)


def _read(path: Path | str, parties: KnownParties, study: Study | None) -> Components:
    try:
        checked, result, _ = verify_result_file(Path(path), parties)
    except OSError as error:
        raise ArtefactError(f"{path} cannot be read: {error.strerror or error}") from error
    except ArtefactError as error:
        raise ArtefactError(f"{path}: {error}") from error
    if study is not None and study.digest != checked.study.digest:
        raise ArtefactError("the result belongs to another study")
    authority = parties.authority()
    if authority is None:
        warnings.warn(f"{path}: {UNVOUCHED}: {UNVOUCHED_WHY} ca=", UnvouchedWarning, stacklevel=3)
    found = make_components(result, checked.study, checked.document)
    return replace(found, vouched_by=authority)


def nothing_in(result: Result) -> str | None:
    """Return what is said first of a result where all components may be noise; else None."""
    header = result.header
    return nothing_found(result.eigenvalues.tolist(), header.noise_edge, header.epsilon)


def kept_components(result: Result, study: Study) -> tuple[KeptComponent, ...]:
    """Return the kept components of a result with their largest loadings."""
    loadings = largest_loadings(study.table, result.vectors)
    whole = float(np.maximum(result.eigenvalues, 0).sum())
    return tuple(
        KeptComponent(
            float(value),
            float(value) / whole if whole else 0.0,
            bool(value > result.header.noise_edge),
            each,
            mixed,
        )
        for value, each, mixed in zip(
            result.eigenvalues, loadings, find_mixtures(Published(study, result)), strict=False
        )
    )


def make_components(result: Result, study: Study, receipt: Mapping[str, Any] | None) -> Components:
    """Combine a result with the names in its study."""
    return Components(
        components_=result.vectors,
        explained_variance_=result.eigenvalues[: result.header.count],
        mean_=result.mean,
        feature_names_in_=np.array(study.table.column_names, dtype=object),
        eigenvalues=result.eigenvalues,
        noise_edge=result.header.noise_edge,
        n_rows=result.header.n_rows,
        study=study,
        receipt=receipt,
        released=Published(study, result),
    )
