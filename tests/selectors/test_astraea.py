"""Astraea's greedy choice beside the literal loop, and beside the optimum by brute force."""

from __future__ import annotations

import itertools
import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fedcbs import kl_divergence
from fedcbs.selectors import Astraea, LabelInformation
from fedcbs.selectors import _astraea as astraea
from fedcbs.selectors._astraea import divergences
from tests.selectors.laws import draws, one, selected
from tests.strategies import label_counts


def kl(counts: list[list[int]], cohort: list[int]) -> float:
    pooled = [sum(counts[n][b] for n in cohort) for b in range(len(counts[0]))]
    total = sum(pooled)
    return math.log(len(pooled)) + sum(c / total * math.log(c / total) for c in pooled if c)


def literal(
    counts: list[list[int]], available: list[int], size: int, times: list[int], k: int, exploration: float
) -> set[frozenset[int]]:
    """Every cohort that the rule can give: ties (up to rounding) are followed each way."""

    def first(n: int) -> float:
        bonus = exploration * math.sqrt(3 * math.log(k) / (2 * (1 + times[n])))
        return 1 / (math.log(len(counts[0])) + kl(counts, [n]) + 1e-300) + bonus

    def follow(chosen: list[int]) -> set[frozenset[int]]:
        if len(chosen) == size:
            return {frozenset(chosen)}
        left = [n for n in available if n not in chosen]
        scores = {n: first(n) if not chosen else -kl(counts, [*chosen, n]) for n in left}
        top = max(scores.values())
        best = [n for n in left if scores[n] >= top - 1e-9 * abs(top) - 1e-12]
        return set().union(*(follow([*chosen, n]) for n in best))

    return follow([])


@given(label_counts(min_clients=2, max_clients=6, empty_clients=False), st.data())
def test_cohorts_are_those_of_the_literal_loop(counts: np.ndarray, data: st.DataObject) -> None:
    num_clients = len(counts)
    available = data.draw(st.permutations(range(num_clients)))[: data.draw(st.integers(1, num_clients))]
    size, k = data.draw(st.integers(1, len(available))), data.draw(st.integers(1, 99))
    times = data.draw(st.lists(st.integers(0, 20), min_size=num_clients, max_size=num_clients))
    exploration = data.draw(st.sampled_from([0.0, 0.2, 5.0]))
    selector = Astraea(exploration=exploration)
    cohort = one(
        selector,
        LabelInformation(counts),
        cohort_size=size,
        available=available,
        round_index=k,
        state=selected(selector, times),
        seed=data.draw(st.integers(0, 9)),
    ).cohort.tolist()
    assert frozenset(cohort) in literal(counts.tolist(), available, size, times, k, exploration)


@given(label_counts(min_clients=1, empty_clients=False), st.data())
def test_divergences_are_those_of_the_definition(counts: np.ndarray, data: st.DataObject) -> None:
    held = data.draw(st.lists(st.integers(0, 10**6), min_size=counts.shape[1], max_size=counts.shape[1]))
    found = divergences(np.ascontiguousarray(counts.T, dtype=float), np.array(held, dtype=float))
    expected = [kl([row, held], [0, 1]) for row in counts.tolist()]
    assert found.tolist() == pytest.approx(expected, abs=1e-9)


def test_candidates_handled_block_by_block_have_the_same_divergences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = np.random.default_rng(0).integers(0, 9, (4, 23)).astype(float)
    whole = divergences(counts, np.ones(4))
    monkeypatch.setattr(astraea, "BLOCK", 5)
    assert divergences(counts, np.ones(4)).tobytes() == whole.tobytes()


def test_greedy_is_no_better_than_the_optimum_and_on_average_not_far_from_it() -> None:
    better = []
    for seed in range(30):
        counts = np.random.default_rng(seed).multinomial(40, [0.4, 0.3, 0.2, 0.1], size=10)
        counts[seed % 4 :: 4] = counts[seed % 4 :: 4, ::-1]
        cohort = one(Astraea(), LabelInformation(counts), cohort_size=4).cohort
        divergence = {c: kl_divergence(counts, c) for c in itertools.combinations(range(10), 4)}
        found = divergence[tuple(cohort.tolist())]
        assert found >= min(divergence.values())
        better.append(sum(other < found for other in divergence.values()) / len(divergence))
    assert np.mean(better) < 0.1


def test_with_one_class_a_client_greedy_is_optimal_and_takes_turns() -> None:
    counts = np.repeat(np.eye(5, dtype=int) * 20, 4, axis=0)
    found = draws(Astraea(), LabelInformation(counts), times=300, cohort_size=5)
    assert all(sorted(n // 4 for n in cohort) == [0, 1, 2, 3, 4] for cohort in found)
    assert set().union(*found) == set(range(20))
