"""The interface of all selectors: explicit state in, cohort and state out.

::

    state = selector.init(num_clients)
    selection = selector.select(state, Round(information, cohort_size=10, round_index=1, seed=0))
    ...                                     # train selection.cohort, weighted by selection.weights where given
    state = selector.observe(selection.state, Feedback(answered=selection.cohort))

`select` is a function of (options, state, round): asked twice, it answers twice the same. Whoever keeps the state and the
number of the round can stop anywhere and go on as if nothing had happened.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs import _checks, _random
from fedcbs.errors import BrokenSelectorError, InvalidArgumentError
from fedcbs.selectors._feedback import Feedback
from fedcbs.selectors._information import Need
from fedcbs.selectors._round import Round, RoundView
from fedcbs.selectors._state import State

__all__ = ["Draw", "Estimates", "Selection", "Selector"]

StateT = TypeVar("StateT", bound=State)


@dataclasses.dataclass(frozen=True, eq=False)
class Estimates:
    """Updates that the server uses although nobody sent them (see the Ornstein-Uhlenbeck selector).

    Parameters
    ----------
    clients, updates, weights
        Who they stand for, one flat row each, and their weights in the average beside :attr:`Selection.weights`.
    """

    clients: NDArray[np.int64]
    updates: NDArray[np.float64]
    weights: NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class Draw(Generic[StateT]):
    """What a selector's own rule returns: clients, their weights if it changes them, and what it remembers."""

    cohort: NDArray[np.int64]
    state: StateT
    weights: NDArray[np.float64] | None = None
    estimates: Estimates | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Selection(Generic[StateT]):
    """The answer to one round.

    Parameters
    ----------
    cohort
        Selected clients, distinct, in ascending order.
    state
        State after the selection; hand it to :meth:`Selector.observe`.
    weights
        Weights of the cohort's updates where the strategy sets them; None leaves them to the training algorithm
        (in proportion to the number of examples, for FedAvg).
    asked
        How many clients were asked for what before the choice.
    estimates
        Updates to be averaged in although nobody sent them, where a strategy makes such.
    """

    cohort: NDArray[np.int64]
    state: StateT
    weights: NDArray[np.float64] | None
    asked: Mapping[Need, int]
    estimates: Estimates | None = None


@dataclasses.dataclass(frozen=True)
class Selector(abc.ABC, Generic[StateT]):
    """Decides which clients train next.

    A subclass is a frozen dataclass whose fields are its options. It sets the class variables below and writes
    `_init` where it remembers more than :class:`State`, `_select`, and `_observe` where it learns from answers.
    """

    name: ClassVar[str]
    """Name on the command line and in results."""
    summary: ClassVar[str]
    """What it does, in one line."""
    paper: ClassVar[str]
    """Where it comes from."""
    needs: ClassVar[frozenset[Need]] = frozenset()
    """What it asks before the choice."""
    learns: ClassVar[frozenset[Need]] = frozenset()
    """What it learns from the answers of the clients that trained."""
    skips_empty: ClassVar[bool] = False
    """Whether clients without examples are treated as unavailable; needs their sizes, or the Gram, which has them."""
    fixed_size: ClassVar[bool] = True
    """Whether a cohort always has `cohort_size` clients; otherwise the docstring says what decides."""

    @final
    def init(self, num_clients: int, folder: Path | None = None) -> StateT:
        """Return the state before the first round; `folder` is where files may be kept, if options ask for some."""
        state = self._init(_checks.integer(num_clients, "num_clients", minimum=1))
        return self._placed(state, folder)

    @final
    def select(self, state: StateT, round_: Round) -> Selection[StateT]:
        """Choose the cohort of a round."""
        if state.num_clients != round_.num_clients:
            raise InvalidArgumentError(
                f"state is of {state.num_clients} clients but the round has {round_.num_clients}; use selector.init"
            )
        if self.skips_empty:
            round_ = self._without_empty(round_)
        rng = _random.generator("selection", round_.seed, round_.round_index)
        view = RoundView(
            available=round_.available,
            cohort_size=round_.cohort_size,
            round_index=round_.round_index,
            num_clients=round_.num_clients,
            rng=rng,
            selector=self.name,
            _needs=self.needs,
            _information=round_.information,
        )
        return self._checked(self._select(state, view), view)

    @final
    def observe(self, state: StateT, feedback: Feedback) -> StateT:
        """Return the state after the answers of a round."""
        for ids, name in ((feedback.answered_ids, "answered"), (feedback.failed_ids, "failed")):
            _checks.client_ids(ids, name, num_clients=state.num_clients)
        return self._observe(state, feedback)

    @final
    def restore(self, arrays: Mapping[str, NDArray[Any]], like: StateT | None = None) -> StateT:
        """Return the state that :meth:`State.to_arrays` saved; it shares the files of `like`, a state of this selector."""
        if "times_selected" not in arrays:
            raise InvalidArgumentError(
                f"arrays holds {sorted(arrays)} but no times_selected, so it is no saved state; save State.to_arrays()"
            )
        times_selected = _checks.integers(arrays["times_selected"], "times_selected")
        fresh = self._init(max(len(times_selected), 1))
        fresh.check(arrays)
        return (self.init(len(times_selected)) if like is None else like).with_arrays(arrays)

    @abc.abstractmethod
    def _init(self, num_clients: int) -> StateT: ...

    def _placed(self, state: StateT, folder: Path | None) -> StateT:  # noqa: ARG002  # most keep no files
        return state

    @abc.abstractmethod
    def _select(self, state: StateT, view: RoundView) -> Draw[StateT]: ...

    def _observe(self, state: StateT, feedback: Feedback) -> StateT:  # noqa: ARG002  # most learn nothing
        return state

    def _without_empty(self, round_: Round) -> Round:
        told = round_.information
        sizes = told.gram().num_examples if Need.GRAM in self.needs else told.num_examples()
        num_examples = sizes[round_.available]
        if num_examples.all():
            return round_
        filled = round_.available[num_examples > 0]
        if len(filled) < round_.cohort_size:
            raise InvalidArgumentError(
                f"cohort_size={round_.cohort_size} but only {len(filled)} of the {len(round_.available)} available "
                f"clients have examples, and {self.name} leaves out the others; lower it or wait"
            )
        return round_.with_available(filled)

    def _checked(self, draw: Draw[StateT], view: RoundView) -> Selection[StateT]:
        """Refuse what is no cohort of this round, and note who was selected."""
        order = np.argsort(draw.cohort, kind="stable")
        cohort = np.asarray(draw.cohort, dtype=np.int64)[order]
        distinct = bool((cohort[1:] > cohort[:-1]).all())
        places = np.minimum(np.searchsorted(view.available, cohort), len(view.available) - 1)
        if not distinct or not np.array_equal(view.available[places], cohort):
            raise BrokenSelectorError(
                f"{self.name} returned {cohort[:20].tolist()}, which are not distinct clients among the available"
            )
        if len(cohort) == 0 or (self.fixed_size and len(cohort) != view.cohort_size):
            raise BrokenSelectorError(
                f"{self.name} returned {len(cohort)} clients for cohort_size={view.cohort_size}"
            )
        weights = None if draw.weights is None else np.asarray(draw.weights, dtype=np.float64)[order]
        if weights is not None and (weights.shape != cohort.shape or not np.isfinite(weights).all()):
            raise BrokenSelectorError(
                f"{self.name} returned weights that do not fit its cohort: {weights.tolist()}"
            )
        times_selected = draw.state.times_selected.copy()
        times_selected[cohort] += 1
        state = dataclasses.replace(draw.state, times_selected=times_selected)
        return Selection(cohort, state, weights, dict(view.asked), draw.estimates)
