"""From runs to a document: what was measured, beside the paper's numbers, and whether orders held."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from fedcbs.experiments._catalog import paper_numbers
from fedcbs.experiments._changes import changed_dataset
from fedcbs.experiments._definition import Experiment, Scale
from fedcbs.experiments._found import Found, LeftOut
from fedcbs.experiments._measures import MEASURES
from fedcbs.experiments._orders import compared, order_of

__all__ = ["about", "document", "mean_and_std", "numbers_of"]

Numbers = Mapping[tuple[str, str, str], Sequence[float]]
"""One number for each run that counts, by measure, setting and method."""


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
    found: Found | None = None,
    changed: Sequence[Mapping[str, Any]] = (),
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
    missing
        Runs that are not there.
    found
        The runs that were measured, where there are runs.
    changed
        What they have otherwise than declared. On another dataset, nothing is compared with the paper.
    """
    whole = {**about(experiment, scale, missing, changed), "rounds": dict(rounds)}
    same = changed_dataset(whole) is None
    expect = experiment.expect if same else ()
    return {
        **whole,
        "diverged": found.diverged if found else 0,
        "other_seeds": list(found.other_seeds) if found else [],
        "left_out": [asdict(run) for run in found.left_out] if found else [],
        "tables": [
            _table(experiment, scale, m, numbers, found, rounds, beside=same) for m in experiment.measures
        ],
        "expectations": [
            entry for order in expect for entry in _expectation(order, experiment, scale, numbers, rounds)
        ],
    }


def about(
    experiment: Experiment, scale: Scale, missing: int, changed: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Return what an experiment is, how much of it was run, and what was run otherwise than declared."""
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
        "changed": [dict(change) for change in changed],
    }


def _table(
    experiment: Experiment,
    scale: Scale,
    measure: str,
    numbers: Numbers,
    found: Found | None,
    rounds: Mapping[str, int],
    *,
    beside: bool,
) -> dict[str, Any]:
    """One measure of everything, beside the paper's numbers if these are of the same thing."""
    own = MEASURES[measure]
    named = experiment.numbers.get(measure) if beside else None
    printed = paper_numbers(named) if named else {}
    rows = []
    for setting in experiment.settings_at(scale):
        cells = []
        for method in experiment.methods_at(scale):
            wanted = scale.seeds_of.get(method.name, scale.seeds)
            left_out: list[LeftOut] = []
            if found is not None:
                wanted = found.wanted[setting.name, method.name]
                left_out = [r for r in found.left_out if (r.setting, r.method) == (setting.name, method.name)]
            paper = printed.get(setting.numbers, {}).get(method.paper) if method.paper else None
            values = numbers[measure, setting.name, method.name]
            bound = rounds.get(setting.name) if measure == "rounds" else None
            cells.append(_cell(method.name, method.title, values, wanted, paper, left_out, bound))
        target = {} if setting.target is None else {"target": setting.target}
        rows.append(
            {
                "setting": setting.name,
                "title": setting.title,
                "x": setting.x,
                **target,
                "cells": cells,
                "order": order_of(own, cells),
            }
        )
    return {"measure": measure, "title": own.title, "unit": own.unit, "better": own.better, "rows": rows}


def _cell(
    name: str,
    title: str,
    values: Sequence[float],
    wanted: int,
    paper: tuple[float, float] | None = None,
    left_out: Sequence[LeftOut] = (),
    bound: float | None = None,
) -> dict[str, Any]:
    """One method in one setting; with a bound, what a value that is not there is at least."""
    held = [value for value in values if math.isfinite(value)]
    mean, std = mean_and_std(held)
    at_least: dict[str, float | None] = {}
    if bound is not None and 0 < len(held) < len(values):
        least = mean_and_std([value if math.isfinite(value) else bound for value in values])
        at_least = {"at_least": _json(least[0]), "at_least_std": _json(least[1])}
    return {
        "method": name,
        "title": title,
        "ours": _json(mean),
        "std": _json(std),
        "values": [_json(value) for value in values],
        "runs": len(values),
        "wanted": wanted,
        "held": len(held),
        **at_least,
        **({"left_out": {"rounds": [r.rounds for r in left_out], "of": left_out[0].of}} if left_out else {}),
        **({} if paper is None else {"paper": paper[0], "paper_std": paper[1]}),
    }


def mean_and_std(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and sample standard deviation; NaN of nothing."""
    if not values:
        return math.nan, math.nan
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _json(value: float) -> float | None:
    return float(f"{value:.8g}") if math.isfinite(value) else None


def _expectation(
    order: Any, experiment: Experiment, scale: Scale, numbers: Numbers, rounds: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Whether an order that is to hold does, in each setting that it is about."""
    names = {method.name: method.title for method in experiment.methods}
    found = []
    for setting in experiment.settings_at(scale):
        if order.setting not in ("all settings", setting.name):
            continue
        if not all((order.measure, setting.name, m) in numbers for m in (order.better, order.worse)):
            continue
        bound = rounds.get(setting.name) if order.measure == "rounds" else None
        cells = [
            _cell(m, names[m], numbers[order.measure, setting.name, m], scale.seeds, bound=bound)
            for m in (order.better, order.worse)
        ]
        kind = compared(MEASURES[order.measure], *cells)
        found.append(
            {
                "measure": order.measure,
                "setting": setting.title,
                "better": names[order.better],
                "worse": names[order.worse],
                "held": {"right": True, "reversed": False}.get(kind or ""),
                "kind": kind or ("not run" if not all(cell["runs"] for cell in cells) else "not comparable"),
                "numbers": [cell["ours"] for cell in cells],
            }
        )
    return found
