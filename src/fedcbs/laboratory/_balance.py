"""The label-only laboratory: any selectors over rounds of availability, without training.

Everything random is a function of the seed: the population, who is available in a round, how long clients take, and what
a selector draws. All selectors see the same of it, and none sees another, so neither their order nor their number matters.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs import _checks
from fedcbs.availability import Availability, parse_availability
from fedcbs.errors import InvalidArgumentError
from fedcbs.laboratory._durations import LognormalDurations, parse_durations
from fedcbs.laboratory._population import Population, as_population
from fedcbs.laboratory._results import BalanceResult
from fedcbs.laboratory._suitable import named_selectors
from fedcbs.laboratory._tally import Tally
from fedcbs.selectors import Feedback, LabelInformation, Need, Round, Selector, State

__all__ = ["balance"]

Progress = Callable[[int, int], None]


def balance(
    selectors: Iterable[str] | Mapping[str, Selector[Any]],
    clients: Population | ArrayLike,
    *,
    availability: Availability | str = "uniform:0.3",
    cohort_size: int = 10,
    rounds: int = 100,
    seeds: int = 4,
    seed: int = 0,
    durations: LognormalDurations | str = "lognormal:0.5",
    progress: Progress | None = None,
) -> BalanceResult:
    """Run selectors over rounds of availability, on labels alone, and say how balanced their cohorts are.

    Where fewer clients are available than a cohort is to have, it has as many as there are; a round in which nobody is
    available is skipped. Clients without examples are left out of every round.

    Parameters
    ----------
    selectors
        Names, with options as in ``fedcbs-exact:sweeps=5``, or selectors by name. Those that need losses or updates
        are refused.
    clients
        A population to draw from, one for each seed, or label counts (clients x classes).
    availability
        Who can be picked, and when.
    cohort_size
        How many clients to pick in a round.
    rounds
        How many rounds each seed has.
    seeds
        How many seeds: `seed` and those that follow it.
    seed
        The first seed.
    durations
        How long clients take, for selectors that look at it.
    progress
        Called after every round with the number of rounds done, over all seeds, and their total.

    Examples
    --------
    >>> result = balance(["uniform"], [[9, 0], [0, 9], [9, 0]], availability="always", cohort_size=2, rounds=3, seeds=1)
    >>> sorted(set(result["uniform"].qcid.ravel().tolist())) in ([0.0], [0.5], [0.0, 0.5])
    True
    """
    plan = _Plan(
        selectors=named_selectors(selectors),
        population=as_population(clients),
        availability=parse_availability(availability) if isinstance(availability, str) else availability,
        durations=parse_durations(durations) if isinstance(durations, str) else durations,
        cohort_size=_checks.integer(cohort_size, "cohort_size", minimum=1),
        rounds=_checks.integer(rounds, "rounds", minimum=1),
        first_seed=_checks.integer(seed, "seed", minimum=0),
        num_seeds=_checks.integer(seeds, "seeds", minimum=1),
    )
    book = _Book(plan)
    for number in range(plan.num_seeds):
        _run_seed(plan, number, book, progress or _silent)
    return book.result()


@dataclasses.dataclass(frozen=True, eq=False)
class _Plan:
    """What is to be run; checked."""

    selectors: Mapping[str, Selector[Any]]
    population: Population
    availability: Availability
    durations: LognormalDurations
    cohort_size: int
    rounds: int
    first_seed: int
    num_seeds: int

    def __post_init__(self) -> None:
        if self.cohort_size > self.population.num_clients:
            raise InvalidArgumentError(
                f"cohort_size={self.cohort_size} but the population has {self.population.num_clients} clients; lower it"
            )

    @property
    def use_durations(self) -> bool:
        """Whether any selector looks at the time that clients take, before a round or after it."""
        return any(Need.DURATIONS in chosen.needs | chosen.learns for chosen in self.selectors.values())


class _Book:
    """All records of a run."""

    def __init__(self, plan: _Plan) -> None:
        self._plan = plan
        shape = (plan.num_seeds, plan.rounds)
        self.tallies = {name: Tally(*shape, plan.population.num_classes) for name in plan.selectors}
        self.available = np.zeros(shape, dtype=np.int64)
        self.target_sizes = np.zeros(shape, dtype=np.int64)
        self.empty_clients = np.zeros(plan.num_seeds, dtype=np.int64)
        self.reachable = np.zeros(plan.num_seeds)

    def result(self) -> BalanceResult:
        """Return what was written down."""
        plan = self._plan
        return BalanceResult(
            selectors={name: tally.result() for name, tally in self.tallies.items()},
            seeds=tuple(range(plan.first_seed, plan.first_seed + plan.num_seeds)),
            num_clients=plan.population.num_clients,
            available=self.available,
            target_sizes=self.target_sizes,
            cohort_size=plan.cohort_size,
            empty_clients=self.empty_clients,
            reachable=self.reachable,
        )


class _Clients:
    """The clients of one seed: what is known of them, who is available when, and how long they take."""

    def __init__(self, plan: _Plan, seed: int) -> None:
        self.seed = seed
        self.label_counts = plan.population.label_counts(seed)
        self._rule = plan.availability.bind(self.label_counts)
        num_examples = self.label_counts.sum(axis=1)
        self.filled: NDArray[np.bool_] = num_examples > 0
        self.has_empty = not bool(self.filled.all())
        self._durations = plan.durations if plan.use_durations else None
        expected = None if self._durations is None else self._durations.expected(num_examples, seed)
        self._expected = None if expected is None else expected.sum(axis=1)
        self.information = LabelInformation(self.label_counts, durations=expected)
        self.information.gram()  # made once for all selectors; whoever came first would pay for it

    def available(self, round_index: int) -> NDArray[np.int64]:
        """Return who can be picked in a round."""
        ids = self._rule.available(round_index, num_clients=len(self.filled), seed=self.seed)
        return ids[self.filled[ids]] if self.has_empty else ids

    def measured(self, round_index: int, available: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Return the seconds that each available client would take in a round, if anyone wants to know."""
        if self._durations is None or self._expected is None:
            return None
        factors = self._durations.factors(len(available), seed=self.seed, round_index=round_index)
        seconds: NDArray[np.float64] = self._expected[available] * factors
        return seconds


def _run_seed(plan: _Plan, number: int, book: _Book, progress: Progress) -> None:
    """Run all rounds of a seed and write them down."""
    clients = _Clients(plan, plan.first_seed + number)
    states: dict[str, Any] = {
        name: chosen.init(plan.population.num_clients) for name, chosen in plan.selectors.items()
    }
    ever_available = np.zeros(plan.population.num_clients, dtype=bool)
    for index in range(plan.rounds):
        available = clients.available(index + 1)
        ever_available[available] = True
        _run_round(plan, clients, (number, index), available, states, book)
        progress(number * plan.rounds + index + 1, plan.num_seeds * plan.rounds)
    if not clients.filled.any():
        raise InvalidArgumentError(
            f"no client of the population has an example (seed {clients.seed}), so there is nothing to balance; check the label counts"
        )
    if not book.target_sizes[number].any():
        raise InvalidArgumentError(
            f"availability={plan.availability!r} lets no client with examples be available in any of {plan.rounds} rounds"
            f" (seed {clients.seed}); make clients available more often, or run more rounds"
        )
    book.empty_clients[number] = (~clients.filled).sum()
    book.reachable[number] = ever_available[clients.filled].mean()
    for name, state in states.items():
        book.tallies[name].seed(number, state.times_selected[clients.filled])


def _run_round(
    plan: _Plan,
    clients: _Clients,
    place: tuple[int, int],
    available: NDArray[np.int64],
    states: dict[str, Any],
    book: _Book,
) -> None:
    """Let every selector pick its cohort of one round; `states` are replaced by those after it."""
    size = min(plan.cohort_size, len(available))
    book.available[place], book.target_sizes[place] = len(available), size
    if size == 0:
        return
    number = place[1] + 1
    round_ = Round(
        clients.information, cohort_size=size, round_index=number, available=available, seed=clients.seed
    )
    measured = clients.measured(number, available)
    for name, selector in plan.selectors.items():
        cohort, seconds, states[name] = _run_selector(selector, states[name], round_, measured)
        book.tallies[name].round(place, clients.label_counts[cohort], seconds)


def _run_selector(
    selector: Selector[Any], state: State, round_: Round, measured: NDArray[np.float64] | None
) -> tuple[NDArray[np.int64], float, State]:
    """Let a selector choose, time that, and tell it what came back."""
    start = time.perf_counter()
    selection = selector.select(state, round_)
    seconds = time.perf_counter() - start
    durations = None if measured is None else measured[np.searchsorted(round_.available, selection.cohort)]
    feedback = Feedback(answered=selection.cohort, durations=durations)
    return selection.cohort, seconds, selector.observe(selection.state, feedback)


def _silent(done: int, total: int) -> None:
    """Report to nobody."""
