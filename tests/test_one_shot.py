"""One cohort without any state: the first function that a newcomer calls, with what newcomers hand it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedcbs import DenseGram, make_selector, qcid, select_cohort
from fedcbs.errors import FedCBSError
from fedcbs.selectors import LabelInformation, Round, Uniform

COUNTS = [[5, 1], [2, 8], [4, 4], [0, 9], [7, 0]]


def test_it_is_the_first_round_of_the_selector() -> None:
    selector = make_selector("fedcbs-exact", sweeps=2)
    round_ = Round(LabelInformation(COUNTS), cohort_size=2, seed=4, available=[4, 0, 3])
    expected = selector.select(selector.init(5), round_).cohort.tolist()
    for chooser in (selector, "fedcbs-exact:sweeps=2"):
        cohort = select_cohort(COUNTS, 2, selector=chooser, available=[4, 0, 3], seed=4)
        assert cohort.tolist() == expected


def test_a_gram_matrix_gives_the_cohort_that_the_label_counts_give() -> None:
    counts = np.array(COUNTS)
    gram = DenseGram(counts @ counts.T, num_examples=counts.sum(axis=1), num_classes=2)
    for seed in range(20):
        cohort = select_cohort(gram, 3, seed=seed)
        assert cohort.tolist() == select_cohort(counts, 3, seed=seed).tolist()
        assert qcid(counts, cohort) < 0.05


@pytest.mark.parametrize(
    "counts", [np.array(COUNTS, dtype=kind) for kind in (np.int8, np.uint16, np.float16, np.float32)]
)
def test_the_type_of_whole_numbers_does_not_matter(counts: np.ndarray) -> None:
    assert select_cohort(counts, 2, seed=1).tolist() == select_cohort(COUNTS, 2, seed=1).tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"available": np.array([True, False, True, True, True])}, "available holds true and false"),
        ({"available": ["a", "b"]}, "available has dtype <U1; it must hold whole numbers"),
        ({"available": [0.0, float("nan")]}, r"available\[1\]=nan"),
        ({"available": 3}, "available has 0 dimensions; it must have 1"),
        ({"available": [0, 9]}, r"available\[1\]=9 must be a whole number from 0 to 4"),
        ({"available": []}, "available is empty"),
        ({"label_statistics": None}, "label_counts has 0 dimensions; it must have 2: clients x classes"),
        ({"label_statistics": [1, 2, 3]}, "label_counts has 1 dimension; it must have 2"),
        ({"label_statistics": [[1, 2], [3]]}, "label_counts must be a rectangular array"),
        ({"label_statistics": [["a", "b"]]}, "label_counts has dtype <U1"),
        ({"label_statistics": [[10**30, 1]]}, "must be a whole number from 0 to 9007199254740992"),
        ({"label_statistics": [[2**53 - 1, 2]]}, r"label_counts\[0\] adds up to more than 2\*\*53 examples"),
        ({"label_statistics": [[0, 0], [0, 0]]}, "only 0 of the 2 available clients have examples"),
        ({"cohort_size": "2"}, "cohort_size='2' must be a whole number"),
        ({"cohort_size": True}, "cohort_size=True must be a whole number"),
        ({"cohort_size": 6}, "cohort_size=6 but only 5 clients are available"),
        ({"selector": 5}, "selector=5 is no selector"),
        ({"selector": None}, "selector=None is no selector"),
        ({"selector": Uniform}, "is no selector; give a name, or one made by make_selector"),
        ({"selector": "fedcbs-exact:sweeps=two"}, "sweeps='two' must be a whole number"),
        ({"selector": "fedcbs-exact:sweeps=2:sweeps=3"}, "gives 'sweeps' twice"),
        ({"selector": "pow-d"}, "losses cannot be had"),
        ({"selector": "fedcs"}, "durations cannot be had"),
        ({"seed": 1.5}, "seed=1.5 must be a whole number"),
        ({"round_index": 0}, "round_index=0 must be a whole number of at least 1"),
    ],
)
def test_mistakes_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(FedCBSError, match=message):
        select_cohort(**{"label_statistics": COUNTS, "cohort_size": 2, **arguments})
