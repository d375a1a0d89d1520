"""How long clients take: measured where they trained, else as they said when they joined."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from flwr.app import Message
from numpy.typing import NDArray

from fedcbs.flower._wire import values

__all__ = ["Durations"]

SHORTEST = 1e-3
"""Seconds; expected durations are above 0."""


class Durations:
    """Seconds of (training, all the rest) of each client's last training."""

    def __init__(self) -> None:
        self.measured: dict[str, tuple[float, float]] = {}

    def add(self, name: str, sent: Message, reply: Message, waited: float) -> float:
        """Note a reply, which came within `waited` seconds; return the seconds from request to answer.

        Clocks of two machines may differ, so their difference is believed only between what the client measured on its
        own clock and what the server waited.
        """
        told = values(reply.content).get("seconds", 0.0)
        training = float(told) if isinstance(told, int | float) and 0 <= told <= waited else 0.0
        apart = reply.metadata.created_at - sent.metadata.created_at
        total = max(min(max(apart, training), waited), SHORTEST)
        self.measured[name] = (max(training or total, SHORTEST), max(total - training, SHORTEST))
        return total

    def known(self, told: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
        """What is known of each client."""
        return {**told, **self.measured}

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the state as named arrays."""
        names = sorted(self.measured)
        seconds = np.array([self.measured[name] for name in names], dtype=np.float64).reshape(len(names), 2)
        return {"names": np.array(names, dtype=np.str_), "seconds": seconds}

    def restore(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take the state that :meth:`to_arrays` returned."""
        rows = arrays["seconds"].astype(np.float64).tolist()
        self.measured = {str(name): (row[0], row[1]) for name, row in zip(arrays["names"], rows, strict=True)}
