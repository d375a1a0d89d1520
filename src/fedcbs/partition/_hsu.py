"""Dirichlet proportions per client, equal sizes (Hsu, Qi and Brown 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs._checks import real
from fedcbs.errors import InvalidArgumentError
from fedcbs.partition._dirichlet import checked_alpha, log_gammas, proportions
from fedcbs.partition._scheme import PartitionScheme

__all__ = ["DirichletHsu"]

_CELLS_AT_ONCE = 2**20


@final
@dataclass(frozen=True)
class DirichletHsu(PartitionScheme):
    """Each client draws class proportions from Dir(alpha * prior), then its examples one by one from these.

    Source: T. Hsu, H. Qi and M. Brown, "Measuring the effects of non-identical data distribution for federated
    visual classification", 2019, section 3. The concentration of each of B classes is ``alpha / B`` under a uniform
    prior, not ``alpha``: this is what reproduces the tables of Fed-CBS. Every client has the same size. Examples are
    drawn without replacement; a class that is used up leaves all clients' proportions, which are renormalised.

    The result has exactly the law of drawing example by example, client after client, but whole batches of clients
    are drawn at once, up to the client that uses up a class.

    Parameters
    ----------
    alpha
        Total concentration: near 0 each client has one class, towards infinity each has the prior's mixture.
    prior
        Weight of each class, in any unit; uniform when left out. A class of weight 0 is given to nobody.
    examples_per_client
        Size of each client; the total divided by the number of clients, rounded down, when left out.

    Examples
    --------
    >>> scheme = DirichletHsu(alpha=0.1, examples_per_client=4)
    >>> counts = scheme.draw_counts([20, 20], num_clients=10, rng=np.random.default_rng(1))
    >>> counts.sum(axis=1).tolist(), counts.sum(axis=0).tolist()
    ([4, 4, 4, 4, 4, 4, 4, 4, 4, 4], [20, 20])
    """

    name: ClassVar[str] = "dirichlet-hsu"

    alpha: float
    prior: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_alpha(self.alpha)
        if self.prior is not None:
            weights = tuple(real(p, f"prior[{b}]", minimum=0) for b, p in enumerate(self.prior))
            if not 0 < sum(weights) < np.inf:
                raise InvalidArgumentError(f"prior={weights} must hold a positive weight, and a finite sum")
            object.__setattr__(self, "prior", weights)

    def _check_enough(self, totals: NDArray[np.int64], num_clients: int) -> None:
        super()._check_enough(totals, num_clients)
        usable = int(totals[self._shares(totals.size) > 0].sum())
        size = self._size(totals, num_clients)
        if size == 0:
            raise InvalidArgumentError(
                f"num_clients={num_clients}, but class_totals has {int(totals.sum())} examples; deal to fewer clients"
            )
        if size * num_clients > usable:
            raise InvalidArgumentError(
                f"prior={self.prior} leaves {usable} examples to draw, but {num_clients} clients of {size} need"
                f" {size * num_clients}; lower examples_per_client to {usable // num_clients}, or give every class a weight"
            )

    def _draw_counts(
        self, totals: NDArray[np.int64], num_clients: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        size = self._size(totals, num_clients)
        shares = self._shares(totals.size)
        counts = np.zeros((num_clients, totals.size), dtype=np.int64)
        left = np.where(shares > 0, totals, 0)
        at_once = max(1, _CELLS_AT_ONCE // totals.size)
        first = 0
        while first < num_clients:
            active = np.flatnonzero(left)
            batch = min(at_once, num_clients - first)
            logs = log_gammas(self.alpha * shares[active], (batch, active.size), rng)
            drawn = rng.multinomial(size, proportions(logs))
            ended = (np.cumsum(drawn, axis=0) >= left[active]).any(axis=1)
            fit = int(ended.argmax()) if ended.any() else batch
            counts[first : first + fit, active] = drawn[:fit]
            left[active] -= drawn[:fit].sum(axis=0)
            first += fit
            if fit < batch:
                # The clients after this one are drawn anew: their draws are independent of where it stopped.
                counts[first, active] = _draw_past_the_end(drawn[fit], logs[fit], left[active], rng)
                left -= counts[first]
                first += 1
        return counts

    def _size(self, totals: NDArray[np.int64], num_clients: int) -> int:
        return self.examples_per_client or int(totals.sum()) // num_clients

    def _shares(self, num_classes: int) -> NDArray[np.float64]:
        if self.prior is None:
            return np.full(num_classes, 1.0 / num_classes)
        if len(self.prior) != num_classes:
            raise InvalidArgumentError(
                f"prior has {len(self.prior)} weights, but there are {num_classes} classes; give one for each"
            )
        weights = np.array(self.prior)
        shares: NDArray[np.float64] = weights / weights.sum()
        return shares


def _draw_past_the_end(
    drawn: NDArray[np.int64],
    logs: NDArray[np.float64],
    left: NDArray[np.int64],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Draw the counts of one client in the middle of whose draws classes run out.

    Given its counts, the order of a client's draws is uniformly random. So put them in an order, keep what comes up
    to the moment when a class runs out, and draw the rest anew from the other classes.
    """
    kept = np.zeros_like(drawn)
    while True:
        order = rng.permutation(np.repeat(np.arange(drawn.size), drawn))
        until = _first_end(order, drawn, left - kept)
        kept += np.bincount(order[:until], minlength=drawn.size)
        missing = order.size - until
        if missing == 0:
            return kept
        active = np.flatnonzero(left - kept)
        drawn = np.zeros_like(drawn)
        drawn[active] = rng.multinomial(missing, proportions(logs[active]))


def _first_end(order: NDArray[np.int64], drawn: NDArray[np.int64], left: NDArray[np.int64]) -> int:
    """How many draws of `order` it takes until a class has none left; all if none runs out."""
    ends = [
        int(np.flatnonzero(order == label)[left[label] - 1]) + 1
        for label in np.flatnonzero((drawn >= left) & (left > 0))
    ]
    return min(ends, default=order.size)
