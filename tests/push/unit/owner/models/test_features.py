"""What a model sees of a row."""

import numpy as np

from dppca.common.kernel.schema import Schema
from dppca.owner.models.features import FeatureSpace, list_features


def test_a_model_sees_the_bin_of_a_numeric_whose_bins_enter_products() -> None:
    age = {"name": "age", "type": "numeric", "lower": 0, "upper": 100, "bins": [18, 65]}
    ill = {"name": "ill", "type": "binary", "values": ["no", "yes"]}
    other = {"name": "height", "type": "numeric", "lower": 0, "upper": 200}
    schema = Schema.from_document({"attributes": [{**age, "products": "bins"}, ill, other]})
    columns = [np.array([3.0, 18.0, 99.0]), np.int32([0, 1, 1]), np.array([0.0, 100.0, 150.0])]
    features = list_features(schema, "ill")
    seen = FeatureSpace(features, np.zeros(4), np.eye(4)).project(schema, list(columns))
    assert seen.tolist() == [[1, 0, 0, -0.5], [0, 1, 0, 0], [0, 0, 1, 0.25]]
    assert np.linalg.norm(seen, axis=1).max() <= schema.largest_norm(without="ill")
