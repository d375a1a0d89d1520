"""The figure of an audit: what the selector recovers under each noise, how far off it is, and what the noise costs."""

from __future__ import annotations

import os
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from fedcbs.audit import AuditReport
from fedcbs.plotting._save import check_figure_path, require_matplotlib, save_figure
from fedcbs.plotting._style import FAINT, RC, bare, colours_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["figure_of_audit", "plot_audit"]

ALONE, WITH_INSIDERS = "#D55E00", ("#F0A472", "#F7D0B5")


def plot_audit(report: AuditReport, path: str | os.PathLike[str]) -> None:
    """Draw the figure of an audit into a .png, .pdf or .svg file."""
    check_figure_path(path)
    save_figure(figure_of_audit(report), path)


def figure_of_audit(report: AuditReport) -> Figure:
    """Draw an audit: a figure that belongs to no window and to no pyplot state.

    Parameters
    ----------
    report
        What :func:`fedcbs.audit.audit` returned.
    """
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(RC):
        figure = Figure(figsize=(11.0, 1.9 + 0.52 * len(report.rows)), layout="constrained")
        recovered, distance, cost = figure.subplots(
            1, 3, sharey=True, gridspec_kw={"width_ratios": (1.5, 1.0, 1.0)}
        )
        _draw_recovered(recovered, report)
        _draw_distance(distance, report)
        _draw_cost(cost, report)
        for axes in (recovered, distance, cost):
            bare(axes, grid="x")
        handles, labels = recovered.get_legend_handles_labels()
        more = cost.get_legend_handles_labels()
        figure.legend(
            [*handles, *more[0]], [*labels, *more[1]], loc="outside lower center", ncols=5, handlelength=1.4
        )
    return figure


def _draw_recovered(axes: Axes, report: AuditReport) -> None:
    """Bars of clients that are known: without names of classes by the attack alone, with names by insiders."""
    places = np.arange(len(report.rows))
    numbers = [number for number in (1, 3) if number in report.rows[0].insiders]
    thick = 0.8 / (1 + len(numbers))
    shift = (1 + len(numbers)) / 2 - 0.5
    axes.barh(
        places - shift * thick,
        [row.best.close for row in report.rows],
        height=thick,
        color=ALONE,
        label="attack alone (classes unnamed)",
    )
    for step, (number, colour) in enumerate(zip(numbers, WITH_INSIDERS, strict=False), start=1):
        axes.barh(
            places + (step - shift) * thick,
            [row.insiders[number].clients for row in report.rows],
            height=thick,
            color=colour,
            label=f"with {number} insider{'s' * (number > 1)} (classes named)",
        )
    axes.set_title("Clients whose label distribution\nthe selector knows within 5%")
    axes.set_yticks(places, [_label(row.noise) for row in report.rows])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.02)
    axes.xaxis.set_major_formatter("{x:.0%}")


def _draw_distance(axes: Axes, report: AuditReport) -> None:
    """How far off the recovered distributions are, beside the guess that everybody is like the pool."""
    places = np.arange(len(report.rows))
    axes.plot([row.best.mean_distance for row in report.rows], places, "o", color=ALONE)
    guess = report.rows[0].guess
    axes.axvline(guess, color=FAINT, linewidth=1.0, linestyle=(0, (4, 3)))
    axes.annotate(
        "blind guess",
        (guess, 0.02),
        xycoords=("data", "axes fraction"),
        xytext=(-3, 0),
        textcoords="offset points",
        rotation=90,
        ha="right",
        va="bottom",
        color=FAINT,
    )
    axes.set_title("How far off it is\n(mean total variation)")
    axes.set_xlim(-0.02, 1.05 * max(guess, *(row.best.mean_distance for row in report.rows)))


def _draw_cost(axes: Axes, report: AuditReport) -> None:
    """QCID that selectors reach when they see noised counts."""
    places = np.arange(len(report.rows))
    colours = colours_of(report.setting.selectors)
    for name in report.setting.selectors:
        values = [row.qcid[name] * 100 for row in report.rows]
        axes.plot(values, places, "o-", color=colours[name], linewidth=1.0, label=f"QCID of {name}")
    axes.set_title("What the noise costs\n(QCID in 1e-2)")
    axes.set_xlim(left=0)


def _label(noise: str | None) -> str:
    """A law of noise for an axis."""
    if noise is None:
        return "no noise"
    name, _, options = noise.partition(":")
    for option in options.split(","):
        key, _, value = option.partition("=")
        if key in ("epsilon", "rho"):
            return f"{name}, {key} {float(Fraction(value)):.3g}"
    return noise
