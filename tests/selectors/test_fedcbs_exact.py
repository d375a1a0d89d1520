"""`fedcbs-exact` against the stated law, and against the exact law of its chain after so many sweeps.

The reference follows every order of seats and every panel in exact arithmetic (`tests/reference.py`).
"""

from __future__ import annotations

import itertools
import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given, settings

from fedcbs.imbalance import FactorGram, qcid_resolution
from fedcbs.selectors import FedCBSExact, LabelInformation, _fedcbs_law
from fedcbs.selectors._fedcbs_law import GibbsChain
from tests.goodness_of_fit import assert_law, fits
from tests.reference import (
    Law,
    explored_law,
    marginals,
    mixed,
    qcid,
    seat_law,
    sequential_law,
    shares_of,
    stated_law,
    swept_law,
)
from tests.selectors.laws import draws, one, selected
from tests.strategies import label_counts

FIGURE_2 = [[5, 5, 5, 5, 5, 5], [6, 6, 6, 6, 6, 0], [0, 0, 0, 10, 10, 10], [10, 10, 10, 0, 0, 0]]
COUNTS = [
    [9, 0, 1], [4, 2, 3], [0, 0, 30], [1, 8, 0], [2, 2, 5], [0, 0, 0], [7, 1, 0], [0, 9, 9], [3, 0, 0], [1, 1, 2],
]  # fmt: skip
AVAILABLE = [8, 1, 3, 4, 6, 9]
TIMES_SELECTED = [40, 0, 3, 1, 9, 0, 2, 5, 30, 7]
FLOOR = 1e-20
INFORMATION = LabelInformation(COUNTS)


def law_after(
    sweeps: int, size: int, *, exponent: float, exploration: float = 0.0, panel: int | None = None
) -> Law:
    """Law of the cohort: the sequential start, and so many sweeps; with an explorer, who keeps the first seat."""
    schedule = [exponent / size * m for m in range(1, size + 1)]

    def chain(member: int | None) -> Law:
        law = sequential_law(COUNTS, AVAILABLE, schedule, floor=FLOOR, first=member)
        for _ in range(sweeps):
            law = swept_law(
                COUNTS, AVAILABLE, law, exponent=exponent, floor=FLOOR, member=member, panel=panel
            )
        return law

    explorers = shares_of({n: 1 / math.sqrt(1 + TIMES_SELECTED[n]) for n in AVAILABLE})
    chances = {n: exploration * share for n, share in explorers.items() if exploration}
    laws = {n: chain(n) for n in chances}
    return mixed({**laws, -1: chain(None)}, {**chances, -1: 1 - exploration})


def distance(one: Law, two: Law) -> float:
    """Total variation."""
    return sum(abs(one.get(cohort, 0.0) - two.get(cohort, 0.0)) for cohort in {*one, *two}) / 2


@given(
    label_counts(min_clients=2, max_clients=6, empty_clients=False),
    st.floats(0.1, 30),
    st.sampled_from([0.0, 0.01, 2.0]),
    st.data(),
)
def test_a_seat_is_redrawn_with_its_law_given_the_others(
    counts: np.ndarray, exponent: float, own: float, data: st.DataObject
) -> None:
    size = data.draw(st.integers(1, len(counts) - 1))
    cohort = data.draw(st.permutations(range(len(counts))))[:size]
    chain = GibbsChain(FactorGram(counts), np.array(cohort), exponent, floor=FLOOR, own=own)
    for _ in range(3):  # again and again, as members come and go
        seat = data.draw(st.integers(0, size - 1))
        others = frozenset(np.delete(chain.members, seat).tolist())
        chain._empty(seat)
        weights = chain._weights()
        law = seat_law(counts.tolist(), range(len(counts)), others, exponent=exponent, floor=FLOOR, own=own)
        assert (weights / weights.sum()).tolist() == pytest.approx(
            [law.get(n, 0.0) for n in range(len(counts))], rel=1e-9, abs=1e-12
        )
        chain._fill(seat, data.draw(st.sampled_from(sorted(law))))


@pytest.mark.parametrize("own", [0.0, 0.5])
@pytest.mark.parametrize("panel", [256, 3])
def test_more_candidates_than_a_table_holds_have_the_same_cohorts(
    monkeypatch: pytest.MonkeyPatch, panel: int, own: float
) -> None:
    selector = FedCBSExact(panel=panel, exploration=0.5, own=own)
    round_ = {"cohort_size": 3, "available": AVAILABLE, "round_index": 5}
    state = selected(selector, TIMES_SELECTED)
    tabled = [one(selector, INFORMATION, **round_, state=state, seed=s).cohort.tolist() for s in range(100)]
    monkeypatch.setattr(_fedcbs_law, "MOST_TABLED", 2)
    for s, cohort in enumerate(tabled):
        assert one(selector, INFORMATION, **round_, state=state, seed=s).cohort.tolist() == cohort


@pytest.mark.parametrize("member", [None, 3])
@pytest.mark.parametrize("panel", [None, 1, 2])
def test_a_sweep_leaves_the_stated_law_as_it_is(member: int | None, panel: int | None) -> None:
    stated = stated_law(COUNTS, AVAILABLE, 3, exponent=1.5, floor=FLOOR, member=member)
    swept = swept_law(COUNTS, AVAILABLE, stated, exponent=1.5, floor=FLOOR, member=member, panel=panel)
    assert distance(swept, stated) < 1e-12


def test_sweeps_bring_any_cohort_to_the_stated_law() -> None:
    stated = stated_law(COUNTS, AVAILABLE, 3, exponent=3, floor=FLOOR)
    law: Law = {min(stated, key=lambda cohort: stated[cohort]): 1.0}  # the least likely of all
    apart = [distance(law, stated)]
    for _ in range(8):
        law = swept_law(COUNTS, AVAILABLE, law, exponent=3, floor=FLOOR)
        apart.append(distance(law, stated))
    assert apart == sorted(apart, reverse=True)
    assert apart[-1] < 0.01 < 0.9 < apart[0]


@pytest.mark.parametrize(("size", "sweeps"), [(1, 1), (2, 0), (2, 1), (3, 1), (3, 3)])
def test_cohorts_have_the_law_of_so_many_sweeps(size: int, sweeps: int) -> None:
    found = draws(FedCBSExact(sweeps=sweeps), INFORMATION, times=2500, cohort_size=size, available=AVAILABLE)
    assert_law(found, law_after(sweeps, size, exponent=size))


@pytest.mark.parametrize(("exponent", "sweeps"), [(0.0, 8), (1.0, 4), (6.0, 10)])
def test_cohorts_have_the_law_that_the_paper_states(exponent: float, sweeps: int) -> None:
    power = exponent or 3
    stated = stated_law(COUNTS, AVAILABLE, 3, exponent=power, floor=FLOOR)
    found = draws(
        FedCBSExact(sweeps=sweeps, exponent=exponent),
        INFORMATION,
        times=2500,
        cohort_size=3,
        available=AVAILABLE,
    )
    assert_law(found, stated)
    sequential = sequential_law(COUNTS, AVAILABLE, [power / 3 * m for m in (1, 2, 3)], floor=FLOOR)
    assert not fits(found, sequential)


@pytest.mark.parametrize("panel", [256, 2])
def test_members_own_imbalance_counts_as_documented(panel: int) -> None:
    selector = FedCBSExact(sweeps=12, own=0.5, panel=panel)
    found = draws(selector, INFORMATION, times=2500, cohort_size=3, available=AVAILABLE)
    assert_law(found, stated_law(COUNTS, AVAILABLE, 3, exponent=3, floor=FLOOR, own=0.5))
    assert not fits(found, stated_law(COUNTS, AVAILABLE, 3, exponent=3, floor=FLOOR))


@pytest.mark.parametrize("exploration", [0.3, 1.0])
def test_exploration_is_the_mixture_that_is_documented(exploration: float) -> None:
    selector = FedCBSExact(sweeps=6, exploration=exploration)
    found = draws(
        selector,
        INFORMATION,
        times=2500,
        cohort_size=2,
        available=AVAILABLE,
        round_index=2,
        state=selected(selector, TIMES_SELECTED),
    )
    law = explored_law(
        COUNTS,
        AVAILABLE,
        2,
        exponent=2,
        floor=FLOOR,
        exploration=exploration,
        times_selected=TIMES_SELECTED,
    )
    assert_law(found, law)
    assert not fits(found, stated_law(COUNTS, AVAILABLE, 2, exponent=2, floor=FLOOR))


def test_with_few_sweeps_exploration_is_the_same_mixture_of_chains() -> None:
    selector = FedCBSExact(sweeps=1, exploration=0.5)
    found = draws(
        selector,
        INFORMATION,
        times=2500,
        cohort_size=3,
        available=AVAILABLE,
        round_index=7,
        state=selected(selector, TIMES_SELECTED),
    )
    assert_law(found, law_after(1, 3, exponent=3, exploration=0.5))


def test_the_first_round_explores_nobody() -> None:
    found = draws(
        FedCBSExact(sweeps=6, exploration=1.0), INFORMATION, times=3000, cohort_size=2, available=AVAILABLE
    )
    assert_law(found, stated_law(COUNTS, AVAILABLE, 2, exponent=2, floor=FLOOR))


@given(label_counts(min_clients=2, max_clients=6, empty_clients=False), st.floats(0.01, 1.0), st.data())
@settings(max_examples=25)
def test_everybody_available_has_at_least_the_chance_that_is_documented(
    counts: np.ndarray, exploration: float, data: st.DataObject
) -> None:
    num_clients = len(counts)
    size = data.draw(st.integers(1, num_clients - 1))
    times = data.draw(st.lists(st.integers(0, 99), min_size=num_clients, max_size=num_clients))
    law = explored_law(
        counts.tolist(),
        range(num_clients),
        size,
        exponent=size,
        floor=FLOOR,
        exploration=exploration,
        times_selected=times,
    )
    chances, shares = marginals(law), shares_of({n: (1 + t) ** -0.5 for n, t in enumerate(times)})
    for n, share in shares.items():
        assert chances[n] >= exploration * share * (1 - 1e-9)


@pytest.mark.parametrize(("size", "panel", "sweeps"), [(2, 1, 1), (2, 2, 2), (3, 1, 2)])
@pytest.mark.parametrize("exploration", [0.0, 0.5])
def test_panels_have_the_law_of_every_panel_followed(
    size: int, panel: int, sweeps: int, exploration: float
) -> None:
    selector = FedCBSExact(sweeps=sweeps, panel=panel, exploration=exploration)
    found = draws(
        selector,
        INFORMATION,
        times=2500,
        cohort_size=size,
        available=AVAILABLE,
        round_index=3,
        state=selected(selector, TIMES_SELECTED),
    )
    assert_law(found, law_after(sweeps, size, exponent=size, exploration=exploration, panel=panel))


def test_panels_have_the_stated_law_in_the_end() -> None:
    found = draws(
        FedCBSExact(sweeps=15, panel=2), INFORMATION, times=1000, cohort_size=2, available=AVAILABLE
    )
    assert_law(found, stated_law(COUNTS, AVAILABLE, 2, exponent=2, floor=FLOOR))


def test_panels_show_everybody_outside_the_cohort_equally_often() -> None:
    """Those outside are numbered around the members, wherever these are."""
    gram, rng, seen = FactorGram([[1, 0]] * 7), np.random.default_rng(0), np.zeros(7)
    selector = FedCBSExact(
        panel=2, exponent=1e-9
    )  # all cohorts alike, so that a sweep takes anybody it is shown
    for _ in range(3000):
        seen[selector._sweep_among_panel(gram, np.array([6, 1, 3]), 1e-9, 0.0, None, rng)] += 1
    members = [1, 3, 6]
    assert np.allclose(seen[members], seen[members].mean(), rtol=0.1)
    others = np.delete(seen, members)
    assert np.allclose(others, others.mean(), rtol=0.1)


def test_figure_2_gives_its_optimum() -> None:
    optimum = frozenset({0, 2, 3})
    assert qcid(FIGURE_2, optimum) == 0
    assert stated_law(FIGURE_2, range(4), 3, exponent=3, floor=FLOOR)[optimum] > 1 - 1e-9
    selector = FedCBSExact()
    found = draws(selector, LabelInformation(FIGURE_2), times=1000, cohort_size=3)
    assert found[optimum] >= 0.95 * 1000
    state, hits = selector.init(4), 0  # round after round the client left out, is explored again and again
    for k in range(1, 1001):
        selection = one(selector, LabelInformation(FIGURE_2), cohort_size=3, round_index=k, state=state)
        state = selection.state
        hits += frozenset(selection.cohort.tolist()) == optimum
    assert 0.95 * 1000 <= hits < 1000


LARGE = 10**15


@pytest.mark.parametrize(
    "counts",
    [
        [[LARGE, 0], [0, LARGE], [LARGE // 3, 0], [0, LARGE // 3], [7, 7], [LARGE, LARGE]],
        [[2**53 - 1, 1], [3, 0], [0, 3], [1, 0], [0, 2], [2, 2]],
    ],
)
def test_a_giant_that_leaves_takes_its_rounding_errors_along(counts: list[list[int]]) -> None:
    """Sums beyond 2**53 are rounded; who fits with those that stay must not depend on that."""
    gram = FactorGram(counts)
    assert qcid_resolution(gram, 2) > 0
    for leaver, other in itertools.permutations(range(6), 2):
        chain = GibbsChain(gram, np.array([leaver, other]), 2.0, floor=FLOOR, resolution=2.0**-46)
        chain._empty(0)
        weights = chain._weights()
        law = seat_law(counts, range(6), frozenset({other}), exponent=2, floor=2.0**-46)
        assert (weights / weights.sum()).tolist() == pytest.approx(
            [law.get(n, 0.0) for n in range(6)], rel=1e-6, abs=1e-9
        )
    found = draws(FedCBSExact(), LabelInformation(counts), times=50, cohort_size=2)
    assert all(qcid(counts, cohort) < 0.3 for cohort in found)


@given(
    st.data(),
    label_counts(min_clients=3, max_clients=12),
    st.floats(0.5, 12.0),
    st.sampled_from([0.0, 0.1]),
)
def test_a_sweep_written_out_finds_what_seat_by_seat_is_found(
    data: st.DataObject, counts: list[list[int]], exponent: float, own: float
) -> None:
    filled = [row for row in counts if sum(row)]
    assume(len(filled) > 2)
    size, seed = data.draw(st.integers(1, len(filled) - 1)), data.draw(st.integers(0, 99))
    found = []
    for written_out in (True, False):
        rng = np.random.default_rng(seed)
        chain = GibbsChain(FactorGram(filled), np.arange(size), exponent, floor=FLOOR, own=own)
        for _ in range(3):
            if written_out:
                chain.sweep(rng)
            else:
                chain._redraw(rng.permutation(size).tolist(), rng.random(size).tolist())
        found.append(chain.members.tolist())
    assert found[0] == found[1]
