"""Noise on a client's own label counts, added before they are encrypted: what the selector opens is noised already.

Two neighbouring data sets differ in one example. With ``adjacency="add-remove"`` one of them has an example more: one count
differs by 1, so that the sensitivity is 1 in both norms. With ``adjacency="change"`` one example has another label: two
counts differ by 1, the sensitivity is 2 in the sum of absolute differences and the root of 2 in Euclid's norm. What is
protected is one example of a client, not the client.

Counts below 0 are set to 0, and a client's size is the sum of its noised counts; both are computed from noised values
alone, and cost nothing more. The samplers are exact (see `_discrete.py`).
"""

from __future__ import annotations

import abc
import dataclasses
import math
import os
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar, Literal, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs import _checks
from fedcbs.errors import InvalidArgumentError, UnknownNameError
from fedcbs.private._discrete import (
    LARGEST_SIGMA_SQUARED,
    LARGEST_TERM,
    Uniform,
    discrete_gaussian,
    discrete_laplace,
)
from fedcbs.private._zcdp import largest_rho

__all__ = ["DiscreteGaussian", "DiscreteLaplace", "Noise", "parse_noise"]

Adjacency = Literal["add-remove", "change"]

CHANGED_COUNTS: dict[str, int] = {"add-remove": 1, "change": 2}
"""How many counts differ, by 1 each, between neighbours; it is the sensitivity in the first norm, and squared in the second."""


@dataclasses.dataclass(frozen=True)
class Noise(abc.ABC):
    """A law of noise for label counts, with what one use of it costs."""

    name: ClassVar[str]
    adjacency: Adjacency
    """What neighbouring data sets differ in."""

    @property
    @abc.abstractmethod
    def epsilon(self) -> Fraction | None:
        """Cost of one use in pure differential privacy; None where the law has none."""

    @property
    @abc.abstractmethod
    def rho(self) -> Fraction:
        """Cost of one use in zero-concentrated differential privacy."""

    @property
    @abc.abstractmethod
    def spec(self) -> str:
        """The text that :func:`parse_noise` makes this of."""

    @abc.abstractmethod
    def draw(self, size: int, uniform: Uniform) -> NDArray[np.int64]:
        """Draw noise for that many counts."""

    @final
    def apply(
        self, label_counts: ArrayLike, rng: np.random.Generator | None = None, *, most: int | None = None
    ) -> NDArray[np.int64]:
        """Return label counts, of one client or of many, with noise and nothing below 0.

        Parameters
        ----------
        label_counts
            Whole numbers: one row for a client.
        rng
            For experiments that must repeat. A client leaves it out: the system's generator for secrets is used then,
            and whoever knows a seed could take the noise off again.
        most
            Most examples that a client may have; noised counts that add up to more are scaled down.

        Examples
        --------
        >>> DiscreteLaplace("2").apply([30, 0, 5], np.random.default_rng(0)).shape
        (3,)
        """
        shape = np.shape(label_counts)
        single = len(shape) == 1
        counts = _checks.counts_matrix(np.asarray(label_counts)[None] if single else label_counts)
        drawn = self.draw(counts.size, Uniform(os.urandom if rng is None else rng.bytes))
        noised: NDArray[np.int64] = np.clip(counts + drawn.reshape(counts.shape), 0, _checks.EXACT)
        if most is not None:
            sizes = noised.sum(axis=1, keepdims=True)
            shrunk = (
                noised.astype(object) * most // np.maximum(sizes, 1)
            )  # whole numbers that do not overflow
            noised = np.where(sizes > most, shrunk, noised).astype(np.int64)
        return noised.reshape(shape)


@final
@dataclasses.dataclass(frozen=True, init=False)
class DiscreteLaplace(Noise):
    """Discrete Laplace noise: pure differential privacy.

    Parameters
    ----------
    epsilon
        What one use costs. A text or a fraction is taken exactly, a float as it is printed.
    adjacency
        What neighbouring data sets differ in.

    Examples
    --------
    >>> DiscreteLaplace(0.5).epsilon
    Fraction(1, 2)
    >>> DiscreteLaplace(0)
    Traceback (most recent call last):
    ...
    fedcbs.errors.InvalidArgumentError: epsilon=0 must be above 0 and at most 100
    """

    name: ClassVar[str] = "laplace"

    epsilon_each: Fraction

    def __init__(self, epsilon: object, adjacency: str = "add-remove") -> None:
        object.__setattr__(self, "epsilon_each", _fraction(epsilon, "epsilon", 100))
        object.__setattr__(self, "adjacency", _adjacency(adjacency))

    @property
    def epsilon(self) -> Fraction:
        """Cost of one use in pure differential privacy."""
        return self.epsilon_each

    @property
    def rho(self) -> Fraction:
        """Cost of one use in zero-concentrated differential privacy: ``epsilon**2 / 2`` (Bun and Steinke 2016)."""
        return self.epsilon_each**2 / 2

    @property
    def spec(self) -> str:
        """The text that :func:`parse_noise` makes this of."""
        return f"laplace:epsilon={_text(self.epsilon_each)}{_tail(self.adjacency)}"

    def draw(self, size: int, uniform: Uniform) -> NDArray[np.int64]:
        """Draw noise for that many counts."""
        return discrete_laplace(self.epsilon_each / CHANGED_COUNTS[self.adjacency], size, uniform)


@final
@dataclasses.dataclass(frozen=True, init=False)
class DiscreteGaussian(Noise):
    """Discrete Gaussian noise: zero-concentrated differential privacy; cheaper than Laplace where there are many uses.

    Parameters
    ----------
    rho
        What one use costs in zero-concentrated differential privacy; or, instead of it:
    epsilon, delta
        What one use costs in approximate differential privacy. The largest rho that implies it is used.
    adjacency
        What neighbouring data sets differ in.

    Examples
    --------
    >>> DiscreteGaussian(rho="0.125").sigma_squared
    Fraction(4, 1)
    >>> round(float(DiscreteGaussian(epsilon=1, delta="1e-6").rho), 4)
    0.0244
    """

    name: ClassVar[str] = "gaussian"

    rho_each: Fraction

    def __init__(
        self,
        rho: object = None,
        *,
        epsilon: object = None,
        delta: object = None,
        adjacency: str = "add-remove",
    ) -> None:
        if (rho is None) == (epsilon is None) or (epsilon is None) != (delta is None):
            raise InvalidArgumentError(
                f"rho={rho!r}, epsilon={epsilon!r}, delta={delta!r}: give rho alone, or epsilon with delta"
            )
        if rho is None:
            allowed = largest_rho(float(_fraction(epsilon, "epsilon", 100)), float(_delta(delta)))
        else:
            allowed = _fraction(rho, "rho", 5000)
        object.__setattr__(self, "adjacency", _adjacency(adjacency))
        sigma_squared = _rounded_up(CHANGED_COUNTS[adjacency] / (2 * allowed))
        if sigma_squared > LARGEST_SIGMA_SQUARED:
            raise InvalidArgumentError(
                f"rho={float(allowed):g} asks for noise with a standard deviation of {math.sqrt(sigma_squared):.0f};"
                f" ask for at most {math.isqrt(LARGEST_SIGMA_SQUARED)}"
            )
        object.__setattr__(self, "rho_each", CHANGED_COUNTS[adjacency] / (2 * sigma_squared))

    @property
    def sigma_squared(self) -> Fraction:
        """Parameter of the law, which is its variance but for a trace."""
        return CHANGED_COUNTS[self.adjacency] / (2 * self.rho_each)

    @property
    def epsilon(self) -> None:
        """None: this law has no cost in pure differential privacy."""
        return None

    @property
    def rho(self) -> Fraction:
        """Cost of one use in zero-concentrated differential privacy (Canonne, Kamath and Steinke 2020, theorem 4)."""
        return self.rho_each

    @property
    def spec(self) -> str:
        """The text that :func:`parse_noise` makes this of."""
        return f"gaussian:rho={_text(self.rho_each)}{_tail(self.adjacency)}"

    def draw(self, size: int, uniform: Uniform) -> NDArray[np.int64]:
        """Draw noise for that many counts."""
        return discrete_gaussian(self.sigma_squared, size, uniform)


def parse_noise(text: str) -> Noise:
    """Make a noise from a text such as ``laplace:epsilon=0.5`` or ``gaussian:epsilon=1,delta=1e-6``.

    >>> parse_noise("laplace:epsilon=0.5,adjacency=change").spec
    'laplace:epsilon=0.5,adjacency=change'
    >>> parse_noise("laplace:0.5")
    Traceback (most recent call last):
    ...
    fedcbs.errors.InvalidArgumentError: noise='laplace:0.5': '0.5' must have the form option=value
    """
    kinds = {"laplace": ("epsilon", "adjacency"), "gaussian": ("rho", "epsilon", "delta", "adjacency")}
    name, _, rest = str(text).strip().partition(":")
    if name not in kinds:
        raise UnknownNameError("noise", name, kinds)
    options: dict[str, str] = {}
    for part in filter(None, rest.replace(":", ",").split(",")):
        option, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise InvalidArgumentError(f"noise={text!r}: {part!r} must have the form option=value")
        if option not in kinds[name]:
            raise UnknownNameError(f"option of {name}", option, kinds[name])
        if option in options:
            raise InvalidArgumentError(f"noise={text!r} gives {option} twice; give it once")
        options[option] = value
    if name == "laplace" and "epsilon" not in options:
        raise InvalidArgumentError(f"noise={text!r} has no epsilon; write laplace:epsilon=0.5")
    adjacency = options.pop("adjacency", "add-remove")
    if name == "laplace":
        return DiscreteLaplace(options["epsilon"], adjacency)
    return DiscreteGaussian(
        options.get("rho"), epsilon=options.get("epsilon"), delta=options.get("delta"), adjacency=adjacency
    )


def _fraction(value: object, name: str, largest: int) -> Fraction:
    try:
        number = Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        raise InvalidArgumentError(f"{name}={value!r} must be a number such as 0.5 or 1/3") from None
    if not 0 < number <= largest:
        raise InvalidArgumentError(f"{name}={value} must be above 0 and at most {largest}")
    if max(number.denominator, number.numerator) > LARGEST_TERM:
        raise InvalidArgumentError(f"{name}={value} has too many digits; give at most nine after the point")
    return number


def _delta(value: object) -> Fraction:
    try:
        number = Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        number = Fraction(0)
    if not 0 < number < 1:
        raise InvalidArgumentError(f"delta={value!r} must be between 0 and 1, such as 1e-6")
    return number


def _adjacency(value: str) -> Adjacency:
    if value not in CHANGED_COUNTS:
        raise UnknownNameError("adjacency", value, CHANGED_COUNTS)
    return cast(Adjacency, value)


def _rounded_up(sigma_squared: Fraction) -> Fraction:
    """A parameter that is not smaller, and whose terms are small enough for 64 bits."""
    bottom = 1024 if sigma_squared < 1024 else 1
    return Fraction(math.ceil(sigma_squared * bottom), bottom)


def _text(number: Fraction) -> str:
    """A number as a decimal where that is exact, else as a fraction."""
    decimal = str(Decimal(number.numerator) / number.denominator)
    return decimal if "E" not in decimal and Fraction(decimal) == number else str(number)


def _tail(adjacency: str) -> str:
    return "" if adjacency == "add-remove" else f",adjacency={adjacency}"
