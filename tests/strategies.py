"""What hypothesis generates in several places."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from numpy.typing import NDArray

EXACT = 2**53


@st.composite
def label_counts(
    draw: st.DrawFn,
    *,
    min_clients: int = 1,
    max_clients: int = 7,
    max_classes: int = 5,
    max_count: int = 60,
    empty_clients: bool = True,
) -> NDArray[np.int64]:
    """Label counts, clients x classes, with at least one example; small numbers as often as large ones."""
    num_clients = draw(st.integers(min_clients, max_clients))
    num_classes = draw(st.integers(1, max_classes))
    count = st.one_of(st.integers(0, min(3, max_count)), st.integers(0, max_count))
    row = st.lists(count, min_size=num_classes, max_size=num_classes)
    if not empty_clients:
        row = row.filter(any)
    rows = draw(st.lists(row, min_size=num_clients, max_size=num_clients))
    counts = np.array(rows, dtype=np.int64)
    if not counts.any():
        counts[0, 0] = 1
    return counts
