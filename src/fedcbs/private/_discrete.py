"""Exact draws of the discrete Laplace and the discrete Gaussian law, in whole numbers throughout.

Canonne, Kamath and Steinke, *The Discrete Gaussian for Differential Privacy* (NeurIPS 2020), algorithms 1 to 3. A sampler
that rounds floating-point numbers has gaps in its support, from which a noised value can be undone (Mironov, CCS 2012);
here every decision compares uniform whole numbers, so the law is the stated one. Unlike the paper's, the loops run
over arrays: an entry leaves the loop when it is decided.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

__all__ = ["LARGEST_SIGMA_SQUARED", "LARGEST_TERM", "Uniform", "discrete_gaussian", "discrete_laplace"]

LARGEST_TERM = 10**9
"""Largest numerator and denominator of a scale, so that all products stay in 64 bits."""

LARGEST_SIGMA_SQUARED = 2**24
"""Largest variance parameter of a discrete Gaussian, for the same reason."""

_FURTHEST = 64
"""A proposal this many scales out is refused; a Gaussian accepts it with a probability under exp(-2000)."""

Whole = NDArray[np.int64]


class Uniform:
    """Uniform whole numbers from a source of random bytes.

    Parameters
    ----------
    source
        Returns that many random bytes; the system's generator for secrets where none is given.

    Examples
    --------
    >>> uniform = Uniform(np.random.default_rng(0).bytes)
    >>> bool((uniform.below(np.array([1, 6, 10**12])) < [1, 6, 10**12]).all())
    True
    """

    def __init__(self, source: Callable[[int], bytes] = os.urandom) -> None:
        self._source = source

    def below(self, bounds: Whole) -> Whole:
        """Return one number from 0 to below each bound; every one of them is equally likely."""
        wide = bounds.astype(np.uint64)
        out = np.empty(len(bounds), dtype=np.uint64)
        # Of the 2**64 words, the highest 2**64 mod bound would favour small numbers; they are drawn again.
        last = np.uint64(2**64 - 1) - (np.uint64(2**64 - 1) % wide + np.uint64(1)) % wide
        open_ = np.arange(len(bounds))
        while len(open_):
            words = np.frombuffer(self._source(8 * len(open_)), dtype=np.uint64)
            good = words <= last[open_]
            out[open_[good]] = words[good] % wide[open_[good]]
            open_ = open_[~good]
        return out.astype(np.int64)

    def chance(self, numerators: Whole, denominators: Whole) -> NDArray[np.bool_]:
        """Return true with the probability ``numerator / denominator``, one for each."""
        return self.below(denominators) < numerators


def discrete_laplace(epsilon: Fraction, size: int, uniform: Uniform) -> Whole:
    """Draw from the law in proportion to ``exp(-epsilon |x|)`` over the whole numbers.

    >>> draws = discrete_laplace(Fraction(1, 2), 1000, Uniform(np.random.default_rng(0).bytes))
    >>> abs(float(draws.mean())) < 0.3, bool(3 < np.abs(draws).mean() * 2 < 5)
    (True, True)
    """
    scale, steps = epsilon.denominator, epsilon.numerator  # the scale is scale / steps
    out = np.zeros(size, dtype=np.int64)
    open_ = np.arange(size)
    while len(open_):
        size_of_open = len(open_)
        remainder = uniform.below(np.full(size_of_open, scale))
        going = _chance_exp(remainder, np.full(size_of_open, scale), uniform)
        magnitude = (remainder + scale * _run_length(size_of_open, uniform)) // steps
        negative = uniform.below(np.full(size_of_open, 2)) == 1
        good = going & ~(negative & (magnitude == 0))  # one zero, not two
        out[open_[good]] = np.where(negative, -magnitude, magnitude)[good]
        open_ = open_[~good]
    return out


def discrete_gaussian(sigma_squared: Fraction, size: int, uniform: Uniform) -> Whole:
    """Draw from the law in proportion to ``exp(-x**2 / (2 sigma_squared))`` over the whole numbers.

    >>> draws = discrete_gaussian(Fraction(9), 1000, Uniform(np.random.default_rng(0).bytes))
    >>> bool(8 < draws.var() < 10)
    True
    """
    top, bottom = sigma_squared.numerator, sigma_squared.denominator
    scale = _floor_root(sigma_squared) + 1
    out = np.zeros(size, dtype=np.int64)
    open_ = np.arange(size)
    while len(open_):
        proposed = discrete_laplace(Fraction(1, scale), len(open_), uniform)
        near = np.abs(proposed) <= _FURTHEST * scale
        distance = np.where(near, np.abs(proposed), 0) * (bottom * scale) - top
        good = near & _chance_exp(distance**2, np.full(len(open_), 2 * top * bottom * scale * scale), uniform)
        out[open_[good]] = proposed[good]
        open_ = open_[~good]
    return out


def _chance_exp(numerators: Whole, denominators: Whole, uniform: Uniform) -> NDArray[np.bool_]:
    """Return true with the probability ``exp(-numerator / denominator)``, one for each."""
    whole, rest = np.divmod(numerators, denominators)
    out = _chance_exp_below_one(rest, denominators, uniform)
    open_ = np.flatnonzero(out & (whole > 0))
    left = whole[open_]
    while len(open_):
        ones = np.ones(len(open_), dtype=np.int64)
        going = _chance_exp_below_one(ones, ones, uniform)
        out[open_[~going]] = False
        left = left[going] - 1
        open_, left = open_[going][left > 0], left[left > 0]
    return out


def _chance_exp_below_one(numerators: Whole, denominators: Whole, uniform: Uniform) -> NDArray[np.bool_]:
    """Count how long a chance of ``ratio / k`` keeps coming, k = 1, 2, ...; it fails first at an odd k with exp(-ratio)."""
    count = np.ones(len(numerators), dtype=np.int64)
    open_ = np.arange(len(numerators))
    while len(open_):
        going = uniform.chance(numerators[open_], denominators[open_] * count[open_])
        open_ = open_[going]
        count[open_] += 1
    odd: NDArray[np.bool_] = count % 2 == 1
    return odd


def _run_length(size: int, uniform: Uniform) -> Whole:
    """How often in a row a chance of ``exp(-1)`` comes."""
    out = np.zeros(size, dtype=np.int64)
    open_ = np.arange(size)
    while len(open_):
        ones = np.ones(len(open_), dtype=np.int64)
        open_ = open_[_chance_exp_below_one(ones, ones, uniform)]
        out[open_] += 1
    return out


def _floor_root(value: Fraction) -> int:
    """Largest whole number whose square is at most `value`."""
    return math.isqrt(value.numerator // value.denominator)
