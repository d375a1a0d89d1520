"""How well a model does on some examples."""

from __future__ import annotations

import dataclasses
from typing import final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Evaluation"]


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Evaluation:
    """Loss and accuracy over some examples.

    Parameters
    ----------
    loss
        Mean cross-entropy; NaN without examples.
    accuracy
        Share of the examples whose class has the largest output; NaN without examples.
    per_class
        Accuracy of each class, NaN where a class has no examples.

    Examples
    --------
    >>> Evaluation.of(np.array([0.5, 1.5]), np.array([2, 0]), np.array([2, 1]), num_classes=3)
    Evaluation(loss=1.0, accuracy=0.5, per_class=array([nan,  0.,  1.]))
    """

    loss: float
    accuracy: float
    per_class: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        losses: NDArray[np.floating],
        predictions: NDArray[np.int64],
        labels: NDArray[np.int64],
        *,
        num_classes: int,
    ) -> Evaluation:
        """Sum up the examples' losses and predictions."""
        if not len(labels):
            return cls(np.nan, np.nan, np.full(num_classes, np.nan))
        right = predictions == labels
        examples = np.bincount(labels, minlength=num_classes)
        hits = np.bincount(labels[right], minlength=num_classes)
        per_class = np.divide(hits, examples, out=np.full(num_classes, np.nan), where=examples > 0)
        return cls(float(losses.mean(dtype=np.float64)), float(right.mean()), per_class)

    @property
    def worst_class(self) -> float:
        """Accuracy of the class with the lowest."""
        known = self.per_class[~np.isnan(self.per_class)]
        return float(known.min()) if known.size else np.nan
