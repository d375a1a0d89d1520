"""When and how the global model is evaluated."""

from __future__ import annotations

import dataclasses
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedcbs import _checks
from fedcbs.engine import Engine, Weights
from fedcbs.simulation._record import finite_or_none

__all__ = ["EvaluationRule", "evaluate"]


@final
@dataclasses.dataclass(frozen=True)
class EvaluationRule:
    """When the test part is looked at, and whether through the clients' eyes too.

    Parameters
    ----------
    every
        Evaluate after every so many rounds; the last round is always evaluated.
    clients
        Whether to report accuracy on the clients' own label distributions: the accuracy of each class on the test part,
        weighted by the client's shares of the classes.
    """

    every: int = 1
    clients: bool = False

    def __post_init__(self) -> None:
        _checks.integer(self.every, "evaluation.every", minimum=1)


def evaluate(
    rule: EvaluationRule, engine: Engine, weights: Weights, label_counts: NDArray[np.int64]
) -> dict[str, object]:
    """Evaluate a model on the test part; returns fields of a record."""
    found = engine.evaluate(weights)
    fields: dict[str, object] = {
        "accuracy": found.accuracy,
        "test_loss": finite_or_none(found.loss),
        "per_class_accuracy": tuple(finite_or_none(value) for value in found.per_class.tolist()),
        "worst_class_accuracy": finite_or_none(found.worst_class),
    }
    if rule.clients:
        fields["client_accuracy"] = _client_accuracy(found.per_class, label_counts)
    return fields


def _client_accuracy(
    per_class: NDArray[np.float64], label_counts: NDArray[np.int64]
) -> dict[str, float] | None:
    """Accuracy over clients, each weighing classes as its own data does; classes without test examples do not count."""
    tested = ~np.isnan(per_class)
    counts = label_counts[:, tested].astype(np.float64)
    held = counts.sum(axis=1)
    if not held.any():
        return None
    accuracies = (counts[held > 0] @ per_class[tested]) / held[held > 0]
    return {
        "mean": float(accuracies.mean()),
        "std": float(accuracies.std()),
        "worst": float(accuracies.min()),
        "p10": float(np.percentile(accuracies, 10)),
    }
