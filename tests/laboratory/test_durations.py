"""Synthetic durations: their law, and that selectors which look at time are told of it."""

from __future__ import annotations

import numpy as np
import pytest

from fedcbs.laboratory import LognormalDurations, balance, parse_durations, population


def test_expected_durations_follow_the_stated_law() -> None:
    seconds = LognormalDurations(sigma=0.5).expected(np.full(200_000, 250), seed=1)
    logs = np.log(seconds)
    assert np.median(seconds, axis=0) == pytest.approx([60, 10], rel=0.01)
    assert logs.std(axis=0) == pytest.approx([0.5, 0.5], rel=0.01)
    assert abs(np.corrcoef(logs.T)[0, 1]) < 0.01


def test_training_takes_in_proportion_to_the_examples() -> None:
    seconds = LognormalDurations(sigma=0).expected(np.array([100, 300, 200]), seed=0)
    assert seconds[:, 0].tolist() == [30, 90, 60]
    assert seconds[:, 1].tolist() == [10, 10, 10]


def test_durations_are_a_function_of_the_seed_and_the_round() -> None:
    law = LognormalDurations()
    sizes = np.full(5, 10)
    assert np.array_equal(law.expected(sizes, 1), law.expected(sizes, 1))
    assert not np.array_equal(law.expected(sizes, 1), law.expected(sizes, 2))
    one, again, other = (law.factors(5, seed=1, round_index=r) for r in (3, 3, 4))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_durations_are_read_from_a_text() -> None:
    assert parse_durations("lognormal") == LognormalDurations()
    assert parse_durations("lognormal:0.7,0") == LognormalDurations(0.7, 0.0)


def test_selectors_of_quick_clients_pick_fewer_when_clients_differ() -> None:
    clients = population("iid", num_clients=60)
    alike, different = (
        balance(["fedcs"], clients, cohort_size=5, rounds=40, seeds=2, durations=f"lognormal:{sigma}")[
            "fedcs"
        ]
        for sigma in (0.0, 2.0)
    )
    assert different.gini.mean() >= alike.gini.mean()


def test_a_selector_that_learns_durations_is_told_them() -> None:
    clients = population("iid", num_clients=40)
    calm, noisy = (
        balance(["rbcs-f"], clients, cohort_size=5, rounds=30, seeds=1, durations=f"lognormal:0.5,{noise}")[
            "rbcs-f"
        ]
        for noise in (0.0, 3.0)
    )
    assert not np.array_equal(calm.qcid, noisy.qcid)
