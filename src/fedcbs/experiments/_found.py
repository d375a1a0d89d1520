"""The runs of an experiment that are there, and which of them count."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import final

from fedcbs.experiments._definition import Experiment, Scale, Setting
from fedcbs.experiments._jobs import Place, job_of, places
from fedcbs.report import RunData, load_run

__all__ = ["Found", "LeftOut", "found_runs"]

LEAST = 0.5
"""Share of the rounds of its setting's longest run that a run must have done to be counted.

A run that has just begun would otherwise cut all others down to its few rounds.
"""


@final
@dataclasses.dataclass(frozen=True)
class LeftOut:
    """A run that has too few rounds to be compared.

    Parameters
    ----------
    setting, method, seed
        Which.
    rounds
        How many it has done.
    of
        How many the longest run of its setting has done.
    """

    setting: str
    method: str
    seed: int
    rounds: int
    of: int


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Found:
    """The runs of an experiment that are there.

    Parameters
    ----------
    runs
        Those that count, by setting and method, each cut to what the runs of its setting have in common.
    rounds
        For each setting with any runs, how many rounds that is.
    wanted
        How many there were to be, by setting and method: those of the scale, and others that were begun.
    left_out
        Those that are not far enough to be compared.
    other_seeds
        Seeds that the scale does not have.
    diverged
        How many diverged; they count with what they had.
    """

    runs: Mapping[tuple[str, str], list[RunData]]
    rounds: Mapping[str, int]
    wanted: Mapping[tuple[str, str], int]
    left_out: Sequence[LeftOut]
    other_seeds: Sequence[int]
    diverged: int

    @property
    def missing(self) -> int:
        """How many are not there, or are left out."""
        return sum(self.wanted.values()) - sum(map(len, self.runs.values()))


def found_runs(experiment: Experiment, scale: Scale, out: Path) -> Found:
    """Read the runs of an experiment at a scale, as many as there are, whatever their seeds.

    Parameters
    ----------
    experiment, scale
        Which.
    out
        Folder of all experiments.
    """
    of_scale = places(experiment, scale)
    others = _other_places(experiment, scale, out)
    there: dict[Place, RunData] = {}
    for place in sorted([*of_scale, *others], key=lambda place: place.seed):
        folder = job_of(experiment, scale, place, out).folder
        run = load_run(folder) if (folder / "rounds.jsonl").is_file() else None
        if run is not None and run.rounds.size:
            there[place] = run
    left_out = _leave_out(experiment, scale, there)
    begun = {place.setting.name for place in there}
    rounds = {s.name: _common(there, s, scale) for s in experiment.settings_at(scale) if s.name in begun}
    runs: dict[tuple[str, str], list[RunData]] = {}
    for place, run in there.items():
        runs.setdefault(_cell_of(place), []).append(run.up_to(rounds[place.setting.name]))
    return Found(
        runs,
        rounds,
        Counter(_cell_of(place) for place in [*of_scale, *others]),
        left_out,
        sorted({place.seed for place in others}),
        sum(run.status == "diverged" for run in there.values()),
    )


def _cell_of(place: Place) -> tuple[str, str]:
    return place.setting.name, place.method.name


def _other_places(experiment: Experiment, scale: Scale, out: Path) -> list[Place]:
    """Places of runs that are there with seeds that the scale does not have."""
    found = []
    for setting in experiment.settings_at(scale):
        for method in experiment.methods_at(scale):
            folder = job_of(experiment, scale, Place(setting, method, 0), out).folder.parent
            for file in folder.glob("seed-*/rounds.jsonl"):
                digits = file.parent.name.removeprefix("seed-")
                seed = int(digits) if digits.isdecimal() else -1
                if seed >= scale.seeds_of.get(method.name, scale.seeds) and digits == str(seed):
                    found.append(Place(setting, method, seed))
    return found


def _leave_out(experiment: Experiment, scale: Scale, there: dict[Place, RunData]) -> list[LeftOut]:
    """Take out what is not far enough to be compared, and return it."""
    found = []
    for setting in experiment.settings_at(scale):
        own = {place: run for place, run in there.items() if place.setting == setting}
        longest = max(map(_rounds_done, own.values()), default=0)
        for place, run in own.items():
            if not _whole(run, place, scale) and _rounds_done(run) < LEAST * longest:
                found.append(LeftOut(*_cell_of(place), place.seed, _rounds_done(run), longest))
                del there[place]
    return found


def _rounds_done(run: RunData) -> int:
    return int(run.rounds[-1]) if run.rounds.size else 0


def _whole(run: RunData, place: Place, scale: Scale) -> bool:
    """Whether there is nothing left to do: all rounds done, the target reached where that ends a run, or diverged."""
    target = place.setting.target
    stopped = scale.stop_at_target and target is not None and run.first_round_with(target) is not None
    return stopped or run.status == "diverged" or _rounds_done(run) >= scale.rounds


def _common(there: Mapping[Place, RunData], setting: Setting, scale: Scale) -> int:
    """The rounds that all runs of a setting have, besides those with nothing left to do."""
    going = [
        _rounds_done(run)
        for place, run in there.items()
        if place.setting == setting and not _whole(run, place, scale)
    ]
    return min([scale.rounds, *going])
