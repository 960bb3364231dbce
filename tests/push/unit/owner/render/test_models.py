"""What commands about models print: every accuracy beside the commonest label's."""

from dataclasses import replace
from pathlib import Path

from dppca.common.kernel.privacy.labels import Label
from dppca.owner.models.training import Prediction
from dppca.owner.records.faults import CheckReport
from dppca.owner.render.models import TrainedDocument, prediction_text, training_text

COUNTED = CheckReport(400, 0, {}, {}, ())
PREDICTED = Prediction("ill", 400, Path("found.csv"), 0.79, 0.553, COUNTED, 0.1)
TRAINED = TrainedDocument(
    study="s",
    target="ill",
    method="dppca-svm",
    kernel="linear",
    model=Path("model.skops"),
    label=Label.SITE_ONLY,
    rows=400,
    unlabelled=0,
    training_accuracy=0.81,
    majority=0.553,
    n_components=3,
    converged=True,
    coded_by_rule=CheckReport(400, 0, {}, {}, ()),
    seconds=0.1,
)


def test_every_accuracy_stands_beside_the_commonest_labels_and_needs_a_known_target() -> None:
    said = "right on 81.0% of the rows it was trained on; always the commonest label: 55.3%"
    assert said in training_text(TRAINED)
    assert "saved (SITE-ONLY, it must not leave)" in training_text(TRAINED)
    said = "right on 79.0% of those with a known target; always the commonest label: 55.3%"
    assert said in prediction_text(PREDICTED)
    text = prediction_text(replace(PREDICTED, accuracy=None, majority=None))
    assert "commonest" not in text
    assert text.startswith("Classified 400 rows\n")
