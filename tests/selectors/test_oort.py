"""Oort's law of exploitation and exploration, and its pacer, beside the formulas written out."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest

from fedcbs.selectors import Feedback, Oort, Round
from tests.goodness_of_fit import assert_law
from tests.reference import Law, without_replacement_law
from tests.selectors.federation import ToyFederation
from tests.selectors.laws import Told, draws, one, selected

SIZES = [5, 16, 70, 1, 12, 9, 30, 8, 22, 3]
DURATIONS = [[1, 1], [2, 1], [9, 4], [1, 2], [3, 3], [5, 1], [2, 2], [6, 6], [1, 3], [2, 5]]
CLIENTS = Told(num_examples=SIZES, durations=DURATIONS)
AVAILABLE = [9, 0, 1, 2, 4, 5, 6, 8]
RMS = {0: 3.0, 2: 0.9, 4: 2.0, 5: 2.2, 8: 1.0}
MEASURED = {0: 2.5, 2: 20.0, 4: 5.0, 5: 6.0, 8: 4.0}
LAST = {0: 3, 2: 7, 4: 1, 5: 12, 8: 5}
ROUND = 14


def state_of(selector: Oort, exploration: float) -> object:
    def filled(values: Mapping[int, float], kind: type = float) -> np.ndarray:
        return np.array([values.get(n, 0) for n in range(10)], dtype=kind)

    return selected(
        selector,
        [int(n in RMS) for n in range(10)],
        rms_losses=filled(RMS),
        durations=filled(MEASURED),
        last_rounds=filled(LAST, int),
        exploration=exploration,
    )


def law(size: int, selector: Oort, exploration: float) -> Law:
    durations = {n: MEASURED.get(n, sum(DURATIONS[n])) for n in AVAILABLE}
    preferred = float(np.percentile(list(durations.values()), selector.percentile))
    speed = {n: min(1.0, preferred / d) ** selector.penalty for n, d in durations.items()}
    explored = [n for n in AVAILABLE if n in RMS]
    fresh = [n for n in AVAILABLE if n not in RMS]
    raw = {n: SIZES[n] * RMS[n] for n in explored}
    clip = float(np.quantile(list(raw.values()), selector.clip_quantile))
    raw = {n: min(value, clip) for n, value in raw.items()}
    low, high = min(raw.values()), max(raw.values())
    utility = {
        n: ((value - low) / (high - low) + math.sqrt(0.1 * math.log(ROUND) / LAST[n])) * speed[n]
        for n, value in raw.items()
    }
    exploit = min(size - int(exploration * size), len(explored))
    exploit = max(exploit, size - len(fresh))
    cut = (
        (1 - selector.cut_off) * sorted(utility.values(), reverse=True)[exploit - 1] if exploit else math.inf
    )
    pool = {n: u for n, u in utility.items() if u >= cut}
    found: Law = {}
    for chosen, p in without_replacement_law(pool, exploit).items():
        for novel, q in without_replacement_law(
            {n: SIZES[n] * speed[n] for n in fresh}, size - exploit
        ).items():
            found[chosen | novel] = found.get(chosen | novel, 0.0) + p * q
    return found


@pytest.mark.parametrize(
    ("size", "exploration", "options"),
    [
        (3, 0.4, {}),
        (3, 0.4, {"cut_off": 0.9}),
        (4, 0.3, {"cut_off": 1.0, "penalty": 0.0}),
        (2, 1.0, {}),
        (2, 0.0, {"cut_off": 0.8, "clip_quantile": 0.5}),
        (5, 0.9, {"cut_off": 0.7}),  # more exploration than there are unexplored clients
    ],
)
def test_cohorts_have_the_law_written_out(size: int, exploration: float, options: dict[str, float]) -> None:
    selector = Oort(**options)  # type: ignore[arg-type]
    state = state_of(selector, exploration)
    found = draws(
        selector,
        CLIENTS,
        times=3000,
        cohort_size=size,
        available=AVAILABLE,
        round_index=ROUND,
        state=state,
    )
    assert_law(found, law(size, selector, exploration))


def test_the_share_of_exploration_decays_to_its_lower_limit() -> None:
    selector, state = Oort(exploration=0.9, exploration_decay=0.5, least_exploration=0.2), None
    shares = []
    for k in range(1, 5):
        state = one(selector, CLIENTS, cohort_size=2, state=state, round_index=k).state
        shares.append(float(state.exploration))
    assert shares == pytest.approx([0.45, 0.225, 0.2, 0.2])


def test_nine_of_ten_are_explorers_at_first() -> None:
    """The code takes the whole part of the cohort's share: rounding would never exploit small cohorts early on."""
    clients = Told(num_examples=[4] * 60, durations=np.ones((60, 2)))
    selector = Oort()
    state = selected(selector, [1] * 20 + [0] * 40, rms_losses=np.ones(60), last_rounds=np.ones(60, int))
    cohort = one(selector, clients, cohort_size=10, state=state, round_index=2).cohort
    assert (cohort < 20).sum() == 1


def test_the_pacer_prefers_longer_durations_when_the_utility_gathered_falls() -> None:
    selector = Oort(pacer_step=2, pacer_delta=10.0, percentile=30.0)
    state, percentiles = selector.init(10), []
    gathered: list[float] = []
    for k, loss in enumerate([4.0, 4.0, 1.0, 1.0, 3.0, 3.0, 2.0, 2.0, 2.5], start=1):
        selection = one(selector, CLIENTS, cohort_size=2, state=state, round_index=k, available=[0, 1])
        if len(gathered) >= 4 and len(gathered) % 2 == 0:
            fell = sum(gathered[-2:]) < sum(gathered[-4:-2])
            assert (float(selection.state.percentile) > float(state.percentile)) == fell
        percentiles.append(float(selection.state.percentile))
        cohort = selection.cohort.tolist()
        gathered.append(sum(SIZES[n] * loss for n in cohort))
        state = selector.observe(
            selection.state, Feedback(answered=cohort, rms_losses=[loss] * 2, durations=[2.0] * 2)
        )
        assert state.gathered.tolist() == pytest.approx(gathered)
    assert percentiles == [30, 30, 30, 30, 40, 40, 40, 40, 50]


def test_what_is_known_of_a_client_is_that_of_its_last_answer() -> None:
    federation = ToyFederation([[9, 0, 1], [0, 7, 0], [3, 3, 3], [0, 1, 12]])
    selector = Oort()
    state, known = selector.init(4), {}
    for k in range(1, 6):
        selection = selector.select(state, Round(federation, cohort_size=2, round_index=k))
        feedback = federation.feedback(selection.cohort[1:], failed=selection.cohort[:1], round_index=k)
        state = selector.observe(selection.state, feedback)
        known[int(selection.cohort[1])] = (
            float(np.asarray(feedback.rms_losses)[0]),
            float(np.asarray(feedback.durations)[0]),
            k,
        )
    for n, (rms, seconds, k) in known.items():
        assert (state.rms_losses[n], state.durations[n], state.last_rounds[n]) == (rms, seconds, k)
