"""How many local steps each client makes in a round."""

from __future__ import annotations

import dataclasses
import math
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedcbs import _checks
from fedcbs._specs import spec_numbers, split_spec
from fedcbs.errors import InvalidArgumentError, UnknownNameError

__all__ = ["SCHEDULES", "Schedule", "parse_schedule"]

SCHEDULES = {
    "equal-steps:EPOCHS": "every client as many steps as the largest needs for so many epochs (the paper: 5)",
    "epochs:EPOCHS": "each client so many epochs of its own examples; numbers of steps differ",
    "steps:STEPS": "every client so many steps",
}
"""Spellings that :func:`parse_schedule` knows."""


@final
@dataclasses.dataclass(frozen=True)
class Schedule:
    """A rule for numbers of steps.

    Parameters
    ----------
    kind
        ``equal-steps``, ``epochs`` or ``steps``.
    amount
        Epochs (fractions are possible) or steps.

    Examples
    --------
    >>> sizes = np.array([20, 100])
    >>> Schedule("equal-steps", 5).steps(sizes, batch_size=50)
    array([10, 10])
    >>> Schedule("epochs", 5).steps(sizes, batch_size=50)
    array([ 5, 10])
    """

    kind: str
    amount: float

    def __post_init__(self) -> None:
        known = {form.partition(":")[0] for form in SCHEDULES}
        if self.kind not in known:
            raise UnknownNameError("schedule", self.kind, known)
        if self.kind == "steps" and float(self.amount) % 1:
            raise InvalidArgumentError(f"schedule='steps:{self.amount:g}' must name a whole number of steps")
        _checks.real(self.amount, "schedule", minimum=0, maximum=1e6, open_minimum=True)

    def steps(self, num_examples: NDArray[np.int64], batch_size: int) -> NDArray[np.int64]:
        """Return the number of steps of each client; 0 for those without examples."""
        epoch = -(-num_examples // batch_size)  # batches of an epoch; the last may be short
        if self.kind == "steps":
            steps = np.full(len(num_examples), int(self.amount))
        elif self.kind == "epochs":
            steps = np.ceil(self.amount * epoch).astype(np.int64)
        else:
            steps = np.full(len(num_examples), math.ceil(self.amount * int(epoch.max(initial=0))))
        return np.where(num_examples > 0, steps, 0)


def parse_schedule(text: str) -> Schedule:
    """Return the schedule that a text such as ``equal-steps:5`` names.

    >>> parse_schedule("steps:20")
    Schedule(kind='steps', amount=20.0)
    >>> parse_schedule("epoch:5")
    Traceback (most recent call last):
    ...
    fedcbs.errors.UnknownNameError: schedule='epoch' is not known; did you mean 'epochs'? Known: epochs, equal-steps, steps
    """
    name, values = split_spec(text, "schedule")
    if name not in {form.partition(":")[0] for form in SCHEDULES}:
        return Schedule(name, 1.0)  # refuses it
    return Schedule(name, spec_numbers(values, "schedule", f"{name}:NUMBER", count=1)[0])
