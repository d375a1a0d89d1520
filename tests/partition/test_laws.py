"""Fast paths have the laws of the slow ones, and both those of the books."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy import optimize, stats

from fedcbs.partition import IID, ClassesPerClient, DirichletClasswise, DirichletHsu, Shards
from fedcbs.partition._dirichlet import log_gammas, proportions
from fedcbs.partition._fedcor import solve_sizes
from fedcbs.partition._reference import hsu_by_example, iid_by_shuffling, shards_by_sorting
from tests.goodness_of_fit import SURPRISE, assert_law, assert_same_law, tally


@pytest.mark.parametrize("at_once", [3, 2**20], ids=["client-by-client", "all-at-once"])
@pytest.mark.parametrize(
    ("totals", "clients", "size", "alpha"),
    [
        ([3, 3], 2, 3, 1.0),  # everything is used up
        ([2, 3, 4], 3, 3, 2.0),
        ([1, 5, 2], 2, 3, 0.5),  # some is left over
        ([4, 1, 1], 2, 3, 1e-3),  # proportions beyond the doubles
        ([1, 1, 1, 4], 1, 6, 3.0),  # classes end one after another within a client
    ],
)
def test_hsu_in_batches_has_the_law_of_example_by_example(
    totals: list[int], clients: int, size: int, alpha: float, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedcbs.partition._hsu._CELLS_AT_ONCE", at_once)
    scheme = DirichletHsu(alpha, examples_per_client=size)
    pool = np.array(totals)
    fast = tally(lambda rng: scheme.draw_counts(pool, clients, rng), 5000, seed=1)
    slow = tally(lambda rng: hsu_by_example(pool, clients, size, alpha, rng), 2500, seed=2)
    assert_same_law(fast, slow)


def test_hsu_without_exhaustion_is_dirichlet_multinomial() -> None:
    size, alpha = 4, 1.5
    scheme = DirichletHsu(alpha, examples_per_client=size)
    counts = scheme.draw_counts([30_000, 30_000], 6000, np.random.default_rng(3))
    law = stats.betabinom(size, alpha / 2, alpha / 2)
    assert_law(Counter(counts[:, 0].tolist()), {k: float(law.pmf(k)) for k in range(size + 1)})


def test_hsu_follows_its_prior() -> None:
    scheme = DirichletHsu(2.0, prior=(3.0, 1.0, 0.0), examples_per_client=4)
    counts = scheme.draw_counts([40_000, 40_000, 40_000], 6000, np.random.default_rng(3))
    law = stats.betabinom(4, 1.5, 0.5)
    assert_law(Counter(counts[:, 0].tolist()), {k: float(law.pmf(k)) for k in range(5)})
    assert counts[:, 2].sum() == 0


def test_hsu_with_a_tiny_alpha_gives_every_client_one_class() -> None:
    counts = DirichletHsu(1e-6, examples_per_client=50).draw_counts(
        [10_000] * 10, 300, np.random.default_rng(0)
    )
    assert ((counts > 0).sum(axis=1) == 1).all()
    assert stats.chisquare((counts > 0).sum(axis=0)).pvalue > SURPRISE


def test_hsu_with_a_huge_alpha_is_even() -> None:
    counts = DirichletHsu(1e9, examples_per_client=400).draw_counts(
        [90_000] * 4, 300, np.random.default_rng(0)
    )
    assert stats.chisquare(counts.ravel()).pvalue > SURPRISE


@pytest.mark.parametrize("concentration", [1e-2, 0.1, 1.0, 30.0])
def test_log_gammas_are_logarithms_of_gamma_draws(concentration: float) -> None:
    logs = log_gammas(np.array([concentration]), (4000,), np.random.default_rng(4))
    law = stats.loggamma(concentration)
    assert stats.kstest(logs, law.cdf).pvalue > SURPRISE


@pytest.mark.parametrize("concentration", [1e-101, 1e-3, 1e100])
def test_proportions_are_never_nan(concentration: float) -> None:
    shares = proportions(log_gammas(np.array([concentration]), (500, 10), np.random.default_rng(5)))
    assert np.isfinite(shares).all()
    assert np.allclose(shares.sum(axis=1), 1)


def test_iid_by_halving_has_the_law_of_shuffling() -> None:
    pool = np.array([3, 2, 2])
    fast = tally(lambda rng: IID(examples_per_client=2).draw_counts(pool, 3, rng), 4000, seed=1)
    slow = tally(lambda rng: iid_by_shuffling(pool, 3, 2, rng), 4000, seed=2)
    assert_same_law(fast, slow)


def test_iid_sizes_differ_by_one_at_most() -> None:
    for clients in (1, 2, 7, 64, 65):
        sizes = IID().draw_counts([50, 53], clients, np.random.default_rng(0)).sum(axis=1)
        assert sizes.sum() == 103
        assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("totals", [[4, 5, 3], [0, 7, 5], [12, 0, 1]])
@pytest.mark.parametrize("shards", [1, 2])
def test_shards_by_arithmetic_have_the_law_of_sorting(totals: list[int], shards: int) -> None:
    pool = np.array(totals)
    fast = tally(lambda rng: Shards(shards).draw_counts(pool, 3, rng), 3000, seed=1)
    slow = tally(lambda rng: shards_by_sorting(pool, 3, shards, rng), 3000, seed=2)
    if len(fast | slow) > 2:
        assert_same_law(fast, slow)
    else:
        assert set(fast) == set(slow)


@pytest.mark.parametrize("clients", [1, 3, 5])
def test_which_classes_go_together_is_uniform(clients: int) -> None:
    scheme, pool = ClassesPerClient(2), np.array([60, 60, 60, 60])
    rng = np.random.default_rng(6)
    pairs = Counter(int((scheme.draw_counts(pool, clients, rng)[0] > 0) @ [1, 2, 4, 8]) for _ in range(3000))
    assert_law(pairs, {2**a + 2**b: 1 / 6 for a, b in itertools.combinations(range(4), 2)})


def test_classwise_cuts_by_beta_proportions() -> None:
    scheme, total = DirichletClasswise(0.8, min_examples=0), 9
    rng = np.random.default_rng(7)
    sample = Counter(int(scheme.draw_counts([total], 3, rng)[0, 0]) for _ in range(5000))
    cdf = stats.beta(0.8, 1.6).cdf
    law = {k: float(cdf((k + 1) / total) - cdf(k / total)) for k in range(total)}
    assert_law(sample, law)


@pytest.mark.parametrize("least", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(12))
def test_solved_sizes_are_the_smallest_that_fit(seed: int, least: float) -> None:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(3, 0.4), size=9)
    totals = rng.integers(5, 40, size=3)
    feasible = optimize.linprog(np.zeros(9), A_eq=shares.T, b_eq=totals, bounds=[(least, None)] * 9)
    sizes = solve_sizes(shares, totals, least)
    assert (sizes is None) == (not feasible.success)
    if sizes is not None:
        best = optimize.minimize(
            lambda x: x @ x / 2,
            feasible.x,
            jac=lambda x: x,
            bounds=[(least, None)] * 9,
            constraints={"type": "eq", "fun": lambda x: shares.T @ x - totals, "jac": lambda _: shares.T},
            method="SLSQP",
            options={"ftol": 1e-12, "maxiter": 300},
        )
        assert np.allclose(shares.T @ sizes, totals)
        assert sizes.min() >= least
        assert sizes @ sizes <= best.x @ best.x + 1e-4
