"""A small federation for tests of the service."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from fedcbs.private import PublicKeys, mode_of
from fedcbs.service import FederationOptions

__all__ = ["NAMES", "OPTIONS", "counts", "gram"]

NAMES = tuple(f"client-{number:02}" for number in range(30))
OPTIONS = FederationOptions(num_classes=5, mode="plain", max_examples=1000, seed=7)


@functools.cache
def counts(seed: int = 0) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    return np.array([rng.multinomial(100, rng.dirichlet(np.full(5, 0.3))) for _ in NAMES])


def gram(keys: PublicKeys, names: tuple[str, ...] = NAMES, seed: int = 0) -> bytes:
    """What the server computes for these clients."""
    mode = mode_of(keys)
    rows = dict(zip(NAMES, counts(seed), strict=True))
    return mode.gram(keys, {name: mode.encrypt(keys, rows[name], name) for name in names})
