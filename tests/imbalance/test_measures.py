import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

from fedcbs.errors import InvalidArgumentError
from fedcbs.imbalance import DenseGram, FactorGram, kl_divergence, label_shares, qcid, qcid_from_gram
from tests import reference
from tests.strategies import label_counts

FIGURE_2 = [[5, 5, 5, 5, 5, 5], [6, 6, 6, 6, 6, 0], [0, 0, 0, 10, 10, 10], [10, 10, 10, 0, 0, 0]]


@given(label_counts(max_count=2**40), st.data())
def test_qcid_is_the_nearest_float_to_its_definition(counts: NDArray[np.int64], data: st.DataObject) -> None:
    with_examples = [n for n in range(len(counts)) if counts[n].any()]
    cohort = data.draw(st.lists(st.sampled_from(with_examples), min_size=1, unique=True))
    assert qcid(counts, cohort) == float(reference.qcid(counts.tolist(), cohort))


@given(label_counts(max_count=10**6), st.data())
def test_qcid_from_gram_equals_qcid_bit_for_bit(counts: NDArray[np.int64], data: st.DataObject) -> None:
    with_examples = [n for n in range(len(counts)) if counts[n].any()]
    cohort = data.draw(st.lists(st.sampled_from(with_examples), min_size=1, unique=True))
    inner, sizes = reference.gram(counts.tolist()), counts.sum(axis=1)
    dense = DenseGram(inner, num_examples=sizes, num_classes=counts.shape[1])
    expected = float(reference.qcid_from_gram(inner, sizes.tolist(), counts.shape[1], cohort))
    assert qcid_from_gram(dense, cohort) == expected
    assert qcid_from_gram(FactorGram(counts), cohort) == expected
    assert qcid(counts, cohort) == expected


def test_the_paper_s_figure_2_has_its_optimum_at_clients_1_3_and_4() -> None:
    assert qcid(FIGURE_2, [0, 2, 3]) == 0.0
    assert qcid(FIGURE_2, [0, 1, 2]) > 0
    assert qcid_from_gram(FactorGram(FIGURE_2), [0, 2, 3]) == 0.0


def test_one_class_only_has_qcid_1_minus_1_over_b() -> None:
    assert qcid([[7, 0, 0, 0]]) == 0.75
    assert qcid([[7]]) == 0.0


@pytest.mark.parametrize("count", [10**15, 2**53 // 3, 2**53 - 1])
def test_huge_counts_neither_overflow_nor_round(count: int) -> None:
    one_class_each = np.diag([count] * 3)
    assert qcid(one_class_each) == 0.0
    assert qcid(one_class_each, [0, 1]) == float(reference.qcid(one_class_each.tolist(), [0, 1]))
    nearly = one_class_each.copy()
    nearly[0, 0] -= 1
    assert qcid(nearly) == float(reference.qcid(nearly.tolist(), [0, 1, 2])) > 0


def test_pooling_many_huge_clients_neither_overflows_nor_rounds() -> None:
    counts = np.full((3000, 1), 2**53)  # adds up to more than 2**64
    assert qcid(counts) == 0.0
    two = np.zeros((3000, 2), dtype=np.int64)
    two[:, 0] = 2**53 - 1
    two[1500:] = two[1500:, ::-1]
    two[0, 0] -= 1
    assert qcid(two) == float(reference.qcid(two.tolist(), list(range(3000)))) > 0


@given(label_counts())
def test_label_shares_are_the_pooled_counts_over_their_sum(counts: NDArray[np.int64]) -> None:
    shares = label_shares(counts)
    assert np.allclose(shares, counts.sum(axis=0) / counts.sum(), rtol=1e-15)
    assert math.isclose(shares.sum(), 1.0, rel_tol=1e-12)


@given(label_counts())
def test_kl_divergence_is_that_from_uniform(counts: NDArray[np.int64]) -> None:
    shares = counts.sum(axis=0) / counts.sum()
    expected = sum(s * math.log(s * len(shares)) for s in shares if s > 0)
    assert math.isclose(kl_divergence(counts), expected, rel_tol=1e-9, abs_tol=1e-12)
    assert kl_divergence(counts) >= 0


@given(label_counts(max_count=1000))
def test_qcid_and_kl_are_zero_together(counts: NDArray[np.int64]) -> None:
    balanced = len(set(counts.sum(axis=0).tolist())) == 1
    assert (qcid(counts) == 0.0) == balanced
    assert (kl_divergence(counts) < 1e-12) == balanced


@given(label_counts(max_count=1000), st.randoms())
def test_qcid_does_not_depend_on_the_order_of_classes_or_clients(
    counts: NDArray[np.int64], random: object
) -> None:
    classes, clients = list(range(counts.shape[1])), list(range(len(counts)))
    random.shuffle(classes)  # type: ignore[attr-defined]
    random.shuffle(clients)  # type: ignore[attr-defined]
    assert qcid(counts[clients][:, classes]) == qcid(counts)


@pytest.mark.parametrize("measure", [qcid, label_shares, kl_divergence])
def test_a_cohort_without_examples_is_refused(measure: object) -> None:
    for cohort in ([1], []):
        with pytest.raises(InvalidArgumentError, match="holds no examples"):
            measure([[1, 2], [0, 0]], cohort)  # type: ignore[operator]


def test_a_cohort_without_examples_is_refused_by_its_gram_as_well() -> None:
    with pytest.raises(InvalidArgumentError, match=r"cohort=\[1\] holds no examples"):
        qcid_from_gram(FactorGram([[1, 2], [0, 0]]), [1])


@pytest.mark.parametrize(
    ("cohort", "message"),
    [
        ([0, 0], "cohort holds client 0 twice"),
        ([2], r"cohort\[0\]=2 must be a whole number from 0 to 1"),
        ([-1], r"cohort\[0\]=-1 must be"),
        ([math.nan], r"cohort\[0\]=nan must be"),
    ],
)
def test_unknown_and_repeated_clients_are_refused(cohort: list[int], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        qcid([[1, 2], [3, 4]], cohort)
    with pytest.raises(InvalidArgumentError, match=message):
        qcid_from_gram(FactorGram([[1, 2], [3, 4]]), cohort)
