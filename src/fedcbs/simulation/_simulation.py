"""Federated rounds on one machine: state in, state and record out.

A round: who is available; what the selector asks; the cohort; who of it fails; local training; the server's step; what the
selector learns; evaluation. Everything random in it is a function of (seed, round), so `round` called twice with the same
state does the same twice, and whoever keeps the state can stop after any round.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, final

import numpy as np
import torch
from numpy.typing import NDArray

from fedcbs import _checks
from fedcbs.algorithms import Algorithm, Monitor, Outcome, Work
from fedcbs.availability import Availability
from fedcbs.engine import Engine, Plan, Weights
from fedcbs.errors import DivergedError, InvalidArgumentError
from fedcbs.imbalance import qcid_of_pooled
from fedcbs.selectors import Need, Round, Selection, Selector
from fedcbs.simulation._batches import draw_plan
from fedcbs.simulation._evaluation import EvaluationRule, evaluate
from fedcbs.simulation._faults import Fate, Faults
from fedcbs.simulation._federation import Federation
from fedcbs.simulation._information import SimulatedInformation
from fedcbs.simulation._lessons import Lessons
from fedcbs.simulation._monitor import AuxiliaryMonitor
from fedcbs.simulation._record import RoundRecord
from fedcbs.simulation._state import SimulationState
from fedcbs.simulation._statistics import Statistics
from fedcbs.simulation._times import ClientTimes, Seconds
from fedcbs.simulation._traffic import BESIDE_UPDATE, traffic
from fedcbs.simulation._training import Training

__all__ = ["Simulation"]

BYTES_OF_WEIGHT = 4


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Simulation:
    """A federation and everything that decides what happens in it.

    Parameters
    ----------
    federation, engine, statistics
        Who holds what, what computes, and what the selector may know of label counts.
    algorithm, training
        How clients train and the server moves.
    selector, cohort_size
        Who is picked, and how many.
    availability, faults, times
        Who can be picked, who fails, and how long clients take (None: no times).
    evaluation
        When and how the global model is evaluated.
    layer
        Where the last layer is, for algorithms that monitor it.
    seed
        Fixes everything random.
    folder
        Where an algorithm may keep files.
    """

    federation: Federation
    engine: Engine
    statistics: Statistics
    algorithm: Algorithm
    training: Training
    selector: Selector[Any]
    cohort_size: int
    availability: Availability
    faults: Faults = dataclasses.field(default_factory=Faults)
    times: ClientTimes | None = None
    evaluation: EvaluationRule = dataclasses.field(default_factory=EvaluationRule)
    layer: slice | None = None
    seed: int = 0
    folder: Path | None = None
    _steps: NDArray[np.int64] = dataclasses.field(init=False)
    _seconds: Seconds | None = dataclasses.field(init=False)
    _rule: Availability = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self._check()
        federation, start = self.federation, self.engine.initial()
        steps = self.training.schedule.steps(federation.num_examples, self.training.batch_size)
        object.__setattr__(self, "_steps", steps)
        object.__setattr__(self, "_rule", self.availability.bind(federation.label_counts))
        seconds = None
        if self.times is not None:
            size = _bytes(start) * self.algorithm.local.vectors
            used = _examples_used(federation.num_examples, steps, self.training.batch_size)
            seconds = self.times.expected(
                used, bytes_down=size, bytes_up=size + BESIDE_UPDATE, seed=self.seed
            )
        object.__setattr__(self, "_seconds", seconds)

    def init(self) -> SimulationState:
        """Return the state before the first round."""
        weights = self.engine.initial()
        algorithm = self.algorithm.init(self.federation.num_clients, weights, self.folder)
        return SimulationState(
            0, weights, algorithm, self.selector.init(self.federation.num_clients, self.folder)
        )

    def restore(
        self, arrays: Mapping[str, NDArray[Any]], beside: SimulationState | None = None
    ) -> SimulationState:
        """Return the state that :meth:`SimulationState.to_arrays` saved.

        Parameters
        ----------
        arrays
            What was saved.
        beside
            Another state of this process, with which it shares the vectors that are on disk.
        """
        parts: dict[str, dict[str, NDArray[Any]]] = {"": {}, "algorithm": {}, "selector": {}}
        for name, array in arrays.items():
            part, dot, rest = name.partition(".")
            parts[part if dot else ""][rest if dot else part] = array
        fresh, own = beside or self.init(), parts[""]
        weights = Weights(torch.from_numpy(own["parameters"].copy()), torch.from_numpy(own["buffers"].copy()))
        if weights.parameters.shape != fresh.weights.parameters.shape:
            raise InvalidArgumentError(
                f"the saved model has {weights.parameters.numel()} weights, this one {fresh.weights.parameters.numel()}"
            )
        algorithm = self.algorithm.restore(fresh.algorithm, parts["algorithm"])
        selector = self.selector.restore(parts["selector"], fresh.selector)
        return SimulationState(int(own["round_index"]), weights, algorithm, selector)

    def round(self, state: SimulationState, *, last: bool = False) -> tuple[SimulationState, RoundRecord]:
        """Do the next round.

        Parameters
        ----------
        state
            The state after the round before.
        last
            Whether it is the last one, which is always evaluated.
        """
        return _Round(self, state, last).run()

    def available(self, round_index: int) -> NDArray[np.int64]:
        """Return who can be picked in a round: those available that have examples."""
        ids = self._rule.available(round_index, num_clients=self.federation.num_clients, seed=self.seed)
        return ids[self.federation.num_examples[ids] > 0]

    def _check(self) -> None:
        clients = self.federation.num_clients
        if _checks.integer(self.cohort_size, "selector.cohort_size", minimum=1) > clients:
            raise InvalidArgumentError(
                f"selector.cohort_size={self.cohort_size} but there are {clients} clients; lower it"
            )
        self.algorithm.check(self.training.base(1))
        wanted = self.selector.needs | self.selector.learns
        if Need.DURATIONS in wanted and self.times is None:
            raise InvalidArgumentError(
                f"selector={self.selector.name!r} goes by durations; set availability.durations, to 'lognormal:0.5' say"
            )
        if self.faults.deadline and self.times is None:
            raise InvalidArgumentError(
                "availability.deadline needs times; set availability.durations, to 'lognormal:0.5' say"
            )
        if Need.CLASS_GRADIENTS in wanted and not self.federation.auxiliary:
            raise InvalidArgumentError(
                f"selector={self.selector.name!r} needs a few examples of each class on the server; set data.auxiliary"
            )
        if self.algorithm.local.monitors and (self.layer is None or not self.federation.auxiliary):
            raise InvalidArgumentError(
                f"training.local={self.algorithm.local.name!r} needs a few examples of each class on the server;"
                " set data.auxiliary"
            )


class _Round:
    """One round, step by step."""

    def __init__(self, simulation: Simulation, state: SimulationState, last: bool) -> None:
        self._sim, self._state = simulation, state
        self._index = state.round_index + 1
        self._evaluated = last or self._index % simulation.evaluation.every == 0
        self._base = simulation.training.base(self._index)
        self._clock: dict[str, float] = {}
        self._started = self._lap = time.perf_counter()
        factors = None
        if simulation.times is not None:
            clients = simulation.federation.num_clients
            factors = simulation.times.factors(clients, seed=simulation.seed, round_index=self._index)
        self._factors = factors

    def run(self) -> tuple[SimulationState, RoundRecord]:
        """Do the round."""
        sim, state = self._sim, self._state
        available = sim.available(self._index)
        monitor = self._monitor()
        information = self._information(monitor)
        selection = self._select(information, available)
        cohort = available[:0] if selection is None else selection.cohort
        fate = sim.faults.fate(
            cohort,
            sim._steps[cohort],
            sim._seconds,
            self._factors,
            num_clients=sim.federation.num_clients,
            seed=sim.seed,
            round_index=self._index,
        )
        self._timed("select")
        lessons = Lessons(sim.selector, sim.engine, sim.federation.auxiliary, len(fate.answered))
        outcome = self._train(selection, fate, monitor, lessons)
        self._timed("train")
        selector = state.selector
        if selection is not None:
            feedback = lessons.feedback(fate, information)
            selector = sim.selector.observe(selection.state, feedback)
        self._timed("select")
        after = SimulationState(self._index, outcome.weights, outcome.state, selector)
        record = self._record(available, selection, fate, outcome, information)
        if self._evaluated:
            found = evaluate(sim.evaluation, sim.engine, outcome.weights, sim.federation.label_counts)
            record = dataclasses.replace(record, **cast("dict[str, Any]", found))
        self._timed("evaluate")
        self._clock["total"] = time.perf_counter() - self._started
        return after, record

    def _select(
        self, information: SimulatedInformation, available: NDArray[np.int64]
    ) -> Selection[Any] | None:
        """Let the selector choose; nobody, where nobody is available."""
        sim = self._sim
        if len(available) == 0:
            return None
        round_ = Round(
            information,
            cohort_size=min(sim.cohort_size, len(available)),
            round_index=self._index,
            available=available,
            seed=sim.seed,
        )
        try:
            return sim.selector.select(self._state.selector, round_)
        except DivergedError as error:
            raise self._diverged(str(error)) from error

    def _train(
        self, selection: Selection[Any] | None, fate: Fate, monitor: Monitor | None, lessons: Lessons
    ) -> Outcome:
        """Train those that will answer, and move the global model."""
        sim, state = self._sim, self._state
        estimates = None if selection is None else selection.estimates
        if len(fate.answered) == 0 and estimates is None:
            return Outcome(state.weights, state.algorithm, np.zeros(0))
        weights = sim.federation.num_examples[fate.answered].astype(np.float64)
        if selection is not None and selection.weights is not None:
            weights = selection.weights[np.searchsorted(selection.cohort, fate.answered)]
        work = Work(fate.answered, self._plan(fate.answered, fate.steps), weights, estimates)
        if estimates is not None:
            work = dataclasses.replace(work, estimated_steps=sim._steps[estimates.clients])
        rule = sim.algorithm.rule(self._base, state.algorithm, fate.answered, monitor)
        outcome = sim.algorithm.round(sim.engine, state.algorithm, state.weights, work, rule, lessons.watch)
        bad = np.flatnonzero(~np.isfinite(outcome.losses))
        if bad.size:
            raise self._diverged(
                f"the training loss of client {fate.answered[bad[0]]} is {outcome.losses[bad[0]]}"
            )
        if not math.isfinite(outcome.weights.parameters.sum().item()):
            raise self._diverged("the global model has weights that are no finite numbers")
        return outcome

    def _plan(self, clients: NDArray[np.int64], steps: NDArray[np.int64] | None = None) -> Plan:
        """Draw the batches of some clients; as many steps as the schedule says, where none are given."""
        sim = self._sim
        return draw_plan(
            sim.federation.partition,
            clients,
            sim._steps[clients] if steps is None else steps,
            batch_size=sim.training.batch_size,
            seed=sim.seed,
            round_index=self._index,
        )

    def _information(self, monitor: Monitor | None) -> SimulatedInformation:
        sim, state = self._sim, self._state
        return SimulatedInformation(
            federation=sim.federation,
            statistics=sim.statistics,
            seconds=sim._seconds,
            engine=sim.engine,
            weights=state.weights,
            algorithm=sim.algorithm,
            state=state.algorithm,
            base=self._base,
            monitor=monitor,
            plan=self._plan,
        )

    def _monitor(self) -> Monitor | None:
        sim = self._sim
        if sim.layer is None or not sim.algorithm.local.monitors:
            return None
        return AuxiliaryMonitor(sim.engine, self._state.weights, sim.federation.auxiliary, sim.layer)

    def _record(
        self,
        available: NDArray[np.int64],
        selection: Selection[Any] | None,
        fate: Fate,
        outcome: Outcome,
        information: SimulatedInformation,
    ) -> RoundRecord:
        sim = self._sim
        cohort = available[:0] if selection is None else selection.cohort
        pooled = sim.federation.label_counts[cohort].sum(axis=0).tolist()
        up, down = traffic(
            cohort,
            fate.answered,
            information.asked,
            model_bytes=_bytes(self._state.weights),
            vectors=sim.algorithm.local.vectors,
        )
        if self._index == 1:
            up, down = up + sim.statistics.bytes_up, down + sim.statistics.bytes_down
        return RoundRecord(
            round=self._index,
            available=len(available),
            cohort=tuple(cohort.tolist()),
            answered=tuple(fate.answered.tolist()),
            failed=tuple(fate.failed.tolist()),
            qcid=qcid_of_pooled(pooled) if len(cohort) else None,
            cohort_label_counts=tuple(pooled) if len(cohort) else None,
            loss=float(outcome.losses.mean()) if len(outcome.losses) else None,
            asked={} if selection is None else {str(need): n for need, n in selection.asked.items()},
            bytes_up=up,
            bytes_down=down,
            simulated_seconds=fate.seconds,
            seconds=self._clock,  # the rest of the round is still to come into it
        )

    def _timed(self, part: str) -> None:
        now = time.perf_counter()
        self._clock[part] = self._clock.get(part, 0.0) + now - self._lap
        self._lap = now

    def _diverged(self, what: str) -> DivergedError:
        return DivergedError(
            f"training diverged in round {self._index}: {what}; lower training.learning_rate"
            f" (it is {self._base.learning_rate:g} here) or server.rule's, and start anew"
        )


def _bytes(weights: Weights) -> int:
    return BYTES_OF_WEIGHT * (weights.parameters.numel() + weights.buffers.numel())


def _examples_used(
    num_examples: NDArray[np.int64], steps: NDArray[np.int64], batch_size: int
) -> NDArray[np.int64]:
    """How many examples each client goes through in so many steps."""
    epoch = np.maximum(-(-num_examples // batch_size), 1)
    whole, rest = np.divmod(steps, epoch)
    used: NDArray[np.int64] = whole * num_examples + np.minimum(rest * batch_size, num_examples)
    return used
