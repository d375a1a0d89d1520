"""The table that ``fedcbs balance`` prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from rich.table import Table
from rich.text import Text

from fedcbs.laboratory import BalanceResult, SelectorResult

__all__ = ["remarks", "table"]

BEST = "bold green"


def table(result: BalanceResult) -> Table:
    """Return one row for each selector, the best value of each column marked.

    Selectors whose cohorts are not of the size asked for are shown, but do not compete.
    """
    rows = dict(result.items())
    rivals = [name for name, found in rows.items() if np.array_equal(found.cohort_sizes, result.target_sizes)]
    grid = Table(box=None, pad_edge=False, header_style="bold", caption_style="dim", caption_justify="left")
    grid.add_column("selector", no_wrap=True)
    for title in ("QCID, 1e-2", "lowest", "coverage", "Gini", "selected", "time, ms"):
        grid.add_column(title, justify="right", no_wrap=True)
    best = {
        "qcid": _best(rows, rivals, lambda r: -r.qcid_mean),
        "coverage": _best(rows, rivals, lambda r: float(r.coverage.mean())),
        "gini": _best(rows, rivals, lambda r: -float(r.gini.mean())),
        "seconds": _best(rows, rivals, lambda r: -r.seconds_per_selection),
    }
    for name, found in rows.items():
        grid.add_row(
            name,
            _marked(f"{_hundredths(found.qcid_mean)} ± {_hundredths(found.qcid_std)}", name in best["qcid"]),
            _hundredths(found.qcid_min),
            _marked(f"{found.coverage.mean():.3f}", name in best["coverage"]),
            _marked(f"{found.gini.mean():.3f}", name in best["gini"]),
            f"{found.fewest_selections.mean():.3g} to {found.most_selections.mean():.3g}",
            _marked(f"{1e3 * found.seconds_per_selection:.3g}", name in best["seconds"]),
        )
    lowest = result.lowest_qcid
    if len(rivals) > 1:
        grid.add_section()
        mean, least = (_hundredths(float(of(lowest))) for of in (np.nanmean, np.nanmin))
        grid.add_row(Text("the best of them, each round", style="dim"), Text(f"{mean}  ", style="dim"), least)
    return grid


def remarks(result: BalanceResult) -> Iterator[Text]:
    """Yield what a reader of the table should know."""
    rounds = result.target_sizes.size
    yield Text(
        f"\n{len(result.seeds)} seeds of {result.target_sizes.shape[1]} rounds; {result.num_clients} clients,"
        f" {result.available.mean():.4g} available on average, {result.cohort_size} to pick. * marks the best.",
        style="dim",
    )
    others = [
        f"{name} ({found.cohort_sizes.mean():.4g} a round)"
        for name, found in result.items()
        if not np.array_equal(found.cohort_sizes, result.target_sizes)
    ]
    if others:
        yield Text(f"Cohorts of another size, out of competition: {', '.join(others)}.", style="dim")
    if result.short_rounds:
        yield Text(
            f"{result.short_rounds} of {rounds} rounds had fewer clients than were to be picked; all of them were.",
            style="yellow",
        )
    if result.skipped_rounds:
        yield Text(
            f"{result.skipped_rounds} of {rounds} rounds had no client, and were skipped.", style="yellow"
        )
    if result.empty_clients.any():
        yield Text(
            f"{result.empty_clients.mean():.4g} clients have no examples, and were left out.", style="yellow"
        )


def _best(
    rows: dict[str, SelectorResult], rivals: list[str], score: Callable[[SelectorResult], float]
) -> set[str]:
    if len(rivals) < 2:
        return set()
    scores = {name: score(rows[name]) for name in rivals}
    return {name for name, value in scores.items() if value == max(scores.values())}


def _marked(text: str, is_best: bool) -> Text:
    return Text(f"{text} *", style=BEST) if is_best else Text(f"{text}  ")


def _hundredths(value: float) -> str:
    """A QCID in units of 1e-2, which is how the paper prints them.

    >>> _hundredths(0.0779), _hundredths(0.0000012), _hundredths(0.0)
    ('7.790', '1.2e-04', '0.000')
    """
    number = 100 * value
    return f"{number:.3f}" if number == 0 or number >= 0.01 else f"{number:.1e}"
