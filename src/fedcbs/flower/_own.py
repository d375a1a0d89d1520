"""A selector that runs in the server app, and knows what the server asked of the clients."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedcbs.flower._chooser import Choice, Chooser, Learnt, Question, Situation
from fedcbs.flower._population import Population
from fedcbs.imbalance import FactorGram, Gram, qcid
from fedcbs.selectors import Estimates, Feedback, Information, Need, Round, Selector, State

__all__ = ["OwnSelector", "grown"]

COUNTS = frozenset({Need.GRAM, Need.LABEL_COUNTS})
EQUAL = (1.0, 1.0)
"""Expected seconds of training and of upload, as long as nothing is known of anybody."""


@final
class OwnSelector(Chooser):
    """Runs a selector here.

    Parameters
    ----------
    selector
        Any; what it declares to need is asked of the clients.
    loss_batch
        Examples that a client takes where the selector needs the loss on one batch.
    """

    def __init__(self, selector: Selector[Any], *, loss_batch: int) -> None:
        self._selector = selector
        self._loss_batch = loss_batch
        self._state: State | None = None
        self._information: tuple[tuple[int, int], FactorGram] | None = None
        self.name, self.needs, self.learns = selector.name, selector.needs, selector.learns
        self.mode = "plain" if self.needs & COUNTS else "none"

    def attend(self, grid: Grid) -> None:
        """Nothing to note."""

    def question(self) -> Question:
        """Label counts in the clear if the selector needs them, sizes if only those, durations likewise."""
        wanted = []
        if self.needs & COUNTS:
            wanted.append("label-counts")
        elif Need.NUM_EXAMPLES in self.needs or self._selector.skips_empty:
            wanted.append("num-examples")
        if Need.DURATIONS in self.needs:
            wanted.append("durations")
        return Question({"ask": wanted}, {})

    def choose(self, situation: Situation) -> Choice:
        """Choose as the selector does."""
        population = situation.population
        self._state = grown(self._selector, self._state, len(population))
        round_ = Round(
            _FederationInformation(self, situation),
            cohort_size=situation.cohort_size,
            round_index=situation.round_index,
            available=[population.index_of(name) for name in situation.available],
            seed=situation.seed,
        )
        selection = self._selector.select(self._state, round_)
        self._state = selection.state
        names = [population.names[index] for index in selection.cohort.tolist()]
        weights = selection.weights
        return Choice(
            cohort=names,
            weights=None if weights is None else dict(zip(names, weights.tolist(), strict=True)),
            estimates=_named(selection.estimates, population),
            asked={need.value: number for need, number in selection.asked.items()},
            **self._balance(situation, names),
        )

    def _balance(self, situation: Situation, names: list[str]) -> dict[str, Any]:
        if not self.needs & COUNTS:
            return {}
        counts = situation.statistics.label_counts(names)
        measured = float(qcid(counts)) if counts.any() else None
        return {"qcid": measured, "label_counts": counts.sum(axis=0).tolist()}

    def gram(self, situation: Situation) -> FactorGram:
        """Inner products of all label counts, computed anew only when somebody joined."""
        key = (situation.statistics.version, len(situation.population))
        if self._information is None or self._information[0] != key:
            counts = situation.statistics.label_counts(situation.population.names)
            self._information = (key, FactorGram(counts))
        return self._information[1]

    def batch(self) -> int:
        """Examples of one batch."""
        return self._loss_batch

    def observe(self, learnt: Learnt, population: Population) -> None:
        """Let the selector learn."""
        if self._state is None:
            return
        fields = {
            field.name: getattr(learnt, field.name)
            for field in dataclasses.fields(learnt)
            if field.name not in ("answered", "failed")
        }
        feedback = Feedback(
            answered=[population.index_of(name) for name in learnt.answered],
            failed=[population.index_of(name) for name in learnt.failed],
            **fields,
        )
        self._state = self._selector.observe(self._state, feedback)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The selector's state."""
        return {} if self._state is None else self._state.to_arrays()

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take a saved one."""
        self._state = self._selector.restore(arrays) if arrays else None


def _named(
    estimates: Estimates | None, population: Population
) -> Sequence[tuple[str, NDArray[np.float64], float]]:
    if estimates is None:
        return ()
    names = [population.names[index] for index in estimates.clients.tolist()]
    return list(zip(names, estimates.updates, estimates.weights.tolist(), strict=True))


def grown(selector: Selector[Any], state: State | None, num_clients: int) -> State:
    """Return the state with room for clients that joined, who start as everybody did.

    >>> from fedcbs.selectors import make_selector
    >>> selector = make_selector("uniform")
    >>> grown(selector, grown(selector, None, 2), 3).times_selected
    array([0, 0, 0])
    """
    fresh: State = selector.init(num_clients)
    if state is None or state.num_clients == num_clients:
        return state or fresh
    old, new = state.to_arrays(), fresh.to_arrays()
    blank = selector.init(state.num_clients).to_arrays()
    arrays = {}
    for name, value in old.items():
        if blank[name].shape == new[name].shape:  # says nothing about single clients
            arrays[name] = value
        else:
            arrays[name] = new[name].copy()
            arrays[name][: len(value)] = value
    joined: State = selector.restore(arrays)
    return joined


@final
class _FederationInformation(Information):
    """Answers a selector from what clients told when they joined, or by asking them now."""

    def __init__(self, owner: OwnSelector, situation: Situation) -> None:
        self._owner = owner
        self._at = situation

    @property
    def num_clients(self) -> int:
        """Number of clients seen so far."""
        return len(self._at.population)

    def gram(self) -> Gram:
        """Inner products of label counts of everybody."""
        return self._owner.gram(self._at)

    def label_counts(self) -> NDArray[np.int64]:
        """Label counts of everybody."""
        return self._at.statistics.label_counts(self._at.population.names)

    def num_examples(self) -> NDArray[np.int64]:
        """Sizes of everybody."""
        return self._at.statistics.num_examples(self._at.population.names)

    def durations(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Measured durations, else those told, else the median of the known ones."""
        known = self._at.durations
        usual = np.median(list(known.values()), axis=0) if known else np.array(EQUAL)
        return np.array([known.get(name, usual) for name in self._names(clients)], dtype=np.float64)

    def losses(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Ask for the mean loss at the current model."""
        return self._at.inquiry.losses(self._names(clients), None)

    def batch_losses(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Ask for the mean loss of one batch at the current model."""
        return self._at.inquiry.losses(self._names(clients), self._owner.batch())

    def updates(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Ask for the updates that training would give."""
        return self._at.inquiry.updates(self._names(clients))

    def update_norms(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Ask for the norms of those."""
        return self._at.inquiry.norms(self._names(clients))

    def _names(self, clients: NDArray[np.int64]) -> list[str]:
        return [self._at.population.names[index] for index in clients.tolist()]
