"""The two baselines that know nothing: everyone who is available, and a uniformly random cohort."""

from __future__ import annotations

import abc
import dataclasses
from typing import ClassVar, final

import numpy as np

from fedcbs.selectors._base import Draw, Selector
from fedcbs.selectors._round import RoundView
from fedcbs.selectors._state import State

__all__ = ["Everyone", "Memoryless", "Uniform"]


class Memoryless(Selector[State], abc.ABC):
    """Base of selectors that remember only how often each client was selected."""

    def _init(self, num_clients: int) -> State:
        return State(times_selected=np.zeros(num_clients, dtype=np.int64))


@final
@dataclasses.dataclass(frozen=True)
class Everyone(Memoryless):
    """All available clients, whatever the cohort size: the paper's ideal setting, "all"."""

    name: ClassVar[str] = "everyone"
    summary: ClassVar[str] = "all available clients, whatever the cohort size"
    paper: ClassVar[str] = "McMahan et al. 2017 (AISTATS), FedAvg with C = 1"
    fixed_size: ClassVar[bool] = False

    def _select(self, state: State, view: RoundView) -> Draw[State]:
        return Draw(view.available, state)


@final
@dataclasses.dataclass(frozen=True)
class Uniform(Memoryless):
    """A uniformly random cohort, without replacement: the paper's "rand"."""

    name: ClassVar[str] = "uniform"
    summary: ClassVar[str] = "a uniformly random cohort"
    paper: ClassVar[str] = "McMahan et al. 2017 (AISTATS), FedAvg"

    def _select(self, state: State, view: RoundView) -> Draw[State]:
        return Draw(view.rng.choice(view.available, view.cohort_size, replace=False), state)
