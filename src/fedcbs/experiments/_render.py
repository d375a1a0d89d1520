"""What an experiment found, as a page of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedcbs.experiments._changes import changed_dataset
from fedcbs.experiments._measures import MEASURES, Measure

__all__ = ["markdown", "verdict"]


def markdown(
    found: Mapping[str, Any], *, figures: Mapping[str, str] | None = None, heading: str = "#"
) -> str:
    """Return a page on what an experiment found.

    Parameters
    ----------
    found
        The document of an experiment.
    figures
        Files of its figures, as the page links to them, each with a line on it.
    heading
        Of the page; those within it are one deeper.
    """
    dataset = changed_dataset(found)
    on = f" (run on {dataset})" if dataset else ""
    parts = [f"{heading} {found['title']}{on}", _changed(found), _about(found), _left_out(found)]
    if found["remark"]:
        parts.append(found["remark"])
    for figure, said in (figures or {}).items():
        parts += [f"![{found['title']}{on}]({figure})", said]
    for table in found.get("tables", ()):
        parts += _measured(table, heading)
    for table in found.get("custom", ()):
        parts += [
            f"{heading}# {table['title']}",
            _grid(table["header"], table["rows"]),
            table.get("note", ""),
        ]
    if found.get("expectations"):
        parts += [f"{heading}# Orders that were to hold", _expectations(found["expectations"])]
    return "\n\n".join(part for part in parts if part) + "\n"


def verdict(found: Mapping[str, Any]) -> str:
    """Return, in a few words, whether the paper's orders held; of another dataset than declared they are not asked.

    >>> verdict({"tables": [], "expectations": [], "missing": 0})
    'nothing to compare with'
    """
    dataset = changed_dataset(found)
    if dataset:
        return f"run on {dataset}, so there is nothing to compare with"
    orders = [row["order"] for table in found.get("tables", ()) for row in table["rows"] if row["order"]]
    pairs = sum(order["pairs"] for order in orders)
    counts = {kind: sum(len(order.get(kind, ())) for order in orders) for kind in _KINDS}
    parts = []
    if pairs:
        right = pairs - counts["reversed"] - counts["close"]
        parts.append(f"{right} of {pairs} pair{'s' * (pairs != 1)} of methods in the paper's order")
        parts += [f"{counts[kind]} {_KINDS[kind]}" for kind in ("close", "reversed") if counts[kind]]
    if counts["single"]:
        more = " more" if pairs else f" pair{'s' * (counts['single'] != 1)} of methods"
        parts.append(f"{counts['single']}{more} undecided: single runs")
    asked = [entry for entry in found.get("expectations", ()) if entry["held"] is not None]
    if asked:
        parts.append(f"{sum(entry['held'] for entry in asked)} of {len(asked)} stated orders held")
    open_ = sum(entry.get("kind") in ("close", "single") for entry in found.get("expectations", ()))
    if open_:
        parts.append(f"{open_} stated order{'s' * (open_ != 1)} undecided")
    nothing = "the paper prints no numbers of this" if found.get("custom") else "nothing to compare with"
    return ", ".join(parts) or nothing


_KINDS = {"close": "too close to tell", "reversed": "the other way round", "single": "undecided: single runs"}
"""Pairs of methods that are not in the paper's order, and what is said of them."""


def _changed(found: Mapping[str, Any]) -> str:
    """What was run otherwise than the experiment declares."""
    changed = found.get("changed", ())
    if not changed:
        return ""
    total = sum(len(cell["values"]) for table in found.get("tables", ())[:1] for cell in _cells(table))
    values: dict[tuple[str, str], tuple[list[str], int]] = {}
    for change in changed:
        owns, runs = values.get((change["key"], change["used"]), ([], 0))
        values[change["key"], change["used"]] = ([*owns, change["own"]], runs + change["runs"])
    said = [
        f"`{key}={used}` instead of {' or '.join(f'`{own}`' for own in dict.fromkeys(owns))}"
        + (f" ({runs} of {total} runs)" if runs < total else "")
        for (key, used), (owns, runs) in values.items()
    ]
    return f"**Not the experiment as it is declared.** Run with {', '.join(said)}."


def _cells(table: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return (cell for row in table["rows"] for cell in row["cells"])


def _about(found: Mapping[str, Any]) -> str:
    scale = found["scale"]
    seeds = f"{scale['seeds']} seed{'s' * (scale['seeds'] != 1)}"
    if scale["seeds_of"]:
        seeds += f" ({', '.join(f'{name} {number}' for name, number in scale['seeds_of'].items())})"
    text = f"In the paper: {found['paper']}. Scale `{scale['name']}`: {scale['rounds']:,} rounds, {seeds}"
    text += ", each run until its target" if scale["stop_at_target"] else ""
    text += _compared_up_to(found)
    if found.get("other_seeds"):
        text += f"; there are runs with other seeds, which count as well ({', '.join(map(str, found['other_seeds']))})"
    absent = found["missing"] - len(found.get("left_out", ()))
    if absent:
        text += f"; {absent} run{'s' * (absent != 1)} not done yet"
    if found.get("diverged"):
        text += f"; {found['diverged']} diverged"
    return f"{text}. {_sentence(verdict(found))}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _compared_up_to(found: Mapping[str, Any]) -> str:
    """How far runs were compared, by setting where settings differ in it."""
    rounds = found.get("rounds", {})
    if not any(number < found["scale"]["rounds"] for number in rounds.values()):
        return ""
    if len(set(rounds.values())) == 1:
        return f"; compared up to round {min(rounds.values()):,}, which is as far as all runs are"
    titles = {row["setting"]: row["title"] for table in found["tables"] for row in table["rows"]}
    each = ", ".join(f"{number:,} ({titles.get(name, name)})" for name, number in rounds.items())
    return f"; compared up to the round that all runs of a setting are at, or ended before: {each}"


def _left_out(found: Mapping[str, Any]) -> str:
    """Runs that are there and were not compared, by setting."""
    runs = found.get("left_out", ())
    if not runs:
        return ""
    titles = {row["setting"]: row["title"] for table in found["tables"] for row in table["rows"]}
    said = []
    for setting in dict.fromkeys(run["setting"] for run in runs):
        own = [run for run in runs if run["setting"] == setting]
        done = _span([run["rounds"] for run in own])
        said.append(f"{titles[setting]}: {len(own)} with {done} of {own[0]['of']:,} rounds")
    return (
        f"Left out, with fewer than half the rounds of the longest run of their setting: {'; '.join(said)}."
    )


def _span(numbers: Sequence[int]) -> str:
    """One number, or the least and the most of several.

    >>> _span([200]), _span([1200, 83, 90])
    ('200', '83 to 1,200')
    """
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _measured(table: Mapping[str, Any], heading: str) -> list[str]:
    measure = MEASURES[table["measure"]]
    better = "more" if table["better"] > 0 else "less"
    parts = [f"{heading}# {table['title']}", f"In {table['unit']}; {better} is better."]
    printed = any("paper" in cell for row in table["rows"] for cell in row["cells"])
    parts.append(_beside_paper(table, measure) if printed else _ours(table, measure))
    if printed:
        parts.append("\n".join(f"- {text}" for text in _orders(table)))
    return parts


def _beside_paper(table: Mapping[str, Any], measure: Measure) -> str:
    """One row for each setting and method."""
    lines = []
    for row in table["rows"]:
        for number, cell in enumerate(row["cells"]):
            paper = measure.with_spread(cell["paper"], cell["paper_std"]) if "paper" in cell else ""
            both = "paper" in cell and cell["ours"] is not None and cell["held"] == cell["runs"]
            difference = f"{_signed(cell['ours'] - cell['paper'], measure)}" if both else ""
            lines.append(
                [
                    _setting(row) if number == 0 else "",
                    cell["title"],
                    paper,
                    _number(cell, measure),
                    difference,
                ]
            )
    return _grid(["setting", "method", "paper", "ours", "difference"], lines)


def _ours(table: Mapping[str, Any], measure: Measure) -> str:
    """Methods by settings, or settings by methods where there are more of those."""
    rows = table["rows"]
    if len(rows) > len(rows[0]["cells"]):
        header = ["setting", *(cell["title"] for cell in rows[0]["cells"])]
        return _grid(
            header, ([_setting(row), *(_number(cell, measure) for cell in row["cells"])] for row in rows)
        )
    header = ["method", *(_setting(row) for row in rows)]
    lines = [
        [cell["title"], *(_number(row["cells"][place], measure) for row in rows)]
        for place, cell in enumerate(rows[0]["cells"])
    ]
    return _grid(header, lines)


def _setting(row: Mapping[str, Any]) -> str:
    return f"{row['title']}, {100 * row['target']:g}%" if "target" in row else str(row["title"])


def _number(cell: Mapping[str, Any], measure: Measure) -> str:
    """Mean and spread over the runs that have it; and how many do, where that is not all that there were to be."""
    left_out = cell.get("left_out")
    if not cell["runs"]:
        return (
            f"left out: only {_span(left_out['rounds'])} of {left_out['of']:,} rounds"
            if left_out
            else "not run"
        )
    if cell["ours"] is None:
        return "not reached" if measure.of_target else "-"
    one = cell["held"] == 1
    text = measure.shown(cell["ours"]) if one else measure.with_spread(cell["ours"], cell["std"])
    notes = []
    if cell["held"] < cell["runs"]:
        notes.append(f"{cell['held']} of {cell['runs']} {'reached it' if measure.of_target else 'have it'}")
    elif cell["runs"] < cell["wanted"]:
        notes.append(f"{cell['runs']} of {cell['wanted']} runs")
    notes += [f"{len(left_out['rounds'])} left out"] if left_out else []
    return f"{text} ({', '.join(notes)})" if notes else text


def _signed(difference: float, measure: Measure) -> str:
    shown = measure.shown(abs(difference))
    return shown if shown == "0" else f"{'+' if difference >= 0 else '-'}{shown}"


def _orders(table: Mapping[str, Any]) -> Iterable[str]:
    for row in table["rows"]:
        order = row["order"]
        if not order:
            continue
        right = order["pairs"] - len(order["reversed"]) - len(order["close"])
        parts = []
        if order["pairs"]:
            parts.append(
                f"{right} of {order['pairs']} pair{'s' * (order['pairs'] != 1)} in the paper's order"
            )
        for kind, said in _KINDS.items():
            if order.get(kind):
                named = ", ".join(f"{good} before {bad}" for good, bad in order[kind])
                parts.append(f"{said}: {named}" if kind != "single" else _of_single_runs(order[kind]))
        yield f"{row['title']}: {'; '.join(parts)}."


def _of_single_runs(pairs: Sequence[Sequence[str]]) -> str:
    return f"{len(pairs)} pair{'s' * (len(pairs) != 1)} undecided, as one run of a method has no spread"


def _expectations(entries: Sequence[Mapping[str, Any]]) -> str:
    said = {True: "yes", False: "no", None: "not run"}
    open_ = {
        "close": "too close to tell",
        "single": "undecided: single runs",
        "not comparable": "not comparable",
    }
    lines = []
    for entry in entries:
        measure = MEASURES[entry["measure"]]
        shown = ["-" if value is None else measure.shown(value) for value in entry["numbers"]]
        lines.append(
            [entry["setting"], measure.title, f"{entry['better']} ({shown[0]})", f"{entry['worse']} ({shown[1]})",
             open_.get(entry.get("kind", ""), said[entry["held"]])]
        )  # fmt: skip
    return _grid(["setting", "measure", "better", "worse", "held"], lines)


def _grid(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [list(header), ["---"] * len(header), *(list(line) for line in lines)]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)
