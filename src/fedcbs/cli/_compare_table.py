"""The table that ``fedcbs compare`` prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table
from rich.text import Text

from fedcbs.cli._run_table import bytes_text, seconds_text

if TYPE_CHECKING:
    from fedcbs.runs import Comparison, Standing

__all__ = ["remarks", "table"]

BEST = "bold green"


def table(standings: Mapping[str, Standing], targets: Sequence[float]) -> Table:
    """Return one row for each selector, the best value of each column marked."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    grid.add_column("selector", no_wrap=True)
    titles = [f"rounds to {target:.4g}" for target in targets]
    for title in (*titles, "best", "worst class", "QCID, 1e-2", "coverage", "up", "down", "simulated"):
        grid.add_column(title, justify="right", no_wrap=True)
    columns = [
        *[_rounds_column(standings, target) for target in targets],
        _column(standings, lambda s: s.best_accuracy, "{:.3f}"),
        _column(standings, lambda s: s.worst_class_accuracy, "{:.3f}"),
        _column(standings, lambda s: [100 * value for value in s.qcid], "{:.3f}", lowest=True),
        _column(standings, lambda s: s.coverage, "{:.2f}", spread=False),
    ]
    for row, (name, standing) in enumerate(standings.items()):
        grid.add_row(
            name,
            *[column[row] for column in columns],
            bytes_text(_mean(standing.bytes_up)),
            bytes_text(_mean(standing.bytes_down)),
            seconds_text(_mean(standing.simulated_seconds)) if standing.simulated_seconds else "",
        )
    return grid


def remarks(found: Comparison) -> Iterator[Text]:
    """Yield what a reader of the table should know."""
    first = next(iter(found.runs.values()))
    config = first[0].config
    seeds = "seed" if len(first) == 1 else "seeds"
    yield Text(
        f"\n{len(first)} {seeds}; {config['data']['dataset']}, {config['partition']['clients']} clients by"
        f" {config['partition']['scheme']}, {config['selector']['cohort_size']} to pick,"
        f" {config['training']['local']}+{config['server']['rule']}, {config['run']['rounds']} rounds. * marks the best.",
        style="dim",
    )


def _rounds_column(standings: Mapping[str, Standing], target: float) -> list[Text]:
    """Rounds to a target: the mean of the seeds that reached it, and how many did where not all."""
    texts, means = [], []
    for standing in standings.values():
        needed = standing.rounds_to[target]
        reached = [value for value in needed if value is not None]
        whole = len(reached) == len(needed) and bool(reached)
        means.append(float(np.mean(reached)) if whole else np.inf)
        some = f"{_spread(reached, '{:.0f}')} ({len(reached)} of {len(needed)})" if reached else "not reached"
        texts.append(_spread(reached, "{:.0f}") if whole else some)
    return _marked(texts, means, lowest=True)


def _column(
    standings: Mapping[str, Standing],
    value: Callable[[Standing], Sequence[float]],
    form: str,
    *,
    lowest: bool = False,
    spread: bool = True,
) -> list[Text]:
    texts, means = [], []
    for standing in standings.values():
        values = value(standing)
        means.append(float(np.mean(values)) if values else np.inf if lowest else -np.inf)
        texts.append((_spread(values, form) if spread else form.format(means[-1])) if values else "")
    return _marked(texts, means, lowest=lowest)


def _marked(texts: Sequence[str], means: Sequence[float], *, lowest: bool) -> list[Text]:
    best = min(means) if lowest else max(means)
    rivals = len(means) > 1 and np.isfinite(best)
    return [
        Text(f"{text} *", style=BEST) if rivals and mean == best else Text(f"{text}  ")
        for text, mean in zip(texts, means, strict=True)
    ]


def _spread(values: Sequence[float], form: str) -> str:
    if not values:
        return ""
    mean = form.format(np.mean(values))
    return f"{mean} ± {form.format(np.std(values))}" if len(values) > 1 else mean


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0
