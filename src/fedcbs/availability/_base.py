"""What all rules of availability share."""

from __future__ import annotations

import abc
import zlib
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs._checks import counts_matrix, integer

__all__ = ["Availability", "round_rng"]


@dataclass(frozen=True)
class Availability(abc.ABC):
    """A rule that says who can be picked in a round.

    The answer is a function of seed and round alone: whichever rounds were asked for before, in whatever order, and
    in whichever process. Subclasses write :meth:`_available`; options are fields.
    """

    name: ClassVar[str]

    def available(self, round_index: int, *, num_clients: int, seed: int) -> NDArray[np.int64]:
        """Return the clients that can be picked in this round, in ascending order; there may be none.

        Parameters
        ----------
        round_index
            The round, from 0.
        num_clients
            Size of the population.
        seed
            Any whole number from 0.

        Examples
        --------
        >>> from fedcbs.availability import UniformFraction
        >>> UniformFraction(0.5).available(3, num_clients=6, seed=1).size
        3
        """
        index = integer(round_index, "round_index", minimum=0)
        clients = integer(num_clients, "num_clients", minimum=1)
        number = integer(seed, "seed", minimum=0)
        self._check_population(clients)
        return self._available(index, clients, number).astype(np.int64, copy=False)

    def bind(self, label_counts: ArrayLike) -> Availability:
        """Return the rule for this population: one that fits it, and knows the classes if it asks for them.

        What does not fit is refused here rather than in the middle of a run.

        >>> from fedcbs.availability import Always
        >>> Always().bind([[3, 0], [0, 3]])
        Always()
        """
        counts = counts_matrix(label_counts)
        integer(len(counts), "number of clients in label_counts", minimum=1)
        bound = self._bound(counts)
        bound._check_population(len(counts))
        return bound

    @abc.abstractmethod
    def _available(self, round_index: int, num_clients: int, seed: int) -> NDArray[np.int64]:
        """Answer :meth:`available`; the arguments are checked."""

    def _bound(self, label_counts: NDArray[np.int64]) -> Availability:  # noqa: ARG002 - subclasses use it
        return self

    def _check_population(self, num_clients: int) -> None:  # noqa: B027 - most rules fit any population
        """Refuse a population that the rule does not fit."""


def round_rng(seed: int, purpose: str, round_index: int) -> np.random.Generator:
    """Make the generator of one purpose in one round.

    >>> round_rng(7, "uniform", 3).random() == round_rng(7, "uniform", 3).random()
    True
    """
    key = zlib.crc32(purpose.encode())
    return np.random.default_rng(np.random.SeedSequence([seed, key, round_index]))
