"""Power-of-choice and its variants: the candidates' law, and who of them is taken."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import pytest

from fedcbs.errors import InvalidArgumentError
from fedcbs.selectors import (
    BatchPowerOfChoice,
    Feedback,
    Need,
    PowerOfChoice,
    StalePowerOfChoice,
)
from tests.goodness_of_fit import assert_law, fits
from tests.reference import Law, without_replacement_law
from tests.selectors.laws import Told, draws, one, selected

SIZES = [5, 0, 70, 1, 12, 9, 30, 8]
LOSSES = [0.1, 9.0, 0.3, 2.5, 1.1, 0.7, 0.2, 1.6]
BATCH_LOSSES = LOSSES[::-1]
CLIENTS = Told(num_examples=SIZES, losses=LOSSES, batch_losses=BATCH_LOSSES)
AVAILABLE = [7, 1, 2, 5, 4, 6]
FILLED = [n for n in AVAILABLE if SIZES[n]]


def law_of_the_highest(
    losses: Sequence[float], size: int, num_candidates: int, available: Sequence[int] = FILLED
) -> Law:
    """Draw candidates in proportion to sizes; of each set of candidates, those with the highest losses."""
    law: Law = {}
    candidates = without_replacement_law({n: SIZES[n] for n in available}, num_candidates)
    for drawn, chance in candidates.items():
        for cohort, share in ties(losses, drawn, size).items():
            law[cohort] = law.get(cohort, 0.0) + chance * share
    return law


def ties(losses: Sequence[float], drawn: frozenset[int], size: int) -> Mapping[frozenset[int], float]:
    """Every choice of the highest, where losses are equal."""
    highest = max(sum(losses[n] for n in cohort) for cohort in itertools.combinations(drawn, size))
    best = [
        frozenset(cohort)
        for cohort in itertools.combinations(drawn, size)
        if sum(losses[n] for n in cohort) == highest
    ]
    return dict.fromkeys(best, 1 / len(best))


@pytest.mark.parametrize(("size", "num_candidates"), [(1, 1), (1, 2), (2, 3), (3, 4), (2, 2)])
def test_candidates_are_drawn_without_replacement_in_proportion_to_sizes(
    size: int, num_candidates: int
) -> None:
    selector = PowerOfChoice(num_candidates=num_candidates)
    found = draws(selector, CLIENTS, times=2500, cohort_size=size, available=AVAILABLE)
    assert_law(found, law_of_the_highest(LOSSES, size, num_candidates))


def test_candidates_are_twice_the_cohort_where_nothing_is_said() -> None:
    found = draws(PowerOfChoice(), CLIENTS, times=2500, cohort_size=2, available=AVAILABLE)
    assert_law(found, law_of_the_highest(LOSSES, 2, 4))
    assert not fits(found, law_of_the_highest(LOSSES, 2, 3))
    selection = one(PowerOfChoice(), CLIENTS, cohort_size=2, available=AVAILABLE)
    assert selection.asked == {Need.LOSSES: 4}


def test_more_candidates_than_are_there_means_all_of_them() -> None:
    selection = one(PowerOfChoice(num_candidates=50), CLIENTS, cohort_size=2, available=AVAILABLE)
    assert selection.cohort.tolist() == [4, 7]
    assert selection.asked == {Need.LOSSES: 5}


def test_fewer_candidates_than_the_cohort_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="num_candidates=2 is below cohort_size=3"):
        one(PowerOfChoice(num_candidates=2), CLIENTS, cohort_size=3)


def test_candidates_are_not_always_the_first_ids() -> None:
    sizes = [1] * 100
    clients = Told(num_examples=sizes, losses=range(100))
    seen = {
        n
        for cohort in draws(PowerOfChoice(num_candidates=20), clients, times=60, cohort_size=10)
        for n in cohort
    }
    assert max(seen) == 99
    assert len(seen) > 50


def test_equal_losses_are_ordered_at_random() -> None:
    equal = [1.0] * 8
    clients = Told(num_examples=SIZES, losses=equal)
    found = draws(PowerOfChoice(num_candidates=3), clients, times=2500, cohort_size=2, available=AVAILABLE)
    assert_law(found, law_of_the_highest(equal, 2, 3))


def test_cpow_d_goes_by_the_losses_on_one_batch() -> None:
    selector = BatchPowerOfChoice(num_candidates=3)
    found = draws(selector, CLIENTS, times=2500, cohort_size=2, available=AVAILABLE)
    assert_law(found, law_of_the_highest(BATCH_LOSSES, 2, 3))
    assert not fits(found, law_of_the_highest(LOSSES, 2, 3))
    assert one(selector, CLIENTS, cohort_size=2).asked == {Need.BATCH_LOSSES: 3}


def test_rpow_d_goes_by_the_losses_last_reported_and_asks_nobody() -> None:
    selector = StalePowerOfChoice(num_candidates=3)
    state = selector.init(8)
    state = selector.observe(state, Feedback(answered=[2, 4, 5, 6, 7], losses=[9.0, 1.0, 2.0, 0.4, 0.8]))
    state = selector.observe(state, Feedback(answered=[2], failed=[4], losses=[0.1]))
    last = [0.0, 0.0, 0.1, 0.0, 1.0, 2.0, 0.4, 0.8]
    found = draws(selector, CLIENTS, times=2500, cohort_size=2, available=AVAILABLE, state=state)
    assert_law(found, law_of_the_highest(last, 2, 3))
    assert one(selector, CLIENTS, cohort_size=2, state=state).asked == {}


def test_rpow_d_tries_everybody_who_never_reported_first() -> None:
    selector = StalePowerOfChoice(num_candidates=5)
    state = selected(selector, [1] * 8)
    state = selector.observe(state, Feedback(answered=[2, 4, 6], losses=[9.0, 8.0, 7.0]))
    found = draws(selector, CLIENTS, times=200, cohort_size=2, available=AVAILABLE, state=state)
    assert found == {frozenset({5, 7}): 200}
