"""The figure of a partition: how many examples of each class each client holds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs._checks import counts_matrix
from fedcbs.errors import InvalidArgumentError
from fedcbs.plotting._save import check_figure_path, require_matplotlib, save_figure
from fedcbs.plotting._style import RC, bare, class_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["figure_of_label_counts", "plot_label_counts"]

_MOST_BARS, _MOST_COLOURS = 60, 20
"""More clients, or more classes, are shown as a map."""

_MOST_NAMES, _MOST_COLUMNS = 32, 1500


def plot_label_counts(
    label_counts: ArrayLike,
    path: str | os.PathLike[str],
    *,
    class_names: Sequence[str] = (),
    title: str = "",
) -> None:
    """Draw who holds what into a .png, .pdf or .svg file; see :func:`figure_of_label_counts`."""
    check_figure_path(path)
    save_figure(figure_of_label_counts(label_counts, class_names=class_names, title=title), path)


def figure_of_label_counts(
    label_counts: ArrayLike, *, class_names: Sequence[str] = (), title: str = ""
) -> Figure:
    """Draw label counts: a stacked bar for each client, or a map of clients and classes where there are many.

    Parameters
    ----------
    label_counts
        Examples of each class that each client holds.
    class_names
        What the classes are called; their numbers when empty.
    title
        What stands above.
    """
    counts = counts_matrix(label_counts)
    if len(counts) == 0:
        raise InvalidArgumentError("label_counts has no clients; there is nothing to draw")
    names = list(class_names) or [str(label) for label in range(counts.shape[1])]
    if len(names) != counts.shape[1]:
        raise InvalidArgumentError(
            f"class_names has {len(names)} names, but label_counts {counts.shape[1]} classes; give one for each"
        )
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(RC):
        bars = len(counts) <= _MOST_BARS and counts.shape[1] <= _MOST_COLOURS
        height = 4.4 if bars else 3.0 + 0.1 * min(max(counts.shape[1], 8), 40)
        figure = Figure(figsize=(10.0, height), layout="constrained")
        grid = figure.add_gridspec(1, 2, width_ratios=(4.6, 1.0))
        main, side = figure.add_subplot(grid[0]), figure.add_subplot(grid[1])
        if bars:
            _draw_bars(main, counts)
            _draw_totals(side, counts, names, class_colours(len(names)))
        else:
            _draw_map(figure, main, counts)
            _draw_totals(side, counts, names, ["#0072B2"] * len(names))
        main.set_title(title or "Label counts of each client")
        main.set_xlabel(f"client (of {len(counts):,})")
        side.set_title("all clients")
    return figure


def _draw_bars(axes: Axes, counts: NDArray[np.int64]) -> None:
    from matplotlib.ticker import MaxNLocator

    places = np.arange(len(counts))
    below = np.zeros(len(counts))
    for label, colour in enumerate(class_colours(counts.shape[1])):
        axes.bar(places, counts[:, label], bottom=below, color=colour, width=0.86, linewidth=0)
        below += counts[:, label]
    axes.set_ylabel("examples")
    axes.set_xlim(-0.7, len(counts) - 0.3)
    axes.set_ylim(0, max(1.0, 1.04 * float(below.max())))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    bare(axes, grid="y")


def _draw_map(figure: Figure, axes: Axes, counts: NDArray[np.int64]) -> None:
    """Clients from left to right, classes from bottom to top as in the bars beside; white is none."""
    import matplotlib as mpl
    from matplotlib.colors import PowerNorm

    shown, place = _merged(counts)
    scale = mpl.colormaps["viridis_r"].with_extremes(bad="white")
    norm = PowerNorm(0.5, vmin=0, vmax=max(float(shown.max()), 1.0))
    edges = (-0.5, len(counts) - 0.5, -0.5, counts.shape[1] - 0.5)
    image = axes.imshow(
        np.ma.masked_equal(shown.T, 0), origin="lower", aspect="auto", interpolation="nearest", extent=edges,
        cmap=scale, norm=norm,
    )  # fmt: skip
    axes.set_ylabel("class")
    _mark_classes(axes, [str(label) for label in range(counts.shape[1])])
    bar = figure.colorbar(image, ax=axes, pad=0.01, aspect=40)
    bar.outline.set_visible(False)
    bar.set_label(f"examples{place} (white: none)")
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0)


def _merged(counts: NDArray[np.int64]) -> tuple[NDArray[np.float64], str]:
    """Mean counts of neighbours where there are more clients than a figure has columns."""
    together = -(-len(counts) // _MOST_COLUMNS)
    if together == 1:
        return counts.astype(np.float64), ""
    starts = np.arange(0, len(counts), together)
    sizes = np.diff(np.append(starts, len(counts)))
    return np.add.reduceat(counts, starts, axis=0) / sizes[:, None], f", mean of {together} clients"


def _draw_totals(
    axes: Axes,
    counts: NDArray[np.int64],
    names: list[str],
    colours: Sequence[str | tuple[float, float, float]],
) -> None:
    """Examples of each class, which also says what the colours are."""
    axes.barh(range(len(names)), counts.sum(axis=0), color=colours, height=0.8, linewidth=0)
    axes.set_ylim(-0.5, len(names) - 0.5)
    _mark_classes(axes, names)
    axes.set_xlabel("examples")
    axes.xaxis.set_major_formatter(_short)
    axes.locator_params(axis="x", nbins=3)
    bare(axes, grid="x")


def _mark_classes(axes: Axes, names: list[str]) -> None:
    step = -(-len(names) // _MOST_NAMES)
    places = list(range(0, len(names), step))
    axes.set_yticks(places, [names[place] for place in places])


def _short(value: float, _: object) -> str:
    """A count in few characters.

    >>> _short(1500, None), _short(2_000_000, None), _short(70, None)
    ('1.5k', '2M', '70')
    """
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
