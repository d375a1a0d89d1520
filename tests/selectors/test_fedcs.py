"""FedCS beside the literal loop of its Algorithm 3, and beside the most clients that any order could fit."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fedcbs.errors import InvalidArgumentError
from fedcbs.selectors import FedCS
from tests.selectors.laws import Told, draws, one

SECONDS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 20)), min_size=1, max_size=6, unique=True)


def literal(durations: list[tuple[int, int]], size: int, deadline: float, overhead: float) -> list[int]:
    """The clients in the order of their choice; of equal ones the first."""
    left, elapsed, chosen = list(range(len(durations))), 0.0, []
    while left and len(chosen) < size:
        x = min(left, key=lambda n: durations[n][1] + max(0.0, durations[n][0] - elapsed))
        left.remove(x)
        after = elapsed + durations[x][1] + max(0.0, durations[x][0] - elapsed)
        if not deadline or overhead + after < deadline:
            elapsed = after
            chosen.append(x)
    return chosen


def elapsed(durations: list[tuple[int, int]], order: tuple[int, ...] | list[int]) -> float:
    seconds = 0.0
    for n in order:
        seconds = max(seconds, durations[n][0]) + durations[n][1]
    return seconds


def without_ties(durations: list[tuple[int, int]]) -> list[tuple[float, float]]:
    return [(a + n * 2.0**-20, b + n * 2.0**-10) for n, (a, b) in enumerate(durations)]


@given(SECONDS, st.data())
def test_cohorts_are_those_of_the_literal_loop(durations: list[tuple[int, int]], data: st.DataObject) -> None:
    seconds = without_ties(durations)
    deadline = data.draw(st.sampled_from([0.0, 5.5, 20.5, 60.5, 200.5]))
    size = data.draw(st.integers(1, len(seconds)))
    expected = literal(seconds, size, deadline, 1.0)
    clients = Told(num_examples=[1] * len(seconds), durations=seconds)
    selector = FedCS(deadline=deadline, overhead=1.0)
    if not expected:
        with pytest.raises(InvalidArgumentError, match="raise it"):
            one(selector, clients, cohort_size=size)
    else:
        assert one(selector, clients, cohort_size=size).cohort.tolist() == sorted(expected)


@given(SECONDS)
def test_a_cohort_fits_its_deadline_is_maximal_and_no_larger_than_the_optimum(
    durations: list[tuple[int, int]],
) -> None:
    deadline = 45.5
    order = literal(without_ties(durations), len(durations), deadline, 0.0)
    cohort = (
        one(
            FedCS(deadline=deadline),
            Told(num_examples=[1] * len(durations), durations=without_ties(durations)),
            cohort_size=len(durations),
        ).cohort.tolist()
        if order
        else []
    )
    assert elapsed(durations, order) < deadline
    assert sorted(order) == cohort
    for other in set(range(len(durations))) - set(order):
        assert elapsed(without_ties(durations), [*order, other]) >= deadline
    most = max(
        (
            size
            for size in range(len(durations) + 1)
            for sequence in itertools.permutations(range(len(durations)), size)
            if elapsed(durations, sequence) < deadline
        ),
        default=0,
    )
    assert len(cohort) <= most


def test_training_overlaps_but_uploads_do_not() -> None:
    durations = [(10.0, 1.0), (11.0, 1.0), (30.0, 1.0)]
    clients = Told(num_examples=[1] * 3, durations=durations)
    assert one(FedCS(deadline=12.5), clients, cohort_size=3).cohort.tolist() == [0, 1]  # 12 s, not 23
    assert one(FedCS(deadline=12.0), clients, cohort_size=3).cohort.tolist() == [0]
    assert one(FedCS(deadline=31.5), clients, cohort_size=3).cohort.tolist() == [0, 1, 2]


def test_without_a_deadline_the_quickest_of_those_available_are_taken() -> None:
    clients = Told(num_examples=[1] * 5, durations=[[9, 1], [1, 1], [5, 1], [2, 1], [7, 1]])
    assert one(FedCS(), clients, cohort_size=2, available=[4, 2, 0]).cohort.tolist() == [2, 4]


def test_a_deadline_that_nobody_makes_is_an_error_that_says_what_would_do() -> None:
    clients = Told(num_examples=[1] * 2, durations=[[9, 1], [4, 2]])
    with pytest.raises(InvalidArgumentError, match="deadline=6 but the quickest client needs 6 s; raise it"):
        one(FedCS(deadline=6.0), clients, cohort_size=1)


def test_equal_clients_are_chosen_at_random() -> None:
    clients = Told(num_examples=[1] * 4, durations=np.ones((4, 2)))
    assert len(draws(FedCS(), clients, times=200, cohort_size=2)) == 6
