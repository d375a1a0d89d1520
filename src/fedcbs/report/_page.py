"""The page: charts, tables and plotly itself in one file that asks nobody for anything."""

from __future__ import annotations

import base64
import gzip
import html
import importlib.resources
import importlib.util
import json
from collections.abc import Sequence
from typing import Any

import fedcbs
from fedcbs.errors import MissingExtraError
from fedcbs.report._chart import AXES, Chart
from fedcbs.report._chart_tables import table_of
from fedcbs.report._charts import charts
from fedcbs.report._groups import Group
from fedcbs.report._remarks import remarks_on
from fedcbs.report._style import looks_of
from fedcbs.report._table import Table
from fedcbs.report._tables import overview, overview_in_common, settings, targets_table

__all__ = ["page"]


def page(groups: Sequence[Group], *, title: str, targets: Sequence[float] | None = None) -> str:
    """Return a report on groups of runs as a page of HTML.

    Parameters
    ----------
    groups
        What to compare.
    title
        Stands on top, and on the tab.
    targets
        Accuracies to say the rounds to; chosen by what the runs reached where none are given.
    """
    library = _plotly()
    drawn = charts(groups)
    parts = {
        "title": html.escape(title),
        "about": html.escape(remarks_on(groups).holds),
        "style": _asset("page.css"),
        "script": _asset("page.js"),
        "tables": _overview(groups) + _targets(groups, targets),
        "charts": _charts(drawn, groups),
        "settings": _settings(groups),
        "version": html.escape(fedcbs.__version__),
        "payload": _json(_payload(groups, drawn)),
        "plotly": library,
    }
    text = _asset("page.html")
    for (
        name,
        part,
    ) in parts.items():  # in this order: what users wrote comes in after all that could mention a mark
        before, mark, after = text.partition(f"<!--{name}-->")
        assert mark, name
        text = before + part + after
    return text


def _payload(groups: Sequence[Group], drawn: Sequence[Chart]) -> dict[str, Any]:
    looks = looks_of(groups)
    return {
        "groups": [
            {"label": g.label, "light": k.light, "dark": k.dark, "dash": k.dash, "marker": k.marker}
            for g, k in zip(groups, looks, strict=True)
        ],
        "charts": [chart.payload() for chart in drawn],
        "axes": _axes(drawn),
    }


def _axes(drawn: Sequence[Chart]) -> dict[str, str]:
    """What all curves can be drawn over."""
    lines = [trace for chart in drawn if chart.over for trace in chart.traces]
    if not lines:
        return {}
    return {name: text for name, text in AXES.items() if all(name in line["meta"]["over"] for line in lines)}


def _json(document: object) -> str:
    """JSON that no parser of HTML takes for the end of the script."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _plotly() -> str:
    """Plotly's script as the package brings it, compressed."""
    if importlib.util.find_spec("plotly") is None:
        raise MissingExtraError("plotly", extra="report", purpose="a report as a page")
    script = importlib.resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    return base64.b64encode(gzip.compress(script, 9, mtime=0)).decode("ascii")


def _asset(name: str) -> str:
    return importlib.resources.files("fedcbs.report").joinpath("assets", name).read_text(encoding="utf-8")


def _section(name: str, title: str, content: str) -> str:
    return f'<section id="{name}"><h2>{html.escape(title)}</h2>\n{content}</section>\n'


def _overview(groups: Sequence[Group]) -> str:
    """All runs with all that they have; then, where lengths differ, up to the round that all have."""
    lacks, common = remarks_on(groups).lacks, overview_in_common(groups)
    warning = f'<p class="warning">{html.escape(lacks)}.</p>\n' if lacks else ""
    content = _table(overview(groups))
    if common is not None:
        content += f"<h3>Up to round {common[0]:,}</h3>\n{_table(common[1])}"
    return warning + _section("overview", "Overview", content)


def _targets(groups: Sequence[Group], targets: Sequence[float] | None) -> str:
    found = targets_table(groups, targets)
    return "" if found is None else _section("targets", "Rounds to a target accuracy", _table(found))


def _charts(drawn: Sequence[Chart], groups: Sequence[Group]) -> str:
    """A section for each chart; heat maps of participation stand together in one."""
    apart = [chart for chart in drawn if chart.group is None]
    maps = [chart for chart in drawn if chart.group is not None]
    sections = [(chart.name, _chart(chart, groups, "h2")) for chart in apart]
    if maps:
        place = next((i for i, (name, _) in enumerate(sections) if name == "time"), len(sections))
        table = table_of("participation", groups)
        inside = '<h2>Who was selected</h2>\n<div class="maps">'
        inside += "".join(_chart(chart, groups, "h3", alone=False) for chart in maps) + "</div>\n"
        inside += _details(table) if table is not None else ""
        sections.insert(place, ("participation", inside))
    return "".join(f'<section id="{name}">{inside}</section>\n' for name, inside in sections)


def _chart(chart: Chart, groups: Sequence[Group], heading: str, *, alone: bool = True) -> str:
    owner = "" if chart.group is None else f' data-group="{chart.group}"'
    table = table_of(chart.name, groups) if alone else None
    return (
        f'<figure class="card"{owner}><{heading}>{html.escape(chart.title)}</{heading}>\n'
        f'<div class="chart" id="chart-{chart.name}" tabindex="0" role="group" aria-roledescription="chart"'
        f' aria-label="{html.escape(chart.title)}. Arrow keys read values; a table follows."></div>\n'
        f"<figcaption>{html.escape(chart.note)}</figcaption>\n{_details(table) if table is not None else ''}</figure>\n"
    )


def _details(table: Table) -> str:
    return f"<details><summary>As a table</summary>{_table(table)}</details>"


def _settings(groups: Sequence[Group]) -> str:
    parts = [
        f"<details><summary>{html.escape(title)}</summary>{_table(table)}</details>"
        for title, table in settings(groups)
    ]
    return _section("settings", "Settings", "".join(parts))


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{html.escape(title)}</th>' for title in table.header)
    owners = list(table.groups) or [None] * len(table.rows)
    body = []
    for number, (row, owner) in enumerate(zip(table.rows, owners, strict=True)):
        swatch = '<span class="swatch" aria-hidden="true"></span>' if owner is not None else ""
        cells = [f'<th scope="row">{swatch}{html.escape(row[0])}</th>']
        for column, text in enumerate(row[1:], start=1):
            shown = html.escape(text)
            cells.append(
                f"<td><strong>{shown}</strong></td>"
                if (number, column) in table.best
                else f"<td>{shown}</td>"
            )
        body.append(
            f"<tr{'' if owner is None else f' data-group={chr(34)}{owner}{chr(34)}'}>{''.join(cells)}</tr>"
        )
    note = f'<p class="note">{html.escape(table.note)}</p>' if table.note else ""
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="table"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>{note}\n"
    )
