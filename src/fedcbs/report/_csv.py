"""All numbers of all rounds, one row a round of a run, for whatever draws figures from tables."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence

from fedcbs.report._groups import Group
from fedcbs.report._run import COLUMNS, STAGES

__all__ = ["table_of_rounds"]

_MORE = ("total_seconds", "asked")


def table_of_rounds(groups: Sequence[Group]) -> str:
    """Return every round of every run as CSV: method, seed, run, round, and the numbers; nothing is thinned.

    A cell is empty where a round does not have the number.
    """
    columns = [*COLUMNS, *STAGES, *_MORE]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["method", "seed", "run", "round", *(f"{c}_seconds" if c in STAGES else c for c in columns)]
    )
    for group in groups:
        for run in group.runs:
            rows = zip(run.rounds.tolist(), *(run.columns[c].tolist() for c in columns), strict=True)
            about = [_safe(group.label), "" if run.seed is None else run.seed, _safe(str(run.path))]
            writer.writerows(
                [*about, index, *("" if math.isnan(value) else f"{value:.10g}" for value in values)]
                for index, *values in rows
            )
    return out.getvalue()


def _safe(text: str) -> str:
    """A text that no spreadsheet takes for a formula.

    >>> _safe("=1+1")
    "'=1+1"
    """
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
