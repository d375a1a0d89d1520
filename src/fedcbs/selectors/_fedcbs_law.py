"""The two laws of Fed-CBS: the one its algorithm has, and the one its theorems are about.

Both work on a Gram of the available clients alone, numbered from 0, and return positions in it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedcbs.imbalance import BLOCK, CohortBuilder, Gram
from fedcbs.selectors._sampling import categorical

__all__ = ["GibbsChain", "sequential_cohort"]

LogWeights = Callable[[int, int], NDArray[np.float64]]

MOST_TABLED = 2**11
"""Up to so many candidates, a Gibbs chain keeps all their inner products (32 MB); beyond, it makes a row when needed."""


def sequential_cohort(
    gram: Gram,
    exponents: NDArray[np.float64],
    rng: np.random.Generator,
    *,
    floor: float,
    first_bonus: NDArray[np.float64] | None = None,
    first: int | None = None,
) -> NDArray[np.int64]:
    """Add clients one after another, the m-th with weight ``QCID(cohort with it) ** -exponents[m]``.

    Parameters
    ----------
    gram
        Inner products among the available clients.
    exponents
        One for each member, in the order of the choice.
    floor
        QCIDs below it count as it.
    first_bonus
        Added to the first member's weights.
    first
        The first member, if it is settled already.
    """
    builder = CohortBuilder(gram, largest_cohort=len(exponents))
    uniforms = rng.random((len(exponents), 2))
    for place, (exponent, (u, v)) in enumerate(zip(exponents.tolist(), uniforms.tolist(), strict=True)):
        if place == 0 and first is not None:
            builder.add(first)
            continue
        bonus = first_bonus if place == 0 else None
        log_weights = _log_weights(builder, exponent, floor, bonus)
        builder.add(_draw(log_weights, gram.num_clients, u, v))
    return np.array(builder.cohort, dtype=np.int64)


class GibbsChain:
    """Redraws the seats of a cohort one after another, each from its law given the other seats.

    Leaves ``P(C) ~ max(QCID(C) + own * mean of QCID({n}) over C, floor) ** -exponent`` invariant; with `fixed`, that law
    given that this client is in.
    A seat costs O(N), so a sweep costs what the sequential choice costs.

    Parameters
    ----------
    gram
        Inner products among the candidates.
    cohort
        Where the chain starts.
    exponent, floor, own
        The law.
    resolution
        QCIDs that float64 cannot tell from 0 (:func:`~fedcbs.imbalance.qcid_resolution`); a higher floor takes its place.
        Where it is above 0, taking a large member out leaves rounding errors that dwarf what is left; sums are then
        made anew for each seat, O(N * M), unless there are so many candidates that it would take for ever.
    fixed
        A member that keeps its seat.
    """

    def __init__(
        self,
        gram: Gram,
        cohort: NDArray[np.int64],
        exponent: float,
        *,
        floor: float,
        own: float = 0.0,
        resolution: float = 0.0,
        fixed: int | None = None,
    ) -> None:
        self._gram = gram
        self._sizes = gram.num_examples.astype(np.float64)
        # Whole numbers: B * S - q q^T, whose sum over a cohort is B * size**2 times its QCID.
        self._diagonal = gram.diagonal * gram.num_classes - self._sizes**2
        self._burdens: NDArray[np.float64] | None = (
            None  # what each client adds by itself, in the same unit as B * QCID
        )
        if own:
            self._burdens = self._diagonal / self._sizes**2 * (own / len(cohort))
        self._twice: NDArray[np.float64] | None = None  # twice that, as a table
        if gram.num_clients <= MOST_TABLED:
            ids = np.arange(gram.num_clients)
            self._twice = gram.block(ids, ids) * (2.0 * gram.num_classes)
            self._twice -= self._sizes[:, None] * (2.0 * self._sizes)
        self._exponent, self._floor = exponent, max(floor, resolution) * gram.num_classes
        self._anew, self._fixed = resolution > 0 and self._twice is not None, fixed
        self.members = cohort.copy()
        self._numerator, self._size, self._burden = 0.0, 0.0, 0.0
        self._taken = np.zeros(gram.num_clients)
        self._taken[self.members] = np.inf
        self._sum_up(self.members)

    def sweep(self, rng: np.random.Generator) -> None:
        """Redraw every seat once, in random order."""
        seats = rng.permutation(
            np.flatnonzero(self.members != self._fixed) if self._fixed is not None else len(self.members)
        )
        uniforms = rng.random(len(seats)).tolist()
        if self._twice is not None and not self._anew:
            self._redraw_by_table(seats.tolist(), uniforms, self._twice)
        else:
            self._redraw(seats.tolist(), uniforms)

    def _redraw(self, seats: list[int], uniforms: list[float]) -> None:
        for seat, uniform in zip(seats, uniforms, strict=True):
            self._empty(seat)
            self._fill(seat, categorical(self._weights(), uniform))

    def _redraw_by_table(self, seats: list[int], uniforms: list[float], twice: NDArray[np.float64]) -> None:
        """Do what :meth:`_redraw` does, written out: with few candidates, calls cost more than arithmetic."""
        gain, sizes, taken, members = self._gain, self._sizes, self._taken, self.members
        burdens, burden = self._burdens, self._burden
        numerator, size, power = self._numerator, self._size, -self._exponent
        squares, weights, squared = np.empty_like(gain), np.empty_like(gain), -1.0
        for seat, uniform in zip(seats, uniforms, strict=True):
            leaver = members.item(seat)
            taken[leaver] = 0.0
            gain -= twice[leaver]
            numerator -= gain.item(leaver)
            size -= sizes.item(leaver)
            if size != squared:  # clients of one size leave it as it was
                np.add(sizes, size, squares)
                np.multiply(squares, squares, squares)
                squared = size
            np.add(gain, numerator, weights)
            np.divide(weights, squares, weights)
            if burdens is not None:
                burden -= burdens.item(leaver)
                np.add(weights, burdens, weights)
                np.add(weights, burden, weights)
            np.add(weights, taken, weights)
            lowest = np.minimum.reduce(weights)
            if lowest < self._floor:
                np.maximum(weights, self._floor, out=weights)
                lowest = self._floor
            np.divide(weights, lowest, weights)
            np.log(weights, weights)
            np.multiply(weights, power, weights)
            comer = categorical(np.exp(weights, weights), uniform)
            members[seat] = comer
            taken[comer] = np.inf
            numerator += gain.item(comer)
            size += sizes.item(comer)
            gain += twice[comer]
            if burdens is not None:
                burden += burdens.item(comer)
        self._numerator, self._size, self._burden = numerator, size, burden

    def _sum_up(self, members: NDArray[np.int64]) -> None:
        """Note what each candidate adds to the sum over a cohort: its own entry, and twice those with the members."""
        self._gain, self._numerator, self._size, self._burden = self._diagonal.copy(), 0.0, 0.0, 0.0
        for member in members.tolist():
            self._add(member)

    def _empty(self, seat: int) -> None:
        leaver = int(self.members[seat])
        self._taken[leaver] = 0.0
        if self._anew:
            self._sum_up(np.delete(self.members, seat))
            return
        self._gain -= self._twice_row(leaver)
        self._numerator -= float(self._gain[leaver])
        self._size -= float(self._sizes[leaver])
        if self._burdens is not None:
            self._burden -= float(self._burdens[leaver])

    def _fill(self, seat: int, comer: int) -> None:
        self.members[seat] = comer
        self._taken[comer] = np.inf
        self._add(comer)

    def _add(self, member: int) -> None:
        self._numerator += float(self._gain[member])
        self._size += float(self._sizes[member])
        self._gain += self._twice_row(member)
        if self._burdens is not None:
            self._burden += float(self._burdens[member])

    def _twice_row(self, member: int) -> NDArray[np.float64]:
        row: NDArray[np.float64]
        if self._twice is not None:
            row = self._twice[member]
            return row
        row = self._sizes * (-2.0 * self._sizes[member])
        self._gram.add_column(member, row, start=0, scale=2.0 * self._gram.num_classes)
        return row

    def _weights(self) -> NDArray[np.float64]:
        """Weight of each candidate for the empty seat. In place: with few candidates, calls cost more than arithmetic."""
        squares = self._sizes + self._size
        squares *= squares
        weights: NDArray[np.float64] = self._gain + self._numerator
        weights /= squares  # B * QCID
        if self._burdens is not None:
            weights += self._burdens
            weights += self._burden
        np.maximum(weights, self._floor, out=weights)
        weights += self._taken
        weights /= np.minimum.reduce(weights)
        np.log(weights, out=weights)
        weights *= -self._exponent
        np.exp(weights, out=weights)
        return weights


def _log_weights(
    builder: CohortBuilder, exponent: float, floor: float, bonus: NDArray[np.float64] | None
) -> LogWeights:
    members = np.array(builder.cohort, dtype=np.int64)

    def of_block(start: int, stop: int) -> NDArray[np.float64]:
        values = builder.qcid_with_each(start, stop)
        np.maximum(values, floor, out=values)
        np.log(values, out=values)
        values *= -exponent
        if bonus is not None:
            with np.errstate(divide="ignore"):
                np.logaddexp(values, np.log(bonus[start:stop]), out=values)
        if len(members):
            inside = (
                members[(members >= start) & (members < stop)]
                if stop - start < builder.num_candidates
                else members
            )
            values[inside - start] = -np.inf
        return values

    return of_block


def _draw(log_weights: LogWeights, num_candidates: int, u: float, v: float) -> int:
    """Draw a candidate: first its block, by the blocks' sums, then its place there."""
    if num_candidates <= BLOCK:
        values = log_weights(0, num_candidates)
        return categorical(np.exp(values - values.max()), u)
    starts = range(0, num_candidates, BLOCK)
    tops, sums = np.empty(len(starts)), np.empty(len(starts))
    for i, start in enumerate(starts):
        values = log_weights(start, min(start + BLOCK, num_candidates))
        tops[i] = values.max()
        sums[i] = np.exp(values - max(tops[i], -1e300)).sum()
    start = starts[categorical(sums * np.exp(tops - tops.max()), v)]
    values = log_weights(start, min(start + BLOCK, num_candidates))
    return start + categorical(np.exp(values - values.max()), u)
