"""Ornstein-Uhlenbeck selection beside its rule, written out, and on a process whose decay is known."""

from __future__ import annotations

import numpy as np
import pytest

from fedcbs.selectors import Feedback, Need, OrnsteinUhlenbeck, Round
from tests.goodness_of_fit import assert_law
from tests.reference import uniform_law
from tests.selectors.federation import ToyFederation
from tests.selectors.laws import Told, draws, one

COUNTS = [[9, 0, 1], [0, 7, 0], [3, 3, 3], [0, 1, 12], [5, 0, 0], [0, 4, 4], [2, 2, 1], [0, 0, 8]]
SIZES = np.array(COUNTS).sum(axis=1)


@pytest.mark.parametrize("significance", [0.5, 1.0, 1.3])
def test_rounds_follow_the_rule_written_out(significance: float) -> None:
    selector = OrnsteinUhlenbeck(significance=significance, decay=0.6, learn_decay=False)
    federation, state = ToyFederation(COUNTS), selector.init(8)
    told: list[float] = []
    last: dict[int, tuple[int, np.ndarray]] = {}
    rng = np.random.default_rng(0)
    for k in range(1, 16):
        available = sorted(rng.choice(8, 6, replace=False).tolist())
        selection = selector.select(
            state, Round(federation, cohort_size=3, round_index=k, available=available)
        )
        assert selection.asked == {Need.UPDATE_NORMS: 6}
        norms = {n: float(federation.update_norms(np.array([n]))[0]) for n in available}
        told += norms.values()
        significant = [n for n in available if norms[n] >= significance * sum(told) / len(told)]
        ranked = sorted(available, key=lambda n: -norms[n])
        cohort = sorted(ranked[: min(max(len(significant), 1), 3)])
        assert selection.cohort.tolist() == cohort

        silent = [n for n in available if n not in cohort and n in last]
        whole = sum(SIZES[n] for n in [*cohort, *silent])
        assert selection.weights.tolist() == pytest.approx([SIZES[n] / whole for n in cohort])
        assert (selection.estimates is None) == (not silent)
        if selection.estimates is not None:
            assert selection.estimates.clients.tolist() == silent
            assert selection.estimates.weights.tolist() == pytest.approx([SIZES[n] / whole for n in silent])
            expected = [0.6 ** (k - last[n][0]) * last[n][1] for n in silent]
            assert np.allclose(selection.estimates.updates, expected, atol=1e-6)

        feedback, trained = federation.train(
            selection, round_index=k, failed=cohort[:1] if k % 4 == 0 else []
        )
        for n, update in zip(feedback.answered_ids.tolist(), np.asarray(feedback.updates), strict=True):
            last[n] = (k, update)
        federation, state = trained, selector.observe(selection.state, feedback)


@pytest.mark.parametrize("decay", [0.2, 0.7, 0.95])
def test_the_decay_of_a_process_is_learnt(decay: float) -> None:
    rng = np.random.default_rng(0)
    updates = rng.normal(size=(6, 200))
    selector = OrnsteinUhlenbeck(significance=0.0)
    state = selector.init(6)
    for k in range(1, 60):
        clients = Told(num_examples=[1] * 6, updates=updates)
        selection = one(selector, clients, cohort_size=6, state=state, round_index=k)
        state = selector.observe(
            selection.state, Feedback(answered=selection.cohort, updates=updates[selection.cohort])
        )
        noise = np.sqrt(1 - decay**2) * rng.normal(size=updates.shape)
        updates = decay * updates + noise
    assert selector.current_decay(state) == pytest.approx(decay, abs=0.05)


def test_the_decay_is_the_option_until_a_client_sends_twice() -> None:
    selector = OrnsteinUhlenbeck(decay=0.3)
    clients = Told(num_examples=[1] * 3, updates=[[5.0, 0.0], [1.0, 0.0], [0.1, 0.0]])
    selection = one(selector, clients, cohort_size=1)
    assert selector.current_decay(selection.state) == 0.3
    state = selector.observe(selection.state, Feedback(answered=[0], updates=[[5.0, 0.0]]))
    assert selector.current_decay(state) == 0.3
    second = one(selector, clients, cohort_size=1, state=state, round_index=2)
    state = selector.observe(second.state, Feedback(answered=[0], updates=[[1.0, 2.0]]))
    assert selector.current_decay(state) == pytest.approx(0.2)  # <u, v> / <v, v> = 5 / 25


def test_one_update_is_sent_where_none_is_significant_and_no_more_than_the_cohort_size() -> None:
    clients = Told(num_examples=[1] * 5, updates=[[4.0], [3.0], [1.0], [2.0], [0.5]])
    assert one(OrnsteinUhlenbeck(significance=9.0), clients, cohort_size=3).cohort.tolist() == [0]
    assert one(OrnsteinUhlenbeck(significance=0.0), clients, cohort_size=3).cohort.tolist() == [0, 1, 3]
    assert one(OrnsteinUhlenbeck(), clients, cohort_size=4).cohort.tolist() == [0, 1]  # the mean is 2.1


def test_equal_norms_are_chosen_at_random() -> None:
    clients = Told(num_examples=[1] * 5, updates=[[1.0], [-1.0], [0.0], [1.0], [1.0]])
    found = draws(OrnsteinUhlenbeck(), clients, times=2000, cohort_size=2)
    assert_law(found, uniform_law([0, 1, 3, 4], 2))
