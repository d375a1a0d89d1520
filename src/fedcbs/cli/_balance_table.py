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

    def spread(found: SelectorResult) -> str:
        return f" ± {_hundredths(found.qcid_std)}" if len(result.seeds) > 1 else ""  # one seed has none

    for name, found in rows.items():
        grid.add_row(
            name,
            _marked(_hundredths(found.qcid_mean) + spread(found), name in best["qcid"]),
            _hundredths(found.qcid_min),
            _marked(f"{found.coverage.mean():.3f}", name in best["coverage"]),
            _marked(f"{found.gini.mean():.3f}", name in best["gini"]),
            f"{_number(found.fewest_selections.mean())} to {_number(found.most_selections.mean())}",
            _marked(_number(1e3 * found.seconds_per_selection), name in best["seconds"]),
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
        f"\n{_counted(len(result.seeds), 'seed')} of {_counted(result.target_sizes.shape[1], 'round')};"
        f" {_counted(result.num_clients, 'client')}, {_number(result.available.mean())} available on average, {result.cohort_size} to pick. * marks the best.",
        style="dim",
    )
    others = [
        f"{name} ({_number(found.cohort_sizes.mean())} a round)"
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
            f"{_number(result.empty_clients.mean())} clients have no examples, and were left out.",
            style="yellow",
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


def _counted(number: int, thing: str) -> str:
    """A number of things.

    >>> _counted(1, "seed"), _counted(1_000_000, "client")
    ('1 seed', '1,000,000 clients')
    """
    return f"{number:,} {thing}{'s' * (number != 1)}"


def _number(value: float) -> str:
    """A number to three digits, or whole.

    >>> _number(0.02417), _number(12.5), _number(1234.5), _number(300_000.0)
    ('0.0242', '12.5', '1,234', '300,000')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _hundredths(value: float) -> str:
    """A QCID in units of 1e-2, which is how the paper prints them.

    >>> _hundredths(0.0779), _hundredths(0.0000012), _hundredths(0.0)
    ('7.790', '1.2e-04', '0.000')
    """
    number = 100 * value
    return f"{number:.3f}" if number == 0 or number >= 0.01 else f"{number:.1e}"
