"""What experiments measure: one number a run, and which way is better."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import final

import numpy as np

from fedcbs.laboratory import gini
from fedcbs.report import RunData

__all__ = ["MEASURES", "Measure"]

Value = Callable[[RunData, float | None], float]


@final
@dataclasses.dataclass(frozen=True)
class Measure:
    """A number of a run.

    Parameters
    ----------
    title, unit
        What tables call it.
    better
        1 if more is better, -1 if less is.
    value
        Makes it of a run and the target; NaN where the run does not have it.
    digits
        After the point, in tables.
    of_target
        Whether it is about the way to the target, so that a run that did not reach it does not have it.
    """

    title: str
    unit: str
    better: int
    value: Value
    digits: int
    of_target: bool = False

    def shown(self, number: float) -> str:
        """Return a number as tables show it: small ones with two digits that say something, what is as good as 0 as 0.

        >>> MEASURES["qcid"].shown(0.0004), MEASURES["qcid"].shown(4e-15), MEASURES["rounds"].shown(1234.4)
        ('0.0004', '0', '1,234')
        """
        if not 0 < abs(number) < 10.0**-self.digits:
            return f"{number:,.{self.digits}f}"
        places = min(self.digits + 3, 1 - math.floor(math.log10(abs(number))))
        return _plain_zero(f"{number:.{places}f}".rstrip("0").rstrip("."))

    def with_spread(self, mean: float, std: float) -> str:
        """Return a mean and its spread, which has the mean's decimals; what rounds to 0 is 0.

        >>> MEASURES["accuracy"].with_spread(24.43, 4.4e-15), MEASURES["qcid"].with_spread(0.0004, 0.00012)
        ('24.43 ± 0', '0.0004 ± 0.0001')
        """
        shown = self.shown(mean)
        places = max(len(shown.partition(".")[2]), self.digits)
        return f"{shown} ± {_plain_zero(f'{std:,.{places}f}')}"


def _plain_zero(text: str) -> str:
    return text if any(digit in text for digit in "123456789") else "0"


def _until(run: RunData, target: float | None) -> int | None:
    """Number of rounds recorded up to the one that reached the target."""
    if target is None:
        return None
    reached = np.flatnonzero(run.columns["accuracy"] >= target)
    return int(reached[0]) + 1 if reached.size else None


def _rounds(run: RunData, target: float | None) -> float:
    until = _until(run, target)
    return math.nan if until is None else float(run.rounds[until - 1])


def _spent(columns: tuple[str, ...], unit: float) -> Value:
    def value(run: RunData, target: float | None) -> float:
        until = _until(run, target)
        if until is None or not all(np.isfinite(run.columns[name]).any() for name in columns):
            return math.nan
        return float(sum(np.nansum(run.columns[name][:until]) for name in columns)) / unit

    return value


def _of(column: str, reduce: Callable[[np.ndarray], float], factor: float = 100.0) -> Value:
    def value(run: RunData, target: float | None) -> float:
        del target
        held = run.columns[column][np.isfinite(run.columns[column])]
        return factor * float(reduce(held)) if held.size else math.nan

    return value


def _last_tenth(values: np.ndarray) -> float:
    """Mean of the last tenth: what the curve settled at, whatever the luck of one round."""
    return float(values[-max(1, len(values) // 10) :].mean())


def _bytes(run: RunData, target: float | None) -> float:
    del target
    return float(np.nanmean(run.columns["bytes_up"] + run.columns["bytes_down"])) / 1e6


def _coverage(run: RunData, target: float | None) -> float:
    del target
    return 100 * float((run.times_selected() > 0).mean())


def _gini(run: RunData, target: float | None) -> float:
    del target
    return gini(np.bincount(run.times_selected()))


def _members(run: RunData, target: float | None) -> float:
    """Mean QCID of the selected clients, each by itself: how balanced what a client trains on is."""
    del target
    chosen = np.concatenate([np.zeros(0, dtype=np.int64), *run.cohorts])
    if run.label_counts is None or not chosen.size:
        return math.nan
    counts = run.label_counts
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    alone = ((shares - 1 / counts.shape[1]) ** 2).sum(axis=1)
    return 100 * float(alone[chosen].mean())


MEASURES: Mapping[str, Measure] = {
    "rounds": Measure("Rounds to the target accuracy", "rounds", -1, _rounds, 0, of_target=True),
    "accuracy": Measure("Best test accuracy", "%", 1, _of("accuracy", np.max), 2),
    "final": Measure("Test accuracy, mean of the last tenth", "%", 1, _of("accuracy", _last_tenth), 2),
    "qcid": Measure("Mean QCID", "1e-2", -1, _of("qcid", np.mean), 3),
    "members": Measure("Mean QCID of the selected clients, each by itself", "1e-2", -1, _members, 2),
    "worst_class": Measure(
        "Accuracy of the worst class, mean of the last tenth",
        "%",
        1,
        _of("worst_class_accuracy", _last_tenth),
        2,
    ),
    "clients_mean": Measure(
        "Accuracy on a client's own labels, mean over clients", "%", 1, _of("client_mean", _last_tenth), 2
    ),
    "clients_p10": Measure(
        "Accuracy that nine of ten clients reach on their own labels",
        "%",
        1,
        _of("client_p10", _last_tenth),
        2,
    ),
    "clients_std": Measure(
        "Accuracy on a client's own labels, standard deviation over clients",
        "%",
        -1,
        _of("client_std", _last_tenth),
        2,
    ),
    "coverage": Measure("Clients ever selected", "%", 1, _coverage, 1),
    "gini": Measure("Gini coefficient of times selected", "0 to 1", -1, _gini, 3),
    "bytes": Measure("Sent in a round, both ways", "MB", -1, _bytes, 2),
    "bytes_to_target": Measure(
        "Sent until the target accuracy, both ways",
        "MB",
        -1,
        _spent(("bytes_up", "bytes_down"), 1e6),
        0,
        of_target=True,
    ),
    "time_to_target": Measure(
        "Simulated hours until the target accuracy",
        "h",
        -1,
        _spent(("simulated_seconds",), 3600.0),
        2,
        of_target=True,
    ),
}
"""All measures by name."""
