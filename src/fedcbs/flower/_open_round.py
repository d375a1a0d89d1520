"""A round between the choice and the aggregate."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping

from flwr.app import ArrayRecord, Message

from fedcbs.flower._ask import Traffic
from fedcbs.flower._chooser import Choice

__all__ = ["OpenRound"]


@dataclasses.dataclass(eq=False)
class OpenRound:
    """What is remembered of a round while its cohort trains.

    Parameters
    ----------
    index
        Number of the round, over all runs that make up this one.
    choice
        The cohort.
    sent
        Messages of training by client.
    arrays
        The model that they carry.
    available
        How many clients could have been picked.
    traffic
        Bytes so far.
    began
        When the messages were made, on the clock that only goes forward.
    seconds
        What took how long.
    """

    index: int
    choice: Choice
    sent: Mapping[str, Message]
    arrays: ArrayRecord
    available: int
    traffic: Traffic
    began: float
    seconds: dict[str, float]

    @property
    def waited(self) -> float:
        """Seconds since the messages were made."""
        return time.monotonic() - self.began
