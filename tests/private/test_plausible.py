"""Clients whose entries no label counts can give are named, and nobody else."""

from __future__ import annotations

import numpy as np
import pytest

from fedcbs.private._plausible import impossible_clients
from tests.private.parties import label_counts


@pytest.mark.parametrize(("num_clients", "num_classes"), [(2, 1), (5, 10), (60, 4), (80, 30)])
def test_honest_clients_are_never_blamed(num_clients: int, num_classes: int) -> None:
    counts = label_counts(num_clients, num_classes)
    counts[0] = 0
    assert impossible_clients(counts @ counts.T, counts.sum(axis=1), num_classes, 65535) == {}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("liars", [1, 2, 5])
def test_rows_that_are_no_inner_products_are_named(seed: int, liars: int) -> None:
    """As where values wrap around: sizes and signs look right, and the rows fit nothing."""
    counts = label_counts(60, 5, seed)
    gram, rng = counts @ counts.T, np.random.default_rng(seed)
    who = rng.choice(60, liars, replace=False)
    for n in who:
        row = rng.integers(0, np.sqrt(np.outer(gram[n, n], gram.diagonal())[0]).astype(int) // 2 + 1)
        row[n] = gram[n, n]
        gram[n], gram[:, n] = row, row
    assert set(impossible_clients(gram, counts.sum(axis=1), 5, 65535)) == set(who.tolist())


def test_a_client_with_a_negative_count_is_named_by_its_pairs() -> None:
    counts = label_counts(40, 4)
    counts[7] = [-9, 60, 60, 60]
    counts[11] = [30, 0, 0, 0]
    counts[12] = [35, 0, 0, 0]
    assert list(impossible_clients(counts @ counts.T, counts.sum(axis=1), 4, 65535)) == [7]


def test_a_matrix_with_a_negative_direction_is_found() -> None:
    counts = label_counts(30, 4)
    gram = counts @ counts.T
    gram[3, 3] = gram[3, 3] * 3 // 4
    assert 3 in impossible_clients(gram, counts.sum(axis=1), 4, 65535)


def test_sizes_beyond_the_cap_are_named() -> None:
    counts = label_counts(20, 4)
    counts[5] = [5000, 0, 0, 0]
    found = impossible_clients(counts @ counts.T, counts.sum(axis=1), 4, 1000)
    assert found == {5: "it claims 5000 examples; the cap is 1000"}
