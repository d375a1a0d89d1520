from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

from fedcbs.imbalance import CohortBuilder, FactorGram, _builder
from tests import reference
from tests.strategies import label_counts

Counts = NDArray[np.int64]
RESOLUTION = 2.0**-46


@given(label_counts(max_count=10**4), st.data())
def test_the_qcid_with_each_candidate_is_that_of_the_definition(counts: Counts, data: st.DataObject) -> None:
    builder = CohortBuilder(FactorGram(counts), largest_cohort=len(counts))
    assert builder.num_candidates == len(counts)
    assert builder.resolution == 0.0
    for client in data.draw(st.permutations(range(len(counts)))):
        answers = builder.qcid_with_each()
        for candidate in sorted(set(range(len(counts))) - set(builder.cohort)):
            together = [*builder.cohort, candidate]
            assert answers[candidate] == pytest.approx(_qcid_or_one_class(counts, together), rel=1e-15, abs=0)
        builder.add(client)
        assert builder.qcid == pytest.approx(_qcid_or_one_class(counts, builder.cohort), rel=1e-15, abs=0)


def _qcid_or_one_class(counts: Counts, cohort: list[int]) -> float:
    """The definition; a cohort without a single example counts as one class only."""
    if not counts[cohort].any():
        return float(1 - Fraction(1, counts.shape[1]))
    return float(reference.qcid(counts.tolist(), cohort))


@given(label_counts(max_count=3), st.data())
def test_a_balanced_cohort_has_a_qcid_of_exactly_zero(counts: Counts, data: st.DataObject) -> None:
    scale = data.draw(st.sampled_from([1, 7, 10**3, 10**6]))
    mirror = np.array([np.roll(counts, shift, axis=1) for shift in range(counts.shape[1])])
    whole = mirror.reshape(-1, counts.shape[1]) * scale  # each client with each of its rotations: balanced
    builder = CohortBuilder(FactorGram(whole), largest_cohort=len(whole))
    for client in range(1, len(whole)):
        builder.add(client)
    assert builder.qcid_with_each()[0] == builder.resolution
    builder.add(0)
    assert builder.qcid == 0.0


@given(label_counts(min_clients=2, max_count=10**4), st.data())
def test_removing_takes_back_what_adding_did(counts: Counts, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(counts))))
    stays, leavers = data.draw(st.integers(0, len(counts) - 1)), data.draw(st.permutations(order))
    builder = CohortBuilder(FactorGram(counts), largest_cohort=len(counts))
    for client in order:
        builder.add(client)
    for client in leavers:
        if client != stays:
            builder.remove(client)
    alone = CohortBuilder(FactorGram(counts), largest_cohort=len(counts))
    alone.add(stays)
    assert builder.cohort == [stays]
    assert builder.qcid == alone.qcid
    assert builder.qcid_with_each().tobytes() == alone.qcid_with_each().tobytes()


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("num_classes", [2, 3, 10])
def test_arithmetic_that_is_called_exact_takes_back_the_largest_counts_it_admits(
    size: int, num_classes: int
) -> None:
    largest = int((2**53 / num_classes) ** 0.5) // size
    counts = np.zeros((4, num_classes), dtype=np.int64)
    counts[:, 0] = largest - np.arange(4)
    builder = CohortBuilder(FactorGram(counts), largest_cohort=size)
    before = builder.qcid_with_each()
    for client in range(size):
        builder.add(client)
    for client in range(size):
        builder.remove(client)
    if builder.resolution == 0.0:
        assert builder.qcid_with_each().tobytes() == before.tobytes()
    else:
        assert np.allclose(builder.qcid_with_each(), before, rtol=1e-12)


@given(label_counts(max_count=2**48), st.data())
def test_beyond_2_to_the_53_the_qcid_is_right_to_the_stated_resolution(
    counts: Counts, data: st.DataObject
) -> None:
    builder = CohortBuilder(FactorGram(counts), largest_cohort=len(counts))
    order = data.draw(st.permutations(range(len(counts))))
    for client in order:
        answers = builder.qcid_with_each()
        assert (answers >= builder.resolution).all()
        for candidate in set(order) - set(builder.cohort):
            expected = _qcid_or_one_class(counts, [*builder.cohort, candidate])
            assert abs(answers[candidate] - max(expected, builder.resolution)) <= RESOLUTION
        builder.add(client)
        assert builder.qcid >= 0.0


@pytest.mark.parametrize("count", [10**15, 2**53 // 2])
def test_balanced_candidates_with_huge_counts_are_alike(count: int) -> None:
    counts = [[count, 0], [0, count], [count - 1, 1], [count // 2, count // 2]]
    builder = CohortBuilder(FactorGram(counts), largest_cohort=2)
    assert builder.resolution == RESOLUTION
    assert builder.qcid_with_each()[3] == RESOLUTION
    builder.add(0)
    assert builder.qcid_with_each()[1] == RESOLUTION
    assert builder.qcid_with_each()[3] == pytest.approx(0.125)


def test_whether_arithmetic_is_exact_depends_on_the_largest_cohort_possible() -> None:
    counts = [[2**25, 0], [0, 2**25], [2**25, 0], [0, 2**25]]  # 2 * (3 * 2**25)**2 is above 2**53
    assert CohortBuilder(FactorGram(counts), largest_cohort=1).resolution == 0.0
    assert CohortBuilder(FactorGram(counts), largest_cohort=3).resolution == RESOLUTION
    assert CohortBuilder(FactorGram(counts[:1]), largest_cohort=3).resolution == 0.0


def test_clients_without_examples_count_as_one_class_only_until_another_joins() -> None:
    builder = CohortBuilder(FactorGram([[0, 0], [1, 1], [0, 0]]), largest_cohort=3)
    assert builder.qcid == 0.5
    assert builder.qcid_with_each().tolist() == [0.5, 0.0, 0.5]
    builder.add(0)
    assert builder.qcid == 0.5
    assert builder.qcid_with_each()[1:].tolist() == [0.0, 0.5]
    builder.add(1)
    assert builder.qcid == 0.0
    assert builder.qcid_with_each()[2] == 0.0


@given(label_counts(min_clients=3, max_count=10**4), st.integers(1, 3))
def test_blocks_change_nothing(counts: Counts, block: int) -> None:
    def answers() -> list[bytes]:
        builder = CohortBuilder(FactorGram(counts), largest_cohort=len(counts))
        found = []
        for client in range(len(counts)):
            found.append(builder.qcid_with_each().tobytes())
            builder.add(client)
        return [*found, np.float64(builder.qcid).tobytes()]

    in_one_block = answers()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_builder, "BLOCK", block)
        assert answers() == in_one_block


@given(label_counts(min_clients=2, max_count=100), st.data())
def test_a_range_of_candidates_gives_that_part_of_the_answer(counts: Counts, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(counts)))
    stop = data.draw(st.integers(start, len(counts)))
    builder = CohortBuilder(FactorGram(counts), largest_cohort=2)
    builder.add(0)
    assert builder.qcid_with_each(start, stop).tobytes() == builder.qcid_with_each()[start:stop].tobytes()
