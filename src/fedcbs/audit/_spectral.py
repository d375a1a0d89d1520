"""The spectral attack: label shares, about, from any Gram matrix and sizes, up to the order of the classes.

A client's row divided by its size is a point of a simplex whose corners are clients of one class only; the Gram matrix gives
the points up to a rotation. Corners are hunted by successive projection (Araujo et al. 2001; Gillis and Vavasis 2014), the
frame of corners is turned into the nearest rotation, and is refined until the shares that it gives are nowhere negative.
Whole numbers are not needed, so it carries on where the lattice attack finds no basis; it wants clients with skewed labels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcbs import _random
from fedcbs.audit._factor import Factor
from fedcbs.audit._lattice import generate_everything
from fedcbs.audit._recovery import Recovery, explains
from fedcbs.imbalance import Gram

__all__ = ["spectral_attack"]

STARTS, STEPS, SNAPS = 6, 400, 10
MOST_FITTED = 4000
"""Clients on which the rotation is fitted; all others follow from it."""


def spectral_attack(gram: Gram, factor: Factor) -> Recovery | None:
    """Return estimates of everybody's label counts; exact where rounding them explains the Gram matrix.

    >>> from fedcbs.audit._factor import factorise
    >>> from fedcbs.imbalance import FactorGram
    >>> gram = FactorGram([[50, 0], [0, 70], [20, 20]])
    >>> spectral_attack(gram, factorise(gram, 2)).consistent
    True
    """
    filled = np.flatnonzero(gram.num_examples > 0)
    if factor.rank == 0 or len(filled) < factor.rank:
        return None
    rng = _random.generator("spectral attack")
    fitted = filled if len(filled) <= MOST_FITTED else np.sort(rng.choice(filled, MOST_FITTED, replace=False))
    sizes = gram.num_examples.astype(np.float64)
    points = factor.rows[fitted] / sizes[fitted, None]
    turns: list[NDArray[np.float64]] = []
    for start in range(STARTS):
        turn = _snapped(factor.rows[fitted], sizes[fitted], _refined(points, _corners(points, start, rng)))
        # A zero may have come out as -0.
        whole = _with_empty_classes(np.abs(np.rint(factor.rows @ turn)), gram.num_classes)
        if explains(whole, gram):
            return Recovery("spectral", whole, consistent=True, unique=generate_everything(whole))
        turns.append(turn)
    best = min(turns, key=lambda one: _misfit(points @ one))
    counts = _counts(factor.rows @ best, sizes)
    return Recovery("spectral", _with_empty_classes(counts, gram.num_classes), consistent=False)


def _with_empty_classes(counts: NDArray[np.float64], num_classes: int) -> NDArray[np.float64]:
    """Counts with a column of zeros for each class that nobody has."""
    return np.hstack([counts, np.zeros((len(counts), num_classes - counts.shape[1]))])


def _corners(points: NDArray[np.float64], start: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Points furthest out, each away from those before; all but the first start look at a random half of the points."""
    looked_at = points
    if start:
        looked_at = points[rng.random(len(points)) < 0.5]
        looked_at = looked_at if len(looked_at) >= points.shape[1] else points
    left = looked_at.copy()
    found = []
    for _ in range(points.shape[1]):
        lengths = np.einsum("nb,nb->n", left, left)
        furthest = int(np.argmax(lengths))
        found.append(furthest)
        if lengths[furthest] > 0:
            direction = left[furthest] / np.sqrt(lengths[furthest])
            left = left - np.outer(left @ direction, direction)
    return looked_at[found]


def _refined(points: NDArray[np.float64], corners: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rotation that takes the points nearest to the simplex, from the frame of corners on."""
    turn = _nearest_rotation(corners).T
    for _ in range(STEPS):
        shares = _onto_simplex(points @ turn)
        turned = _nearest_rotation(points.T @ shares)
        if np.abs(turned - turn).max() < 1e-9:
            break
        turn = turned
    return turn


def _snapped(
    rows: NDArray[np.float64], sizes: NDArray[np.float64], turn: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Rotation refitted to the rounded counts while that changes them: label counts are whole numbers."""
    counts = np.rint(_counts(rows @ turn, sizes))
    for _ in range(SNAPS):
        turned = _nearest_rotation(rows.T @ counts)
        again = np.rint(_counts(rows @ turned, sizes))
        if np.abs(rows @ turned - counts).mean() > np.abs(rows @ turn - counts).mean():
            break
        turn = turned
        if np.array_equal(again, counts):
            break
        counts = again
    return turn


def _counts(rows: NDArray[np.float64], sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Counts that are not negative and add up to the sizes."""
    counts: NDArray[np.float64] = _onto_simplex(rows) * sizes[:, None]
    return counts


def _onto_simplex(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares: what is negative is cut off, and the rest adds up to 1."""
    cut = np.maximum(rows, 0.0)
    shares: NDArray[np.float64] = cut / np.maximum(cut.sum(axis=1, keepdims=True), 1e-12)
    return shares


def _nearest_rotation(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    left, _, right = np.linalg.svd(matrix)
    return np.asarray(left @ right)


def _misfit(shares: NDArray[np.float64]) -> float:
    """How far shares are from the simplex."""
    return float(np.minimum(shares, 0.0).sum() ** 2 + ((shares.sum(axis=1) - 1) ** 2).sum())
