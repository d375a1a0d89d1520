"""The lattice attack: label counts, exactly, from a Gram matrix and the sizes, up to the order of the classes.

Label counts are whole numbers, so the clients' rows generate a lattice L inside Z^B, whose Gram matrix is known in exact
arithmetic. The unit vector of a class has length 1, has whole inner products with all rows (so it lies in the dual of L),
none of them negative, and an inner product of 1 with the vector of ones, which the sizes determine. The vectors of length
1 in the dual lattice are few; LLL reduction and a short search find them all. Where just as many fit as there are
classes, no other label counts have this Gram matrix.

Usually L is Z^B itself, and LLL alone ends at its orthonormal basis. Looking in the dual also breaks populations
whose rows generate less: clients of equal size, or of two or three classes with equal shares.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcbs.audit._factor import Factor
from fedcbs.audit._recovery import Recovery, explains
from fedcbs.audit._short_vectors import short_vectors
from fedcbs.errors import MissingExtraError
from fedcbs.imbalance import Gram

__all__ = ["generate_everything", "lattice_attack"]

LARGEST_RANK = 80
"""LLL reaches the orthonormal basis up to 70 classes or so, and takes long to fail above."""

MOST_STEPS = 100_000
"""Steps of the search, a few seconds; past it the lattice counts as too hard."""

MOST_ROWS = 20_000
"""Clients whose rows are taken into the lattice; more of them add nothing in practice."""


def lattice_attack(gram: Gram, factor: Factor) -> Recovery | None:
    """Return the label counts that the attack finds, or None where it finds none.

    >>> from fedcbs.audit._factor import factorise
    >>> from fedcbs.imbalance import FactorGram
    >>> gram = FactorGram([[5, 1], [2, 7], [4, 4]])
    >>> found = lattice_attack(gram, factorise(gram, 2))
    >>> sorted(found.label_counts.T.tolist()), found.unique
    ([[1.0, 7.0, 4.0], [5.0, 2.0, 4.0]], True)
    """
    flint = _flint()
    if not 0 < factor.rank <= LARGEST_RANK:
        return None
    shared = _shared_divisor(factor, gram)
    scaled = Factor(factor.rows / shared, factor.pivots, factor.columns / shared**2)
    lattice = _Lattice(flint, scaled, gram.num_examples // shared)
    candidates = lattice.candidates().not_negative(scaled)
    frame = candidates.frame(factor.rank)
    if frame is None:
        return None
    # Everybody's label counts follow from those of the pivots; classes that nobody has are zero.
    counts = shared * np.rint(np.linalg.solve(frame.T.astype(np.float64), scaled.columns.T).T)
    counts = np.hstack([counts, np.zeros((len(counts), gram.num_classes - factor.rank))])
    if not explains(counts, gram):
        return None
    # With classes that nobody has, other rows could reach into them, unless the lattice has all unit vectors.
    spans = factor.rank == gram.num_classes or lattice.is_everything
    alone = candidates.complete and len(candidates.columns) == factor.rank
    return Recovery("lattice", counts, consistent=True, unique=alone and spans and shared == 1)


def generate_everything(label_counts: NDArray[np.float64]) -> bool:
    """Whether rows generate all whole vectors. Then no other rows have their Gram matrix, but for the order of classes.

    Another solution is the image of this one under a map that keeps lengths; it takes the unit vectors, which are sums of
    rows, to whole vectors of length 1, and so to unit vectors.

    >>> generate_everything(np.array([[5.0, 1.0], [2.0, 7.0], [4.0, 4.0]]))
    True
    >>> generate_everything(np.array([[2.0, 0.0], [0.0, 2.0]]))
    False
    """
    flint = _flint()
    rows = np.unique(label_counts[:MOST_ROWS].astype(np.int64), axis=0)
    size = rows.shape[1]
    basis: list[list[Any]] = []
    step = 2 * size
    for start in range(0, len(rows), step):
        stacked = flint.fmpz_mat(basis + rows[start : start + step].tolist())
        basis = [row for row in stacked.hnf().tolist() if any(row)]
        if len(basis) == size and all(basis[place][place] == 1 for place in range(size)):
            return True
    return False


@dataclasses.dataclass(frozen=True, eq=False)
class _Candidates:
    """What can be the unit vector of a class.

    Parameters
    ----------
    columns
        Inner products with the pivots, one candidate a row.
    inner
        Inner products with one another.
    complete
        Whether the search came to its end.
    """

    columns: NDArray[np.int64]
    inner: NDArray[np.float64]
    complete: bool

    def not_negative(self, factor: Factor) -> _Candidates:
        """Leave out those that would give any client a negative count."""
        corner = factor.rows[factor.pivots]
        counts = factor.rows @ np.linalg.solve(corner, self.columns.T.astype(np.float64))
        good = (counts > -0.5).all(axis=0)
        return _Candidates(self.columns[good], self.inner[np.ix_(good, good)], self.complete)

    def frame(self, rank: int) -> NDArray[np.int64] | None:
        """Choose as many that are orthogonal to one another as the rank, if there are."""
        crossing = np.abs(self.inner) > 1e-6
        for first in range(min(len(self.columns), 32)):
            chosen: list[int] = []
            for place in np.roll(np.arange(len(self.columns)), -first).tolist():
                if not crossing[place, chosen].any():
                    chosen.append(place)
            if len(chosen) == rank:
                return self.columns[chosen]
        return None


class _Lattice:
    """The lattice of the clients' rows, in coordinates of the pivots: ``basis / scale``, one generator a row."""

    def __init__(self, flint: Any, factor: Factor, sizes: NDArray[np.int64]) -> None:
        self._flint, self._rank = flint, factor.rank
        self._pivot_gram = self._matrix(factor.columns[factor.pivots])
        self._inverse, shared = self._pivot_gram.inv().numer_denom()
        self._scale = abs(int(shared))
        self._inverse *= 1 if int(shared) > 0 else -1
        self._ones = self._vector_of_ones(factor, sizes)
        self._basis = self._matrix(np.eye(self._rank)) * self._scale
        self.is_everything = False
        self._take_in(factor.columns[:MOST_ROWS])

    def candidates(self) -> _Candidates:
        """Vectors of length 1 in the dual lattice whose inner products are as a class's must be."""
        dual, det = (self._generator_gram().inv() * self._scale**2).numer_denom()
        reduced, transform = dual.lll(transform=True, rep="gram", gram="exact", delta=0.999, eta=0.501)
        scaled = np.array([[int(entry) / int(det) for entry in row] for row in reduced.tolist()])
        found, complete = short_vectors(scaled, 1.0, most_steps=MOST_STEPS)
        if not found:
            return _Candidates(np.zeros((0, self._rank), dtype=np.int64), np.zeros((0, 0)), complete)
        short = np.array(found)
        chosen = self._matrix(short) * transform
        columns, good = self._as_columns(chosen)
        good &= [
            sum(a * b for a, b in zip(row, image, strict=True)) == det
            for row, image in zip(chosen.tolist(), (chosen * dual).tolist(), strict=True)
        ]
        kept = short[good].astype(np.float64)
        return _Candidates(columns[good], kept @ scaled @ kept.T, complete)

    def _as_columns(self, chosen: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Inner products with the pivots, and whether none is negative and they fit the vector of ones."""
        # A dual basis vector has an inner product of 1 with its generator and 0 with the others.
        pivots = (self._basis.inv() * self._scale).numer_denom()[0]
        columns: list[list[int]] = []
        good: list[bool] = []
        for row in (chosen * pivots.transpose()).tolist():
            column = [int(entry) for entry in row]
            column = [-entry for entry in column] if sum(column) < 0 else column
            fits = min(column) >= 0 and max(column) < 2**53
            if fits and self._ones is not None:
                fits = sum(a * b for a, b in zip(column, self._ones, strict=True)) == self._scale
            columns.append(column if fits else [0] * self._rank)
            good.append(fits)
        return np.array(columns, dtype=np.int64), np.array(good)

    def _take_in(self, columns: NDArray[np.float64]) -> None:
        """Add the rows of clients until the lattice grows no more."""
        rows = [] if self._ones is None else [self._ones]
        step = max(self._rank, 16)
        for start in range(0, len(columns), step):
            rows += (self._matrix(columns[start : start + step]) * self._inverse).tolist()
            grown = self._grow(rows)
            if grown and self._generator_gram().det() == self._flint.fmpz(self._scale) ** (2 * self._rank):
                self.is_everything = True  # the determinant of the lattice is 1: all whole vectors are in it
                return
            rows = []

    def _grow(self, rows: list[list[Any]]) -> bool:
        """Bring in the rows that are not in the lattice yet; return whether there were any."""
        inverse, shared = self._basis.inv().numer_denom()
        places = (self._flint.fmpz_mat(rows) * inverse).tolist()
        fresh = [
            [entry % self._scale for entry in row]
            for row, place in zip(rows, places, strict=True)
            if any(entry % shared for entry in place)
        ]
        if not fresh:
            return False
        hermite = self._flint.fmpz_mat(self._basis.tolist() + fresh).hnf()
        self._basis = self._flint.fmpz_mat(hermite.tolist()[: self._rank])
        return True

    def _generator_gram(self) -> Any:
        """Inner products of the generators, times the scale squared."""
        return self._basis * self._pivot_gram * self._basis.transpose()

    def _vector_of_ones(self, factor: Factor, sizes: NDArray[np.int64]) -> list[Any] | None:
        """Coordinates, times the scale, of the vector whose inner product with everybody is their size.

        None where there is none in the span of the rows, or it is not of whole length.
        """
        of_pivots = self._matrix(sizes[factor.pivots][None])
        ones = of_pivots * self._inverse
        length = (ones * of_pivots.transpose())[0, 0]
        products = self._matrix(factor.columns[:MOST_ROWS]) * ones.transpose()
        fit = all(
            int(product[0]) == int(size) * self._scale
            for product, size in zip(products.tolist(), sizes[:MOST_ROWS].tolist(), strict=True)
        )
        return ones.tolist()[0] if fit and int(length) % self._scale == 0 else None

    def _matrix(self, values: NDArray[Any]) -> Any:
        return self._flint.fmpz_mat([[int(value) for value in row] for row in values.tolist()])


def _shared_divisor(factor: Factor, gram: Gram) -> int:
    """Largest number that can divide all label counts, going by inner products and sizes."""
    inner = int(np.gcd.reduce(factor.columns.astype(np.int64), axis=None))
    sizes = int(np.gcd.reduce(gram.num_examples))
    return max(g for g in range(1, math.isqrt(inner) + 1) if inner % g**2 == 0 and sizes % g == 0)


def _flint() -> Any:
    try:
        import flint
    except ImportError:
        raise MissingExtraError("python-flint", extra="audit", purpose="the lattice attack") from None
    return flint
