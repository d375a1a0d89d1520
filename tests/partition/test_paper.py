"""The populations of Fed-CBS have the imbalance that its tables show.

QCID is the squared distance of the pooled class shares from uniform, here in units of 1e-2.
"""

from __future__ import annotations

import numpy as np
import pytest

from fedcbs.availability import ClassQuota, UniformFraction
from fedcbs.partition import Case1, Case2, DirichletFedCor, DirichletHsu, PartitionScheme


def qcid(counts: np.ndarray) -> float:
    shares = counts.sum(axis=0) / counts.sum()
    return 100 * float(((shares - 1 / shares.size) ** 2).sum())


def mean_qcid(scheme: PartitionScheme, num_clients: int, rounds: int = 150) -> tuple[float, float]:
    """Mean QCID of 30% of all clients, and of 10 of these, over rounds of 8 populations."""
    everyone, ten = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        counts = scheme.draw_balanced(num_clients, 10, rng)
        for index in range(rounds):
            available = UniformFraction(0.3).available(index, num_clients=num_clients, seed=seed)
            everyone.append(qcid(counts[available]))
            ten.append(qcid(counts[rng.choice(available, 10, replace=False)]))
    return float(np.mean(everyone)), float(np.mean(ten))


@pytest.mark.parametrize("make", [DirichletHsu, DirichletFedCor], ids=lambda make: make.name)
@pytest.mark.parametrize(
    ("alpha", "paper_all", "paper_random"), [(0.1, 1.01, 8.20), (0.2, 0.93, 7.54), (0.5, 0.72, 5.87)]
)
def test_dirichlet_populations_are_as_skewed_as_the_papers(
    make: type[DirichletHsu] | type[DirichletFedCor], alpha: float, paper_all: float, paper_random: float
) -> None:
    everyone, ten = mean_qcid(make(alpha, examples_per_client=250), 200)
    # The paper's are means over 4 populations; populations differ by about 4%.
    assert everyone == pytest.approx(paper_all, rel=0.10)
    assert ten == pytest.approx(paper_random, rel=0.10)


@pytest.mark.parametrize(
    ("scheme", "everyone", "ten"),
    [
        (Case1(18, 6), 4.18, 10.56),
        (Case1(20, 4), 6.14, 12.4),
        (Case1(16, 8), 2.86, 9.55),
    ],
    ids=["3to1", "5to1", "16to8"],
)
def test_case_1_has_the_imbalance_that_follows_from_its_text(
    scheme: Case1, everyone: float, ten: float
) -> None:
    found = mean_qcid(Case1(scheme.majority, scheme.minority, examples_per_client=100), 120, rounds=250)
    assert found == pytest.approx((everyone, ten), rel=0.03)


@pytest.mark.parametrize(("quotas", "everyone"), [((9, 3), 2.50), ((10, 2), 4.44)])
def test_case_2_has_the_papers_imbalance_exactly(quotas: tuple[int, int], everyone: float) -> None:
    counts = Case2(examples_per_client=100).draw_balanced(200, 10, np.random.default_rng(0))
    rule = ClassQuota(quotas).bind(counts)
    for index in range(5):
        available = rule.available(index, num_clients=200, seed=0)
        assert available.size == 60
        assert qcid(counts[available]) == pytest.approx(everyone, abs=0.006)
