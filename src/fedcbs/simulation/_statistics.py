"""How label statistics reach the selector: through the privacy mode of the run, as they would in a deployment."""

from __future__ import annotations

import dataclasses
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fedcbs.errors import InvalidArgumentError, UnknownNameError
from fedcbs.selectors import Information, LabelInformation, Need, Selector

__all__ = ["STATISTICS", "Statistics", "collect_statistics"]

STATISTICS = frozenset({Need.GRAM, Need.LABEL_COUNTS, Need.NUM_EXAMPLES})
"""Needs that label statistics answer."""

BYTES_OF_COUNT = 8


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Statistics:
    """Label statistics as the selector has them.

    Parameters
    ----------
    information
        Answers for them.
    bytes_up, bytes_down
        What it took to collect them, once, before the first round.
    """

    information: Information
    bytes_up: int = 0
    bytes_down: int = 0


def collect_statistics(
    label_counts: NDArray[np.int64],
    selector: Selector[Any],
    *,
    mode: str = "plain",
    noise: str = "",
    seed: int = 0,  # noqa: ARG001
) -> Statistics:
    """Collect what a selector needs of the clients' label counts, in a privacy mode.

    Parameters
    ----------
    label_counts
        Clients x classes.
    selector
        Whose needs decide what is collected; nothing is, where it needs nothing.
    mode
        ``plain``: clients send their label counts as they are.
    noise
        Noise that each client adds to its counts first.
    seed
        Fixes the noise.
    """
    if mode != "plain":
        raise UnknownNameError("privacy.mode", mode, ["plain"])
    if noise:
        raise InvalidArgumentError(f"privacy.noise={noise!r} is not supported")
    information = LabelInformation(label_counts)
    needs = selector.needs & STATISTICS
    if needs & {Need.GRAM, Need.LABEL_COUNTS}:
        return Statistics(information, bytes_up=BYTES_OF_COUNT * label_counts.size)
    return Statistics(information, bytes_up=BYTES_OF_COUNT * len(label_counts) if needs else 0)
