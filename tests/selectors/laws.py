"""How tests look at the law of a selector: many draws of one round that differ in nothing but the seed."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs.imbalance import FactorGram, Gram
from fedcbs.selectors import Information, Round, Selection, Selector

Array = NDArray[np.float64]


class Told(Information):
    """Answers that are given, one a client; label counts too where they matter, else sizes alone."""

    def __init__(
        self,
        *,
        label_counts: ArrayLike | None = None,
        num_examples: ArrayLike | None = None,
        **answers: ArrayLike,
    ) -> None:
        sizes = np.asarray(label_counts).sum(axis=1) if num_examples is None else np.asarray(num_examples)
        self._sizes: NDArray[np.int64] = sizes.astype(np.int64)
        self._counts = np.asarray(self._sizes[:, None] if label_counts is None else label_counts)
        self._answers = {name: np.asarray(answer, dtype=np.float64) for name, answer in answers.items()}

    @property
    def num_clients(self) -> int:
        return len(self._sizes)

    def gram(self) -> Gram:
        return FactorGram(self._counts)

    def label_counts(self) -> NDArray[np.int64]:
        return self._counts

    def num_examples(self) -> NDArray[np.int64]:
        return self._sizes

    def losses(self, clients: NDArray[np.int64]) -> Array:
        return self._answers["losses"][clients]

    def batch_losses(self, clients: NDArray[np.int64]) -> Array:
        return self._answers["batch_losses"][clients]

    def durations(self, clients: NDArray[np.int64]) -> Array:
        return self._answers["durations"][clients]

    def updates(self, clients: NDArray[np.int64]) -> Array:
        return self._answers["updates"][clients]

    def update_norms(self, clients: NDArray[np.int64]) -> Array:
        return np.linalg.norm(self._answers["updates"][clients], axis=1)


def one(
    selector: Selector[Any],
    information: Information,
    *,
    cohort_size: int,
    state: Any = None,
    available: Sequence[int] | None = None,
    round_index: int = 1,
    seed: int = 0,
) -> Selection[Any]:
    """One selection."""
    round_ = Round(
        information, cohort_size=cohort_size, available=available, round_index=round_index, seed=seed
    )
    return selector.select(selector.init(information.num_clients) if state is None else state, round_)


def draws(
    selector: Selector[Any], information: Information, *, times: int, **round_: Any
) -> Counter[frozenset[int]]:
    """How often each cohort comes up over so many seeds."""
    return Counter(
        frozenset(one(selector, information, seed=seed, **round_).cohort.tolist()) for seed in range(times)
    )


def selected(selector: Selector[Any], times_selected: Sequence[int], **arrays: ArrayLike) -> Any:
    """Return a state in which clients were selected so often."""
    state = selector.init(len(times_selected))
    fields: Mapping[str, Any] = {name: np.asarray(array) for name, array in arrays.items()}
    return dataclasses.replace(state, times_selected=np.array(times_selected), **fields)
