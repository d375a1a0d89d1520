"""Whether two samples, or a sample and a law, agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping

import numpy as np
from scipy import stats

SURE = 1e-3
"""Below this p-value a law is refuted; seeds are fixed, so a test that passes goes on passing."""


def tally(draw: Callable[[np.random.Generator], np.ndarray], times: int, seed: int) -> Counter[Hashable]:
    rng = np.random.default_rng(seed)
    return Counter(draw(rng).tobytes() for _ in range(times))


def assert_same_law(first: Counter[Hashable], second: Counter[Hashable]) -> None:
    outcomes = list(first | second)
    table = np.array([[sample[outcome] for outcome in outcomes] for sample in (first, second)])
    rare = table.sum(axis=0) < 20
    pooled = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    pooled = pooled[:, pooled.sum(axis=0) > 0]
    assert pooled.shape[1] > 2, "the case is too simple to tell laws apart"
    assert stats.chi2_contingency(pooled).pvalue > SURE


def assert_law(sample: Mapping[int, int], law: Mapping[int, float]) -> None:
    """Chi-square of a sample against exact probabilities of all its outcomes."""
    assert set(sample) <= set(law)
    times = sum(sample.values())
    observed = np.array([sample.get(outcome, 0) for outcome in law], dtype=float)
    expected = np.array([times * p for p in law.values()])
    assert np.isclose(expected.sum(), times)
    rare = expected < 5
    observed = np.append(observed[~rare], observed[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    kept = expected > 0
    assert stats.chisquare(observed[kept], expected[kept]).pvalue > SURE
