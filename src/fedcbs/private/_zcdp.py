"""From zero-concentrated to approximate differential privacy, and back.

A mechanism that is rho-zCDP is (epsilon, delta)-private with, for every alpha above 1,
``delta = exp((alpha - 1)(alpha rho - epsilon)) / (alpha - 1) * (1 - 1 / alpha)**alpha``
(Canonne, Kamath and Steinke 2020, corollary 13). Every alpha gives a true statement, so a search that stops early errs
on the safe side.
"""

from __future__ import annotations

import math
from fractions import Fraction

__all__ = ["approximate_epsilon", "largest_rho"]

_SAFE = 1 + 1e-9
"""Covers what the floating-point numbers in here lose."""


def approximate_epsilon(rho: float, delta: float) -> float:
    """Smallest epsilon that the bound gives at `delta`.

    >>> round(approximate_epsilon(0.5, 1e-6), 3)
    5.222
    >>> approximate_epsilon(0.0, 1e-6)
    0.0
    """
    if rho <= 0:
        return 0.0
    low, high = -40.0, 40.0  # of log(alpha - 1), in which the bound has one valley
    for _ in range(200):
        first, second = low + (high - low) / 3, high - (high - low) / 3
        if _epsilon_at(first, rho, delta) <= _epsilon_at(second, rho, delta):
            high = second
        else:
            low = first
    return max(_epsilon_at((low + high) / 2, rho, delta), 0.0) * _SAFE


def largest_rho(epsilon: float, delta: float) -> Fraction:
    """Largest rho for which the bound gives (epsilon, delta), rounded down.

    >>> rho = largest_rho(1.0, 1e-6)
    >>> approximate_epsilon(float(rho), 1e-6) <= 1.0
    True
    """
    low, high = 0.0, max(epsilon, 1.0) * 2 + 1
    for _ in range(200):
        middle = (low + high) / 2
        if approximate_epsilon(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
    return Fraction(math.floor(low * 10**9), 10**9) if low > 1e-6 else Fraction(low)


def _epsilon_at(log_excess: float, rho: float, delta: float) -> float:
    """Epsilon of the bound at one alpha, with ``alpha = 1 + exp(log_excess)``."""
    excess = math.exp(log_excess)
    alpha = 1 + excess
    shrink = alpha * (log_excess - math.log(alpha))
    return alpha * rho + (shrink - log_excess - math.log(delta)) / excess
