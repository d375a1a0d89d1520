"""From runs to a document: what was measured, beside the paper's numbers, and whether orders held."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from fedcbs.experiments._catalog import paper_numbers
from fedcbs.experiments._definition import Experiment, Scale, Setting
from fedcbs.experiments._jobs import Place, job_of, places
from fedcbs.experiments._measures import MEASURES, Measure
from fedcbs.report import RunData, load_run

__all__ = ["Found", "cut", "document", "found_runs", "mean_and_std"]

LEAST = 0.5
"""Share of the rounds of its setting's longest run that a run must have done to be counted."""

Numbers = Mapping[tuple[str, str, str], Sequence[float]]
"""One number for each run that counts, by measure, setting and method."""


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
    missing
        How many are not there, or not far enough.
    diverged
        How many diverged; they count with what they had.
    """

    runs: Mapping[tuple[str, str], list[RunData]]
    rounds: Mapping[str, int]
    missing: int
    diverged: int


def found_runs(experiment: Experiment, scale: Scale, out: Path) -> Found:
    """Read the runs of an experiment at a scale, as many as there are.

    Parameters
    ----------
    experiment, scale
        Which.
    out
        Folder of all experiments.
    """
    there: dict[Place, RunData] = {}
    wanted = places(experiment, scale)
    for place in wanted:
        folder = job_of(experiment, scale, place, out).folder
        if (folder / "rounds.jsonl").is_file():
            there[place] = load_run(folder)
    for setting in experiment.settings_at(scale):
        of_setting = {place: run for place, run in there.items() if place.setting == setting}
        longest = max(map(_rounds_done, of_setting.values()), default=0)
        for place, run in of_setting.items():
            if not _whole(run, place, scale) and _rounds_done(run) < max(LEAST * longest, 1):
                del there[place]
    begun = {place.setting.name for place in there}
    rounds = {s.name: _common(there, s, scale) for s in experiment.settings_at(scale) if s.name in begun}
    runs: dict[tuple[str, str], list[RunData]] = {}
    for place, run in there.items():
        runs.setdefault((place.setting.name, place.method.name), []).append(
            cut(run, rounds[place.setting.name])
        )
    diverged = sum(run.status == "diverged" for run in there.values())
    return Found(runs, rounds, len(wanted) - len(there), diverged)


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


def cut(run: RunData, rounds: int) -> RunData:
    """Return a run up to a round."""
    kept = int(np.searchsorted(run.rounds, rounds, side="right"))
    if kept == len(run.rounds):
        return run
    return dataclasses.replace(
        run,
        rounds=run.rounds[:kept],
        columns={name: values[:kept] for name, values in run.columns.items()},
        cohorts=run.cohorts[:kept],
        failed=run.failed[:kept],
        per_class=None if run.per_class is None else run.per_class[:kept],
        cohort_labels=None if run.cohort_labels is None else run.cohort_labels[:kept],
    )


def numbers_of(experiment: Experiment, scale: Scale, found: Found) -> Numbers:
    """Return one number for each run, by measure, setting and method."""
    return {
        (measure, setting.name, method.name): [
            MEASURES[measure].value(run, setting.target)
            for run in found.runs.get((setting.name, method.name), ())
        ]
        for measure in experiment.measures
        for setting in experiment.settings_at(scale)
        for method in experiment.methods_at(scale)
    }


def document(
    experiment: Experiment,
    scale: Scale,
    numbers: Numbers,
    *,
    rounds: Mapping[str, int],
    missing: int,
    diverged: int = 0,
) -> dict[str, Any]:
    """Return all that an experiment found, ready for JSON.

    Parameters
    ----------
    experiment, scale
        Which.
    numbers
        What was measured.
    rounds
        For each setting, how many rounds were compared.
    missing, diverged
        Runs that are not there, and that diverged.
    """
    tables = [_table(experiment, scale, measure, numbers) for measure in experiment.measures]
    return {
        **about(experiment, scale, missing),
        "rounds": dict(rounds),
        "diverged": diverged,
        "tables": tables,
        "expectations": [
            entry for order in experiment.expect for entry in _expectation(order, experiment, scale, numbers)
        ],
    }


def about(experiment: Experiment, scale: Scale, missing: int) -> dict[str, Any]:
    """Return what an experiment is, and how much of it was run."""
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "paper": experiment.paper,
        "remark": experiment.remark,
        "scale": {
            "name": scale.name,
            "rounds": scale.rounds,
            "seeds": scale.seeds,
            "seeds_of": dict(scale.seeds_of),
            "stop_at_target": scale.stop_at_target,
        },
        "missing": missing,
    }


def _table(experiment: Experiment, scale: Scale, measure: str, numbers: Numbers) -> dict[str, Any]:
    own = MEASURES[measure]
    printed = paper_numbers(experiment.numbers[measure]) if measure in experiment.numbers else {}
    rows = []
    for setting in experiment.settings_at(scale):
        cells = []
        for method in experiment.methods_at(scale):
            values = numbers[measure, setting.name, method.name]
            wanted = scale.seeds_of.get(method.name, scale.seeds)
            paper = printed.get(setting.numbers, {}).get(method.paper) if method.paper else None
            cells.append(_cell(method.name, method.title, values, wanted, paper))
        target = {} if setting.target is None else {"target": setting.target}
        rows.append(
            {
                "setting": setting.name,
                "title": setting.title,
                "x": setting.x,
                **target,
                "cells": cells,
                "order": _order(own, cells),
            }
        )
    return {"measure": measure, "title": own.title, "unit": own.unit, "better": own.better, "rows": rows}


def _cell(
    name: str, title: str, values: Sequence[float], wanted: int, paper: tuple[float, float] | None
) -> dict[str, Any]:
    """One method in one setting."""
    held = [value for value in values if math.isfinite(value)]
    mean, std = mean_and_std(held)
    return {
        "method": name,
        "title": title,
        "ours": _json(mean),
        "std": _json(std),
        "values": [_json(value) for value in values],
        "runs": len(values),
        "wanted": wanted,
        "held": len(held),
        **({} if paper is None else {"paper": paper[0], "paper_std": paper[1]}),
    }


def mean_and_std(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and sample standard deviation; NaN of nothing."""
    if not values:
        return math.nan, math.nan
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _json(value: float) -> float | None:
    return float(f"{value:.8g}") if math.isfinite(value) else None


def _rank(cell: Mapping[str, Any], better: int) -> float | None:
    """Where a method stands: less is better. A target that not all runs reached is worse than any that they did."""
    if not cell["runs"]:
        return None
    if cell["held"] < cell["runs"]:
        return math.inf
    return -better * float(cell["ours"])


def _order(measure: Measure, cells: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Compare the order of every two methods with that of the paper's numbers."""
    pairs = 0
    reversed_: list[list[str]] = []
    close: list[list[str]] = []
    printed = [cell for cell in cells if "paper" in cell and _rank(cell, measure.better) is not None]
    for first, second in itertools.combinations(printed, 2):
        if first["paper"] == second["paper"]:
            continue
        good, bad = (
            (first, second) if -measure.better * (first["paper"] - second["paper"]) < 0 else (second, first)
        )
        ours = (_rank(good, measure.better), _rank(bad, measure.better))
        assert ours[0] is not None
        assert ours[1] is not None
        if math.isinf(ours[0]) and math.isinf(ours[1]):
            continue  # neither reached the target: there is no order to compare
        pairs += 1
        if ours[0] < ours[1]:
            continue
        names = [good["title"], bad["title"]]
        near = (
            good["ours"] is not None
            and bad["ours"] is not None
            and abs(good["ours"] - bad["ours"]) <= math.hypot(good["std"], bad["std"])
        )
        (close if near else reversed_).append(names)
    return {"pairs": pairs, "reversed": reversed_, "close": close} if pairs else None


def _expectation(order: Any, experiment: Experiment, scale: Scale, numbers: Numbers) -> list[dict[str, Any]]:
    """Whether an order that is to hold does, in each setting that it is about."""
    names = {method.name: method.title for method in experiment.methods}
    found = []
    for setting in experiment.settings_at(scale):
        if order.setting not in ("all settings", setting.name):
            continue
        if not all((order.measure, setting.name, m) in numbers for m in (order.better, order.worse)):
            continue
        cells = [
            _cell(m, names[m], numbers[order.measure, setting.name, m], scale.seeds, None)
            for m in (order.better, order.worse)
        ]
        ranks = [_rank(cell, MEASURES[order.measure].better) for cell in cells]
        known = ranks[0] is not None and ranks[1] is not None
        found.append(
            {
                "measure": order.measure,
                "setting": setting.title,
                "better": names[order.better],
                "worse": names[order.worse],
                "held": (ranks[0] < ranks[1]) if known else None,  # type: ignore[operator]  # both are numbers
                "numbers": [cell["ours"] for cell in cells],
            }
        )
    return found
