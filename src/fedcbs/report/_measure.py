"""What a report draws of a group of runs: means over seeds with bands, targets, participation, label shares."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedcbs.laboratory import gini
from fedcbs.report._groups import Group
from fedcbs.report._run import RunData

__all__ = [
    "Band",
    "Participation",
    "Reached",
    "axes_of",
    "band",
    "class_shares",
    "default_targets",
    "last_per_class",
    "longest",
    "mean_and_std",
    "median_cohort",
    "participation",
    "per_class_of",
    "reached",
    "running_mean",
    "thin",
    "total",
]

Floats = NDArray[np.float64]

POINTS = 400
"""Points of a line at most; a screen shows no more."""

CLIENT_BINS, ROUND_BINS = 100, 60
"""Size of a heat map of participation at most."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Band:
    """A number over rounds: its mean over seeds, their standard deviation, and how many there are.

    Parameters
    ----------
    rounds
        Rounds in which at least one seed has it.
    mean, std, seeds
        Over the seeds that have it in that round; the sample standard deviation, 0 of a single seed.
    """

    rounds: NDArray[np.int64]
    mean: Floats
    std: Floats
    seeds: NDArray[np.int64]

    def at(self, places: NDArray[np.int64]) -> Band:
        """Return it at some of its rounds."""
        return Band(self.rounds[places], self.mean[places], self.std[places], self.seeds[places])


def band(group: Group, value: str | Callable[[RunData], Floats]) -> Band:
    """Return a number of a group's runs over rounds.

    Parameters
    ----------
    group
        The runs.
    value
        Name of a column, or what makes one number a round of a run.
    """
    columns = [(run.columns[value] if isinstance(value, str) else value(run)) for run in group.runs]
    held = [np.isfinite(column) for column in columns]
    parts = [run.rounds[mask] for run, mask in zip(group.runs, held, strict=True)]
    rounds = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *parts]))
    table = np.full((len(columns), len(rounds)), np.nan)
    for row, part, column, mask in zip(table, parts, columns, held, strict=True):
        row[np.searchsorted(rounds, part)] = column[mask]
    mean, std, seeds = _over_seeds(table)
    return Band(rounds, mean, std, seeds)


def _over_seeds(table: Floats) -> tuple[Floats, Floats, NDArray[np.int64]]:
    held = np.isfinite(table)
    seeds = held.sum(axis=0)
    mean = np.where(held, table, 0.0).sum(axis=0) / np.maximum(seeds, 1)
    squares = np.where(held, (table - mean) ** 2, 0.0).sum(axis=0)
    return mean, np.sqrt(squares / np.maximum(seeds - 1, 1)), seeds


def running_mean(values: Floats, window: int) -> Floats:
    """Mean over the last `window` rounds, or over as many as there are; rounds without a number do not count.

    >>> running_mean(np.array([1.0, 3.0, np.nan, 5.0]), 2)
    array([1., 2., 3., 5.])
    """
    held = np.isfinite(values)
    sums = np.concatenate([[0.0], np.where(held, values, 0.0).cumsum()])
    numbers = np.concatenate([[0], held.cumsum()])
    starts = np.maximum(np.arange(len(values)) + 1 - window, 0)
    counts = numbers[1:] - numbers[starts]
    return np.where(counts > 0, np.maximum(sums[1:] - sums[starts], 0.0) / np.maximum(counts, 1), np.nan)


def thin(found: Band, points: int = POINTS) -> Band:
    """Return every k-th round of it, so that at most about `points` remain; with the best, and the last.

    >>> many = np.arange(1, 3001)
    >>> len(thin(Band(many, many / 3000, many * 0.0, many)).rounds) <= 402
    True
    """
    length = len(found.rounds)
    if length <= points:
        return found
    kept = np.arange(0, length, math.ceil(length / points))
    return found.at(np.union1d(kept, [length - 1, int(np.nanargmax(found.mean))]))


def axes_of(group: Group, rounds: NDArray[np.int64]) -> dict[str, Floats]:
    """Return what the runs had cost by each round, mean over seeds: seconds, megabytes, simulated seconds.

    An axis that the runs know nothing of is left out.
    """
    axes: dict[str, Floats] = {}
    recorded = [run for run in group.runs if run.rounds.size]
    for name, columns, unit in (
        ("seconds", ("total_seconds",), 1.0),
        ("megabytes", ("bytes_up", "bytes_down"), 1e6),
        ("simulated_seconds", ("simulated_seconds",), 1.0),
    ):
        spent = [
            np.interp(rounds, run.rounds, np.nancumsum(sum(run.columns[c] for c in columns)) / unit)
            for run in recorded
            if all(np.isfinite(run.columns[c]).any() for c in columns)
        ]
        if recorded and len(spent) == len(recorded):
            axes[name] = _mean_spent(np.array(spent), rounds, recorded)
    return axes


def _mean_spent(spent: Floats, rounds: NDArray[np.int64], runs: Sequence[RunData]) -> Floats:
    """What was spent by each round, runs x rounds, as a mean of what each step cost the runs that got there.

    A mean of the sums would count a run that ended early as one that goes on for nothing.
    """
    steps = np.diff(spent, axis=1, prepend=0.0)
    there = rounds <= np.array([[run.last_round] for run in runs])
    means = np.where(there, steps, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    return np.asarray(np.cumsum(means), dtype=np.float64)


def mean_and_std(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and the sample standard deviation of what is finite; NaN where there is too little of it.

    >>> mean_and_std([1.0, 3.0, float("nan")])
    (2.0, 1.4142135623730951)
    """
    found = np.array([value for value in values if math.isfinite(value)])
    if not found.size:
        return math.nan, math.nan
    return float(found.mean()), float(found.std(ddof=1)) if found.size > 1 else math.nan


@final
@dataclasses.dataclass(frozen=True)
class Reached:
    """How a group came to a target accuracy.

    Parameters
    ----------
    rounds
        The first round with it, of each run that reached it.
    runs
        How many runs there are.
    """

    rounds: tuple[int, ...]
    runs: int

    @property
    def mean(self) -> float:
        """Mean over the runs that reached it."""
        return mean_and_std([float(r) for r in self.rounds])[0]

    @property
    def std(self) -> float:
        """Sample standard deviation over the runs that reached it."""
        return mean_and_std([float(r) for r in self.rounds])[1]


def reached(group: Group, target: float) -> Reached:
    """Return when the runs of a group first had an accuracy of at least `target`."""
    rounds = [run.first_round_with(target) for run in group.runs]
    return Reached(tuple(found for found in rounds if found is not None), len(group.runs))


def default_targets(groups: Sequence[Group]) -> list[float]:
    """Return targets for a table: those the runs were given, or else whole percents below the best that all reach.

    A target that no run reached, and all of them were given, stays in the table: that too is a result.
    """
    given = sorted({target for group in groups for run in group.runs for target in _targets(run)})
    if given:
        return given
    best = [
        max((value for run in group.runs if math.isfinite(value := _best(run))), default=math.nan)
        for group in groups
    ]
    common = min((value for value in best if math.isfinite(value)), default=math.nan)
    if not math.isfinite(common):
        return []
    wanted = [math.floor(100 * share * common + 1e-9) / 100 for share in (0.8, 0.95, 1.0)]
    return sorted({target for target in wanted if target > 0})


def _targets(run: RunData) -> list[float]:
    targets = run.summary.get("targets")
    found = []
    for text in targets if isinstance(targets, dict) else ():
        try:
            found.append(float(text))
        except ValueError:
            continue
    return [target for target in found if 0 < target <= 1]


def _best(run: RunData) -> float:
    accuracy = run.columns["accuracy"]
    return float(np.nanmax(accuracy)) if np.isfinite(accuracy).any() else math.nan


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Participation:
    """Who was selected when, in one run.

    Parameters
    ----------
    share
        Share of the rounds of a bin in which a client of a bin was selected, bins of clients x bins of rounds.
    clients
        The first client's place of each bin, and their number, in the order of the rows.
    rounds
        The middle round of each bin.
    main_class
        For each bin of clients, the class of which the middle one has most; None where labels are not known.
    gini
        How uneven it was: 0 all alike, towards 1 few take all.
    coverage
        Share of the clients that were ever selected.
    """

    share: Floats
    clients: NDArray[np.int64]
    rounds: Floats
    main_class: NDArray[np.int64] | None
    gini: float
    coverage: float


def longest(group: Group) -> RunData:
    """Return the run of a group with the most rounds, the first of such."""
    return max(group.runs, key=lambda run: len(run.rounds))


def participation(run: RunData) -> Participation | None:
    """Return who was selected in a run; None where it does not say. Clients are sorted by the class they have most of."""
    number, rounds = run.num_clients, len(run.rounds)
    if number == 0 or rounds == 0 or not any(cohort.size for cohort in run.cohorts):
        return None
    order, main = np.arange(number), None
    if run.label_counts is not None:
        main = run.label_counts.argmax(axis=1)
        share = run.label_counts.max(axis=1) / np.maximum(run.label_counts.sum(axis=1), 1)
        order = np.lexsort((-share, main))
    place = np.empty(number, dtype=np.int64)
    place[order] = np.arange(number)
    client_bins, round_bins = min(number, CLIENT_BINS), min(rounds, ROUND_BINS)
    selected = np.zeros((client_bins, round_bins))
    for index, cohort in enumerate(run.cohorts):
        cohort = cohort[cohort < number]
        np.add.at(selected[:, index * round_bins // rounds], place[cohort] * client_bins // number, 1)
    clients = -(-np.arange(client_bins + 1) * number // client_bins)  # place p is in bin p * bins // number
    edges = -(-np.arange(round_bins + 1) * rounds // round_bins)
    times = run.times_selected()
    return Participation(
        share=selected / np.diff(clients)[:, None] / np.diff(edges),
        clients=clients,
        rounds=(run.rounds[edges[:-1]] + run.rounds[edges[1:] - 1]) / 2,
        main_class=None if main is None else main[order[(clients[:-1] + clients[1:] - 1) // 2]],
        gini=gini(np.bincount(times)),
        coverage=float((times > 0).mean()),
    )


def class_shares(group: Group) -> Floats | None:
    """Return, for each class, percentiles 10, 50 and 90 of its share in the cohorts of all rounds and seeds."""
    parts = [_shares(run.cohort_labels) for run in group.runs if run.cohort_labels is not None]
    width = max((part.shape[1] for part in parts if part.size), default=0)
    parts = [part for part in parts if part.size and part.shape[1] == width]
    return np.percentile(np.concatenate(parts), [10, 50, 90], axis=0) if parts else None


def median_cohort(group: Group) -> tuple[int, Floats] | None:
    """Return the round of the first run whose cohort has the median QCID, with the label shares of that cohort."""
    for run in group.runs:
        if run.cohort_labels is None or not _shares(run.cohort_labels).size:
            continue
        total = run.cohort_labels.sum(axis=1)
        rows = np.flatnonzero(np.isfinite(total) & (total > 0))
        shares = run.cohort_labels[rows] / total[rows, None]
        imbalance = ((shares - 1 / shares.shape[1]) ** 2).sum(axis=1)
        middle = int(np.argsort(imbalance, kind="stable")[len(rows) // 2])
        return int(run.rounds[rows[middle]]), shares[middle]
    return None


def _shares(counts: Floats) -> Floats:
    total = counts.sum(axis=1)
    held = np.isfinite(total) & (total > 0)
    return np.asarray(counts[held] / total[held, None])


def total(run: RunData, column: str) -> float:
    """Return the sum of a column over the rounds; NaN where no round has it."""
    values = run.columns[column]
    return float(np.nansum(values)) if np.isfinite(values).any() else math.nan


def last_per_class(run: RunData) -> Floats | None:
    """Return the accuracy of each class at the last evaluation."""
    if run.per_class is None:
        return None
    rows = np.flatnonzero(np.isfinite(run.per_class).any(axis=1))
    return run.per_class[rows[-1]] if rows.size else None


def per_class_of(group: Group) -> Floats | None:
    """Return the accuracy of each class at the last evaluation, mean over seeds."""
    rows = [row for run in group.runs if (row := last_per_class(run)) is not None]
    rows = [row for row in rows if len(row) == len(rows[0])]
    if not rows:
        return None
    return np.array([mean_and_std(column)[0] for column in np.transpose(rows).tolist()])
