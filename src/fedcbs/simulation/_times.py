"""How long clients take in a simulated round.

A simple model, stated so that it can be argued with. With a client's own speed and bandwidth::

    seconds = bytes down / bandwidth + examples trained on / speed + bytes up / bandwidth,   times a factor of the round

Speed and bandwidth are the median client's times lognormal factors, drawn once per client; the factor of the round is
lognormal too. Examples are counted as often as they are used (5 epochs of 100 examples: 500).
"""

from __future__ import annotations

import dataclasses
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedcbs import _checks, _random
from fedcbs.laboratory import LognormalDurations, parse_durations

__all__ = ["ClientTimes", "Seconds"]


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Seconds:
    """Expected seconds of every client of the population."""

    down: NDArray[np.float64]
    training: NDArray[np.float64]
    up: NDArray[np.float64]

    @property
    def total(self) -> NDArray[np.float64]:
        """From request to answer."""
        return self.down + self.training + self.up


@final
@dataclasses.dataclass(frozen=True)
class ClientTimes:
    """How fast clients are.

    Parameters
    ----------
    speed
        Examples a second that the median client trains on.
    bandwidth
        Megabits a second of the median client, either way.
    spread
        How much clients differ, and a client from round to round.

    Examples
    --------
    >>> alike = ClientTimes(speed=10, bandwidth=1, spread=LognormalDurations(sigma=0, noise=0))
    >>> alike.expected(np.array([100, 50]), bytes_down=125_000, bytes_up=250_000, seed=0).total
    array([13.,  8.])
    """

    speed: float = 20.0
    bandwidth: float = 1.0
    spread: LognormalDurations = dataclasses.field(default_factory=LognormalDurations)

    def __post_init__(self) -> None:
        _checks.real(self.speed, "availability.speed", minimum=0, open_minimum=True)
        _checks.real(self.bandwidth, "availability.bandwidth", minimum=0, open_minimum=True)

    @classmethod
    def parse(cls, spread: str, *, speed: float, bandwidth: float) -> ClientTimes:
        """Make times from a spread such as ``lognormal:0.5,0.1``."""
        return cls(speed, bandwidth, parse_durations(spread))

    def expected(
        self, examples_used: NDArray[np.int64], *, bytes_down: int, bytes_up: int, seed: int
    ) -> Seconds:
        """Return expected seconds of every client; a function of the seed."""
        rng = _random.generator("expected durations", seed)
        slower = np.exp(self.spread.sigma * rng.standard_normal((len(examples_used), 2)))
        a_byte = slower[:, 1] * 8e-6 / self.bandwidth
        training = np.maximum(examples_used, 1) / self.speed * slower[:, 0]
        return Seconds(bytes_down * a_byte, training, bytes_up * a_byte)

    def factors(self, num_clients: int, *, seed: int, round_index: int) -> NDArray[np.float64]:
        """Return by how much each client departs from its expected time in a round."""
        return self.spread.factors(num_clients, seed=seed, round_index=round_index)
