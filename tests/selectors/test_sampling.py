import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fedcbs.selectors._sampling import best, categorical, weighted_without_replacement
from tests.goodness_of_fit import assert_law
from tests.reference import uniform_law, without_replacement_law

WEIGHTS = st.lists(st.one_of(st.just(0.0), st.floats(1e-300, 1e300)), min_size=1, max_size=6).filter(any)


@given(WEIGHTS, st.floats(0, math.nextafter(1, 0)))
def test_a_categorical_draw_never_lands_on_a_weight_of_zero(weights: list[float], uniform: float) -> None:
    assert weights[categorical(np.array(weights), uniform)] > 0


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any))
def test_a_categorical_draw_gives_each_its_share_of_the_unit_interval(weights: list[int]) -> None:
    total = sum(weights)
    places = [categorical(np.array(weights, dtype=float), (2 * i + 1) / (2 * total)) for i in range(total)]
    assert np.bincount(places, minlength=len(weights)).tolist() == weights


@pytest.mark.parametrize(
    ("weights", "size"),
    [([1, 2, 3, 10], 2), ([5, 1, 1, 1, 40], 3), ([0, 3, 0, 1], 2), ([0, 3, 0, 1, 0], 4), ([2, 1, 7], 3)],
)
def test_without_replacement_is_one_after_another(weights: list[float], size: int) -> None:
    rng = np.random.default_rng(1)
    found = [
        frozenset(weighted_without_replacement(np.array(weights, dtype=float), size, rng).tolist())
        for _ in range(4000)
    ]
    assert_law(found, without_replacement_law(dict(enumerate(weights)), size))


def test_weights_of_any_size_find_as_many_as_are_wanted() -> None:
    rng = np.random.default_rng(0)
    for weights in ([1e-320, 1e308, 1e-300, 0.0], [0.0] * 4, [1e-320] * 4):
        for size in range(1, 5):
            found = weighted_without_replacement(np.array(weights), size, rng)
            assert len(set(found.tolist())) == size
            assert np.array(weights)[found].all() or size > np.count_nonzero(weights)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=7), st.data())
def test_the_best_are_none_worse_than_those_left(values: list[int], data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(values)))
    chosen = set(best(np.array(values, dtype=float), size, np.random.default_rng(0)).tolist())
    assert len(chosen) == size
    left = [value for i, value in enumerate(values) if i not in chosen]
    assert min(values[i] for i in chosen) >= max(left, default=-math.inf)


@pytest.mark.parametrize("size", [1, 2])
def test_equally_good_ones_are_chosen_at_random(size: int) -> None:
    rng = np.random.default_rng(3)
    values = np.array([1.0, 4.0, 4.0, 0.0, 4.0, 4.0])
    found = [frozenset(best(values, size, rng).tolist()) for _ in range(3000)]
    assert_law(found, uniform_law([1, 2, 4, 5], size))
