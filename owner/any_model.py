"""Reading a model's file, whichever kind of model it holds and whatever its label.

======================  ===================================  ===================
kind in the metadata    module                               label
======================  ===================================  ===================
``dppca-svm``           `owner.models`                       site-only
``dp-svm``              `owner.released_models`              released
``estimator``           `owner.estimator_models`             any of the three
======================  ===================================  ===================
"""

from __future__ import annotations

from pathlib import Path

from common.errors import ArtefactError
from owner import estimator_models, released_models
from owner.estimator_models import EstimatorModel
from owner.models import TrainedModel, load_model, not_a_model, open_archive
from owner.released_models import ReleasedModel


def load_any_model(path: Path) -> TrainedModel | ReleasedModel | EstimatorModel:
    """Read a model; `ArtefactError` as `owner.models.load_model`."""
    archive, metadata = open_archive(path)
    kind = metadata.get("kind")
    found: ReleasedModel | EstimatorModel | None
    if kind == released_models.METHOD:
        found = released_models.model_of_archive(archive, metadata)
    elif kind == estimator_models.KIND:
        try:
            found = estimator_models.model_of_archive(archive, metadata)
        except ArtefactError as error:
            message = f"{path}: {error}: train it again"
            raise ArtefactError(message) from error
    else:
        return load_model(path)
    if found is None:
        raise not_a_model(path)
    return found
