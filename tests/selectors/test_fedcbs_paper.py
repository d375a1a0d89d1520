"""The sequential presets against the law of Algorithm 1, every order of which is followed in exact arithmetic."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from fedcbs.imbalance import DenseGram
from fedcbs.selectors import (
    FedCBSExact,
    FedCBSPaper,
    FedCBSSharp,
    GramInformation,
    LabelInformation,
    _fedcbs_law,
)
from fedcbs.selectors._fedcbs import _Sequential
from tests import reference
from tests.goodness_of_fit import assert_law, fits
from tests.reference import qcid, sequential_law, stated_law
from tests.selectors.laws import draws, selected

FIGURE_2 = [[5, 5, 5, 5, 5, 5], [6, 6, 6, 6, 6, 0], [0, 0, 0, 10, 10, 10], [10, 10, 10, 0, 0, 0]]
COUNTS = [
    [9, 0, 1], [4, 2, 3], [0, 0, 30], [1, 8, 0], [2, 2, 5], [0, 0, 0], [7, 1, 0], [0, 9, 9], [3, 0, 0], [1, 1, 2],
]  # fmt: skip
AVAILABLE = [8, 1, 3, 4, 6]
FLOOR = 1e-20
TIMES = 2500


def bonuses(
    times_selected: Mapping[int, int], round_index: int, exploration: float = 10.0
) -> dict[int, float]:
    """The paper's ``lambda * sqrt(3 ln k / (2 T_n))``, where T_n starts at 1."""
    return {
        n: exploration * math.sqrt(3 * math.log(round_index) / (2 * (1 + times)))
        for n, times in times_selected.items()
    }


@pytest.mark.parametrize(
    ("selector", "slope"), [(FedCBSPaper(), 1), (FedCBSSharp(), 3), (FedCBSPaper(slope=0.5), 0.5)]
)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_cohorts_have_the_law_of_the_algorithm(selector: _Sequential, slope: float, size: int) -> None:
    found = draws(selector, LabelInformation(COUNTS), times=TIMES, cohort_size=size, available=AVAILABLE)
    law = sequential_law(COUNTS, AVAILABLE, [slope * m for m in range(1, size + 1)], floor=FLOOR)
    assert_law(found, law)


def test_the_exploration_term_is_added_to_the_first_member_alone_and_counts_from_one() -> None:
    selector, times = FedCBSPaper(exploration=300.0), [40, 0, 3, 1, 9, 0, 2, 5, 30, 7]
    found = draws(
        selector,
        LabelInformation(COUNTS),
        times=TIMES,
        cohort_size=3,
        available=AVAILABLE,
        round_index=50,
        state=selected(selector, times),
    )
    bonus = bonuses({n: times[n] for n in AVAILABLE}, 50, exploration=300.0)
    assert_law(found, sequential_law(COUNTS, AVAILABLE, [1, 2, 3], floor=FLOOR, bonus=bonus))
    assert not fits(found, sequential_law(COUNTS, AVAILABLE, [1, 2, 3], floor=FLOOR))
    assert not fits(found, law_with_the_bonus_at_every_step(bonus))


def law_with_the_bonus_at_every_step(bonus: Mapping[int, float]) -> reference.Law:
    law: reference.Law = {}
    for a in AVAILABLE:
        for b in AVAILABLE:
            for c in AVAILABLE:
                if len({a, b, c}) == 3:
                    chance = 1.0
                    for members in ((a,), (a, b), (a, b, c)):
                        weights = {
                            n: float(reference.power(qcid(COUNTS, (*members[:-1], n)), len(members), FLOOR))
                            + bonus[n]
                            for n in AVAILABLE
                            if n not in members[:-1]
                        }
                        chance *= weights[members[-1]] / sum(weights.values())
                    cohort = frozenset((a, b, c))
                    law[cohort] = law.get(cohort, 0.0) + chance
    return law


def test_the_first_round_has_no_exploration_term_and_no_trouble_with_it() -> None:
    found = draws(FedCBSPaper(exploration=1e9), LabelInformation(COUNTS), times=2000, cohort_size=1)
    filled = [n for n in range(len(COUNTS)) if any(COUNTS[n])]
    assert_law(found, sequential_law(COUNTS, filled, [1], floor=FLOOR))


@pytest.mark.parametrize("wrong", [[0, 1, 2], [2, 3, 4], [1, 1, 1], [3, 3, 3]])
def test_the_exponents_are_those_of_the_paper(wrong: list[int]) -> None:
    found = draws(FedCBSPaper(), LabelInformation(COUNTS), times=TIMES, cohort_size=3, available=AVAILABLE)
    assert not fits(found, sequential_law(COUNTS, AVAILABLE, wrong, floor=FLOOR))


def test_a_balanced_candidate_is_not_suppressed_but_almost_certain() -> None:
    counts = [[4, 0], [0, 4], [3, 1], [1, 1], [2, 5]]  # the pair 0, 1 and client 3 have QCID 0
    found = draws(FedCBSPaper(), LabelInformation(counts), times=500, cohort_size=1)
    assert found == {frozenset({3}): 500}
    found = draws(FedCBSSharp(), LabelInformation(counts[:3]), times=2000, cohort_size=2)
    law = sequential_law(counts, [0, 1, 2], [3, 6], floor=FLOOR)
    assert_law(found, law)
    assert law[frozenset({0, 1})] == pytest.approx(2 / 66)  # whenever 0 or 1 comes first: weights 8, 8, 512


def test_the_same_client_is_not_picked_twice_however_well_it_would_fit() -> None:
    counts = [[5, 5], [50, 1], [60, 1]]
    found = draws(FedCBSPaper(), LabelInformation(counts), times=300, cohort_size=2)
    assert all(len(cohort) == 2 for cohort in found)


def test_one_over_the_number_of_classes_is_taken_off() -> None:
    found = draws(FedCBSPaper(), LabelInformation(COUNTS), times=TIMES, cohort_size=2, available=AVAILABLE)
    law: dict[frozenset[int], Decimal] = {}
    third = Fraction(1, 3)
    firsts = {n: reference.power(qcid(COUNTS, [n]) + third, 1, FLOOR) for n in AVAILABLE}
    for a in AVAILABLE:
        seconds = {n: reference.power(qcid(COUNTS, [a, n]) + third, 2, FLOOR) for n in AVAILABLE if n != a}
        for b, weight in seconds.items():
            cohort = frozenset((a, b))
            chance = firsts[a] / sum(firsts.values()) * weight / sum(seconds.values())
            law[cohort] = law.get(cohort, Decimal(0)) + chance
    assert not fits(found, reference.normalised(law))


def test_the_gram_is_read_at_the_available_clients_not_at_the_first_ones() -> None:
    matrix = np.array(reference.gram(COUNTS))
    information = GramInformation(DenseGram(matrix, num_examples=np.array(COUNTS).sum(axis=1), num_classes=3))
    found = draws(FedCBSPaper(), information, times=TIMES, cohort_size=2, available=AVAILABLE)
    assert_law(found, sequential_law(COUNTS, AVAILABLE, [1, 2], floor=FLOOR))
    ids = sorted(AVAILABLE)
    first_rows = [COUNTS[n] for n in (0, 1, 2, 3, 4)]
    by_position = sequential_law(first_rows, range(5), [1, 2], floor=FLOOR)
    wrong = {frozenset(ids[n] for n in cohort): p for cohort, p in by_position.items()}
    assert not fits(found, wrong)


@pytest.mark.parametrize("block", [1, 2, 4])
def test_candidates_handled_block_by_block_have_the_same_law(
    monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(_fedcbs_law, "BLOCK", block)
    times = [0, 4, 0, 2, 1, 0, 9, 0, 0, 3]
    found = draws(
        FedCBSPaper(),
        LabelInformation(COUNTS),
        times=2000,
        cohort_size=3,
        available=AVAILABLE,
        round_index=9,
        state=selected(FedCBSPaper(), times),
    )
    bonus = bonuses({n: times[n] for n in AVAILABLE}, 9)
    assert_law(found, sequential_law(COUNTS, AVAILABLE, [1, 2, 3], floor=FLOOR, bonus=bonus))


def test_blocks_of_hopeless_candidates_are_never_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fedcbs_law, "BLOCK", 2)
    counts = [[3, 0], [3, 0], [3, 0], [3, 0], [0, 3], [3, 0]]
    found = draws(FedCBSSharp(slope=30), LabelInformation(counts), times=300, cohort_size=2)
    assert all(4 in cohort for cohort in found)


def test_the_papers_own_example_does_not_get_its_optimum_from_the_papers_algorithm() -> None:
    law = sequential_law(FIGURE_2, range(4), [1, 2, 3], floor=FLOOR)
    assert law[frozenset({0, 2, 3})] == pytest.approx(0.07, abs=0.015)
    assert law[frozenset({0, 1, 2})] == pytest.approx(0.83, abs=0.015)
    found = draws(FedCBSPaper(), LabelInformation(FIGURE_2), times=1000, cohort_size=3)
    assert_law(found, law)
    assert not fits(found, stated_law(FIGURE_2, range(4), 3, exponent=3, floor=FLOOR))
    exact = draws(FedCBSExact(), LabelInformation(FIGURE_2), times=1000, cohort_size=3)
    assert exact[frozenset({0, 2, 3})] >= 0.95 * 1000
