"""Each client on its own throws a coin each round."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs._checks import real
from fedcbs.availability._base import Availability, round_rng
from fedcbs.errors import InvalidArgumentError

__all__ = ["Bernoulli", "BernoulliBeta"]


@final
@dataclass(frozen=True, eq=False)
class Bernoulli(Availability):
    """Each round each client is available with its probability, independently of all else.

    Parameters
    ----------
    probability
        One number for all clients, or an array with one for each.

    Examples
    --------
    >>> Bernoulli([1.0, 0.0, 1.0]).available(0, num_clients=3, seed=0)
    array([0, 2])
    """

    name: ClassVar[str] = "bernoulli"

    probability: ArrayLike

    def __post_init__(self) -> None:
        values = _checked(self.probability)
        object.__setattr__(self, "probability", values if values.ndim else values.item())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bernoulli):
            return NotImplemented
        return np.array_equal(self._probabilities, other._probabilities)

    def __hash__(self) -> int:
        return hash(self._probabilities.tobytes())

    @property
    def _probabilities(self) -> NDArray[np.float64]:
        return np.asarray(self.probability, dtype=np.float64)

    def _check_population(self, num_clients: int) -> None:
        if self._probabilities.ndim and self._probabilities.size != num_clients:
            raise InvalidArgumentError(
                f"probability has {self._probabilities.size} entries for {num_clients} clients; give one for each"
            )

    def _available(self, round_index: int, num_clients: int, seed: int) -> NDArray[np.int64]:
        return _thrown(self._probabilities, round_index, num_clients, seed)


@final
@dataclass(frozen=True)
class BernoulliBeta(Availability):
    """Like :class:`Bernoulli`, with each client's probability drawn once from a Beta law.

    The probabilities depend on the seed alone, so a client that is seldom there is so in all rounds.

    Parameters
    ----------
    a, b
        The Beta law's parameters; its mean is ``a / (a + b)``.

    Examples
    --------
    >>> rule = BernoulliBeta(1.0, 3.0)
    >>> bool((rule.probabilities(num_clients=4, seed=0) < 1).all())
    True
    """

    name: ClassVar[str] = "bernoulli-beta"

    a: float
    b: float

    def __post_init__(self) -> None:
        real(self.a, "a", minimum=1e-3, maximum=1e6)
        real(self.b, "b", minimum=1e-3, maximum=1e6)

    def probabilities(self, *, num_clients: int, seed: int) -> NDArray[np.float64]:
        """Return each client's probability of being available."""
        return _beta_draws(float(self.a), float(self.b), num_clients, seed)

    def _available(self, round_index: int, num_clients: int, seed: int) -> NDArray[np.int64]:
        return _thrown(self.probabilities(num_clients=num_clients, seed=seed), round_index, num_clients, seed)


def _thrown(
    probabilities: NDArray[np.float64], round_index: int, num_clients: int, seed: int
) -> NDArray[np.int64]:
    return np.flatnonzero(round_rng(seed, "bernoulli", round_index).random(num_clients) < probabilities)


@functools.lru_cache(maxsize=4)
def _beta_draws(a: float, b: float, num_clients: int, seed: int) -> NDArray[np.float64]:
    """Draw once for all rounds; what is remembered is a function of the arguments."""
    draws = round_rng(seed, "bernoulli-beta", 0).beta(a, b, size=num_clients)
    draws.flags.writeable = False
    return draws


def _checked(probability: ArrayLike) -> NDArray[np.float64]:
    try:
        values = np.array(probability, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            f"probability={probability!r} must be a number or an array of numbers"
        ) from None
    if values.ndim > 1:
        raise InvalidArgumentError(
            f"probability has {values.ndim} dimensions; give one number for each client"
        )
    if values.ndim == 0:
        real(values.item(), "probability", minimum=0, maximum=1)
    bad = np.flatnonzero(~((values >= 0) & (values <= 1)))
    if bad.size:
        raise InvalidArgumentError(f"probability[{bad[0]}]={values[bad[0]]} must be from 0 to 1")
    values.flags.writeable = False
    return values
