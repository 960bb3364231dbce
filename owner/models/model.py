"""Classifier of a site, with everything that its use on rows of its schema needs.

A `site-only` model is computed from raw rows without noise, and an RBF machine holds support
vectors, which are such rows; there is no way to publish one. The content of a `released` model is
public once it leaves: components, noised weights, public settings, the number of rows, and a
receipt. Nothing else that is computed from rows may ever be added to it: no accuracy on them, no
count of missing targets, no report of the solver.

Limits: the receipt is only as reliable as the person who gives it. The weights are compared with
the receipt; a check that their noise was drawn is impossible.
"""

from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.estimators.base.classifier import Classifier
from dppca.common.kernel.attestation.envelopes import SignedFile, write_signed
from dppca.common.kernel.errors import ArtefactError
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.schema import Binary, Categorical, Column, Schema
from dppca.common.verification.model_archives import KIND, VERSION, ModelArchive, pack_archive
from dppca.common.verification.weights import WeightReceipt
from dppca.owner.models.estimators import KINDS, describe_settings
from dppca.owner.models.features import FeatureSpace, find_target


@dataclass(frozen=True, slots=True)
class Fit:
    """Figures of the training of a model that stays; they are site-only.

    ``n_unlabelled`` rows were left out because their target is missing or unknown; ``converged`` is
    False if the solver stopped at its limit of iterations. ``majority`` is the share of the rows
    with the commonest label.
    """

    n_rows: int
    n_unlabelled: int
    training_accuracy: float
    converged: bool
    majority: float


@dataclass(frozen=True, slots=True)
class Model:
    """Fitted estimator and its features.

    ``target`` is binary or categorical; rows are projected on ``space``, the study's components. A
    model that stays has the figures of its training, ``fit``; one that may leave has a ``receipt``
    and the name of the ``owner`` that made it (0.1.0 wrote none). ``mapping_sha256`` is the digest
    of the site's mapping of its features, of a model that stays; empty without one.
    """

    study_digest: str
    schema: Schema
    target: str
    method: str
    kernel: str
    estimator: Classifier
    label: Label
    space: FeatureSpace
    fit: Fit | None = None
    receipt: WeightReceipt | None = None
    owner: str | None = None
    mapping_sha256: str = ""

    @property
    def n_components(self) -> int:
        """Number of components, k."""
        return len(self.space.components)

    @property
    def target_attribute(self) -> Binary | Categorical:
        """Attribute that is predicted."""
        return find_target(self.schema, self.target)

    def classify(self, columns: list[Column]) -> NDArray[np.int64]:
        """Return codes of the predicted labels of rows, shape (n_rows,)."""
        scores = self.space.project(self.schema, columns)
        return self.estimator.predict(scores).astype(np.int64)


def pack_model(model: Model) -> bytes:
    """Return a model's file. The bytes differ each time, because they contain the time."""
    space = model.space
    metadata = {
        "kind": KIND,
        "version": VERSION,
        "label": model.label.value,
        "study_digest": model.study_digest,
        "schema": model.schema.model_dump(mode="json"),
        "target": model.target,
        "method": model.method,
        "kernel": model.kernel,
        "settings": describe_settings(model.estimator),
        "fit": None if model.fit is None else asdict(model.fit),
        "receipt": None if model.receipt is None else model.receipt.document(),
        "scikit_learn": version("scikit-learn"),
        "software": f"dppca {version('dppca')}",
    }
    if model.owner is not None:
        metadata["owner"] = model.owner
    if model.mapping_sha256 and model.label is Label.SITE_ONLY:  # a digest may give a mapping away
        metadata["mapping_sha256"] = model.mapping_sha256
    members = {"columns": space.columns, "mean": space.mean, "components": space.components}
    state = KINDS[model.method].take_state(model.estimator)
    return pack_archive(ModelArchive(metadata, state, members))


def write_model(content: bytes | SignedFile, path: Path) -> None:
    """Write a model, with its envelope if it has one; `ArtefactError` if that fails."""
    try:
        write_signed(path, content)
    except OSError as error:
        raise ArtefactError(f"the model cannot be written to {path}: {error.strerror}") from error
