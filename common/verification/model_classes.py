"""skops, which knows in a command of ours no other class of scikit-learn than our models hold.

skops trusts every estimator of scikit-learn, and imports all of scikit-learn to list them. A
model's machine is one of `CLASSES`: where a command imports skops by this module, a file that names
another is refused, and what no machine needs stays unread. In any other process (a notebook, a
researcher's program) skops keeps its own list, because its other users rely on it.
"""

import sklearn.utils
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from dppca.common.shell.packages import are_hidden

CLASSES = (Pipeline, StandardScaler, LinearSVC, SVC)

_every = sklearn.utils.all_estimators
if are_hidden():
    sklearn.utils.all_estimators = lambda: [(each.__name__, each) for each in CLASSES]
try:
    import skops.io as archives
    from skops.io import exceptions
finally:
    sklearn.utils.all_estimators = _every

__all__ = ["CLASSES", "archives", "exceptions"]
