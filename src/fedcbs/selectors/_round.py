"""One round, as a selector sees it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs import _checks
from fedcbs.errors import InformationError, InvalidArgumentError, UndeclaredNeedError
from fedcbs.imbalance import Gram
from fedcbs.selectors._information import Information, Need

__all__ = ["Round", "RoundView"]


@final
class Round:
    """Who can be picked this round, how many, and where answers about them come from.

    Parameters
    ----------
    information
        Answers what selectors need to know.
    cohort_size
        How many clients to pick.
    round_index
        Number of the round, from 1.
    available
        Clients that can be picked, in any order; all of them where none are given.
    seed
        With `round_index`, fixes every random choice of the round.

    Examples
    --------
    >>> from fedcbs.selectors import LabelInformation
    >>> Round(LabelInformation([[1, 0], [0, 1]]), cohort_size=3)
    Traceback (most recent call last):
    ...
    fedcbs.errors.InvalidArgumentError: cohort_size=3 but only 2 clients are available; lower it or wait
    """

    def __init__(
        self,
        information: Information,
        *,
        cohort_size: int,
        round_index: int = 1,
        available: ArrayLike | None = None,
        seed: int = 0,
    ) -> None:
        self.information = information
        self.num_clients = information.num_clients
        self.round_index = _checks.integer(round_index, "round_index", minimum=1)
        self.seed = _checks.integer(seed, "seed", minimum=0)
        if available is None:
            self.available: NDArray[np.int64] = np.arange(self.num_clients)
        else:
            self.available = _checks.client_ids(available, "available", num_clients=self.num_clients)
        self.cohort_size = _checks.integer(cohort_size, "cohort_size", minimum=1)
        if len(self.available) == 0:
            raise InvalidArgumentError(
                "available is empty: no client can be picked; wait until one is available"
            )
        if self.cohort_size > len(self.available):
            raise InvalidArgumentError(
                f"cohort_size={self.cohort_size} but only {len(self.available)} clients are available; lower it or wait"
            )

    def with_available(self, available: NDArray[np.int64]) -> Round:
        """Return the same round with fewer clients available."""
        return Round(
            self.information,
            cohort_size=self.cohort_size,
            round_index=self.round_index,
            available=available,
            seed=self.seed,
        )


@dataclasses.dataclass(frozen=True)
class RoundView:
    """The window through which a selector looks at a :class:`Round`: what it declared to need, nothing else.

    Questions to clients (losses, updates) are counted in :attr:`asked`, since each costs a message there and back.
    Standing facts (label statistics, sizes, expected durations) were told once and cost nothing more.
    """

    available: NDArray[np.int64]
    cohort_size: int
    round_index: int
    num_clients: int
    rng: np.random.Generator
    selector: str
    _needs: frozenset[Need]
    _information: Information
    _asked: dict[Need, int] = dataclasses.field(default_factory=dict)

    @property
    def asked(self) -> Mapping[Need, int]:
        """How many clients were asked for what, so far."""
        return self._asked

    def gram(self) -> Gram:
        """Inner products of label counts of the whole population, with sizes."""
        self._allow(Need.GRAM)
        return self._information.gram()

    def available_gram(self) -> Gram:
        """Inner products among the available clients, numbered as in :attr:`available`."""
        return self.gram().restrict(self.available)

    def label_counts(self) -> NDArray[np.int64]:
        """Label counts of the available clients."""
        self._allow(Need.LABEL_COUNTS)
        return self._information.label_counts()[self.available]

    def num_examples(self) -> NDArray[np.int64]:
        """Sizes of the available clients."""
        self._allow(Need.NUM_EXAMPLES)
        return self._information.num_examples()[self.available]

    def durations(self) -> NDArray[np.float64]:
        """Expected seconds of (local training, upload) of the available clients."""
        self._allow(Need.DURATIONS)
        return self._answer(Need.DURATIONS, self._information.durations(self.available), len(self.available))

    def losses(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Ask clients for their mean loss at the current global model."""
        self._ask(Need.LOSSES, clients)
        return self._answer(Need.LOSSES, self._information.losses(clients), len(clients))

    def batch_losses(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Ask clients for their mean loss on one batch at the current global model."""
        self._ask(Need.BATCH_LOSSES, clients)
        return self._answer(Need.BATCH_LOSSES, self._information.batch_losses(clients), len(clients))

    def updates(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Ask clients for their model update, one flat row each."""
        self._ask(Need.UPDATES, clients)
        return self._answer(Need.UPDATES, self._information.updates(clients), len(clients))

    def update_norms(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Ask clients for the norm of their model update."""
        self._ask(Need.UPDATE_NORMS, clients)
        return self._answer(Need.UPDATE_NORMS, self._information.update_norms(clients), len(clients))

    def _allow(self, need: Need) -> None:
        if need not in self._needs:
            raise UndeclaredNeedError(
                f"{self.selector} asked for {need} without declaring it; add Need.{need.name} to its needs"
            )

    def _ask(self, need: Need, clients: NDArray[np.int64]) -> None:
        self._allow(need)
        self._asked[need] = self._asked.get(need, 0) + len(clients)

    @staticmethod
    def _answer(need: Need, answer: NDArray[np.float64], num_asked: int) -> NDArray[np.float64]:
        if len(answer) != num_asked:
            raise InformationError(
                f"{num_asked} clients were asked for {need}, but {len(answer)} answers came"
            )
        if not np.isfinite(answer).all():
            first = int(np.argwhere(~np.isfinite(answer))[0][0])
            raise InformationError(f"{need}[{first}] is not finite; did training diverge?")
        return answer
