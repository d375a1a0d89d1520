"""What every scheme promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcbs.errors import FedCBSError, InvalidArgumentError
from fedcbs.partition import (
    IID,
    Case1,
    Case2,
    ClassesPerClient,
    DirichletClasswise,
    DirichletFedCor,
    DirichletHsu,
    GivenCounts,
    PartitionScheme,
    Shards,
    deal,
)

SCHEMES: dict[str, PartitionScheme] = {
    "hsu": DirichletHsu(0.3),
    "hsu-sparse": DirichletHsu(1e-3, examples_per_client=7),
    "hsu-prior": DirichletHsu(2.0, prior=(1.0, 2.0, 3.0, 4.0), examples_per_client=5),
    "fedcor": DirichletFedCor(1.0),
    "fedcor-part": DirichletFedCor(0.5, examples_per_client=9),
    "classwise": DirichletClasswise(1.0),
    "classwise-balancing": DirichletClasswise(0.5, self_balancing=True, examples_per_client=9),
    "classes": ClassesPerClient(2),
    "classes-sized": ClassesPerClient(3, examples_per_client=8),
    "shards": Shards(),
    "shards-sized": Shards(3, examples_per_client=7),
    "iid": IID(),
    "iid-sized": IID(examples_per_client=6),
    "case1": Case1(9, 3),
    "case2": Case2(6, examples_per_client=4),
    "counts": GivenCounts(np.arange(96).reshape(24, 4) % 7),
}
TOTALS = np.array([90, 120, 95, 101])
CLIENTS = 24

every_scheme = pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES.keys())


@every_scheme
def test_counts_are_clients_by_classes_within_the_totals(scheme: PartitionScheme) -> None:
    counts = scheme.draw_counts(TOTALS, CLIENTS, np.random.default_rng(0))
    assert counts.shape == (CLIENTS, 4)
    assert counts.dtype == np.int64
    assert counts.min() >= 0
    assert (counts.sum(axis=0) <= TOTALS).all()


@every_scheme
def test_the_same_seed_draws_the_same_counts(scheme: PartitionScheme) -> None:
    first, second = (scheme.draw_counts(TOTALS, CLIENTS, np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(first, second)


@every_scheme
def test_inputs_stay_as_they_were(scheme: PartitionScheme) -> None:
    totals = TOTALS.copy()
    scheme.draw_counts(totals, CLIENTS, np.random.default_rng(0))
    assert np.array_equal(totals, TOTALS)


@every_scheme
def test_every_example_goes_to_one_client_at_most_and_counts_come_true(scheme: PartitionScheme) -> None:
    labels = np.random.default_rng(1).permutation(np.repeat(np.arange(4), TOTALS))
    partition = scheme.split(labels, CLIENTS, np.random.default_rng(2))
    counts = scheme.draw_counts(TOTALS, CLIENTS, np.random.default_rng(2))
    assert np.array_equal(partition.label_counts(labels, 4), counts)
    assert np.unique(partition.indices).size == partition.indices.size


@every_scheme
def test_the_schemes_own_pool_is_enough(scheme: PartitionScheme) -> None:
    if scheme.examples_per_client is None and not isinstance(scheme, GivenCounts):
        with pytest.raises(InvalidArgumentError, match="examples_per_client=None"):
            scheme.pool(CLIENTS, 4)
    else:
        counts = scheme.draw_balanced(CLIENTS, 4, np.random.default_rng(0))
        assert len(counts) == CLIENTS


@every_scheme
def test_a_stated_size_is_met_on_average(scheme: PartitionScheme) -> None:
    if scheme.examples_per_client is not None:
        counts = scheme.draw_counts(TOTALS, CLIENTS, np.random.default_rng(0))
        assert counts.sum() == CLIENTS * scheme.examples_per_client


@pytest.mark.parametrize("name", ["fedcor", "classwise", "classes", "shards", "iid"])
def test_all_examples_are_dealt_out_when_no_size_is_stated(name: str) -> None:
    counts = SCHEMES[name].draw_counts(TOTALS, CLIENTS, np.random.default_rng(0))
    assert np.array_equal(counts.sum(axis=0), TOTALS)


@every_scheme
def test_bad_arguments_are_refused_by_name(scheme: PartitionScheme) -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidArgumentError, match="num_clients=0"):
        scheme.draw_counts(TOTALS, 0, rng)
    with pytest.raises(InvalidArgumentError, match=r"class_totals\[1\]=-1"):
        scheme.draw_counts([5, -1, 2, 3], CLIENTS, rng)
    with pytest.raises(InvalidArgumentError, match="class_totals"):
        scheme.draw_counts([0, 0, 0, 0], CLIENTS, rng)
    with pytest.raises(InvalidArgumentError, match="num_classes=0"):
        scheme.draw_counts([], CLIENTS, rng)
    with pytest.raises(InvalidArgumentError, match="rng=0"):
        scheme.draw_counts(TOTALS, CLIENTS, 0)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="labels is empty"):
        scheme.split([], CLIENTS, rng)


@every_scheme
def test_more_clients_than_examples_are_refused(scheme: PartitionScheme) -> None:
    with pytest.raises(InvalidArgumentError):
        scheme.draw_counts([3, 3, 3, 3], CLIENTS, np.random.default_rng(0))


@pytest.mark.parametrize("name", ["hsu", "fedcor", "classwise", "classes", "shards", "iid"])
def test_absurd_populations_are_refused_before_memory_is_asked_for(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="GiB"):
        SCHEMES[name].draw_counts(TOTALS, 10**12, np.random.default_rng(0))


@every_scheme
def test_schemes_are_values(scheme: PartitionScheme) -> None:
    with pytest.raises(AttributeError):
        scheme.examples_per_client = 3  # type: ignore[misc]
    if not isinstance(scheme, GivenCounts):
        assert hash(scheme) == hash(type(scheme)(**vars(scheme)))


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(["hsu", "fedcor", "classwise", "classes", "shards", "iid"]),
    totals=st.lists(st.integers(0, 60), min_size=1, max_size=5),
    num_clients=st.integers(1, 30),
    size=st.none() | st.integers(1, 12),
    seed=st.integers(0, 2**32),
)
def test_any_case_either_works_or_says_why(
    name: str, totals: list[int], num_clients: int, size: int | None, seed: int
) -> None:
    makers = {
        "hsu": lambda: DirichletHsu(0.2, examples_per_client=size),
        "fedcor": lambda: DirichletFedCor(0.7, examples_per_client=size),
        "classwise": lambda: DirichletClasswise(0.7, examples_per_client=size),
        "classes": lambda: ClassesPerClient(2, examples_per_client=size),
        "shards": lambda: Shards(2, examples_per_client=size),
        "iid": lambda: IID(examples_per_client=size),
    }
    try:
        counts = makers[name]().draw_counts(totals, num_clients, np.random.default_rng(seed))
    except InvalidArgumentError:
        return
    assert counts.shape == (num_clients, len(totals))
    assert counts.min() >= 0
    assert (counts.sum(axis=0) <= totals).all()
    if size is not None:
        assert counts.sum() == num_clients * size
    assert counts.sum(axis=1).min() >= 1


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.tuples(*[st.integers(0, 5)] * 3), min_size=1, max_size=12),
    spare=st.tuples(*[st.integers(0, 4)] * 3),
    seed=st.integers(0, 2**32),
)
def test_dealing_realises_any_counts(
    counts: list[tuple[int, ...]], spare: tuple[int, ...], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(3), np.sum(counts, axis=0) + spare))
    partition = deal(labels, counts, rng)
    assert np.array_equal(partition.label_counts(labels, 3), counts)
    assert np.unique(partition.indices).size == np.sum(counts)


def test_dealing_more_than_there_is_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="3 examples of class 1, but labels has 2"):
        deal([0, 1, 1], [[1, 1], [0, 2]], np.random.default_rng(0))


def test_dealing_shuffles_clients_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedcbs.partition._deal._SHUFFLED_AT_ONCE", 5)
    labels = np.repeat([0, 1], 40)
    counts = [[20, 20], [0, 0], [1, 1], [2, 1], [17, 18]]
    partition = deal(labels, counts, np.random.default_rng(0))
    assert partition.label_counts(labels).tolist() == counts
    first = labels[partition[0]]
    assert 3 < np.count_nonzero(np.diff(first)) < 37  # neither class by class nor in turns


def test_a_defective_scheme_is_caught() -> None:
    class Wrong(PartitionScheme):
        name = "wrong"
        result = np.zeros((1, 1), dtype=np.int64)

        def _draw_counts(self, totals, num_clients, rng):  # type: ignore[no-untyped-def]  # noqa: ARG002
            return self.result

    scheme = Wrong()
    with pytest.raises(FedCBSError, match="Wrong drew int64 counts of shape"):
        scheme.draw_counts([3, 3], 2, np.random.default_rng(0))
    Wrong.result = np.array([[2, -1], [1, 1]])
    with pytest.raises(FedCBSError, match="below zero or beyond"):
        scheme.draw_counts([3, 3], 2, np.random.default_rng(0))


@pytest.mark.parametrize(
    "scheme",
    [
        DirichletHsu(0.1, examples_per_client=25),
        DirichletFedCor(0.1, examples_per_client=25),
        DirichletClasswise(0.5, examples_per_client=25, min_examples=0),
        ClassesPerClient(2, examples_per_client=25),
        Shards(2, examples_per_client=25),
        IID(examples_per_client=25),
    ],
    ids=lambda scheme: scheme.name,
)
def test_a_hundred_thousand_clients_are_drawn(scheme: PartitionScheme) -> None:
    counts = scheme.draw_balanced(100_000, 10, np.random.default_rng(0))
    assert counts.sum() == 2_500_000
    assert counts.sum(axis=1).min() >= (0 if scheme.name == "dirichlet-classwise" else 1)
