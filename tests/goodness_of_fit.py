"""Pearson's test of draws against a law that is known exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

import scipy.stats

Outcome = TypeVar("Outcome", bound=Hashable)

SURPRISE = 1e-4
"""Draws less likely than this under the law refute it. Seeds are fixed, so a test that passes keeps passing."""


def p_value(draws: Iterable[Outcome], law: Mapping[Outcome, float]) -> float:
    """Probability of draws at least as far from the law; 0 where one of them is impossible under it.

    Outcomes expected fewer than 5 times are taken together.
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
    if expected[0] < 5:  # too little to stand alone
        low, high = observed.pop(0), expected.pop(0)
        place = expected.index(min(expected))
        observed[place] += low
        expected[place] += high
    statistic = sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True))
    return float(scipy.stats.chi2.sf(statistic, len(expected) - 1)) if len(expected) > 1 else 1.0


def fits(draws: Iterable[Outcome], law: Mapping[Outcome, float]) -> bool:
    """Whether the draws could well have come from the law.

    >>> fits([0, 1] * 500, {0: 0.5, 1: 0.5}), fits([0, 1] * 500, {0: 0.4, 1: 0.6})
    (True, False)
    """
    return p_value(draws, law) > SURPRISE
