"""DivFL's greedy choices beside the optimum by brute force, and beside each other."""

from __future__ import annotations

import itertools
import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fedcbs.selectors import DivFL, Feedback, Need
from fedcbs.selectors._divfl import _distances, greedy_facilities, lazy_facilities, stochastic_facilities
from tests.goodness_of_fit import assert_law
from tests.reference import Law
from tests.selectors.laws import Told, draws, one

POINTS = [
    [0.0, 0.0], [0.1, 0.2], [5.0, 5.1], [5.2, 5.0], [-4.0, 3.0], [-4.1, 3.3], [9.0, -1.0], [0.3, 0.1],
]  # fmt: skip
CLIENTS = Told(num_examples=[1] * 8, updates=POINTS)


def points() -> st.SearchStrategy[np.ndarray]:
    """Clients on a line of whole numbers: distances are exact, and often equal."""
    return st.lists(st.integers(-20, 20), min_size=1, max_size=9).map(
        lambda places: np.array(places, dtype=float)[:, None]
    )


def apart(places: np.ndarray) -> np.ndarray:
    return np.array([[math.dist(a, b) for b in places] for a in places])


def cost(distances: np.ndarray, cohort: tuple[int, ...] | list[int]) -> float:
    return sum(min(row[i] for i in cohort) for row in distances.tolist())


def literal_greedy(distances: np.ndarray, size: int) -> list[int]:
    chosen: list[int] = []
    for _ in range(size):
        left = [i for i in range(len(distances)) if i not in chosen]
        chosen.append(min(left, key=lambda i: cost(distances, [*chosen, i])))
    return chosen


@given(points(), st.data())
def test_greedy_is_the_literal_loop_and_lazy_is_greedy(places: np.ndarray, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(places)))
    distances = apart(places)
    assert greedy_facilities(distances, size) == literal_greedy(distances, size)
    assert lazy_facilities(distances, size) == literal_greedy(distances, size)


@given(points(), st.data())
def test_greedy_keeps_its_guarantee_beside_the_optimum(places: np.ndarray, data: st.DataObject) -> None:
    """Facility location is submodular: what greedy saves is at least 1 - 1/e of what can be saved."""
    size = data.draw(st.integers(1, len(places)))
    distances = apart(places)
    nobody = len(places) * distances.max()
    optimum = min(cost(distances, cohort) for cohort in itertools.combinations(range(len(places)), size))
    found = cost(distances, greedy_facilities(distances, size))
    assert found >= optimum
    assert nobody - found >= (1 - 1 / math.e) * (nobody - optimum) - 1e-9


@pytest.mark.parametrize("method", ["greedy", "lazy"])
def test_clear_groups_are_represented_by_one_client_each(method: str) -> None:
    found = draws(DivFL(method=method), CLIENTS, times=40, cohort_size=4)
    for cohort in found:
        assert 6 in cohort
        for group in ({0, 1, 7}, {2, 3}, {4, 5}):
            assert len(cohort & group) == 1


def test_equal_gains_are_ordered_at_random() -> None:
    pairs = Told(num_examples=[1] * 4, updates=[[0.0], [0.0], [8.0], [8.0]])
    for method in ("greedy", "lazy"):
        found = draws(DivFL(method=method), pairs, times=2000, cohort_size=2)
        assert_law(found, {frozenset({a, b}): 0.25 for a in (0, 1) for b in (2, 3)})


@pytest.mark.parametrize("size", [1, 2, 3])
def test_stochastic_greedy_looks_at_a_random_part_of_those_left(size: int) -> None:
    distances = apart(np.array(POINTS))
    rng = np.random.default_rng(0)
    found = [frozenset(stochastic_facilities(distances, size, rng)) for _ in range(4000)]
    law: Law = {}

    def extend(chosen: list[int], chance: float) -> None:
        if len(chosen) == size:
            law[frozenset(chosen)] = law.get(frozenset(chosen), 0.0) + chance
            return
        left = [i for i in range(len(POINTS)) if i not in chosen]
        looks = list(itertools.combinations(left, min(max(size, len(POINTS) // 10), len(left))))
        for look in looks:
            costs = {i: cost(distances, [*chosen, i]) for i in look}
            best = [i for i in look if costs[i] < min(costs.values()) + 1e-9]  # a far pair gains by either
            for i in best:
                extend([*chosen, i], chance / len(looks) / len(best))

    extend([], 1.0)
    assert_law(found, law)


def test_the_selector_draws_as_stochastic_greedy_does_among_those_available() -> None:
    available = [1, 2, 4, 6, 7]
    found = draws(DivFL(method="stochastic"), CLIENTS, times=1500, cohort_size=2, available=available)
    distances = apart(np.array(POINTS)[available])
    rng = np.random.default_rng(1)
    places = [frozenset(stochastic_facilities(distances, 2, rng)) for _ in range(8_000)]
    law = {
        frozenset(available[i] for i in cohort): places.count(cohort) / len(places) for cohort in set(places)
    }
    assert_law(found, law)


@given(st.lists(st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3), min_size=1, max_size=6))
def test_distances_by_inner_products_are_distances(rows: list[list[float]]) -> None:
    assert np.allclose(_distances([np.array(rows)]), apart(np.array(rows)), atol=1e-4)
    assert np.allclose(_distances(np.hsplit(np.array(rows), [1])), apart(np.array(rows)), atol=1e-4)


def test_everybody_is_asked_once_and_participants_refresh_theirs() -> None:
    selector = DivFL()
    first = one(selector, CLIENTS, cohort_size=2, available=[0, 1, 2, 3])
    assert first.asked == {Need.UPDATES: 4}
    second = one(selector, CLIENTS, cohort_size=2, state=first.state)
    assert second.asked == {Need.UPDATES: 4}  # those not seen before
    moved = selector.observe(second.state, Feedback(answered=[6], updates=[[0.0, 0.1]]))
    third = one(selector, CLIENTS, cohort_size=3, state=moved)
    assert third.asked == {}
    assert 6 not in third.cohort or not {0, 1, 7} & set(third.cohort.tolist())  # it is one of that group now


def test_weights_are_the_shares_of_clients_that_each_stands_for() -> None:
    selection = one(DivFL(weigh_by_represented=True), CLIENTS, cohort_size=4)
    weight = dict(zip(selection.cohort.tolist(), selection.weights.tolist(), strict=True))
    for group in ({0, 1, 7}, {2, 3}, {4, 5}, {6}):
        assert sum(weight.get(n, 0.0) for n in group) == pytest.approx(len(group) / 8)
