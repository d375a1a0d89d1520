"""Slow, obvious forms of what the package computes fast: whole numbers, fractions, and enumeration of every case.

A law is a dict from cohorts (frozensets of clients) to probabilities. Powers of QCIDs need neither logarithms nor floors
against overflow here: `Decimal` has room for them.
"""

from __future__ import annotations

import decimal
import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

DIGITS = decimal.Context(prec=60, Emin=-(10**9), Emax=10**9)

Counts = Sequence[Sequence[int]]
Law = dict[frozenset[int], float]


def qcid(label_counts: Counts, cohort: Sequence[int] | frozenset[int]) -> Fraction:
    """Sum over classes of (share of the class in the pooled data - 1/B)**2, as the paper defines it."""
    num_classes = len(label_counts[0])
    pooled = [sum(int(label_counts[n][b]) for n in cohort) for b in range(num_classes)]
    total = sum(pooled)
    return sum(
        ((Fraction(count, total) - Fraction(1, num_classes)) ** 2 for count in pooled), start=Fraction(0)
    )


def imbalance(label_counts: Counts, cohort: Sequence[int] | frozenset[int], own: float) -> Fraction:
    """QCID of a cohort, and `own` times the mean of its members' own."""
    mean = sum((qcid(label_counts, [n]) for n in cohort), start=Fraction(0)) / len(cohort)
    return qcid(label_counts, cohort) + Fraction(own) * mean


def gram(label_counts: Counts) -> list[list[int]]:
    """Inner products of label counts, as Python integers."""
    return [
        [sum(int(a) * int(b) for a, b in zip(x, y, strict=True)) for y in label_counts] for x in label_counts
    ]


def qcid_from_gram(inner: Counts, sizes: Sequence[int], num_classes: int, cohort: Sequence[int]) -> Fraction:
    """QCID from inner products and sizes."""
    pairs = sum(int(inner[n][m]) for n in cohort for m in cohort)
    return Fraction(pairs, sum(int(sizes[n]) for n in cohort) ** 2) - Fraction(1, num_classes)


def power(base: Fraction, exponent: float, floor: float) -> Decimal:
    """``max(base, floor) ** -exponent``."""
    value = max(DIGITS.divide(Decimal(base.numerator), Decimal(base.denominator)), Decimal(floor))
    return DIGITS.power(value, DIGITS.minus(Decimal(exponent)))


def normalised(weights: Mapping[frozenset[int], Decimal]) -> Law:
    """Weights as probabilities."""
    total = sum(weights.values(), start=Decimal(0))
    return {cohort: float(DIGITS.divide(weight, total)) for cohort, weight in weights.items()}


def sequential_law(
    label_counts: Counts,
    available: Sequence[int],
    exponents: Sequence[float],
    *,
    floor: float,
    bonus: Mapping[int, float] | None = None,
    first: int | None = None,
) -> Law:
    """Algorithm 1 of Fed-CBS: follow every order in which a cohort can come about, from `first` on where one is named."""
    law: dict[frozenset[int], Decimal] = defaultdict(Decimal)

    def extend(chosen: tuple[int, ...], probability: Decimal) -> None:
        if len(chosen) == len(exponents):
            law[frozenset(chosen)] += probability
            return
        weights = {
            n: power(qcid(label_counts, (*chosen, n)), exponents[len(chosen)], floor)
            + (Decimal(bonus[n]) if bonus and not chosen else 0)
            for n in available
            if n not in chosen
        }
        total = sum(weights.values(), start=Decimal(0))
        for n, weight in weights.items():
            extend((*chosen, n), probability * DIGITS.divide(weight, total))

    extend(() if first is None else (first,), Decimal(1))
    return {cohort: float(probability) for cohort, probability in law.items()}


def seat_law(
    label_counts: Counts,
    available: Sequence[int],
    others: frozenset[int],
    *,
    exponent: float,
    floor: float,
    own: float = 0.0,
) -> dict[int, float]:
    """Law of one seat, given who has the others: ``max(imbalance(others with n), floor) ** -exponent``."""
    weights = {
        n: power(imbalance(label_counts, others | {n}, own), exponent, floor)
        for n in available
        if n not in others
    }
    total = sum(weights.values(), start=Decimal(0))
    return {n: float(DIGITS.divide(weight, total)) for n, weight in weights.items()}


def swept_law(
    label_counts: Counts,
    available: Sequence[int],
    law: Mapping[frozenset[int], float],
    *,
    exponent: float,
    floor: float,
    member: int | None = None,
    panel: int | None = None,
) -> Law:
    """Law of the cohort after a Gibbs sweep: each seat but `member`'s is redrawn once, in every order.

    With a `panel`, the seats go to the cohort or to this many others, drawn uniformly: every such panel is followed.
    """
    seats: dict[tuple[frozenset[int], tuple[int, ...]], dict[int, float]] = {}

    def redrawn(cohort: frozenset[int], leaver: int, candidates: tuple[int, ...]) -> dict[int, float]:
        key = (cohort - {leaver}, candidates)
        if key not in seats:
            seats[key] = seat_law(label_counts, candidates, key[0], exponent=exponent, floor=floor)
        return seats[key]

    swept: Law = defaultdict(float)
    for start, probability in law.items():
        others = [n for n in available if n not in start]
        panels = list(itertools.combinations(others, len(others) if panel is None else panel))
        orders = list(itertools.permutations(start - {member}))
        for drawn, order in itertools.product(panels, orders):
            candidates = tuple(sorted({*start, *drawn}))
            now: Law = {start: probability / len(panels) / len(orders)}
            for leaver in order:
                then: Law = defaultdict(float)
                for cohort, p in now.items():
                    for comer, chance in redrawn(cohort, leaver, candidates).items():
                        then[cohort - {leaver} | {comer}] += p * chance
                now = then
            for cohort, p in now.items():
                swept[cohort] += p
    return dict(swept)


def stated_law(
    label_counts: Counts,
    available: Sequence[int],
    size: int,
    *,
    exponent: float,
    floor: float,
    own: float = 0.0,
    member: int | None = None,
) -> Law:
    """``P(C) ~ max(imbalance(C), floor) ** -exponent``, given that `member` is in C where one is named."""
    return normalised(
        {
            frozenset(cohort): power(imbalance(label_counts, cohort, own), exponent, floor)
            for cohort in itertools.combinations(available, size)
            if member is None or member in cohort
        }
    )


def explored_law(
    label_counts: Counts,
    available: Sequence[int],
    size: int,
    *,
    exponent: float,
    floor: float,
    exploration: float,
    times_selected: Sequence[int],
) -> Law:
    """The mixture of `fedcbs-exact`: one seat goes to an explorer with probability `exploration`.

    The explorer f has weight ``T_f ** -1/2``, where T starts at 1; the others follow the stated law given that f is in.
    """
    law: Law = defaultdict(float)
    for cohort, p in stated_law(label_counts, available, size, exponent=exponent, floor=floor).items():
        law[cohort] += (1 - exploration) * p
    weights = {n: 1 / math.sqrt(1 + times_selected[n]) for n in available}
    for n, weight in weights.items():
        chance = exploration * weight / sum(weights.values())
        given = stated_law(label_counts, available, size, exponent=exponent, floor=floor, member=n)
        for cohort, p in given.items():
            law[cohort] += chance * p
    return dict(law)


def uniform_law(available: Sequence[int], size: int) -> Law:
    """Every cohort of the size alike."""
    cohorts = [frozenset(cohort) for cohort in itertools.combinations(available, size)]
    return {cohort: 1 / len(cohorts) for cohort in cohorts}


def without_replacement_law(weights: Mapping[int, float], size: int) -> Law:
    """Clients one after another in proportion to the weights of those left; once only zeros are left, uniformly."""
    law: dict[frozenset[int], Fraction] = defaultdict(Fraction)

    def extend(chosen: tuple[int, ...], probability: Fraction) -> None:
        if len(chosen) == size:
            law[frozenset(chosen)] += probability
            return
        left = {n: Fraction(weight) for n, weight in weights.items() if n not in chosen}
        total = sum(left.values(), start=Fraction(0))
        for n, weight in left.items():
            share = weight / total if total else Fraction(1, len(left))
            if share:
                extend((*chosen, n), probability * share)

    extend((), Fraction(1))
    return {cohort: float(probability) for cohort, probability in law.items()}


def marginals(law: Mapping[frozenset[int], float]) -> dict[int, float]:
    """Probability of each client to be in the cohort."""
    inside: dict[int, float] = defaultdict(float)
    for cohort, probability in law.items():
        for n in cohort:
            inside[n] += probability
    return dict(inside)


def mixed(laws: Mapping[int, Law], chances: Mapping[int, float]) -> Law:
    """The laws, each with its chance."""
    law: Law = defaultdict(float)
    for case, chance in chances.items():
        for cohort, probability in laws[case].items():
            law[cohort] += chance * probability
    return dict(law)


def shares_of(weights: Mapping[int, float]) -> dict[int, float]:
    """Weights as probabilities."""
    total = math.fsum(weights.values())
    return {n: weight / total for n, weight in weights.items()}


def poured(order: Sequence[int], masses: Sequence[Fraction], num_bins: int) -> list[list[Fraction]]:
    """Mass of each client in each bin of capacity 1: clients one after another, a bin full before the next."""
    bins = [[Fraction(0)] * len(masses) for _ in range(num_bins)]
    k = 0
    for client in order:
        left = masses[client]
        while left > 0:
            room = 1 - sum(bins[k])
            here = min(left, room)
            bins[k][client] += here
            left -= here
            if here == room:
                k += 1
    return bins


def ward_groups(distances: Sequence[Sequence[float]], num_groups: int) -> set[frozenset[int]]:
    """Ward's tree by the formula of Lance and Williams, cut into this many groups."""
    groups: dict[int, frozenset[int]] = {i: frozenset([i]) for i in range(len(distances))}
    squares = {(i, j): distances[i][j] ** 2 for i in groups for j in groups if i != j}
    while len(groups) > num_groups:
        i, j = min(((i, j) for i in groups for j in groups if i < j), key=lambda pair: squares[pair])
        merged, sizes = max(groups) + 1 + len(distances), {g: len(groups[g]) for g in groups}
        for other in groups.keys() - {i, j}:
            whole = sizes[i] + sizes[j] + sizes[other]
            value = (
                (sizes[i] + sizes[other]) * squares[i, other]
                + (sizes[j] + sizes[other]) * squares[j, other]
                - sizes[other] * squares[i, j]
            ) / whole
            squares[merged, other] = squares[other, merged] = value
        groups[merged] = groups.pop(i) | groups.pop(j)
    return set(groups.values())
