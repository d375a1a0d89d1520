"""Who chooses, behind one interface: a selector in this process, or the party that holds the key."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedcbs.flower._inquiry import Inquiry
from fedcbs.flower._population import Population
from fedcbs.flower._statistics import Statistics
from fedcbs.selectors import Need

__all__ = ["Choice", "Chooser", "Learnt", "Question", "Situation"]


@dataclasses.dataclass(frozen=True)
class Question:
    """What a client is asked when it joins: entries and blobs of the query for statistics."""

    entries: Mapping[str, Any]
    blobs: Mapping[str, bytes]


@dataclasses.dataclass(frozen=True, eq=False)
class Situation:
    """What a choice is made from.

    Parameters
    ----------
    round_index, cohort_size, seed
        As selectors know them.
    available
        Names of the clients that can be picked.
    durations
        Expected seconds of (training, upload) by name, where something is known.
    """

    round_index: int
    cohort_size: int
    seed: int
    available: Sequence[str]
    population: Population
    statistics: Statistics
    durations: Mapping[str, tuple[float, float]]
    inquiry: Inquiry


@dataclasses.dataclass(frozen=True, eq=False)
class Choice:
    """The answer.

    Parameters
    ----------
    cohort
        Names, in the order of the clients' indices.
    weights
        Weights of the cohort's updates, where the selector sets them.
    estimates
        (name, flat update, weight) of clients that are averaged in although they send nothing.
    qcid
        QCID of the cohort, where whoever chose can know it.
    label_counts
        The cohort's pooled label counts, where the server may know them.
    asked
        How many clients were asked for what.
    note
        What happened that an operator should see in the record.
    """

    cohort: Sequence[str]
    weights: Mapping[str, float] | None = None
    estimates: Sequence[tuple[str, NDArray[np.float64], float]] = ()
    qcid: float | None = None
    label_counts: Sequence[int] | None = None
    asked: Mapping[str, int] = dataclasses.field(default_factory=dict)
    note: str | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Learnt:
    """What came back from the cohort. Arrays are aligned with `answered`; what was not learnt is None."""

    answered: Sequence[str]
    failed: Sequence[str]
    losses: NDArray[np.float64] | None = None
    rms_losses: NDArray[np.float64] | None = None
    durations: NDArray[np.float64] | None = None
    updates: NDArray[np.float64] | None = None
    class_gradients: NDArray[np.float64] | None = None


class Chooser(abc.ABC):
    """Chooses cohorts, and learns from what comes back."""

    name: str
    """Name of the strategy of selection, for records."""
    needs: frozenset[Need]
    learns: frozenset[Need]
    mode: str
    """How clients' label statistics travel: ``none``, ``plain``, or the name of a private mode."""

    @abc.abstractmethod
    def question(self) -> Question:
        """What clients are asked when they join."""

    @abc.abstractmethod
    def choose(self, situation: Situation) -> Choice:
        """Choose a cohort; raises :class:`UnansweredError` where clients that it asked did not answer."""

    @abc.abstractmethod
    def observe(self, learnt: Learnt, population: Population) -> None:
        """Learn from the answers."""

    def admit(self, uploads: Mapping[str, bytes]) -> dict[str, str]:  # noqa: ARG002  # only private modes have uploads
        """Check new uploads; return those refused, and why."""
        return {}

    @abc.abstractmethod
    def attend(self, grid: Grid) -> None:
        """Note the grid of the run, where the chooser itself speaks through it."""

    def own_nodes(self, grid: Grid) -> frozenset[int]:  # noqa: ARG002  # most have none
        """Nodes that are no clients but serve the choice; never trained on."""
        return frozenset()

    @abc.abstractmethod
    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """State to be saved."""

    @abc.abstractmethod
    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take the state that :meth:`to_arrays` returned."""
