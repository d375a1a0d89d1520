"""How near recovered label counts are to the true ones, and how the classes get their names."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcbs import _random
from fedcbs.audit._recovery import Recovery
from fedcbs.errors import MissingExtraError

__all__ = ["CLOSE", "Naming", "Score", "named_by_insiders", "named_by_totals", "order_of_classes", "score"]

CLOSE = 0.05
"""Total variation distance under which a client's label distribution counts as recovered."""

DRAWS = 50
"""Choices of insiders that are averaged."""


@dataclasses.dataclass(frozen=True)
class Score:
    """An attack against the truth, with the classes in the best order.

    Parameters
    ----------
    exact
        Share of the clients whose counts are recovered exactly.
    close
        Share of the clients whose label distribution is recovered within a total variation distance of 0.05.
    mean_distance
        Mean total variation distance over clients.
    """

    exact: float
    close: float
    mean_distance: float


@dataclasses.dataclass(frozen=True)
class Naming:
    """What giving names to recovered classes achieves.

    Parameters
    ----------
    classes
        Share of the classes that get their right name.
    clients
        Share of the clients of whom it is then known how much they have of every class, by name: within 0.05.
    """

    classes: float
    clients: float


def order_of_classes(recovered: NDArray[np.float64], truth: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each true class, the recovered one that stands for it, so that the sum of all differences is least.

    >>> order_of_classes(np.array([[0.0, 3.0], [2.0, 1.0]]), np.array([[3, 0], [1, 2]]))
    array([1, 0])
    """
    weights = 1.0 / np.maximum(truth.sum(axis=1), 1)
    cost = np.stack([weights @ np.abs(truth[:, label, None] - recovered) for label in range(truth.shape[1])])
    order: NDArray[np.int64] = _assignment()(cost)[1]
    return order


def score(recovered: Recovery | None, truth: NDArray[np.int64]) -> Score | None:
    """Compare with the truth; clients without examples are left out. None where nothing was recovered.

    >>> found = Recovery("lattice", np.array([[0.0, 3.0], [2.0, 1.0]]), consistent=True)
    >>> score(found, np.array([[3, 0], [1, 2]]))
    Score(exact=1.0, close=1.0, mean_distance=0.0)
    """
    if recovered is None:
        return None
    order = order_of_classes(recovered.label_counts, truth)
    filled = truth.sum(axis=1) > 0
    counts = recovered.label_counts[filled][:, order]
    true = truth[filled]
    distance = _distances(counts, true)
    return Score(
        exact=float((counts == true).all(axis=1).mean()),
        close=float((distance <= CLOSE).mean()),
        mean_distance=float(distance.mean()),
    )


def named_by_insiders(
    recovered: Recovery,
    seen: NDArray[np.int64],
    truth: NDArray[np.int64],
    insiders: int,
    *,
    seed: int,
    who: NDArray[np.int64] | None = None,
) -> Naming:
    """Names from clients whose uploaded counts the attacker knows, averaged over who they are.

    A class gets a name where the insiders' counts of it are met by one recovered class only. Others stay as a group;
    a client is known all the same if it has as much of each class in such a group, none at all for instance.

    Parameters
    ----------
    recovered
        What the attack found.
    seen
        What the clients uploaded: their counts, with noise if there is any.
    truth
        Their counts.
    insiders
        How many there are.
    seed
        Fixes who they are.
    who
        Who they are, instead.
    """
    rng = _random.generator("insiders of the audit", seed, insiders)
    order = order_of_classes(recovered.label_counts, seen)
    counts = recovered.label_counts[:, order]
    filled = np.flatnonzero(truth.sum(axis=1) > 0)
    draws = (
        [who]
        if who is not None
        else [
            rng.choice(filled, min(insiders, len(filled)), replace=False)
            for _ in range(min(DRAWS, len(filled)) if insiders == 1 else DRAWS)
        ]
    )
    found = [_named(counts, seen, truth, np.sort(draw)) for draw in draws]
    return Naming(
        classes=float(np.mean([one.classes for one in found])),
        clients=float(np.mean([one.clients for one in found])),
    )


def named_by_totals(
    recovered: Recovery, truth: NDArray[np.int64], totals: NDArray[np.int64] | None = None
) -> Naming:
    """Names from known totals of the classes: those of the truth, or others that are thought to be near.

    >>> found = Recovery("lattice", np.array([[0.0, 3.0], [2.0, 2.0]]), consistent=True)
    >>> named_by_totals(found, np.array([[3, 0], [2, 2]]))
    Naming(classes=1.0, clients=1.0)
    """
    known = truth.sum(axis=0) if totals is None else totals
    # Ties are broken against the attacker: equal totals name nothing.
    ours = recovered.label_counts.sum(axis=0)
    scale = ours.sum() / max(known.sum(), 1)
    guess = _assignment()(np.abs(known[:, None] * scale - ours[None, :]))[1]
    order = order_of_classes(recovered.label_counts, truth)
    unique = np.array([np.count_nonzero(known == value) == 1 for value in known])
    right = (guess == order) & unique
    counts = recovered.label_counts[:, guess]
    good = _distances(counts, truth) <= CLOSE if right.all() else np.zeros(len(truth), dtype=bool)
    return Naming(float(right.mean()), float(good.mean()))


def _named(
    counts: NDArray[np.float64],
    seen: NDArray[np.int64],
    truth: NDArray[np.int64],
    insiders: NDArray[np.int64],
) -> Naming:
    """One choice of insiders; the recovered classes stand in their right order, which the attacker does not know."""
    known, found = seen[insiders].astype(np.float64), counts[insiders]
    apart = np.abs(known[:, :, None] - found[:, None, :]).max(axis=0)  # classes by name x recovered classes
    reach = 0.5 + 0.02 * np.abs(known).max()
    met = apart <= (0.5 if np.array_equal(found, np.rint(found)) else reach)
    right = np.diag(met) & (met.sum(axis=1) == 1) & (met.sum(axis=0) == 1)
    low, high = counts.copy(), counts.copy()
    for label in np.flatnonzero(~right):
        group = np.flatnonzero(met[label])
        if len(group):
            low[:, label], high[:, label] = counts[:, group].min(axis=1), counts[:, group].max(axis=1)
        else:
            low[:, label], high[:, label] = 0.0, counts.sum(axis=1)
    sizes = np.maximum(counts.sum(axis=1), 1)
    certain = 0.5 * (high - low).sum(axis=1) / sizes <= CLOSE
    close = _distances(counts, truth) <= CLOSE
    others = np.setdiff1d(np.flatnonzero(truth.sum(axis=1) > 0), insiders)
    clients = float((certain & close)[others].mean()) if len(others) else 0.0
    return Naming(float(right.mean()), clients)


def _distances(counts: NDArray[np.float64], truth: NDArray[np.int64]) -> NDArray[np.float64]:
    """Total variation distance between label distributions; a client recovered as empty is at a distance of 1."""
    sizes, true_sizes = counts.sum(axis=1), truth.sum(axis=1)
    shares = counts / np.maximum(sizes, 1e-12)[:, None]
    true_shares = truth / np.maximum(true_sizes, 1)[:, None]
    distance: NDArray[np.float64] = 0.5 * np.abs(shares - true_shares).sum(axis=1)
    return np.where((sizes == 0) != (true_sizes == 0), 1.0, distance)


def _assignment() -> Any:
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError:
        raise MissingExtraError("scipy", extra="audit", purpose="matching recovered classes") from None
    return linear_sum_assignment
