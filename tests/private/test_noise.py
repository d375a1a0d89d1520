from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcbs.errors import InvalidArgumentError, UnknownNameError
from fedcbs.private import DiscreteGaussian, DiscreteLaplace, parse_noise
from fedcbs.private._discrete import Uniform, discrete_gaussian, discrete_laplace
from tests.goodness_of_fit import assert_law
from tests.private import noise_reference as reference


def seeded(seed: int) -> Uniform:
    return Uniform(np.random.default_rng(seed).bytes)


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 1000])
def test_uniform_numbers_are_uniform(bound: int) -> None:
    draws = seeded(1).below(np.full(20_000, bound))
    assert_law(draws.tolist(), dict.fromkeys(range(bound), 1 / bound))


def test_uniform_numbers_under_a_bound_that_most_words_exceed_are_not_folded() -> None:
    bound = 2**62 + 2**61  # a remainder of 2**64 would favour the lower third by a half
    draws = seeded(2).below(np.full(20_000, bound))
    assert_law((draws < bound // 3).tolist(), {True: 1 / 3, False: 2 / 3})


@pytest.mark.parametrize("epsilon", ["2", "1", "1/2", "0.1", "0.02", "7/3"])
def test_laplace_has_its_law(epsilon: str) -> None:
    draws = discrete_laplace(Fraction(epsilon), 40_000, seeded(3))
    assert_law(draws.tolist(), reference.laplace_law(float(Fraction(epsilon))))


@pytest.mark.parametrize("sigma_squared", ["1/4", "1", "5/2", "40", "2000"])
def test_gaussian_has_its_law(sigma_squared: str) -> None:
    draws = discrete_gaussian(Fraction(sigma_squared), 40_000, seeded(4))
    assert_law(draws.tolist(), reference.gaussian_law(float(Fraction(sigma_squared))))


@pytest.mark.parametrize("epsilon", ["1", "1/3"])
def test_the_reference_has_the_same_law(epsilon: str) -> None:
    rng = np.random.default_rng(5)
    draws = [reference.laplace(Fraction(epsilon), lambda n: int(rng.integers(n))) for _ in range(4000)]
    assert_law(draws, reference.laplace_law(float(Fraction(epsilon))))
    wide = [reference.gaussian(Fraction(7, 2), lambda n: int(rng.integers(n))) for _ in range(4000)]
    assert_law(wide, reference.gaussian_law(3.5))


def test_the_largest_gaussian_stays_in_64_bits() -> None:
    draws = discrete_gaussian(Fraction(2**24), 20_000, seeded(6))
    assert abs(draws.std() / 4096 - 1) < 0.03


@pytest.mark.parametrize("epsilon", ["2", "0.5"])
def test_laplace_is_private_as_stated(epsilon: str) -> None:
    """The worst ratio of the law and the law of a neighbour is exp(epsilon)."""
    law = reference.laplace_law(float(Fraction(epsilon)))
    ratios = [law[x] / law[x + 1] for x in law if x + 1 in law]
    assert max(ratios) == pytest.approx(math.exp(float(DiscreteLaplace(epsilon).epsilon)))


def test_changing_a_label_needs_twice_the_scale() -> None:
    narrow, wide = parse_noise("laplace:epsilon=1"), parse_noise("laplace:epsilon=1,adjacency=change")
    draws = [noise.draw(20_000, seeded(7)) for noise in (narrow, wide)]
    assert_law(draws[1].tolist(), reference.laplace_law(0.5))
    assert narrow.epsilon == wide.epsilon
    assert parse_noise("gaussian:rho=0.5,adjacency=change").sigma_squared == 2  # type: ignore[attr-defined]


def test_sizes_are_those_of_the_noised_counts_and_nothing_is_negative() -> None:
    counts = np.random.default_rng(8).integers(0, 5, (50, 10))
    noised = parse_noise("laplace:epsilon=0.1").apply(counts, np.random.default_rng(9))
    assert noised.dtype == np.int64
    assert noised.shape == counts.shape
    assert noised.min() == 0
    assert (noised.sum(axis=1) != counts.sum(axis=1)).any()


def test_without_a_generator_the_system_gives_fresh_noise() -> None:
    noise = parse_noise("laplace:epsilon=0.01")
    counts = np.full(40, 1000)
    assert not np.array_equal(noise.apply(counts), noise.apply(counts))


def test_a_seed_repeats() -> None:
    noise = parse_noise("gaussian:rho=0.01")
    first, again = (noise.apply(np.full(40, 1000), np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(first, again)


def test_counts_near_the_largest_do_not_overflow() -> None:
    assert parse_noise("laplace:epsilon=0.001").apply([2**53, 0]).max() <= 2**53


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("laplce:epsilon=1", "did you mean 'laplace'"),
        ("laplace", "has no epsilon"),
        ("laplace:epsilon", "must have the form option=value"),
        ("laplace:epsilon=1,epsilon=2", "twice"),
        ("laplace:epsilon=-1", "above 0"),
        ("laplace:epsilon=nan", "must be a number"),
        ("laplace:epsilon=1/0", "must be a number"),
        ("laplace:epsilon=0.12345678901", "too many digits"),
        ("laplace:delta=1", "option of laplace='delta'"),
        ("laplace:epsilon=1,adjacency=other", "adjacency='other'"),
        ("gaussian", "give rho alone, or epsilon with delta"),
        ("gaussian:epsilon=1", "give rho alone, or epsilon with delta"),
        ("gaussian:epsilon=1,delta=1", "delta='1' must be between 0 and 1"),
        ("gaussian:rho=1,epsilon=1,delta=0.1", "give rho alone"),
        ("gaussian:rho=0.000000001", "standard deviation"),
        ("", "noise=''"),
    ],
)
def test_wrong_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message.replace("(", r"\(")):
        parse_noise(text)


def test_an_unknown_law_lists_those_known() -> None:
    with pytest.raises(UnknownNameError, match="gaussian, laplace"):
        parse_noise("uniform:1")


@settings(max_examples=50, deadline=None)
@given(st.fractions(min_value=Fraction(1, 1000), max_value=50, max_denominator=10_000))
def test_a_spec_makes_the_same_noise(number: Fraction) -> None:
    for noise in (DiscreteLaplace(number), DiscreteGaussian(number, adjacency="change")):
        assert parse_noise(noise.spec) == noise
    assert DiscreteGaussian(number).rho <= number  # never less noise than was asked for
