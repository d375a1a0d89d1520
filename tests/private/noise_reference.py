"""The samplers one entry at a time, in Python's whole numbers, and the laws that they must have."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

Below = Callable[[int], int]


def chance_exp(gamma: Fraction, below: Below) -> bool:
    """Algorithm 1 of Canonne, Kamath and Steinke."""
    while gamma > 1:
        if not chance_exp(Fraction(1), below):
            return False
        gamma -= 1
    k = 1
    while below(gamma.denominator * k) < gamma.numerator:
        k += 1
    return k % 2 == 1


def laplace(epsilon: Fraction, below: Below) -> int:
    """Algorithm 2, with scale t / s."""
    s, t = epsilon.numerator, epsilon.denominator
    while True:
        u = below(t)
        if not chance_exp(Fraction(u, t), below):
            continue
        v = 0
        while chance_exp(Fraction(1), below):
            v += 1
        magnitude = (u + t * v) // s
        negative = below(2) == 1
        if not (negative and magnitude == 0):
            return -magnitude if negative else magnitude


def gaussian(sigma_squared: Fraction, below: Below) -> int:
    """Algorithm 3."""
    t = math.isqrt(math.floor(sigma_squared)) + 1
    while True:
        y = laplace(Fraction(1, t), below)
        if chance_exp((abs(y) - sigma_squared / t) ** 2 / (2 * sigma_squared), below):
            return y


def laplace_law(epsilon: float) -> dict[int, float]:
    """Probabilities out to where they no longer count."""
    reach = math.ceil(45 / epsilon)
    middle = math.tanh(epsilon / 2)
    return {x: middle * math.exp(-epsilon * abs(x)) for x in range(-reach, reach + 1)}


def gaussian_law(sigma_squared: float) -> dict[int, float]:
    reach = math.ceil(10 * math.sqrt(sigma_squared)) + 5
    weights = {x: math.exp(-x * x / (2 * sigma_squared)) for x in range(-reach, reach + 1)}
    total = sum(weights.values())
    return {x: weight / total for x, weight in weights.items()}
