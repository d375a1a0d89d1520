"""What all charts of a page are made of.

Colours come in when the page is drawn, since they differ between light and dark. What a trace belongs to stands in its
``meta``: ``group`` switches the whole trace; ``groups`` switches its places one by one.
"""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

__all__ = ["AXES", "AXIS", "FEW_CLASSES", "Chart", "class_ticks", "dashed", "numbers", "plain"]

AXES = {
    "round": "Round",
    "megabytes": "Megabytes sent, both ways",
    "seconds": "Seconds of computing",
    "simulated_seconds": "Simulated seconds",
}
"""What curves can be drawn over."""

FEW_CLASSES = 20
"""Up to so many classes, each has a place of its own on an axis."""

AXIS = {"fixedrange": False, "automargin": True}


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Chart:
    """One chart of a page.

    Parameters
    ----------
    name
        Its anchor.
    title, note
        What stands above it, and below.
    traces, layout
        As plotly takes them.
    height
        In pixels; with `per_row`, without its rows.
    per_row
        Pixels that each visible group adds.
    over
        Whether the reader can choose what it is drawn over.
    group
        The group that it is of, where it is of one.
    """

    name: str
    title: str
    note: str
    traces: list[dict[str, Any]]
    layout: dict[str, Any]
    height: int = 420
    per_row: int = 0
    over: bool = False
    group: int | None = None

    def payload(self) -> dict[str, Any]:
        """Return it for the page's script."""
        return dataclasses.asdict(self)


def plain(text: str) -> str:
    """Return a text that plotly draws as it is; plotly takes some HTML.

    >>> plain("<b>a</b>")
    '&lt;b&gt;a&lt;/b&gt;'
    """
    return html.escape("".join(c if c.isprintable() else "\ufffd" for c in text), quote=False)


def numbers(values: NDArray[np.float64] | Sequence[float], digits: int = 5) -> list[float | None]:
    """Return numbers for JSON, without digits that nobody sees.

    >>> numbers([0.123456789, float("nan")])
    [0.12346, None]
    """
    return [float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in values]


def class_ticks(classes: int) -> dict[str, Any]:
    return {"dtick": 1, "tick0": 0} if classes <= FEW_CLASSES else {}


def dashed(direction: str, value: float) -> dict[str, Any]:
    """A dashed line across the whole chart; the page's script gives it a colour."""
    along, across = ("y", "x") if direction == "h" else ("x", "y")
    return {
        "type": "line",
        f"{across}ref": "paper",
        f"{across}0": 0,
        f"{across}1": 1,
        f"{along}0": value,
        f"{along}1": value,
        "line": {"dash": "dash", "width": 1.2},
    }
