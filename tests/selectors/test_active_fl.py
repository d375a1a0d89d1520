"""Active federated learning against its law, every choice of which is followed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import pytest

from fedcbs.selectors import ActiveFL, Feedback
from tests.goodness_of_fit import assert_law
from tests.reference import Law, without_replacement_law
from tests.selectors.laws import Told, draws

SIZES = [5, 16, 70, 1, 12, 9, 30, 8]
LOSSES = {0: 0.5, 1: 1.5, 2: 0.2, 4: 2.0, 5: 0.9, 6: 0.7, 7: 0.1}
AVAILABLE = [7, 1, 2, 5, 4, 6, 0]
CLIENTS = Told(num_examples=SIZES)


def law(values: Mapping[int, float], size: int, *, drop: float, sharpness: float, random_share: float) -> Law:
    """The paper's rule, where all values differ."""
    by_value = size - math.floor(random_share * size)
    dropped = min(math.floor(drop * len(values)), len(values) - by_value)
    kept = sorted(values, key=lambda n: values[n])[dropped:]
    found: Law = {}
    first = without_replacement_law({n: math.exp(sharpness * values[n]) for n in kept}, by_value)
    for chosen, chance in first.items():
        rest = [n for n in values if n not in chosen]
        extras = list(itertools.combinations(rest, size - by_value))
        for extra in extras:
            cohort = chosen | set(extra)
            found[cohort] = found.get(cohort, 0.0) + chance / len(extras)
    return found


@pytest.mark.parametrize(
    ("size", "drop", "sharpness", "random_share"),
    [(3, 0.75, 0.01, 0.1), (3, 0.3, 0.5, 0.34), (2, 0.0, 1.0, 0.0), (4, 0.5, 0.3, 0.5), (2, 0.5, 0.2, 1.0)],
)
def test_cohorts_have_the_law_of_the_paper(
    size: int, drop: float, sharpness: float, random_share: float
) -> None:
    selector = ActiveFL(drop=drop, sharpness=sharpness, random_share=random_share)
    state = selector.observe(selector.init(8), Feedback(answered=list(LOSSES), losses=list(LOSSES.values())))
    found = draws(selector, CLIENTS, times=2500, cohort_size=size, available=AVAILABLE, state=state)
    values = {n: math.sqrt(SIZES[n]) * LOSSES[n] for n in AVAILABLE}
    assert_law(found, law(values, size, drop=drop, sharpness=sharpness, random_share=random_share))


def test_a_value_is_refreshed_only_by_taking_part() -> None:
    selector = ActiveFL(drop=0.0, sharpness=1.0, random_share=0.0)
    state = selector.observe(selector.init(8), Feedback(answered=list(LOSSES), losses=list(LOSSES.values())))
    state = selector.observe(state, Feedback(answered=[2, 7], failed=[4], losses=[0.6, 1.0]))
    losses = {**LOSSES, 2: 0.6, 7: 1.0}
    found = draws(selector, CLIENTS, times=2500, cohort_size=2, available=AVAILABLE, state=state)
    values = {n: math.sqrt(SIZES[n]) * losses[n] for n in AVAILABLE}
    assert_law(found, law(values, 2, drop=0.0, sharpness=1.0, random_share=0.0))


def test_who_never_took_part_has_the_largest_value_known() -> None:
    selector = ActiveFL(drop=0.0, sharpness=0.5, random_share=0.0)
    known = {n: loss for n, loss in LOSSES.items() if n not in (0, 5)}
    state = selector.observe(selector.init(8), Feedback(answered=list(known), losses=list(known.values())))
    found = draws(selector, CLIENTS, times=2500, cohort_size=2, available=AVAILABLE, state=state)
    values = {n: math.sqrt(SIZES[n]) * loss for n, loss in known.items()}
    values |= {0: max(values.values()), 5: max(values.values())}
    assert_law(found, law(values, 2, drop=0.0, sharpness=0.5, random_share=0.0))


def test_values_too_far_apart_for_an_exponential_still_give_cohorts() -> None:
    selector = ActiveFL(drop=0.0, sharpness=1000.0, random_share=0.0)
    state = selector.observe(
        selector.init(8), Feedback(answered=list(LOSSES), losses=[10 * x for x in LOSSES.values()])
    )
    found = draws(selector, CLIENTS, times=50, cohort_size=4, available=AVAILABLE, state=state)
    assert all(len(cohort) == 4 and 4 in cohort for cohort in found)
