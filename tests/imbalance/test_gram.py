import math
from collections.abc import Callable

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

from fedcbs.errors import InvalidArgumentError
from fedcbs.imbalance import CohortBuilder, DenseGram, FactorGram, Gram, RowsOnDemandGram
from tests import reference
from tests.strategies import label_counts

Counts = NDArray[np.int64]


def factor(counts: Counts) -> Gram:
    return FactorGram(counts)


def dense(counts: Counts) -> Gram:
    return DenseGram(
        reference.gram(counts.tolist()), num_examples=counts.sum(axis=1), num_classes=counts.shape[1]
    )


def rows_on_demand(counts: Counts) -> Gram:
    inner = reference.gram(counts.tolist())
    return RowsOnDemandGram(
        lambda client: inner[client],
        diagonal=[inner[n][n] for n in range(len(inner))],
        num_examples=counts.sum(axis=1),
        num_classes=counts.shape[1],
    )


def among_others(form: Callable[[Counts], Gram]) -> Callable[[Counts], Gram]:
    """The same clients, restricted from a larger population in which they stand in reverse order."""

    def restricted(counts: Counts) -> Gram:
        strangers = np.full((2, counts.shape[1]), 7)
        whole = np.concatenate([strangers, counts[::-1], strangers])
        return form(whole).restrict(np.arange(len(counts))[::-1] + 2)

    return restricted


FORMS = {
    "factor": factor,
    "dense": dense,
    "rows-on-demand": rows_on_demand,
    "factor-restricted": among_others(factor),
    "dense-restricted": among_others(dense),
    "rows-on-demand-restricted": among_others(rows_on_demand),
    "dense-restricted-twice": among_others(among_others(dense)),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(label_counts(max_count=10**7))
def test_all_forms_tell_the_same_inner_products(form: Callable[[Counts], Gram], counts: Counts) -> None:
    gram, inner = form(counts), np.array(reference.gram(counts.tolist()), dtype=np.float64)
    everybody = np.arange(len(counts))
    assert gram.num_clients == len(counts)
    assert gram.num_classes == counts.shape[1]
    assert np.array_equal(gram.num_examples, counts.sum(axis=1))
    assert np.array_equal(gram.diagonal, inner.diagonal())
    assert np.array_equal(gram.block(everybody, everybody), inner)
    assert np.array_equal(gram.block(everybody[:1], everybody[::-1]), inner[:1, ::-1])
    assert np.array_equal(gram.block(everybody[::-1], everybody[-1:]), inner[::-1, -1:])
    for client in everybody:
        assert np.array_equal(gram.column(client), inner[:, client])


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(label_counts(max_count=10**6), st.data())
def test_a_part_of_a_column_is_added_at_a_scale(
    form: Callable[[Counts], Gram], counts: Counts, data: st.DataObject
) -> None:
    client = data.draw(st.integers(0, len(counts) - 1))
    start = data.draw(st.integers(0, len(counts)))
    stop = data.draw(st.integers(start, len(counts)))
    out = np.arange(stop - start, dtype=np.float64)
    form(counts).add_column(client, out, start=start, scale=-6.0)
    inner = reference.gram(counts.tolist())
    assert out.tolist() == [i - 6.0 * inner[n][client] for i, n in enumerate(range(start, stop))]


@given(label_counts(max_clients=6, max_count=10**5), st.data())
def test_all_forms_give_a_builder_the_same_bits(counts: Counts, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(counts))))
    builders = [CohortBuilder(form(counts), largest_cohort=len(counts)) for form in FORMS.values()]
    for client in order:
        answers = [builder.qcid_with_each() for builder in builders]
        for answer in answers[1:]:
            assert answer.tobytes() == answers[0].tobytes()
        for builder in builders:
            builder.add(client)


def test_restricting_to_everybody_in_order_copies_nothing() -> None:
    gram = FactorGram([[1, 2], [3, 4]])
    assert gram.restrict(np.arange(2)) is gram


def test_forms_keep_a_copy_of_what_they_are_given() -> None:
    counts = np.array([[3, 0], [1, 2]])
    inner = counts @ counts.T
    grams = [factor(counts), DenseGram(inner, num_examples=counts.sum(axis=1), num_classes=2)]
    counts[:], inner[:] = 0, 0
    for gram in grams:
        assert gram.column(0).tolist() == [9.0, 3.0]
        assert gram.num_examples.tolist() == [3, 3]


def test_rows_on_demand_fetches_a_row_once_and_only_when_read() -> None:
    counts = np.array([[3, 0], [1, 2], [0, 4]])
    asked: list[int] = []

    def fetch(client: int) -> NDArray[np.int64]:
        asked.append(client)
        return counts @ counts[client]

    gram = RowsOnDemandGram(fetch, diagonal=[9, 5, 16], num_examples=[3, 3, 4], num_classes=2)
    builder = CohortBuilder(gram, largest_cohort=2)
    builder.qcid_with_each()
    assert asked == []
    builder.add(2)
    builder.qcid_with_each()
    builder.remove(2)
    assert asked == [2]
    assert gram.fetched == (2,)
    assert gram.block(np.array([0, 1, 2]), np.array([2])).shape == (3, 1)
    assert asked == [2]


@pytest.mark.parametrize(
    "row", [[9, 3], [8, 3, 0], [9, 3, 0, 0], [9, -3, 0], [9, math.nan, 0]], ids=lambda row: str(row)
)
def test_a_fetched_row_that_cannot_be_is_refused(row: list[int]) -> None:
    gram = RowsOnDemandGram(lambda _: row, diagonal=[9, 5, 16], num_examples=[3, 3, 4], num_classes=2)
    with pytest.raises(InvalidArgumentError, match="row of client 0"):
        gram.column(0)


@pytest.mark.parametrize(
    ("matrix", "num_examples", "message"),
    [
        ([[9, 3], [4, 5]], [3, 3], r"matrix\[0, 1\]=3 but matrix\[1, 0\]=4; a Gram matrix is symmetric"),
        ([[9, 3, 1], [3, 5, 1]], [3, 3], r"matrix has shape \(2, 3\) but num_examples names 2 clients"),
        ([[9, 3], [3, 5]], [3, 3, 3], r"matrix has shape \(2, 2\) but num_examples names 3 clients"),
        ([[9, -3], [-3, 5]], [3, 3], r"matrix\[0, 1\]=-3 must be a whole number"),
        ([[9, math.nan], [math.nan, 5]], [3, 3], r"matrix\[0, 1\]=nan must be"),
        ([[9, 0.5], [0.5, 5]], [3, 3], r"matrix\[0, 1\]=0.5 must be"),
        ([[9, 3], [3, 5]], [3, -3], r"num_examples\[1\]=-3 must be"),
        (
            [[9, 3], [3, 5]],
            [3, 2],
            "the inner product of client 1 with itself is 5, which 2 examples in 2 classes",
        ),
        (
            [[9, 3], [3, 5]],
            [5, 3],
            "the inner product of client 0 with itself is 9, which 5 examples in 2 classes",
        ),
        ([9, 3], [3, 3], "matrix has 1 dimension; it must have 2"),
    ],
)
def test_a_dense_gram_that_cannot_be_is_refused(
    matrix: list[list[float]], num_examples: list[int], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        DenseGram(matrix, num_examples=num_examples, num_classes=2)


def test_rows_on_demand_refuses_a_diagonal_that_cannot_be() -> None:
    with pytest.raises(InvalidArgumentError, match="diagonal has 1 entries but num_examples names 2 clients"):
        RowsOnDemandGram(lambda _: [], diagonal=[9], num_examples=[3, 3], num_classes=2)
    with pytest.raises(InvalidArgumentError, match="the inner product of client 1 with itself is 10"):
        RowsOnDemandGram(lambda _: [], diagonal=[9, 10], num_examples=[3, 3], num_classes=2)


@pytest.mark.parametrize("num_classes", [0, -1, 2.0, None])
def test_the_number_of_classes_is_a_whole_number_of_at_least_1(num_classes: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"num_classes={num_classes}"):
        DenseGram([[9]], num_examples=[3], num_classes=num_classes)
