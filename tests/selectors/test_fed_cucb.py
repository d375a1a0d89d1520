"""Fed-CUCB beside a literal replay: estimates from whole histories, and the greedy loop of the authors' code."""

from __future__ import annotations

import itertools
import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fedcbs.selectors import FedCUCB, Feedback, Round
from tests.selectors.federation import ToyFederation
from tests.selectors.laws import Told, draws, one, selected

COUNTS = [[9, 0, 1], [0, 7, 0], [3, 3, 3], [0, 1, 12], [5, 0, 0], [0, 4, 4], [2, 2, 1], [0, 0, 8]]
CLIENTS = Told(num_examples=[1] * 8)


def cross_entropy(shares: list[float]) -> float:
    return -sum(math.log(share) for share in shares) / len(shares)


def literal_shares(gradients: list[float]) -> list[float]:
    inverse = [1 / g for g in gradients]
    return [x / sum(inverse) for x in inverse]


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=5))
def test_shares_are_inverse_gradients(gradients: list[float]) -> None:
    found = FedCUCB().estimate_shares(np.array([gradients]))[0]
    assert found.tolist() == pytest.approx(literal_shares(gradients), rel=1e-9)


def test_shares_by_softmax_are_the_papers_text() -> None:
    selector = FedCUCB(estimator="softmax", sharpness=0.5)
    weights = [math.exp(0.5 / g) for g in (1.0, 2.0, 0.25)]
    expected = [w / sum(weights) for w in weights]
    assert selector.estimate_shares(np.array([[1.0, 2.0, 0.25]]))[0].tolist() == pytest.approx(expected)


def test_gradients_of_zero_are_a_class_that_is_all_there_is() -> None:
    for estimator in ("inverse", "softmax"):
        shares = FedCUCB(estimator=estimator).estimate_shares(np.array([[0.0, 1.0], [0.0, 0.0]]))
        assert shares[0].tolist() == pytest.approx([1.0, 0.0], abs=1e-20)
        assert shares[1].tolist() == [0.5, 0.5]


@pytest.mark.parametrize("forgetting", [1.0, 0.8])
def test_rounds_follow_the_literal_replay(forgetting: float) -> None:
    """Everybody once, then greedy by discounted means over each client's whole history."""
    selector = FedCUCB(exploration=0.3, forgetting=forgetting)
    federation, state = ToyFederation(COUNTS), selector.init(8)
    history: dict[int, list[tuple[int, list[float]]]] = {n: [] for n in range(8)}
    times = [0] * 8
    for k in range(1, 26):
        selection = selector.select(state, Round(federation, cohort_size=3, round_index=k))
        cohort = selection.cohort.tolist()
        assert selection.weights.tolist() == pytest.approx([1 / 3] * 3)
        fresh = [n for n in range(8) if times[n] == 0]
        if len(fresh) >= 3:
            assert set(cohort) <= set(fresh)
        elif fresh:
            assert set(fresh) <= set(cohort)
        else:
            assert cohort == sorted(literal_greedy(history, times, 3, k, forgetting))
        for n in cohort:
            times[n] += 1
        feedback, federation = federation.train(selection, round_index=k)
        for n, gradients in zip(cohort, np.asarray(feedback.class_gradients).tolist(), strict=True):
            history[n].append((k, literal_shares(gradients)))
        state = selector.observe(selection.state, feedback)
    assert min(times) >= 1


def literal_greedy(
    history: dict[int, list[tuple[int, list[float]]]], times: list[int], size: int, k: int, forgetting: float
) -> list[int]:
    means, scores = {}, {}
    for n, seen in history.items():
        weights = [forgetting ** (k - round_) for round_, _ in seen]
        total = sum(weights)
        means[n] = [sum(w * r[b] for w, (_, r) in zip(weights, seen, strict=True)) / total for b in range(3)]
        reward = sum(w / cross_entropy(r) for w, (_, r) in zip(weights, seen, strict=True)) / total
        scores[n] = reward + 0.3 * math.sqrt(3 * math.log(k) / (2 * times[n]))
    chosen = [max(scores, key=lambda n: scores[n])]
    while len(chosen) < size:
        left = [n for n in history if n not in chosen]
        chosen.append(min(left, key=lambda n: pooled(means, [*chosen, n])))
    return chosen


def pooled(means: dict[int, list[float]], cohort: list[int]) -> float:
    """Cross entropy of uniform against the unweighted mean."""
    return cross_entropy([sum(means[n][b] for n in cohort) / len(cohort) for b in range(3)])


def test_greedy_is_no_better_than_the_optimum_and_on_average_not_far_from_it() -> None:
    better = []
    for seed in range(20):
        shares = np.random.default_rng(seed).dirichlet([0.5] * 3, size=8)
        selector = FedCUCB(exploration=0.0)
        state = selector.observe(
            selected(selector, [1] * 8), Feedback(answered=range(8), class_gradients=1 / (shares + 1e-9))
        )
        cohort = one(selector, CLIENTS, cohort_size=3, state=state, round_index=4).cohort
        means = dict(enumerate(shares.tolist()))
        values = {c: pooled(means, list(c)) for c in itertools.combinations(range(8), 3)}
        found = values[tuple(cohort.tolist())]
        assert found >= min(values.values()) - 1e-9
        better.append(sum(value < found - 1e-9 for value in values.values()) / len(values))
    assert np.mean(better) < 0.1


def test_the_first_rounds_visit_everybody_once() -> None:
    selector, federation = FedCUCB(), ToyFederation(COUNTS)
    state = selector.init(8)
    for k in range(1, 5):
        selection = selector.select(state, Round(federation, cohort_size=2, round_index=k))
        feedback, _ = federation.train(selection, round_index=k)
        state = selector.observe(selection.state, feedback)
    assert state.times_selected.tolist() == [1] * 8


def test_who_is_visited_first_is_random() -> None:
    found = draws(FedCUCB(), CLIENTS, times=200, cohort_size=1)
    assert set().union(*found) == set(range(8))


def test_who_failed_every_time_is_taken_only_where_too_few_others_are_there() -> None:
    selector = FedCUCB()
    state = selected(selector, [1] * 8)
    state = selector.observe(
        state,
        Feedback(answered=range(5), failed=[5, 6, 7], class_gradients=1 / (np.array(COUNTS[:5]) + 0.1)),
    )
    assert max(one(selector, CLIENTS, cohort_size=4, state=state, round_index=3).cohort) < 5
    few = one(selector, CLIENTS, cohort_size=3, state=state, available=[0, 5, 6, 3], round_index=3).cohort
    assert {0, 3} < set(few.tolist())
