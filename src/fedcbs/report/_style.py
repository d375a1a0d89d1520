"""A colour for light and one for dark, a dash and a marker for each group, so that no line is told by its hue alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, final

from fedcbs.plotting import colours_of
from fedcbs.plotting._style import _FAMILIES as OWN
from fedcbs.report._groups import Group

__all__ = ["Look", "looks_of", "looks_of_names"]

_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_MARKERS = (
    "circle",
    "square",
    "diamond",
    "triangle-up",
    "triangle-down",
    "cross",
    "x",
    "star",
    "pentagon",
    "hexagon",
)
_MPL_DASHES = ("-", "--", ":", "-.", (0, (8, 3)), (0, (8, 3, 1, 3)))
_MPL_MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*", "p", "h")

_ON_DARK, _ON_LIGHT = 0.16, 0.30
"""Luminance from which on, and up to which, a line has a contrast of 3 to 1 with a dark page, and with a white one."""


@final
@dataclasses.dataclass(frozen=True)
class Look:
    """How a group looks everywhere in a report.

    Parameters
    ----------
    light, dark
        Its colour on a light and on a dark page.
    dash, marker
        As plotly calls them.
    mpl_dash, mpl_marker
        The same for matplotlib.
    """

    light: str
    dark: str
    dash: str
    marker: str
    mpl_dash: Any
    mpl_marker: str


def looks_of(groups: Sequence[Group]) -> list[Look]:
    """Return how each group looks; a selector's own colour where one group has it."""
    methods = [group.method for group in groups]
    alone = {method for method in methods if methods.count(method) == 1}
    return looks_of_names([group.method if group.method in alone else group.label for group in groups])


def looks_of_names(names: Sequence[str]) -> list[Look]:
    """Return how what has these names looks: the colours of selectors, and a dash and a marker by place.

    >>> [look.marker for look in looks_of_names(["uniform", "fedcbs-exact"])]
    ['circle', 'square']
    """
    known = [name for name in names if name in OWN]  # first, so that no other name takes their colours
    colours = colours_of(dict.fromkeys([*known, *names]))
    return [
        Look(
            light=_shifted(colours[name], towards=0, until=lambda seen: seen <= _ON_LIGHT),
            dark=_on_dark(colours[name]),
            dash=_DASHES[number % len(_DASHES)],
            marker=_MARKERS[number % len(_MARKERS)],
            mpl_dash=_MPL_DASHES[number % len(_MPL_DASHES)],
            mpl_marker=_MPL_MARKERS[number % len(_MPL_MARKERS)],
        )
        for number, name in enumerate(names)
    ]


def _on_dark(colour: str) -> str:
    """The colour as a dark page shows it; what is as good as black becomes as good as white."""
    if colour[1:3] == colour[3:5] == colour[5:7] and int(colour[1:3], 16) < 64:
        return f"#{(255 - int(colour[1:3], 16)).to_bytes(1, 'big').hex() * 3}"
    return _shifted(colour, towards=255, until=lambda seen: seen >= _ON_DARK)


def _shifted(colour: str, *, towards: int, until: Callable[[float], bool]) -> str:
    """The colour, mixed with black (0) or white (255) in steps until its luminance will do.

    >>> _shifted("#222222", towards=255, until=lambda seen: seen >= 0.16)
    '#6f6f6f'
    """
    parts = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    for step in range(20):
        mixed = [part + (towards - part) * step / 20 for part in parts]
        linear = [
            (p / 255 / 12.92 if p / 255 <= 0.04045 else ((p / 255 + 0.055) / 1.055) ** 2.4) for p in mixed
        ]
        if until(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]):
            break
    return "#" + "".join(f"{round(part):02x}" for part in mixed)
