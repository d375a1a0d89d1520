"""Figures of results; needs the extra ``plot``. Nothing here touches the state of pyplot."""

from fedcbs.plotting._audit import figure_of_audit, plot_audit
from fedcbs.plotting._balance import figure_of_balance, plot_balance
from fedcbs.plotting._label_counts import figure_of_label_counts, plot_label_counts
from fedcbs.plotting._run import figure_of_runs, plot_runs
from fedcbs.plotting._save import SUFFIXES, check_figure_path, save_figure
from fedcbs.plotting._style import colours_of

__all__ = [
    "SUFFIXES",
    "check_figure_path",
    "colours_of",
    "figure_of_audit",
    "figure_of_balance",
    "figure_of_label_counts",
    "figure_of_runs",
    "plot_audit",
    "plot_balance",
    "plot_label_counts",
    "plot_runs",
    "save_figure",
]
