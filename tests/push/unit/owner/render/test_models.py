"""What commands about models print: every accuracy beside the commonest label's."""

from __future__ import annotations

from typing import Any

from dppca.common.privacy.labels import Label
from dppca.owner.render.models import prediction_text, training_text

TRAINED: dict[str, Any] = {
    "method": "dppca-svm",
    "kernel": "linear",
    "target": "ill",
    "rows": 400,
    "n_components": 3,
    "training_accuracy": 0.81,
    "majority": 0.553,
    "converged": True,
    "model": "model.skops",
}
PREDICTED: dict[str, Any] = {
    "rows": 400,
    "accuracy": 0.79,
    "majority": 0.553,
    "output": "found.csv",
    "label": Label.SITE_ONLY,
}


def test_every_accuracy_stands_beside_the_commonest_labels_and_needs_a_known_target() -> None:
    said = "right on 81.0% of the rows it was trained on; always the commonest label: 55.3%"
    assert said in training_text(TRAINED)  # type: ignore[arg-type]
    said = "right on 79.0% of those with a known target; always the commonest label: 55.3%"
    assert said in prediction_text(PREDICTED)  # type: ignore[arg-type]
    unknown: dict[str, Any] = {**PREDICTED, "accuracy": None, "majority": None}
    text = prediction_text(unknown)  # type: ignore[arg-type]
    assert "commonest" not in text
    assert text.startswith("Classified 400 rows\n")
