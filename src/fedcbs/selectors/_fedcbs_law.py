"""The two laws of Fed-CBS: the one its algorithm has, and the one its theorems are about.

Both work on a Gram of the available clients alone, numbered from 0, and return positions in it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedcbs.imbalance import BLOCK, CohortBuilder, Gram
from fedcbs.selectors._sampling import categorical

__all__ = ["gibbs_sweep", "sequential_cohort"]

LogWeights = Callable[[int, int], NDArray[np.float64]]


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


def gibbs_sweep(
    gram: Gram,
    cohort: NDArray[np.int64],
    exponent: float,
    rng: np.random.Generator,
    *,
    floor: float,
    fixed: int | None = None,
) -> NDArray[np.int64]:
    """Redraw every seat of a cohort once, each from its law given the other seats.

    Leaves ``P(C) ~ max(QCID(C), floor) ** -exponent`` invariant; with `fixed`, that law given that this client is in.
    A seat costs O(N), so a sweep costs what the sequential choice costs.
    """
    ids = np.arange(gram.num_clients)
    sizes = gram.num_examples.astype(np.float64)
    # Whole numbers: B * S - q q^T, whose sum over a cohort is the numerator of its QCID.
    excess = gram.block(ids, ids) * gram.num_classes
    excess -= sizes[:, None] * sizes
    twice = 2.0 * excess
    members = cohort.copy()
    # What each candidate would add to the numerator: its own entry and twice those with the members.
    gain = excess.diagonal() + twice[members].sum(axis=0)
    state = _GibbsState(
        twice, sizes, gain, members, float(excess[np.ix_(members, members)].sum()), float(sizes[members].sum())
    )
    seats = rng.permutation(np.flatnonzero(members != fixed)) if fixed is not None else rng.permutation(len(members))
    scaled_floor = floor * gram.num_classes
    for seat, uniform in zip(seats.tolist(), rng.random(len(seats)).tolist(), strict=True):
        state.redraw(seat, uniform, exponent, scaled_floor)
    return members


class _GibbsState:
    """Running sums of a sweep; arrays are updated in place, since a seat costs about ten microseconds."""

    def __init__(
        self,
        twice: NDArray[np.float64],
        sizes: NDArray[np.float64],
        gain: NDArray[np.float64],
        members: NDArray[np.int64],
        numerator: float,
        size: float,
    ) -> None:
        self.twice, self.sizes, self.gain, self.members = twice, sizes, gain, members
        self.numerator, self.size = numerator, size
        self.scratch, self.squares = np.empty_like(gain), np.empty_like(gain)

    def redraw(self, seat: int, uniform: float, exponent: float, scaled_floor: float) -> None:
        """Empty one seat and fill it anew."""
        gain, members, weights, squares = self.gain, self.members, self.scratch, self.squares
        leaver = int(members[seat])
        gain -= self.twice[leaver]
        self.numerator -= float(gain[leaver])
        self.size -= float(self.sizes[leaver])

        np.add(self.sizes, self.size, out=squares)
        np.multiply(squares, squares, out=squares)
        np.add(gain, self.numerator, out=weights)
        np.divide(weights, squares, out=weights)  # QCID * B
        np.maximum(weights, scaled_floor, out=weights)
        members[seat] = -1
        weights[members[members >= 0]] = np.inf
        np.divide(weights, weights.min(), out=weights)
        np.log(weights, out=weights)
        np.multiply(weights, -exponent, out=weights)
        np.exp(weights, out=weights)
        comer = categorical(weights, uniform)

        members[seat] = comer
        self.numerator += float(gain[comer])
        self.size += float(self.sizes[comer])
        gain += self.twice[comer]


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
            inside = members[(members >= start) & (members < stop)] if stop - start < builder.num_candidates else members
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
