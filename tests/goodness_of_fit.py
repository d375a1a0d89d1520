"""Pearson's test of draws against a law that is known exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeVar

import numpy as np
import scipy.stats

Outcome = TypeVar("Outcome", bound=Hashable)

SURPRISE = 1e-4
"""Draws less likely than this under the law refute it. Seeds are fixed, so a test that passes keeps passing."""


def p_value(draws: Iterable[Outcome] | Mapping[Outcome, int], law: Mapping[Outcome, float]) -> float:
    """Probability of draws at least as far from the law; 0 where one of them is impossible under it.

    Outcomes expected fewer than 5 times are taken together; where even together they are, an exact test says whether
    they came up too often.
    """
    seen = Counter(draws)
    if any(law.get(outcome, 0.0) == 0.0 for outcome in seen):
        return 0.0
    number = seen.total()
    observed, expected = [0.0], [0.0]
    for outcome, probability in law.items():
        if number * probability < 5:
            observed[0] += seen[outcome]
            expected[0] += number * probability
        else:
            observed.append(seen[outcome])
            expected.append(number * probability)
    too_often = 1.0
    if expected[0] < 5:  # too little to stand alone
        low, high = observed.pop(0), expected.pop(0)
        too_often = 2 * float(scipy.stats.binom.sf(low - 1, number, high / number))
        place = expected.index(min(expected))
        observed[place] += low
        expected[place] += high
    statistic = sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True))
    apart = 2 * float(scipy.stats.chi2.sf(statistic, len(expected) - 1)) if len(expected) > 1 else 1.0
    return min(apart, too_often, 1.0)


def assert_law(draws: Iterable[Outcome] | Mapping[Outcome, int], law: Mapping[Outcome, float]) -> None:
    """Fail unless the draws (or how often each outcome was drawn) could well have come from the law."""
    assert p_value(draws, law) > SURPRISE


def assert_same_law(first: Counter[Hashable], second: Counter[Hashable]) -> None:
    """Fail unless two samples could well have come from one law."""
    outcomes = list(first | second)
    table = np.array([[sample[outcome] for outcome in outcomes] for sample in (first, second)])
    rare = table.sum(axis=0) < 20
    pooled = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    pooled = pooled[:, pooled.sum(axis=0) > 0]
    assert pooled.shape[1] > 2, "the case is too simple to tell laws apart"
    assert scipy.stats.chi2_contingency(pooled).pvalue > SURPRISE


def tally(draw: Callable[[np.random.Generator], np.ndarray], times: int, seed: int) -> Counter[Hashable]:
    """How often each outcome comes up."""
    rng = np.random.default_rng(seed)
    return Counter(draw(rng).tobytes() for _ in range(times))


def fits(draws: Iterable[Outcome], law: Mapping[Outcome, float]) -> bool:
    """Whether the draws could well have come from the law.

    >>> fits([0, 1] * 500, {0: 0.5, 1: 0.5}), fits([0, 1] * 500, {0: 0.4, 1: 0.6})
    (True, False)
    >>> fits([0] * 100 + [1] * 100, {0: 0.9999, 1: 0.0001})
    False
    """
    return p_value(draws, law) > SURPRISE
