"""Figures for papers: small, plain, with text that stays text in a PDF."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from fedcbs._files import write_whole
from fedcbs.errors import InvalidArgumentError, UnknownNameError
from fedcbs.laboratory import lorenz_curve
from fedcbs.plotting import _style as house
from fedcbs.plotting._save import require_matplotlib
from fedcbs.report._groups import Group
from fedcbs.report._measure import Band, axes_of, band, class_shares, per_class_of, running_mean, thin
from fedcbs.report._style import Look, looks_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["PANELS", "figure", "write_figure"]

_WIDTH, _HEIGHT = 3.3, 2.45
"""Inches of a panel: a column of a conference paper."""

_STYLE: dict[Any, Any] = {
    "font.size": 8.0,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8.0,
    "legend.fontsize": 7.5,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "pdf.fonttype": 42,  # Type 3 fonts are refused by many submission systems
    "svg.hashsalt": "fedcbs",
    "text.usetex": False,
}


def write_figure(
    groups: Sequence[Group],
    path: str | os.PathLike[str],
    *,
    kind: str,
    panels: Sequence[str] | None = None,
) -> None:
    """Draw panels into a file, whole or not at all."""
    drawn = figure(groups, panels)
    metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}[kind]
    from matplotlib import rc_context

    def write(file: BinaryIO) -> None:
        drawn.savefig(file, format=kind, dpi=300, metadata=metadata)

    with rc_context({**house.RC, **_STYLE}):
        write_whole(path, write)


def figure(groups: Sequence[Group], panels: Sequence[str] | None = None) -> Figure:
    """Draw panels, two in a row.

    Parameters
    ----------
    groups
        What to compare.
    panels
        Names of :data:`PANELS`; all that these runs have the numbers for, where none are given.
    """
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    for name in panels or ():
        if name not in PANELS:
            raise UnknownNameError("panel", name, PANELS)
    looks = looks_of(groups)
    names = list(panels or PANELS)
    with rc_context({**house.RC, **_STYLE}):
        probe = Figure()
        held = [name for name in names if PANELS[name](probe.add_subplot(), groups, looks)]
        if not held:
            raise InvalidArgumentError(
                f"panels={','.join(names)!r}: these runs have no numbers for any of them; name others"
            )
        columns = min(len(held), 2)
        rows = -(-len(held) // columns)
        drawn = Figure(
            figsize=(_WIDTH * columns, _HEIGHT * rows + 0.16 * (-(-len(groups) // (2 * columns)))),
            layout="constrained",
        )
        for place, name in enumerate(held, start=1):
            axes = drawn.add_subplot(rows, columns, place)
            PANELS[name](axes, groups, looks)
            house.bare(axes, grid="y")
        _legend(drawn, groups, looks, columns)
    return drawn


def _legend(drawn: Figure, groups: Sequence[Group], looks: Sequence[Look], columns: int) -> None:
    from matplotlib.lines import Line2D

    if len(groups) < 2:
        return
    handles = [
        Line2D(
            [],
            [],
            color=k.light,
            linestyle=k.mpl_dash,
            marker=k.mpl_marker,
            markersize=3.5,
            label=g.short.replace("$", r"\$"),
        )
        for g, k in zip(groups, looks, strict=True)
    ]
    widest = max(len(group.short) for group in groups)
    across = max(1, min(len(groups), round(columns * 44 / (widest + 6))))
    drawn.legend(handles=handles, loc="outside upper center", ncols=across, handlelength=2.6)


def _curve(
    axes: Axes, bands: Sequence[Band], looks: Sequence[Look], scale: float = 1.0, over: Any = None
) -> bool:
    drawn = False
    for number, (found, look) in enumerate(zip(map(thin, bands), looks, strict=True)):
        if not len(found.rounds):
            continue
        x = found.rounds if over is None else over(number, found.rounds)
        if x is None:
            continue
        if (found.seeds > 1).any():
            low, high = scale * (found.mean - found.std), scale * (found.mean + found.std)
            axes.fill_between(x, low, high, color=look.light, alpha=0.15, linewidth=0)
        axes.plot(
            x,
            scale * found.mean,
            color=look.light,
            linestyle=look.mpl_dash,
            marker=look.mpl_marker,
            markersize=3.2,
            markevery=max(1, len(found.rounds) // 8),
            linewidth=1.1,
        )
        drawn = True
    axes.margins(x=0.01)
    return drawn


def _accuracy(axes: Axes, groups: Sequence[Group], looks: Sequence[Look]) -> bool:
    axes.set(xlabel="Round", ylabel="Test accuracy (%)")
    return _curve(axes, [band(group, "accuracy") for group in groups], looks, 100)


def _worst_class(axes: Axes, groups: Sequence[Group], looks: Sequence[Look]) -> bool:
    axes.set(xlabel="Round", ylabel="Accuracy of the worst class (%)")
    return _curve(axes, [band(group, "worst_class_accuracy") for group in groups], looks, 100)


def _loss(axes: Axes, groups: Sequence[Group], looks: Sequence[Look]) -> bool:
    axes.set(xlabel="Round", ylabel="Test loss")
    return _curve(axes, [band(group, "test_loss") for group in groups], looks)


def _accuracy_over(axis: str, label: str) -> Callable[[Axes, Sequence[Group], Sequence[Look]], bool]:
    def draw(axes: Axes, groups: Sequence[Group], looks: Sequence[Look]) -> bool:
        axes.set(xlabel=label, ylabel="Test accuracy (%)")
        bands = [band(group, "accuracy") for group in groups]
        return _curve(
            axes, bands, looks, 100, over=lambda number, rounds: axes_of(groups[number], rounds).get(axis)
        )

    return draw


def _qcid(axes: Axes, groups: Sequence[Group], looks: Sequence[Look]) -> bool:
    longest = max(len(run.rounds) for group in groups for run in group.runs)
    window = max(1, longest // 50)
    bands = [band(group, lambda run: running_mean(100 * run.columns["qcid"], window)) for group in groups]
    means = np.concatenate([found.mean for found in bands])
    positive = means[np.isfinite(means) & (means > 0)]
    foot = 10.0 ** math.floor(math.log10(positive.min())) if positive.size else 1e-4
    foot = max(foot, 10.0 ** (math.ceil(math.log10(positive.max())) - 4)) if positive.size else foot
    shown = [_above(found, foot) for found in bands]
    axes.set(xlabel="Round" + (f" (mean of the last {window})" if window > 1 else ""), ylabel="QCID (1e-2)")
    drawn = _curve(axes, shown, looks)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    return drawn


def _above(found: Band, foot: float) -> Band:
    """The band with nothing under the foot of a logarithmic scale."""
    mean = np.maximum(found.mean, foot)
    return Band(found.rounds, mean, np.minimum(found.std, mean - foot), found.seeds)


def _participation(axes: Axes, groups: Sequence[Group], looks: Sequence[Look]) -> bool:
    drawn = False
    for group, look in zip(groups, looks, strict=True):
        times = [run.times_selected() for run in group.runs if run.times_selected().any()]
        if times:
            clients, selections = lorenz_curve(np.bincount(np.concatenate(times)))
            axes.plot(
                100 * clients, 100 * selections, color=look.light, linestyle=look.mpl_dash, linewidth=1.1
            )
            drawn = True
    axes.plot([0, 100], [0, 100], color=house.FAINT, linewidth=0.7, linestyle=(0, (4, 3)))
    axes.set(xlabel="Clients, least selected first (%)", ylabel="Of all selections (%)")
    return drawn


def _labels(axes: Axes, groups: Sequence[Group], looks: Sequence[Look]) -> bool:
    found = [
        (look, share)
        for group, look in zip(groups, looks, strict=True)
        if (share := class_shares(group)) is not None
    ]
    for place, (look, share) in enumerate(found):
        x = np.arange(share.shape[1]) + 0.8 * ((place + 0.5) / len(found) - 0.5)
        axes.vlines(x, 100 * share[0], 100 * share[2], color=look.light, linewidth=1.1)
        axes.plot(x, 100 * share[1], look.mpl_marker, color=look.light, markersize=2.6)
    if found:
        axes.axhline(100 / found[0][1].shape[1], color=house.FAINT, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.set(xlabel="Class", ylabel="Share of the cohort (%)")
    return bool(found)


def _per_class(axes: Axes, groups: Sequence[Group], looks: Sequence[Look]) -> bool:
    found = [
        (look, row)
        for group, look in zip(groups, looks, strict=True)
        if (row := per_class_of(group)) is not None
    ]
    for place, (look, row) in enumerate(found):
        x = np.arange(len(row)) + 0.7 * ((place + 0.5) / len(found) - 0.5)
        axes.plot(x, 100 * row, look.mpl_marker, color=look.light, markersize=3.4)
    axes.set(xlabel="Class", ylabel="Accuracy of the class (%)")
    return bool(found)


PANELS: dict[str, Callable[[Any, Sequence[Group], Sequence[Look]], bool]] = {
    "accuracy": _accuracy,
    "qcid": _qcid,
    "worst-class": _worst_class,
    "loss": _loss,
    "labels": _labels,
    "per-class": _per_class,
    "participation": _participation,
    "bytes": _accuracy_over("megabytes", "Megabytes sent"),
    "time": _accuracy_over("seconds", "Seconds of computing"),
    "simulated-time": _accuracy_over("simulated_seconds", "Simulated seconds"),
}
"""Panels of a figure by name."""
