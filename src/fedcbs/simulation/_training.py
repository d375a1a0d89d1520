"""How clients train, whatever they are."""

from __future__ import annotations

import dataclasses
from typing import final

from fedcbs import _checks
from fedcbs.engine import LocalRule
from fedcbs.errors import InvalidArgumentError
from fedcbs.simulation._schedule import Schedule

__all__ = ["Training"]


@final
@dataclasses.dataclass(frozen=True)
class Training:
    """How clients train.

    Parameters
    ----------
    schedule
        How many steps each makes.
    batch_size
        Examples in a full batch.
    learning_rate, learning_rate_decay
        Of the first round, and its factor from round to round.
    momentum, weight_decay
        Of the clients' SGD.
    """

    schedule: Schedule = dataclasses.field(default_factory=lambda: Schedule("equal-steps", 5))
    batch_size: int = 50
    learning_rate: float = 0.01
    learning_rate_decay: float = 1.0
    momentum: float = 0.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _checks.integer(self.batch_size, "training.batch_size", minimum=1)
        _checks.real(self.learning_rate, "training.learning_rate", minimum=0, open_minimum=True)
        _checks.fraction(self.learning_rate_decay, "training.learning_rate_decay")
        _checks.real(self.weight_decay, "training.weight_decay", minimum=0)
        if not 0 <= _checks.real(self.momentum, "training.momentum") < 1:
            raise InvalidArgumentError(f"training.momentum={self.momentum!r} must be from 0 to below 1")

    def base(self, round_index: int) -> LocalRule:
        """Return the rule of plain SGD in a round."""
        rate = self.learning_rate * self.learning_rate_decay ** (round_index - 1)
        return LocalRule(rate, weight_decay=self.weight_decay, momentum=self.momentum)
