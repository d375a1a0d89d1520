"""Gini and Lorenz from a histogram, against their definitions on the clients themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcbs.errors import InvalidArgumentError
from fedcbs.laboratory import gini, lorenz_curve

times = st.lists(st.integers(0, 30), min_size=1, max_size=40)


def gini_by_definition(values: list[int]) -> float:
    """Half the mean difference between two clients, relative to the mean."""
    if not sum(values):
        return 0.0
    differences = sum(abs(a - b) for a in values for b in values)
    return differences / (2 * len(values) * sum(values))


@given(times)
def test_gini_is_half_the_relative_mean_difference(values: list[int]) -> None:
    assert gini(np.bincount(values)) == pytest.approx(gini_by_definition(values), abs=1e-12)


@given(times)
def test_the_lorenz_curve_passes_through_every_share_of_clients(values: list[int]) -> None:
    clients, selections = lorenz_curve(np.bincount(values))
    assert (clients[0], selections[0], clients[-1], selections[-1]) == (0, 0, 1, 1)
    assert (np.diff(clients) >= 0).all()
    assert (np.diff(selections) >= -1e-15).all()
    if sum(values):
        ordered = np.cumsum(sorted(values)) / sum(values)
        for taken, share in enumerate(ordered, start=1):
            assert np.interp(taken / len(values), clients, selections) == pytest.approx(share)


def test_a_histogram_holds_counts() -> None:
    with pytest.raises(InvalidArgumentError, match=r"histogram\[1\]=-2"):
        gini([1, -2])
