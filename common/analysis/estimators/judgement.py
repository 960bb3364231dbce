"""How well a classifier predicts rows whose class is known, also where one class is rare.

Where 85 % of the rows say *no*, always answering *no* is right on 85 %: accuracy alone says
little. The area under the ROC curve (AUC) asks how often a row of a class has a higher score for it
than a row of another class: .5 by chance, 1 at best, however rare the class is. Of three classes or
more it is the mean over the classes that occur, each against all others. Balanced accuracy is the
mean over the classes of the share of their rows that are predicted correctly: 1/K by always
answering one.

References: J. Hanley, B. McNeil: The meaning and use of the area under a ROC curve (1982); K.
Brodersen et al.: The balanced accuracy and its posterior distribution (2010).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

CHANCE = 0.5  # area under the curve of a guess
_LITTLE = 0.55
"""An AUC up to it is hardly more than chance."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a trained classifier reaches on rows that it has not seen, in [0, 1]."""

    accuracy: Annotated[float, "share of the rows that are predicted correctly"]
    balanced: Annotated[float, "mean over the classes of the share predicted correctly"]
    auc: Annotated[float | None, "area under the ROC curve; null where one class occurs"]


def judge(
    truth: NDArray[np.int64],
    predicted: NDArray[np.int64],
    scores: NDArray[np.float64],
    classes: NDArray[np.int64],
) -> Judgement:
    """Return what predictions are worth.

    Parameters
    ----------
    truth, predicted
        Classes, shape (n,).
    scores
        Larger where a class is likelier: of ``classes[1]``, shape (n,), if there are two; else
        shape (n, K), one column for each of ``classes``.
    classes
        What the classifier knows, ascending, shape (K,). A class that it does not know is never
        predicted, and has no score: its rows are the others' of every curve.
    """
    from sklearn.metrics import roc_auc_score

    found = np.unique(truth)
    right = truth == predicted
    columns = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
    areas = [
        CHANCE
        if (place := np.flatnonzero(classes == each)).size == 0
        else float(roc_auc_score(truth == each, columns[:, place[0]]))
        for each in found
        if len(found) > 1
    ]
    return Judgement(
        accuracy=float(right.mean()),
        balanced=float(np.mean([right[truth == each].mean() for each in found])),
        auc=float(np.mean(areas)) if areas else None,
    )


def mean_judgement(parts: Sequence[tuple[int, Judgement]]) -> Judgement:
    """Return the mean of judgements on parts of a table, each with its number of rows."""

    def mean(pairs: Sequence[tuple[int, float]]) -> float:
        return sum(n * value for n, value in pairs) / sum(n for n, _ in pairs)

    areas = [(n, each.auc) for n, each in parts if each.auc is not None]
    return Judgement(
        mean([(n, each.accuracy) for n, each in parts]),
        mean([(n, each.balanced) for n, each in parts]),
        mean(areas) if areas else None,
    )


def verdict(target: str, synthetic: Sequence[Judgement], real: Sequence[Judgement]) -> str:
    """Return in one sentence what the best machine learns of a target from synthetic rows.

    ``synthetic`` and ``real`` are the same machines, trained on synthetic and on real rows.
    """
    made, best = (
        max((each.auc for each in found if each.auc is not None), default=None)
        for found in (synthetic, real)
    )
    if made is None or best is None:
        return f"All rows that are tried have one {target}: nothing can be said of the rows."
    figures = f"AUC {made:.2f}; trained on real rows {best:.2f}, by chance 0.50"
    if best <= _LITTLE:
        return f"Even real rows teach hardly anything of {target} ({figures})."
    if made <= _LITTLE:
        return (
            f"Synthetic rows teach nothing of {target}: no better than always giving one answer "
            f"({figures})."
        )
    share = min(1.0, (made - CHANCE) / (best - CHANCE))
    return f"Synthetic rows teach {share:.0%} of what real rows teach of {target} ({figures})."
