"""The figure of a label-only comparison: balance over rounds, its distribution, participation, and a cohort each."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedcbs.laboratory import BalanceResult, lorenz_curve
from fedcbs.plotting._save import check_figure_path, require_matplotlib, save_figure
from fedcbs.plotting._style import FAINT, INK, RC, bare, class_colours, colours_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["figure_of_balance", "plot_balance"]


def plot_balance(result: BalanceResult, path: str | os.PathLike[str]) -> None:
    """Draw the figure of a comparison into a .png, .pdf or .svg file."""
    check_figure_path(path)
    save_figure(figure_of_balance(result), path)


def figure_of_balance(result: BalanceResult) -> Figure:
    """Draw a comparison: a figure that belongs to no window and to no pyplot state.

    Parameters
    ----------
    result
        What :func:`fedcbs.laboratory.balance` returned.
    """
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(RC):
        names = len(result)
        figure = Figure(figsize=(11.0, 6.4 + 0.22 * max(names - 6, 0)), layout="constrained")
        rows = figure.add_gridspec(2, 1, height_ratios=(1.25, 1.0))
        above = rows[0].subgridspec(1, 2, width_ratios=(1.7, 1.0))
        below = rows[1].subgridspec(1, 2, width_ratios=(1.0, 1.7))
        over_rounds = figure.add_subplot(above[0])
        spread = figure.add_subplot(above[1], sharey=over_rounds)
        scale = _Scale.of(result)
        colours = colours_of(result)
        _draw_rounds(over_rounds, result, colours, scale)
        _draw_spread(spread, result, colours, scale)
        scale.apply(over_rounds)
        _draw_participation(figure.add_subplot(below[0]), result, colours)
        _draw_shares(figure.add_subplot(below[1]), result)
        handles, labels = over_rounds.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=min(names, 6), handlelength=1.6)
    return figure


@dataclasses.dataclass(frozen=True)
class _Scale:
    """A logarithmic scale of QCID; its foot stands for all that is lower, since some cohorts are balanced exactly.

    Parameters
    ----------
    foot, top
        Powers of ten. Under the foot, which is a decade below the lowest mean at most, nothing is told apart.
    """

    foot: float
    top: float

    @classmethod
    def of(cls, result: BalanceResult) -> _Scale:
        values = [found.qcid[~np.isnan(found.qcid)] for found in result.values()]
        means = np.array([part.mean() for part in values])
        lowest = float(means[means > 0].min(initial=1.0)) / 10
        least = max(min(float(np.percentile(part, 5)) for part in values), lowest)
        highest = max(float(part.max()) for part in values)
        return cls(10.0 ** np.floor(np.log10(least)), 10.0 ** np.ceil(np.log10(max(highest, 10 * least))))

    def drawn(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values as they are drawn: nothing under the foot."""
        return np.maximum(values, self.foot)

    def apply(self, axes: Axes) -> None:
        """Set the scale, and name its foot."""
        exponents = range(round(np.log10(self.foot)), round(np.log10(self.top)) + 1)
        axes.set_yscale("log")
        axes.set_ylim(self.foot * 0.85, self.top)
        labels = [f"$10^{{{k}}}$" for k in exponents]
        labels[0] = f"≤ $10^{{{exponents[0]}}}$"
        axes.set_yticks([10.0**k for k in exponents], labels)
        axes.set_yticks([], minor=True)


def _draw_rounds(axes: Axes, result: BalanceResult, colours: dict[str, str], scale: _Scale) -> None:
    """Mean over seeds of a running mean, with the band from the lowest to the highest seed."""
    from matplotlib.ticker import MaxNLocator

    rounds = result.target_sizes.shape[1]
    window = max(1, rounds // 10)
    numbers = np.arange(window, rounds + 1)
    for (name, found), stroke in zip(result.items(), _strokes(result), strict=True):
        smooth = np.ma.masked_invalid(_running_mean(found.qcid, window))
        low, middle, high = (
            scale.drawn(of(axis=0).filled(np.nan)) for of in (smooth.min, smooth.mean, smooth.max)
        )
        if len(result.seeds) > 1:
            axes.fill_between(numbers, low, high, color=colours[name], alpha=0.16, linewidth=0)
        dot = "o" if len(numbers) == 1 else None
        axes.plot(numbers, middle, color=colours[name], label=name, marker=dot, **stroke)
    axes.set_title("Imbalance of each cohort (lower is better)")
    axes.set_xlabel("round" + (f" (mean of the last {window})" if window > 1 else ""))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("QCID")
    axes.margins(x=0.01)
    bare(axes, grid="y")


def _draw_spread(axes: Axes, result: BalanceResult, colours: dict[str, str], scale: _Scale) -> None:
    """Quartiles as a box, the 5th to the 95th percentile as whiskers, the mean as a dot; all rounds of all seeds."""
    for place, (name, found) in enumerate(result.items()):
        values = scale.drawn(found.qcid[~np.isnan(found.qcid)])
        low, first, middle, third, high = np.percentile(values, [5, 25, 50, 75, 95])
        colour = colours[name]
        axes.vlines(place, low, high, color=colour, linewidth=1.4)
        axes.bar(place, third - first, bottom=first, width=0.56, color=colour, alpha=0.35, linewidth=0)
        axes.hlines(middle, place - 0.28, place + 0.28, color=colour, linewidth=2.2)
        axes.plot(
            place, max(found.qcid_mean, scale.foot), "o", color="white", markeredgecolor=colour, markersize=5
        )
    axes.set_title("Its distribution over all rounds")
    axes.set_xticks(range(len(result)), list(result), rotation=28, ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.6, len(result) - 0.4)
    axes.tick_params(labelleft=False)
    bare(axes, grid="y")


def _draw_participation(axes: Axes, result: BalanceResult, colours: dict[str, str]) -> None:
    """Lorenz curves, of the clients of all seeds together."""
    axes.plot([0, 1], [0, 1], color=FAINT, linewidth=1.0, linestyle=(0, (4, 3)))
    for (name, found), stroke in zip(result.items(), _strokes(result), strict=True):
        clients, selections = lorenz_curve(found.histogram.sum(axis=0))
        axes.plot(clients, selections, color=colours[name], **stroke)
    axes.annotate("all alike", (0.42, 0.45), rotation=38, color=FAINT, ha="center", rotation_mode="anchor")
    axes.set_title("Participation")
    axes.set_xlabel("share of clients, least selected first")
    axes.set_ylabel("share of all selections")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.01)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:.0%}")
    bare(axes, grid="both")


def _draw_shares(axes: Axes, result: BalanceResult) -> None:
    """Label shares of each selector's last cohort, stacked; dashed lines where the borders of a balanced one are."""
    names = list(result)
    shares = np.stack([result[name].label_shares[0] for name in names])
    num_classes = shares.shape[1]
    bordered = num_classes <= 20
    if not bordered:  # too many borders to see; a balanced cohort to compare with
        names, shares = [*names, "(balanced)"], np.vstack([shares, np.full(num_classes, 1 / num_classes)])
    left = np.zeros(len(names))
    for label, colour in enumerate(class_colours(num_classes)):
        bars = {"color": colour, "height": 0.7, "edgecolor": "white", "linewidth": 0.6 * bordered}
        axes.barh(names, shares[:, label], left=left, **bars)
        left += shares[:, label]
    if bordered:
        for border in np.arange(1, num_classes) / num_classes:
            axes.axvline(border, color="#D55E00", linewidth=1.1, linestyle=(0, (3, 2)))
    axes.set_title("Labels of the last cohort")
    axes.set_xlabel(f"share of each of {num_classes} classes" + (" (dashed: balanced)" if bordered else ""))
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.invert_yaxis()
    axes.tick_params(length=0, labelcolor=INK)
    axes.spines["left"].set_visible(False)


def _strokes(result: BalanceResult) -> list[dict[str, Any]]:
    """Strokes of lines, each wider than and under the one before, so that both show of two that coincide."""
    widths = np.linspace(1.4, 2.6, len(result))
    return [{"linewidth": float(width), "zorder": 3.0 - float(width) / 10} for width in widths]


def _running_mean(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """Mean of the last `window` rounds, from the first round that has so many; rounds without a cohort do not count."""
    held = ~np.isnan(values)
    sums = np.cumsum(np.pad(np.where(held, values, 0.0), ((0, 0), (1, 0))), axis=1)
    numbers = np.cumsum(np.pad(held, ((0, 0), (1, 0))), axis=1)
    totals, counts = sums[:, window:] - sums[:, :-window], numbers[:, window:] - numbers[:, :-window]
    return np.where(counts > 0, np.maximum(totals, 0.0) / np.maximum(counts, 1), np.nan)
