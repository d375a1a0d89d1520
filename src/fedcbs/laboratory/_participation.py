"""How evenly clients took part, from how many of them were selected how often.

A histogram is all that is needed, so that a million clients over a thousand rounds take a thousand numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs import _checks

__all__ = ["gini", "lorenz_curve"]


def gini(histogram: ArrayLike) -> float:
    """Gini coefficient of the number of times that clients were selected: 0 if all the same, towards 1 if few take all.

    Parameters
    ----------
    histogram
        At place k, how many clients were selected k times.

    Examples
    --------
    >>> gini([0, 0, 5])  # five clients, selected twice each
    0.0
    >>> gini([3, 0, 1])  # one of four took all
    0.75
    >>> gini([4])  # nobody was selected, each as often as the others
    0.0
    """
    shares_of_clients, shares_of_selections = lorenz_curve(histogram)
    below = np.diff(shares_of_clients) @ (shares_of_selections[1:] + shares_of_selections[:-1])
    return max(float(1.0 - below), 0.0)


def lorenz_curve(histogram: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Share of all selections that went to the least selected share of clients; both from 0 to 1.

    Parameters
    ----------
    histogram
        At place k, how many clients were selected k times.

    Examples
    --------
    >>> clients, selections = lorenz_curve([3, 0, 1])
    >>> clients, selections
    (array([0.  , 0.75, 0.75, 1.  ]), array([0., 0., 0., 1.]))
    """
    counts = _checks.integers(histogram, "histogram").astype(np.float64)
    clients = np.concatenate([[0.0], counts.cumsum()])
    selections = np.concatenate([[0.0], (counts * np.arange(len(counts))).cumsum()])
    if selections[-1] == 0:
        selections = clients
    total = max(float(clients[-1]), 1.0)
    return clients / total, selections / max(float(selections[-1]), 1.0)
