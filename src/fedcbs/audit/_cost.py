"""What noise on label counts costs: the selector chooses by noised counts, and the true labels of its cohorts are measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs import _checks, _random
from fedcbs.availability import parse_availability
from fedcbs.errors import InvalidArgumentError
from fedcbs.imbalance import qcid
from fedcbs.private import Noise, parse_noise
from fedcbs.selectors import Feedback, LabelInformation, Need, Round, Selector, parse_selector

__all__ = ["CostSetting", "noised", "qcid_under_noise"]

TOLD = frozenset({Need.GRAM, Need.LABEL_COUNTS, Need.NUM_EXAMPLES})
"""What label counts can answer."""


@dataclasses.dataclass(frozen=True)
class CostSetting:
    """The rounds in which the cost of noise is measured.

    Parameters
    ----------
    selectors
        Names, with options as in ``fedcbs-exact:sweeps=5``.
    cohort_size, rounds
        How many clients to pick, and how often.
    availability
        Who can be picked in a round.
    """

    selectors: tuple[str, ...] = ("fedcbs-exact", "uniform")
    cohort_size: int = 10
    rounds: int = 50
    availability: str = "uniform:0.3"

    def __post_init__(self) -> None:
        _checks.integer(self.cohort_size, "cohort_size", minimum=1)
        _checks.integer(self.rounds, "rounds", minimum=1)
        parse_availability(self.availability)
        if not self.selectors:
            raise InvalidArgumentError("selectors is empty; name at least one")
        for name in self.selectors:
            _chooser(name)


def noised(label_counts: NDArray[np.int64], noise: Noise | str, seed: int) -> NDArray[np.int64]:
    """Label counts as the selector would see them under noise; the same seed gives the same.

    >>> noised(np.array([[30, 0]]), "laplace:epsilon=100", seed=0)
    array([[30, 0]])
    """
    law = parse_noise(noise) if isinstance(noise, str) else noise
    return law.apply(label_counts, _random.generator(f"noise {law.spec}", seed))


def qcid_under_noise(
    label_counts: ArrayLike, noise: Noise | str | None, setting: CostSetting, *, seed: int = 0
) -> dict[str, NDArray[np.float64]]:
    """QCID of the true labels of each round's cohort, for each selector, which sees noised counts and sizes.

    Parameters
    ----------
    label_counts
        Clients x classes.
    noise
        The law, or None for none. It is drawn once: clients send their counts once.
    setting
        Selectors, sizes and rounds.
    seed
        Fixes the noise, who is available, and the selectors' choices.

    Examples
    --------
    >>> counts = [[9, 0], [0, 9], [9, 0], [0, 9]]
    >>> found = qcid_under_noise(counts, None, CostSetting(cohort_size=2, rounds=3, availability="always"))
    >>> found["fedcbs-exact"].tolist()
    [0.0, 0.0, 0.0]
    """
    counts = _checks.counts_matrix(label_counts)
    seen = counts if noise is None else noised(counts, noise, seed)
    rule = parse_availability(setting.availability).bind(counts)
    information = LabelInformation(seen)
    pickable = (seen.sum(axis=1) > 0) & (counts.sum(axis=1) > 0)
    found: dict[str, NDArray[np.float64]] = {}
    rounds = [
        ids[pickable[ids]]
        for ids in (
            rule.available(index + 1, num_clients=len(counts), seed=seed) for index in range(setting.rounds)
        )
    ]
    for name in setting.selectors:
        found[name] = _run(_chooser(name), information, rounds, counts, setting.cohort_size, seed)
    return found


def _run(
    chooser: Selector[Any],
    information: LabelInformation,
    rounds: Iterable[NDArray[np.int64]],
    counts: NDArray[np.int64],
    cohort_size: int,
    seed: int,
) -> NDArray[np.float64]:
    """QCID of a selector's cohorts; rounds in which nobody can be picked are left out."""
    state = chooser.init(len(counts))
    values = []
    for index, available in enumerate(rounds, start=1):
        size = min(cohort_size, len(available))
        if size == 0:
            continue
        round_ = Round(information, cohort_size=size, round_index=index, available=available, seed=seed)
        selection = chooser.select(state, round_)
        state = chooser.observe(selection.state, Feedback(answered=selection.cohort))
        values.append(qcid(counts, selection.cohort))
    if not values:
        raise InvalidArgumentError(
            "no client with examples is available in any round; make clients available more often"
        )
    return np.array(values)


def _chooser(name: str) -> Selector[Any]:
    chooser = parse_selector(name)
    asks = (chooser.needs | chooser.learns) - TOLD
    if asks:
        raise InvalidArgumentError(
            f"selectors: {name} also looks at {', '.join(sorted(asks))}, which label counts do not tell; choose another"
        )
    return chooser
