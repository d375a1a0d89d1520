"""Dirichlet proportions per class, over the clients (Yurochkin et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs._checks import integer
from fedcbs.errors import InvalidArgumentError
from fedcbs.partition._dirichlet import checked_alpha, log_gammas, proportions
from fedcbs.partition._scheme import PartitionScheme

__all__ = ["DirichletClasswise"]

_ATTEMPTS = 100
_HOPELESS = 20.0


@final
@dataclass(frozen=True)
class DirichletClasswise(PartitionScheme):
    """Each class is cut into one piece per client, of proportions from Dir(alpha, ..., alpha) over the clients.

    Source: M. Yurochkin et al., "Bayesian nonparametric federated learning of neural networks", 2019, and its code;
    Flower calls it ``DirichletPartitioner``. Sizes differ wildly, and a given alpha is far less skewed than the same
    alpha in :class:`DirichletHsu`. The whole draw is repeated while a client has fewer than `min_examples`.

    Parameters
    ----------
    alpha
        Concentration of each client within each class.
    min_examples
        Size of the smallest client at least (10 in the source and in Flower). 0 keeps whatever is drawn.
    self_balancing
        Give nothing more to clients that have the mean size already, as the source's code does and Flower does not
        unless asked.
    examples_per_client
        Mean size; all examples are dealt out when left out.

    Examples
    --------
    >>> scheme = DirichletClasswise(alpha=0.5)
    >>> scheme.draw_counts([60, 60], num_clients=4, rng=np.random.default_rng(0)).sum(axis=0)
    array([60, 60])
    """

    name: ClassVar[str] = "dirichlet-classwise"

    alpha: float
    min_examples: int = 1
    self_balancing: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_alpha(self.alpha)
        integer(self.min_examples, "min_examples", minimum=0)

    def _check_enough(self, totals: NDArray[np.int64], num_clients: int) -> None:
        super()._check_enough(totals, num_clients)
        usable = num_clients * self.examples_per_client if self.examples_per_client else int(totals.sum())
        if num_clients * self.min_examples > usable:
            raise InvalidArgumentError(
                f"min_examples={self.min_examples} for {num_clients} clients needs {num_clients * self.min_examples}"
                f" examples, but there are {usable}; lower it, or deal to fewer clients"
            )

    def _draw_counts(
        self, totals: NDArray[np.int64], num_clients: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        used = self._thinned(totals, num_clients, rng)
        short = 0
        for attempt in range(1, _ATTEMPTS + 1):
            counts = self._draw_once(used, num_clients, rng)
            failed = int((counts.sum(axis=1) < self.min_examples).sum())
            if failed == 0:
                return counts
            short += failed
            # The number that fails is near Poisson: with a mean this large, no number of draws will do.
            if short / attempt > _HOPELESS:
                break
        raise InvalidArgumentError(
            f"min_examples={self.min_examples} with alpha={self.alpha}: {short / attempt:.1f} of {num_clients}"
            f" clients fall short of it on average over {attempt} draws; min_examples=0 keeps whatever is drawn,"
            " a larger alpha makes sizes more equal, 'dirichlet-hsu' makes them the same"
        )

    def _draw_once(
        self, totals: NDArray[np.int64], num_clients: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        counts = np.zeros((num_clients, totals.size), dtype=np.int64)
        sizes = np.zeros(num_clients, dtype=np.int64)
        concentration = np.full(1, float(self.alpha))
        for label in np.flatnonzero(totals):
            logs = log_gammas(concentration, (num_clients,), rng)
            if self.self_balancing:
                logs[sizes >= totals.sum() / num_clients] = -np.inf
            cuts = np.floor(np.cumsum(proportions(logs)) * totals[label]).astype(np.int64)
            # What rounding leaves over goes to the last client that gets anything at all.
            np.minimum(cuts, totals[label], out=cuts)
            cuts[int(np.flatnonzero(np.isfinite(logs))[-1]) :] = totals[label]
            counts[:, label] = np.diff(cuts, prepend=0)
            sizes += counts[:, label]
        return counts
