"""One look for all figures: colours that the colour-blind can tell apart, the same for a selector everywhere."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["RC", "bare", "class_colours", "colours_of"]

INK, FAINT = "#222222", "#9a9a9a"

_FAMILIES = {
    "everyone": "#8c8c8c",
    "uniform": "#222222",
    "fedcbs-exact": "#0072B2",
    "fedcbs-sharp": "#882255",
    "fedcbs-paper": "#009E73",
    "astraea": "#E69F00",
    "pow-d": "#D55E00",
    "fed-cucb": "#CC79A7",
}
"""Okabe and Ito's palette, and two greys for the baselines; the names that are compared most have a colour for good."""

_SPARE = (
    "#D55E00",
    "#CC79A7",
    "#F0E442",
    "#E69F00",
    "#882255",
    "#44AA99",
    "#999933",
    "#AA4499",
    "#332288",
    "#117733",
)
"""For all others: what is left of it, then Tol's muted palette."""

RC: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 8.0,
    "axes.labelsize": 9.0,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.8,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.color": INK,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
}


def colours_of(names: Iterable[str]) -> dict[str, str]:
    """Return a colour for each selector, by its name: the same in every figure unless two in it would share one.

    >>> colours_of(["uniform", "fedcbs-exact"])
    {'uniform': '#222222', 'fedcbs-exact': '#0072B2'}
    """
    given = list(names)
    colours = {name: _FAMILIES[name] for name in given if name in _FAMILIES}
    for name in given:
        if name in colours:
            continue
        start = zlib.crc32(name.encode())
        wishes = [_SPARE[(start + step) % len(_SPARE)] for step in range(len(_SPARE))]
        taken = set(colours.values())
        colours[name] = next((colour for colour in wishes if colour not in taken), wishes[0])
    return {name: colours[name] for name in given}


def class_colours(num_classes: int) -> list[tuple[float, float, float]]:
    """Return a colour for each class: one scale from dark to light, readable without hue.

    >>> len(class_colours(10))
    10
    """
    import matplotlib as mpl

    scale = mpl.colormaps["viridis"]
    places = [0.08 + 0.87 * label / max(num_classes - 1, 1) for label in range(num_classes)]
    return [scale(place)[:3] for place in places]


def bare(axes: Axes, *, grid: str) -> None:
    """Leave of a frame what carries the scale, and a faint grid along one axis."""
    axes.grid(visible=True, axis=grid, which="major")  # type: ignore[arg-type]
    axes.tick_params(length=0)
