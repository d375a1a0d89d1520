"""All charts of a page, in their order."""

from __future__ import annotations

from collections.abc import Sequence

from fedcbs.report._bar_charts import bytes_sent, seconds_spent
from fedcbs.report._chart import Chart
from fedcbs.report._cohort_charts import class_ranges, participations, per_class, typical_cohorts
from fedcbs.report._curves import curves
from fedcbs.report._groups import Group

__all__ = ["charts"]


def charts(groups: Sequence[Group]) -> list[Chart]:
    """Return the charts that these runs have the numbers for."""
    single = (class_ranges, typical_cohorts, per_class)
    made = [
        *curves(groups),
        *(make(groups) for make in single),
        *participations(groups),
        seconds_spent(groups),
        bytes_sent(groups),
    ]
    return [chart for chart in made if chart is not None and chart.traces]
