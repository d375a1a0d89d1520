"""Clustered sampling: bins against exact pouring, trees against Ward's formula, and unbiasedness."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fedcbs.selectors import ClusteredBySimilarity, ClusteredBySize, Feedback
from fedcbs.selectors._clustered import bins_by_similarity, bins_by_size, condensed_distances
from tests.goodness_of_fit import assert_law
from tests.reference import poured, ward_groups
from tests.selectors.laws import Told, one

SIZES = st.lists(st.integers(1, 50), min_size=1, max_size=9)
CLIENTS = Told(num_examples=[5, 0, 70, 1, 12, 9, 30, 8])
AVAILABLE = [7, 1, 2, 5, 4, 6]
FILLED = sorted(n for n in AVAILABLE if n != 1)
UPDATES = [[1, 0], [0, 1], [2, 0.1], [-1, 2], [3, -0.2], [-0.4, 1], [0.1, -2], [0.2, 3]]
Bins = list[list[Fraction]]


def masses(sizes: list[int], num_bins: int) -> list[Fraction]:
    return [Fraction(num_bins * size, sum(sizes)) for size in sizes]


def literal_by_size(sizes: list[int], num_bins: int) -> Bins:
    order = sorted(range(len(sizes)), key=lambda i: -sizes[i])
    return poured(order, masses(sizes, num_bins), num_bins)


def literal_by_similarity(sizes: list[int], num_bins: int, distances: np.ndarray) -> Bins:
    """Algorithm 2, with a client of mass over 1 in bins of its own."""
    mass = masses(sizes, num_bins)
    bins: Bins = []
    for client, held in enumerate(mass):
        for _ in range(int(held)):
            bins.append([Fraction(int(i == client)) for i in range(len(sizes))])
    left = [held - int(held) for held in mass]
    for num_groups in range(1, len(sizes) + 1):
        groups = [sorted(group) for group in ward_groups(distances.tolist(), num_groups)]
        if all(sum(left[i] for i in group) <= 1 for group in groups):
            break
    groups.sort(key=lambda group: (-sum(left[i] for i in group), group[0]))
    free = num_bins - len(bins)
    for group in groups[:free]:
        bins.append([left[i] if i in group else Fraction(0) for i in range(len(sizes))])
    bins += [[Fraction(0)] * len(sizes) for _ in range(num_bins - len(bins))]
    for client in itertools.chain(*groups[free:]):
        rest = left[client]
        for row in bins:
            here = min(rest, 1 - sum(row))
            row[client] += here
            rest -= here
    return bins


def law_of_multiplicities(bins: Bins) -> dict[tuple[int, ...], float]:
    """How often each client is drawn, one draw a bin."""
    law: Counter[tuple[int, ...]] = Counter({tuple([0] * len(bins[0])): Fraction(1)})
    for row in bins:
        then: Counter[tuple[int, ...]] = Counter()
        for times, chance in law.items():
            for client, share in enumerate(row):
                if share:
                    then[(*times[:client], times[client] + 1, *times[client + 1 :])] += chance * share
        law = then
    return {times: float(chance) for times, chance in law.items()}


def multiplicities(selection: object, size: int) -> tuple[int, ...]:
    times = dict.fromkeys(FILLED, 0)
    for client, weight in zip(selection.cohort.tolist(), selection.weights.tolist(), strict=True):  # type: ignore[attr-defined]
        times[client] = round(weight * size)
    return tuple(times.values())


@given(SIZES, st.integers(1, 6))
def test_bins_by_size_are_poured_exactly_and_unbiased(sizes: list[int], num_bins: int) -> None:
    bins = bins_by_size(np.array(sizes), num_bins)
    exact = literal_by_size(sizes, num_bins)
    assert np.allclose(bins, np.array(exact, dtype=float), atol=1e-9)
    assert [sum(row) for row in exact] == [1] * num_bins
    assert [sum(column) for column in zip(*exact, strict=True)] == masses(sizes, num_bins)
    assert bins.sum(axis=1) == pytest.approx([1.0] * num_bins)
    assert bins.sum(axis=0) == pytest.approx([float(mass) for mass in masses(sizes, num_bins)])


@given(SIZES, st.integers(1, 6), st.data())
def test_bins_by_similarity_are_unbiased(sizes: list[int], num_bins: int, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(-9, 9), min_size=len(sizes), max_size=len(sizes)))
    distances = condensed_distances([np.array(places, dtype=float)[:, None]], "l1")
    bins = bins_by_similarity(np.array(sizes), num_bins, distances)
    assert (bins >= 0).all()
    assert bins.sum(axis=1) == pytest.approx([1.0] * num_bins)
    assert bins.sum(axis=0) == pytest.approx([float(mass) for mass in masses(sizes, num_bins)])


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("distance", ["l2", "l1", "angle"])
def test_bins_by_similarity_are_those_of_wards_tree(seed: int, distance: str) -> None:
    """Distances handed over as a square matrix would be taken for places, and give another tree."""
    rng = np.random.default_rng(seed)
    num_clients, num_bins = int(rng.integers(2, 9)), int(rng.integers(1, 5))
    sizes = rng.integers(1, 30, num_clients)
    condensed = condensed_distances([rng.normal(size=(num_clients, 3))], distance)
    square = np.zeros((num_clients, num_clients))
    square[np.triu_indices(num_clients, k=1)] = condensed
    bins = bins_by_similarity(sizes, num_bins, condensed)
    exact = literal_by_similarity(sizes.tolist(), num_bins, square + square.T)
    assert np.allclose(bins, np.array(exact, dtype=float), atol=1e-9)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_drawing_by_size_is_one_draw_a_bin_among_those_available(size: int) -> None:
    found = [
        multiplicities(one(ClusteredBySize(), CLIENTS, cohort_size=size, available=AVAILABLE, seed=s), size)
        for s in range(2500)
    ]
    sizes = [int(CLIENTS.num_examples()[n]) for n in FILLED]
    assert_law(found, law_of_multiplicities(literal_by_size(sizes, size)))


@pytest.mark.parametrize("size", [2, 3])
def test_drawing_by_similarity_is_one_draw_a_bin_among_those_available(size: int) -> None:
    selector = ClusteredBySimilarity(distance="l2")
    state = selector.observe(selector.init(8), Feedback(answered=range(8), updates=UPDATES))
    found = [
        multiplicities(
            one(selector, CLIENTS, cohort_size=size, available=AVAILABLE, state=state, seed=s), size
        )
        for s in range(1500)
    ]
    sizes = [int(CLIENTS.num_examples()[n]) for n in FILLED]
    places = np.array(UPDATES, dtype=np.float32).astype(float)[FILLED]
    square = np.array([[float(np.linalg.norm(a - b)) for b in places] for a in places])
    law: Counter[tuple[int, ...]] = Counter()
    orders = list(itertools.permutations(range(len(sizes))))
    for order in orders:  # in which clients of a group are poured, and ties of the tree are broken, is random
        shuffled = literal_by_similarity([sizes[i] for i in order], size, square[np.ix_(order, order)])
        bins = [[row[order.index(i)] for i in range(len(order))] for row in shuffled]
        for times, chance in law_of_multiplicities(bins).items():
            law[times] += chance / len(orders)
    assert_law(found, law)


@pytest.mark.parametrize("selector", [ClusteredBySize(), ClusteredBySimilarity()])
def test_the_average_of_the_cohort_is_unbiased(selector: ClusteredBySize | ClusteredBySimilarity) -> None:
    state = selector.init(8)
    if isinstance(selector, ClusteredBySimilarity):
        state = selector.observe(state, Feedback(answered=range(8), updates=UPDATES))
    rounds = 1500
    weights = np.zeros(8)
    for s in range(rounds):
        selection = one(selector, CLIENTS, cohort_size=3, available=AVAILABLE, state=state, seed=s)
        weights[selection.cohort] += selection.weights / rounds
    sizes = np.where(np.isin(np.arange(8), FILLED), CLIENTS.num_examples(), 0)
    expected = sizes / sizes.sum()
    assert np.abs(weights - expected).max() < 4 * np.sqrt(0.25 / 3 / rounds)


def test_clients_alike_share_a_bin_and_are_not_drawn_together() -> None:
    updates = [[1, 0], [2, 0], [0, 1], [0, 3], [-1, 0], [-2, 0]]
    clients = Told(num_examples=[4] * 6)
    selector = ClusteredBySimilarity()
    state = selector.observe(selector.init(6), Feedback(answered=range(6), updates=updates))
    for seed in range(60):
        cohort = one(selector, clients, cohort_size=3, state=state, seed=seed).cohort.tolist()
        assert sorted(client // 2 for client in cohort) == [0, 1, 2]


def test_angles_do_not_see_lengths_and_those_without_an_update_are_at_right_angles() -> None:
    rows = np.array([[1.0, 0.0], [5.0, 0.0], [0.0, 2.0], [-3.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    angles = condensed_distances([rows], "angle")
    square = np.zeros((6, 6))
    square[np.triu_indices(6, k=1)] = angles
    half = np.pi / 2
    assert square[0, 1] == pytest.approx(0)
    assert square[0, 2] == pytest.approx(half)
    assert square[0, 3] == pytest.approx(np.pi)
    assert square[4, 5] == pytest.approx(0)
    assert square[:4, 4:] == pytest.approx(np.full((4, 2), half))


@given(
    st.lists(st.lists(st.floats(-100, 100), min_size=2, max_size=2), min_size=2, max_size=6),
    st.sampled_from(["l1", "l2"]),
)
def test_condensed_distances_are_the_upper_triangle_row_by_row(
    rows: list[list[float]], distance: str
) -> None:
    order = 1 if distance == "l1" else 2
    literal = [
        float(np.linalg.norm(np.subtract(rows[i], rows[j]), ord=order))
        for i in range(len(rows))
        for j in range(i + 1, len(rows))
    ]
    assert condensed_distances([np.array(rows)], distance) == pytest.approx(literal, abs=1e-4)
    stretches = np.hsplit(np.array(rows), [1])
    assert condensed_distances(stretches, distance) == pytest.approx(literal, abs=1e-4)
