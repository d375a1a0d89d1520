from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from fedcbs.audit import attack
from fedcbs.audit._factor import factorise
from fedcbs.audit._lattice import lattice_attack
from fedcbs.audit._recovery import explains
from fedcbs.audit._short_vectors import short_vectors
from fedcbs.audit._spectral import spectral_attack
from fedcbs.imbalance import DenseGram, FactorGram
from tests.audit.populations import dirichlet, equal_shares, same


def lattice(counts: NDArray[np.int64]):  # type: ignore[no-untyped-def]  # a Recovery or nothing
    gram = FactorGram(counts)
    return lattice_attack(gram, factorise(gram, counts.shape[1]))


def spectral(counts: NDArray[np.int64]):  # type: ignore[no-untyped-def]  # a Recovery or nothing
    gram = FactorGram(counts)
    return spectral_attack(gram, factorise(gram, counts.shape[1]))


EASY = {
    "varied": dirichlet(200, 10, 0.1),
    "mild skew": dirichlet(200, 10, 10.0),
    "equal sizes": dirichlet(200, 10, 0.5, sizes=(250, 251)),
    "as many clients as classes": dirichlet(10, 10, 0.5),
    "one class each": equal_shares(200, 10, 1),
    "two classes each": equal_shares(200, 10, 2),
    "three classes each": equal_shares(200, 10, 3),
    "two classes, all of one size": equal_shares(200, 10, 2, same_size=True),
    "multiples of 25": 25 * dirichlet(200, 10, 0.3, sizes=(4, 40)),
    "classes that nobody has": np.hstack([dirichlet(100, 7, 0.3), np.zeros((100, 3), dtype=np.int64)]),
    "clients without examples": np.vstack([dirichlet(50, 6, 0.3), np.zeros((5, 6), dtype=np.int64)]),
    "two classes": dirichlet(50, 2, 0.5),
    "thirty classes": dirichlet(400, 30, 0.3),
}


@pytest.mark.parametrize("kind", EASY)
def test_the_lattice_attack_recovers_everybody_exactly(kind: str) -> None:
    found = lattice(EASY[kind])
    assert found.consistent
    assert same(found.label_counts, EASY[kind])


@pytest.mark.parametrize("seed", range(30))
def test_it_does_so_for_population_after_population(seed: int) -> None:
    counts = dirichlet(60, 10, [0.05, 0.1, 0.5, 2.0][seed % 4], seed=seed)
    found = lattice(counts)
    assert found.unique
    assert same(found.label_counts, counts)


def test_what_is_called_unique_is_unique() -> None:
    """Against all label counts there are, for tiny clients: whatever else has this Gram is a reordering."""
    rng = np.random.default_rng(0)
    rows = [row for row in itertools.product(range(5), repeat=3) if 0 < sum(row) <= 4]
    called = 0
    for _ in range(60):
        counts = np.array([rows[n] for n in rng.integers(0, len(rows), 4)])
        found = lattice(counts)
        solutions = solutions_by_search(counts, rows)
        if found is not None:
            assert same_as_any(found.label_counts, solutions)
        for recovery in (found, spectral(counts)):
            if recovery is not None and recovery.unique:
                called += 1
                assert len(solutions) == 1
    assert called > 10


def solutions_by_search(
    counts: NDArray[np.int64], rows: list[tuple[int, ...]]
) -> set[tuple[tuple[int, ...], ...]]:
    """All label counts with this Gram and these sizes, up to the order of the classes."""
    gram, sizes = counts @ counts.T, counts.sum(axis=1)
    partial: list[list[tuple[int, ...]]] = [[]]
    for n in range(len(counts)):
        fitting = [row for row in rows if sum(row) == sizes[n] and np.dot(row, row) == gram[n, n]]
        partial = [
            [*chosen, row]
            for chosen in partial
            for row in fitting
            if all(np.dot(row, other) == gram[n, m] for m, other in enumerate(chosen))
        ]
    return {tuple(sorted(zip(*solution, strict=True))) for solution in partial}


def same_as_any(found: NDArray[np.float64], solutions: set[tuple[tuple[int, ...], ...]]) -> bool:
    return tuple(sorted(map(tuple, found.T.astype(int).tolist()))) in solutions


def test_a_population_with_two_explanations_is_not_called_unique() -> None:
    """Counts a and q / 5 - a have the same inner products and sizes, in ten classes, where none is negative."""
    counts = equal_shares(100, 10, 5, same_size=True)
    reflected = counts.sum(axis=1, keepdims=True) // 5 - counts
    assert np.array_equal(reflected @ reflected.T, counts @ counts.T)
    found = lattice(counts)
    assert not found.unique
    assert same(found.label_counts, counts) or same(found.label_counts, reflected)


def test_fewer_clients_than_classes_are_not_recovered() -> None:
    counts = dirichlet(5, 10, 5.0)
    assert lattice(counts) is None
    assert not spectral(counts).consistent


def test_a_lattice_that_is_too_hard_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedcbs.audit._lattice.MOST_STEPS", 10)
    assert lattice(EASY["varied"]) is None


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
def test_the_spectral_attack_recovers_skewed_clients_exactly(alpha: float) -> None:
    counts = dirichlet(200, 10, alpha)
    found = spectral(counts)
    assert found.consistent
    assert same(found.label_counts, counts)


def test_the_spectral_attack_carries_on_where_the_lattice_is_too_hard() -> None:
    counts = np.vstack([equal_shares(190, 10, 1, same_size=True), 60 * np.eye(10, dtype=np.int64)])
    counts = np.vstack([counts, dirichlet(3, 10, 0.1, sizes=(60, 61))])
    found = spectral(counts)
    assert found.consistent
    assert same(found.label_counts, counts)


def test_the_spectral_attack_adds_up() -> None:
    counts = dirichlet(100, 10, 1.0)
    found = spectral(counts)
    assert (found.label_counts >= 0).all()
    assert np.allclose(found.label_counts.sum(axis=1), counts.sum(axis=1))


def test_attacks_read_a_dense_gram_as_they_read_a_thin_one() -> None:
    counts = dirichlet(80, 8, 0.2)
    dense = DenseGram(counts @ counts.T, num_examples=counts.sum(axis=1), num_classes=8)
    for ours, theirs in zip(attack(dense), attack(FactorGram(counts)), strict=True):
        assert ours is not None
        assert theirs is not None
        assert np.array_equal(ours.label_counts, theirs.label_counts)


def test_many_clients_need_no_matrix() -> None:
    counts = dirichlet(100_000, 10, 0.1)
    for found in attack(FactorGram(counts)):
        assert found is not None
        assert same(found.label_counts, counts)


def test_a_hundred_classes_are_left_to_the_spectral_attack() -> None:
    counts = dirichlet(500, 100, 0.3)
    assert lattice(counts) is None
    found = spectral(counts)
    assert found.unique
    assert same(found.label_counts, counts)


def test_empty_statistics_give_nothing() -> None:
    assert attack(FactorGram(np.zeros((3, 2), dtype=np.int64))) == (None, None)


def test_explanations_are_checked_in_full() -> None:
    counts = dirichlet(50, 5, 0.5)
    gram = FactorGram(counts)
    assert explains(counts.astype(float), gram)
    wrong = counts.astype(float)
    wrong[7, [0, 1]] += [1, -1]
    assert not explains(wrong, gram)
    assert not explains(-counts.astype(float), gram)
    assert not explains(counts + 0.5, gram)


@pytest.mark.parametrize("seed", range(20))
def test_short_vectors_are_those_of_an_exhaustive_search(seed: int) -> None:
    rng = np.random.default_rng(seed)
    basis = 0.5 * rng.normal(size=(4, 4)) + 2 * np.eye(4)
    gram, norm = basis @ basis.T, 9.0
    found, complete = short_vectors(gram, norm, most_steps=100_000)
    reach = int(np.sqrt(norm * np.linalg.inv(gram).diagonal().max())) + 1
    expected = {
        max(vector, tuple(-x for x in vector), key=lambda v: v[::-1])
        for vector in itertools.product(range(-reach, reach + 1), repeat=4)
        if any(vector) and np.array(vector) @ gram @ np.array(vector) <= norm
    }
    assert complete
    assert {tuple(vector.tolist()) for vector in found} == expected
    assert len(found) == len(expected)
