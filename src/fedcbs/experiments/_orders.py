"""Whether methods stand in the order that they should, and when that cannot be told."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedcbs.experiments._measures import Measure

__all__ = ["compared", "order_of"]

Cell = Mapping[str, Any]


def compared(measure: Measure, good: Cell, bad: Cell) -> str | None:
    """Return how two methods stand, of which the first should be the better one.

    ``right``, ``reversed``; ``close`` where their means differ by less than the spread of one run against one;
    ``single`` where there is but one run of either, whose spread nobody knows; None where there is nothing to compare.
    A method that reached the target in some of its runs only has no mean over all of them. It is worse than one that did
    in all, if it would be even by counting the rounds that were run for those that did not; else it is not compared. One
    that reached it in none is worse than one that did in all.
    """
    cells = (good, bad)
    if not all(cell["runs"] for cell in cells):
        return None
    all_held = [cell["held"] == cell["runs"] for cell in cells]
    none_held = [cell["held"] == 0 for cell in cells]
    certain = measure.of_target and any(all_held) and any(none_held)
    if not (all(all_held) or certain):
        return _by_bound(measure, good, bad)
    if min(cell["runs"] for cell in cells) == 1:
        return "single"
    if certain:
        return "right" if all_held[0] else "reversed"
    ahead = measure.better * (good["ours"] - bad["ours"])
    if abs(ahead) <= math.hypot(good["std"], bad["std"]):
        return "close"
    return "right" if ahead > 0 else "reversed"


def _by_bound(measure: Measure, good: Cell, bad: Cell) -> str | None:
    """Compare a mean with the least that another can be, where some of its runs did not get there."""
    for whole, part, kind in ((good, bad, "right"), (bad, good, "reversed")):
        if whole["held"] < whole["runs"] or "at_least" not in part or min(whole["runs"], part["runs"]) == 1:
            continue
        ahead = measure.better * (whole["ours"] - part["at_least"])
        return kind if ahead > math.hypot(whole["std"], part["at_least_std"]) else None
    return None


def order_of(measure: Measure, cells: Sequence[Cell]) -> dict[str, Any] | None:
    """Compare the order of every two methods with that of the paper's numbers.

    Of the `pairs` that could be compared, those that are ``reversed`` and ``close`` are named; ``single`` come on top.
    """
    named: dict[str | None, list[list[str]]] = {"right": [], "reversed": [], "close": [], "single": []}
    printed = [cell for cell in cells if "paper" in cell]
    for first, second in itertools.combinations(printed, 2):
        if first["paper"] == second["paper"]:
            continue
        ahead = measure.better * (first["paper"] - second["paper"]) > 0
        good, bad = (first, second) if ahead else (second, first)
        named.setdefault(compared(measure, good, bad), []).append([good["title"], bad["title"]])
    pairs = sum(len(named[kind]) for kind in ("right", "reversed", "close"))
    if not pairs and not named["single"]:
        return None
    return {"pairs": pairs, **{kind: named[kind] for kind in ("reversed", "close", "single")}}
