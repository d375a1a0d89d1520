"""Dirichlet proportions per client, sizes solved so that every example is used (FedCor)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from fedcbs._checks import integer
from fedcbs.errors import InvalidArgumentError
from fedcbs.partition._dirichlet import checked_alpha, log_gammas, proportions
from fedcbs.partition._rounding import rounded_columns, top_up
from fedcbs.partition._scheme import PartitionScheme

__all__ = ["DirichletFedCor", "solve_sizes"]

_ATTEMPTS = 10
_STEPS = 50
_CLOSE = 1e-9
_CLOSE_ENOUGH = 1e-6
"""Where doubles allow no further descent; rounding to whole examples sets the class totals right."""
_SHORTEST = 1e-10
_DIVERGED = 1e9
"""Where no sizes fit, the dual falls for ever and m grows without bound; where some do, m stays far below."""


@final
@dataclass(frozen=True)
class DirichletFedCor(PartitionScheme):
    """Class proportions from Dir(alpha / B) per class, sizes as equal as lets every class come out exactly.

    Source: M. Tang et al., "FedCor: correlation-based active client selection strategy for heterogeneous federated
    learning", 2022, and its code: sizes x minimise ``|x|^2`` such that the proportions times x add up to the class
    totals. We ask for ``x >= min_examples`` where they ask for ``x >= 0``, so that no client is left empty, and
    round so that the class totals come out to the example.

    Parameters
    ----------
    alpha
        Total concentration, as in :class:`DirichletHsu`.
    min_examples
        Size of the smallest client at least.
    examples_per_client
        Mean size; all examples are dealt out when left out.

    Examples
    --------
    >>> scheme = DirichletFedCor(alpha=0.5)
    >>> counts = scheme.draw_counts([200, 100], num_clients=20, rng=np.random.default_rng(0))
    >>> counts.sum(axis=0).tolist(), bool((counts.sum(axis=1) >= 1).all())
    ([200, 100], True)
    """

    name: ClassVar[str] = "dirichlet-fedcor"

    alpha: float
    min_examples: int = 1

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
        present = np.flatnonzero(used)
        concentration = np.full(present.size, self.alpha / totals.size)
        for _ in range(_ATTEMPTS):
            shares = proportions(log_gammas(concentration, (num_clients, present.size), rng))
            sizes = solve_sizes(shares, used[present], float(self.min_examples))
            if sizes is None:
                continue
            shares *= sizes[:, np.newaxis]
            dealt = rounded_columns(shares, used[present], rng)
            if top_up(dealt, shares, self.min_examples):
                counts = np.zeros((num_clients, totals.size), dtype=np.int64)
                counts[:, present] = dealt
                return counts
        raise InvalidArgumentError(
            f"alpha={self.alpha} with {num_clients} clients: in {_ATTEMPTS} draws no sizes of at least"
            f" min_examples={self.min_examples} made the class totals come out; lower it, raise alpha, deal to more clients,"
            " or use 'dirichlet-hsu', which always works"
        )


def solve_sizes(
    shares: NDArray[np.float64], totals: NDArray[np.int64], least: float
) -> NDArray[np.float64] | None:
    """Minimise ``|x|^2`` such that ``shares.T @ x = totals`` and ``x >= least``; None if there is no such x.

    At the minimum ``x = max(least, shares @ m)`` for some m with one entry per class, which solves a piecewise
    linear equation: the gradient of a convex function of m. Newton steps with a line search find it.

    >>> solve_sizes(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([3, 1]), 0.0)
    array([2., 2.])
    >>> solve_sizes(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([1, 3]), 0.0) is None
    True
    """
    # In units of the mean size all quantities are near 1.
    unit = float(totals.sum()) / len(shares)
    goal, low = totals / unit, least / unit
    if bool((low * shares.sum(axis=0) > goal).any()):
        return None
    m: NDArray[np.float64] = np.ones(totals.size)
    point = _dual(shares, goal, low, m)
    for _ in range(_STEPS):
        if _off(point, goal) <= _CLOSE:
            break
        if np.abs(m).max() > _DIVERGED:
            return None
        advanced = _newton(shares, goal, low, m, point)
        if advanced is None:
            break
        m, point = advanced
    return np.multiply(point.sizes, unit) if _off(point, goal) <= _CLOSE_ENOUGH else None


class _Point(NamedTuple):
    """The dual function at some m: its value, the sizes that belong to it, and its gradient."""

    value: float
    sizes: NDArray[np.float64]
    gradient: NDArray[np.float64]


def _off(point: _Point, goal: NDArray[np.float64]) -> float:
    return float(np.abs(point.gradient).max() / goal.max())


def _newton(
    shares: NDArray[np.float64],
    goal: NDArray[np.float64],
    low: float,
    m: NDArray[np.float64],
    point: _Point,
) -> tuple[NDArray[np.float64], _Point] | None:
    """Take one damped Newton step; None if no descent is left, be it at the minimum or for want of one."""
    free = point.sizes > low
    curvature = (shares * free[:, np.newaxis]).T @ shares
    # A little on the diagonal, for classes that no free client holds.
    curvature += 1e-12 * (1.0 + np.trace(curvature)) * np.eye(m.size)
    step = -np.linalg.solve(curvature, point.gradient)
    slope, length = float(point.gradient @ step), 1.0
    while length > _SHORTEST:
        trial = _dual(shares, goal, low, m + length * step)
        if trial.value <= point.value + 1e-4 * length * slope:
            return m + length * step, trial
        length /= 2
    return None


def _dual(
    shares: NDArray[np.float64], goal: NDArray[np.float64], low: float, m: NDArray[np.float64]
) -> _Point:
    """Evaluate the dual function, which is convex and to be minimised."""
    pull = shares @ m
    sizes = np.maximum(low, pull)
    # The conjugate of x^2/2 on x >= low: half of pull^2 where free, the tangent at `low` where not.
    value = float((sizes * pull - sizes * sizes / 2).sum() - goal @ m)
    return _Point(value, sizes, shares.T @ sizes - goal)
