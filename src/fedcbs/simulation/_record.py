"""What is written down of a round."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Self, final

from fedcbs.errors import InvalidArgumentError

__all__ = ["RoundRecord"]


@final
@dataclasses.dataclass(frozen=True)
class RoundRecord:
    """One round. All fields but `seconds` are a function of the configuration.

    Parameters
    ----------
    round
        Number of the round, from 1.
    available
        How many clients could be picked.
    cohort, answered, failed
        Who was picked, and what became of them.
    qcid, cohort_label_counts
        Imbalance of the cohort's pooled data, and that data's label counts; None without a cohort.
    loss
        Mean training loss of those that answered; None if nobody did.
    accuracy, test_loss, per_class_accuracy, worst_class_accuracy
        Of the global model after the round; None where it was not evaluated. A class without test examples has None.
    client_accuracy
        Accuracy on the clients' own label distributions: mean, std, worst, p10 (the tenth percentile).
    asked
        How many clients were asked for what before the choice.
    bytes_up, bytes_down
        Traffic of the round, from clients and to them.
    simulated_seconds
        What the round would have taken in the federation.
    seconds
        What it took here, by part: select, train, evaluate, checkpoint (the one before this round), total.
    """

    round: int
    available: int
    cohort: tuple[int, ...]
    answered: tuple[int, ...]
    failed: tuple[int, ...]
    qcid: float | None
    cohort_label_counts: tuple[int, ...] | None
    loss: float | None
    asked: Mapping[str, int]
    bytes_up: int
    bytes_down: int
    accuracy: float | None = None
    test_loss: float | None = None
    per_class_accuracy: tuple[float | None, ...] | None = None
    worst_class_accuracy: float | None = None
    client_accuracy: Mapping[str, float] | None = None
    simulated_seconds: float | None = None
    seconds: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain values, for a line of ``rounds.jsonl``."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Restore a record from what :meth:`to_json` returned."""
        names = {field.name for field in dataclasses.fields(cls)}
        try:
            known = {name: value for name, value in document.items() if name in names}
            lists = {name: tuple(value) for name, value in known.items() if isinstance(value, list)}
            return cls(**{**known, **lists})
        except (TypeError, AttributeError) as error:
            raise InvalidArgumentError(f"this is no record of a round ({error})") from error


def finite_or_none(value: float) -> float | None:
    """Return a number that JSON can hold.

    >>> finite_or_none(float("nan")) is None
    True
    """
    return value if math.isfinite(value) else None
