"""Dirichlet draws that survive tiny concentrations, because they are made of logarithms.

A Gamma(a) draw with a = 0.001 is below the smallest double more often than not; ten of them then add up to zero and
their proportions to NaN. The logarithm is harmless: log G(a) = log G(a + 1) + log(U) / a in law.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcbs._checks import real

__all__ = ["checked_alpha", "log_gammas", "proportions"]

_LEAST_ALPHA = 1e-100
_MOST_ALPHA = 1e100


def checked_alpha(alpha: object) -> float:
    """Return `alpha` if it is a concentration that doubles can carry."""
    return real(alpha, "alpha", minimum=_LEAST_ALPHA, maximum=_MOST_ALPHA)


def log_gammas(
    concentration: NDArray[np.float64], shape: tuple[int, ...], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Logarithms of Gamma draws; normalised along an axis they are a Dirichlet draw.

    >>> draws = log_gammas(np.array([1e-3]), (2, 3), np.random.default_rng(0))
    >>> bool(np.isfinite(draws).all()), proportions(draws).sum(axis=1)
    (True, array([1., 1.]))
    """
    logs: NDArray[np.float64] = rng.standard_gamma(concentration + 1.0, size=shape)
    np.log(logs, out=logs)
    # A standard exponential draw is -log(U).
    boost = rng.standard_exponential(size=shape)
    boost /= concentration
    logs -= boost
    return logs


def proportions(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Exponentiate and normalise along the last axis, without underflow of the sum.

    >>> proportions(np.log([1.0, 3.0]))
    array([0.25, 0.75])
    """
    shares: NDArray[np.float64] = logs - logs.max(axis=-1, keepdims=True)
    np.exp(shares, out=shares)
    shares /= shares.sum(axis=-1, keepdims=True)
    return shares
