"""Synthetic durations, for selectors that look at the time that clients take."""

from __future__ import annotations

import dataclasses
import math
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedcbs import _checks, _random
from fedcbs.errors import InvalidArgumentError, UnknownNameError

__all__ = ["LognormalDurations", "parse_durations"]

TRAINING_SECONDS, UPLOAD_SECONDS = 60.0, 10.0
"""Median seconds of a client of mean size. Only their ratio to a selector's own deadlines matters."""


@final
@dataclasses.dataclass(frozen=True)
class LognormalDurations:
    """Clients are slower or faster than the median by lognormal factors, one for training and one for the upload.

    Training takes 60 seconds for the median client of mean size, in proportion to its number of examples; the upload
    takes 10. What is measured in a round is the expected time by one more factor, drawn anew each round.

    Parameters
    ----------
    sigma
        Standard deviation of the logarithms, between clients. 0 makes all alike.
    noise
        Standard deviation of the logarithm of a round's factor.

    Examples
    --------
    >>> LognormalDurations(sigma=0.0).expected(np.array([50, 150]), seed=0)
    array([[30., 10.],
           [90., 10.]])
    """

    sigma: float = 0.5
    noise: float = 0.1

    def __post_init__(self) -> None:
        _checks.real(self.sigma, "sigma", minimum=0, maximum=10)
        _checks.real(self.noise, "noise", minimum=0, maximum=10)

    def expected(self, num_examples: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
        """Draw expected seconds of (training, upload) of each client; a function of the seed."""
        rng = _random.generator("expected durations", seed)
        seconds = np.exp(self.sigma * rng.standard_normal((len(num_examples), 2)))
        held = np.maximum(num_examples, 1)
        seconds[:, 0] *= TRAINING_SECONDS * held / held.mean()
        seconds[:, 1] *= UPLOAD_SECONDS
        return seconds

    def factors(self, size: int, *, seed: int, round_index: int) -> NDArray[np.float64]:
        """Draw by how much each of the available clients departs from its expected time in a round."""
        rng = _random.generator("measured durations", seed, round_index)
        return np.exp(self.noise * rng.standard_normal(size))


def parse_durations(text: str) -> LognormalDurations:
    """Return the durations that a text such as ``lognormal:0.5`` or ``lognormal:0.5,0.1`` names.

    >>> parse_durations("lognormal:0.8")
    LognormalDurations(sigma=0.8, noise=0.1)
    >>> parse_durations("lognormal:fast")
    Traceback (most recent call last):
    ...
    fedcbs.errors.InvalidArgumentError: durations='lognormal:fast' must have the form lognormal:SIGMA or lognormal:SIGMA,NOISE
    """
    name, colon, values = text.partition(":")
    if name != "lognormal":
        raise UnknownNameError("durations", name, ["lognormal"])
    numbers = [_number(value) for value in values.split(",")] if colon else []
    if len(numbers) > 2 or not all(math.isfinite(number) for number in numbers):
        raise InvalidArgumentError(
            f"durations={text!r} must have the form lognormal:SIGMA or lognormal:SIGMA,NOISE"
        )
    return LognormalDurations(*numbers)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
