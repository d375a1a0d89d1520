"""One cohort, once, without keeping any state."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs.errors import InvalidArgumentError
from fedcbs.imbalance import Gram
from fedcbs.selectors import (
    DEFAULT_SELECTOR,
    GramInformation,
    Information,
    LabelInformation,
    Round,
    Selector,
    parse_selector,
)

__all__ = ["select_cohort"]


def select_cohort(
    label_statistics: ArrayLike | Gram,
    cohort_size: int,
    *,
    selector: str | Selector[Any] = DEFAULT_SELECTOR,
    available: ArrayLike | None = None,
    round_index: int = 1,
    seed: int = 0,
) -> NDArray[np.int64]:
    """Choose one cohort from label counts (clients x classes) or from a Gram matrix.

    For round after round use :class:`~fedcbs.selectors.Selector`, which keeps count of who was selected.

    Parameters
    ----------
    label_statistics
        Whole numbers, clients x classes; or a :class:`~fedcbs.Gram`, which has inner products of them and sizes.
    cohort_size
        How many clients to choose.
    selector
        A name, with options as in ``"fedcbs-exact:sweeps=5"``, or a selector.
    available
        Clients that can be chosen, in any order; all of them where none are given.
    round_index
        Number of the round, from 1.
    seed
        With `round_index`, fixes every random choice.

    Returns
    -------
    NDArray
        The clients chosen, distinct, in ascending order.

    Raises
    ------
    FedCBSError
        An argument cannot work, or the selector needs what only training gives; the message says what to do.

    Examples
    --------
    >>> from fedcbs import qcid, select_cohort
    >>> label_counts = [[5, 5, 5, 5, 5, 5], [6, 6, 6, 6, 6, 0], [0, 0, 0, 10, 10, 10], [10, 10, 10, 0, 0, 0]]
    >>> cohort = select_cohort(label_counts, 3, selector="fedcbs-exact")
    >>> cohort, qcid(label_counts, cohort)
    (array([0, 2, 3]), 0.0)
    """
    chooser = parse_selector(selector) if isinstance(selector, str) else selector
    if not isinstance(chooser, Selector):
        raise InvalidArgumentError(
            f"selector={selector!r} is no selector; give a name, or one made by make_selector"
        )
    information: Information
    if isinstance(label_statistics, Gram):
        information = GramInformation(label_statistics)
    else:
        information = LabelInformation(label_statistics)
    round_ = Round(
        information, cohort_size=cohort_size, round_index=round_index, available=available, seed=seed
    )
    return chooser.select(chooser.init(round_.num_clients), round_).cohort
