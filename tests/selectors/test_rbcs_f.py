"""RBCS-F: its minimiser beside brute force, its bandit and queues beside the formulas."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fedcbs.selectors import RBCSF, Feedback, Round
from fedcbs.selectors._rbcs_f import quick_and_waiting
from tests.selectors.federation import ToyFederation
from tests.selectors.laws import Told, draws, one

TIMES = st.lists(st.integers(0, 30), min_size=1, max_size=8)
COUNTS = [[9, 0, 1], [0, 7, 0], [3, 3, 3], [0, 1, 12], [5, 0, 0], [0, 4, 4], [2, 2, 1], [0, 0, 8]]


@given(TIMES, st.data(), st.integers(0, 4))
def test_the_cohort_minimises_exactly(times: list[int], data: st.DataObject, delay_weight: int) -> None:
    queues = data.draw(st.lists(st.integers(0, 20), min_size=len(times), max_size=len(times)))
    size = data.draw(st.integers(1, len(times)))

    def cost(cohort: tuple[int, ...]) -> int:
        return delay_weight * max(times[n] for n in cohort) - sum(queues[n] for n in cohort)

    found = quick_and_waiting(np.array(times, float), np.array(queues, float), size, float(delay_weight))
    assert len(set(found.tolist())) == size
    assert cost(tuple(found.tolist())) == min(map(cost, itertools.combinations(range(len(times)), size)))


def test_rounds_follow_the_papers_formulas() -> None:
    """Queues, ridge regressions and optimistic times, client by client with matrix inverses."""
    selector = RBCSF(fairness=0.2, delay_weight=0.7, optimism=0.3, ridge=2.0)
    federation, state = ToyFederation(COUNTS), selector.init(8)
    queues, took_part = [0.0] * 8, [0.0] * 8
    covariance, response = [2.0 * np.eye(3) for _ in range(8)], [np.zeros(3) for _ in range(8)]
    rng = np.random.default_rng(0)
    for k in range(1, 31):
        available = sorted(rng.choice(8, 6, replace=False).tolist())
        selection = selector.select(
            state, Round(federation, cohort_size=3, round_index=k, available=available)
        )
        times, contexts = {}, {}
        for n in available:
            training, upload = federation.durations(np.array([n]))[0]
            c = contexts[n] = np.array([training, took_part[n], upload])
            inverse = np.linalg.inv(covariance[n])
            times[n] = max(0.0, c @ inverse @ response[n] - 0.3 * np.sqrt(c @ inverse @ c))

        def cost(
            cohort: tuple[int, ...], times: dict[int, float] = times, waiting: list[float] = queues
        ) -> float:
            return 0.7 * max(times[n] for n in cohort) - sum(waiting[n] for n in cohort)

        cohort = selection.cohort.tolist()
        least = min(map(cost, itertools.combinations(available, 3)))
        assert cost(tuple(cohort)) == pytest.approx(least, abs=1e-9)
        queues = [max(0.0, z + 0.2 - (n in cohort)) for n, z in enumerate(queues)]
        took_part = [float(n in cohort) for n in range(8)]
        feedback = federation.feedback(np.array(cohort[1:]), failed=cohort[:1], round_index=k)
        for n, seconds in zip(cohort[1:], np.asarray(feedback.durations), strict=True):
            covariance[n] = covariance[n] + np.outer(contexts[n], contexts[n])
            response[n] = response[n] + seconds * contexts[n]
        state = selector.observe(selection.state, feedback)
        assert state.queues.tolist() == pytest.approx(queues)


@pytest.mark.parametrize("fairness", [0.0, 0.25])
def test_nobody_waits_for_ever(fairness: float) -> None:
    """In the long run everybody is selected in the share of rounds that was asked for (half of M/N, where none was)."""
    selector, rounds = RBCSF(fairness=fairness, delay_weight=1.0), 400
    durations = np.column_stack([np.linspace(0.1, 9.0, 8), np.ones(8)])
    clients = Told(num_examples=[1] * 8, durations=durations)
    state = selector.init(8)
    for k in range(1, rounds + 1):
        selection = one(selector, clients, cohort_size=3, state=state, round_index=k)
        seconds = durations[selection.cohort].sum(axis=1)
        state = selector.observe(selection.state, Feedback(answered=selection.cohort, durations=seconds))
    floor = fairness or 3 / 16
    assert state.times_selected.min() >= 0.9 * floor * rounds
    assert state.times_selected[0] > state.times_selected[7]


def test_alike_clients_are_chosen_at_random() -> None:
    clients = Told(num_examples=[1] * 5, durations=np.ones((5, 2)))
    found = draws(RBCSF(), clients, times=300, cohort_size=2)
    assert len(found) == 10
