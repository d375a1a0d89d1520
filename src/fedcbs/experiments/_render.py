"""What an experiment found, as a page of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedcbs.experiments._measures import MEASURES, Measure

__all__ = ["markdown", "verdict"]


def markdown(found: Mapping[str, Any], *, figures: Sequence[str] = (), heading: str = "#") -> str:
    """Return a page on what an experiment found.

    Parameters
    ----------
    found
        The document of an experiment.
    figures
        Files of its figures, as the page links to them.
    heading
        Of the page; those within it are one deeper.
    """
    parts = [f"{heading} {found['title']}", _about(found)]
    if found["remark"]:
        parts.append(found["remark"])
    parts += [f"![{found['title']}]({figure})" for figure in figures]
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
    """Return, in a few words, whether the paper's orders held.

    >>> verdict({"tables": [], "expectations": [], "missing": 0})
    'nothing to compare with'
    """
    orders = [row["order"] for table in found.get("tables", ()) for row in table["rows"] if row["order"]]
    pairs = sum(order["pairs"] for order in orders)
    wrong = sum(len(order["reversed"]) for order in orders)
    close = sum(len(order["close"]) for order in orders)
    parts = []
    if pairs:
        parts.append(f"{pairs - wrong - close} of {pairs} pairs of methods in the paper's order")
        parts += [f"{close} too close to tell"] if close else []
        parts += [f"{wrong} the other way round"] if wrong else []
    asked = [entry for entry in found.get("expectations", ()) if entry["held"] is not None]
    if asked:
        parts.append(f"{sum(entry['held'] for entry in asked)} of {len(asked)} stated orders held")
    nothing = "the paper prints no numbers of this" if found.get("custom") else "nothing to compare with"
    return ", ".join(parts) or nothing


def _about(found: Mapping[str, Any]) -> str:
    scale = found["scale"]
    seeds = f"{scale['seeds']} seed{'s' * (scale['seeds'] != 1)}"
    if scale["seeds_of"]:
        seeds += f" ({', '.join(f'{name} {number}' for name, number in scale['seeds_of'].items())})"
    text = f"In the paper: {found['paper']}. Scale `{scale['name']}`: {scale['rounds']:,} rounds, {seeds}"
    text += ", each run until its target" if scale["stop_at_target"] else ""
    short = {rounds for rounds in found.get("rounds", {}).values() if rounds < scale["rounds"]}
    if short:
        text += f"; compared up to round {min(short):,}, which is as far as all runs are"
    if found["missing"]:
        text += f"; {found['missing']} run{'s' * (found['missing'] != 1)} not done yet"
    if found.get("diverged"):
        text += f"; {found['diverged']} diverged"
    return f"{text}. {verdict(found).capitalize()}."


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
            paper = (
                f"{measure.shown(cell['paper'])} ± {measure.shown(cell['paper_std'])}"
                if "paper" in cell
                else ""
            )
            both = "paper" in cell and cell["ours"] is not None
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
    if not cell["runs"]:
        return "not run"
    if cell["ours"] is None:
        return "not reached" if measure.title.endswith("target accuracy") or "until" in measure.title else "-"
    text = measure.shown(cell["ours"])
    if cell["held"] > 1:
        text += f" ± {measure.shown(cell['std'])}"
    if cell["held"] < cell["runs"]:
        text += f" ({cell['held']} of {cell['runs']} reached it)"
    elif cell["runs"] < cell["wanted"]:
        text += f" ({cell['runs']} of {cell['wanted']} runs)"
    return text


def _signed(difference: float, measure: Measure) -> str:
    return f"{'+' if difference >= 0 else '-'}{measure.shown(abs(difference))}"


def _orders(table: Mapping[str, Any]) -> Iterable[str]:
    for row in table["rows"]:
        order = row["order"]
        if not order:
            continue
        right = order["pairs"] - len(order["reversed"]) - len(order["close"])
        text = f"{row['title']}: {right} of {order['pairs']} pairs in the paper's order"
        for kind, said in (("close", "too close to tell"), ("reversed", "the other way round")):
            if order[kind]:
                named = ", ".join(f"{good} before {bad}" for good, bad in order[kind])
                text += f"; {said}: {named}"
        yield f"{text}."


def _expectations(entries: Sequence[Mapping[str, Any]]) -> str:
    said = {True: "yes", False: "no", None: "not run"}
    lines = []
    for entry in entries:
        measure = MEASURES[entry["measure"]]
        shown = ["-" if value is None else measure.shown(value) for value in entry["numbers"]]
        lines.append(
            [entry["setting"], measure.title, f"{entry['better']} ({shown[0]})", f"{entry['worse']} ({shown[1]})",
             said[entry["held"]]]
        )  # fmt: skip
    return _grid(["setting", "measure", "better", "worse", "held"], lines)


def _grid(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [list(header), ["---"] * len(header), *(list(line) for line in lines)]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)
