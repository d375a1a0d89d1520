"""From a dataset to clients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedcbs.data import Dataset, from_arrays, load_dataset, split
from fedcbs.errors import InvalidArgumentError, UnknownNameError
from fedcbs.partition import IID, Case2
from tests.data.writers import images

OWNED = from_arrays(
    images(60, 3), np.arange(60) % 3, name="owned", held_out=0.2, train_owners=[f"o{k % 5 if k < 40 else 5}" for k in range(60)]
)  # fmt: skip


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load_dataset("digits")


@pytest.mark.parametrize(
    "partition",
    ["iid", "dirichlet-hsu:0.1", "dirichlet-classwise:0.5", "case2:1", "classes:2", "shards:2"],
)
def test_the_seed_decides_and_each_example_has_one_client(digits: Dataset, partition: str) -> None:
    first, again, other = (split(digits, partition, num_clients=10, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert len(np.unique(first.indices)) == len(first.indices)
    counts = first.label_counts(digits.train.labels, digits.num_classes)
    assert counts.shape == (10, 10)
    assert counts.sum() >= 0.96 * len(digits.train)


def test_a_scheme_may_say_how_many_clients(digits: Dataset) -> None:
    assert len(split(digits, "case2:2", seed=0)) == len(split(digits, Case2(2), seed=0)) == 20
    with pytest.raises(InvalidArgumentError, match="num_clients=None, but 'iid' makes any number"):
        split(digits, "iid")


def test_owners_are_clients_and_some_of_them_can_be_taken() -> None:
    every = split(OWNED, "owner")
    assert every.owners is not None
    assert every.owners.tolist() == [f"o{k}" for k in range(6)]
    some, again = (split(OWNED, "owner", num_clients=3, seed=4) for _ in range(2))
    assert some == again
    assert some.owners is not None
    for place, owner in enumerate(some.owners):
        assert np.array_equal(some[place], every[int(owner[1])])


@pytest.mark.parametrize(
    ("dataset", "partition", "options", "reason"),
    [
        ("digits", "iid", {"num_clients": 1439}, "num_clients=1439, but 'digits' has 1438 train examples"),
        ("digits", "iid", {"num_clients": 0}, "num_clients=0"),
        ("digits", "iid", {"num_clients": 2, "alpha": 1.0}, "alpha=1.0 is no option of 'iid'"),
        ("digits", "iid", {"num_clients": 20, "examples_per_client": 100}, "lower it to 71"),
        ("digits", IID(), {"num_clients": 2, "alpha": 1.0}, "leave it out"),
        ("digits", "owner", {}, "'digits' has no owners"),
        ("digits", 3, {"num_clients": 2}, "partition=3 must be"),
        ("digits", "iid", {"num_clients": 2, "seed": -1}, "seed=-1"),
        ("owned", "owner", {"num_clients": 7}, "has 6 owners; lower it to 6"),
        ("owned", "owner", {"num_clients": 2, "min_examples": 10}, "has 1 owners of at least 10 examples"),
        ("owned", "owner", {"min_examples": 100}, "lower it"),
        ("owned", "owner", {"alpha": 0.1}, "alpha=0.1 is no option of 'owner'"),
    ],
)
def test_what_cannot_be_split_is_refused(
    digits: Dataset, dataset: str, partition: Any, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        split(digits if dataset == "digits" else OWNED, partition, **options)


def test_a_slip_gets_a_suggestion(digits: Dataset) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'dirichlet-hsu'"):
        split(digits, "dirichlet-hus", num_clients=2)


def test_clients_without_data_are_refused_where_asked(digits: Dataset) -> None:
    options: dict[str, Any] = {"num_clients": 200, "alpha": 0.01, "min_examples": 0, "seed": 0}
    counts = split(digits, "dirichlet-classwise", **options).num_examples
    assert (counts == 0).any()
    with pytest.raises(InvalidArgumentError, match=r"client \d+ \(\d+ of 200\) has no examples"):
        split(digits, "dirichlet-classwise", **options, allow_empty=False)
    assert split(digits, "iid", num_clients=200, allow_empty=False).num_examples.min() >= 1
