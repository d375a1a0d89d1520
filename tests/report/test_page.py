"""The page in a real browser: it draws, its switches work, nothing complains, and nothing is asked of anybody."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedcbs.report import write_report
from tests.report.browser import Page, browser
from tests.report.runs import write_run, write_runs

METHODS = ("everyone", "uniform", "fedcbs-exact")

HOSTILE = (
    '"><img src=x onerror=alert(1)></script><b>%{x} ${1} \u2028 =1+1 <a href="javascript:alert(1)">é</a>'
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_report([write_runs(folder / "runs", METHODS)], folder / "report.html", title="Three methods")
    return folder / "report.html"


@pytest.fixture
def opened(page: Page, report: Path) -> Page:
    page.complaints.clear()
    page.requests.clear()
    page.prefer("light")
    page.open(report)
    page.run("localStorage.clear()")
    page.open(report)
    return page


def asked(page: Page) -> set[str]:
    """What was asked for besides pictures that stand in the page itself."""
    return {url for url in page.requests if not url.startswith("data:")}


def traces(page: Page, chart: str) -> list[str]:
    return page.run(
        f"document.getElementById('chart-{chart}').data.filter(t => !t.meta.band).map(t => t.name)"
    )


def test_all_charts_are_drawn_and_nothing_complains_or_leaves(opened: Page, report: Path) -> None:
    assert opened.run("document.body.dataset.ready") == "yes"
    assert opened.run("document.getElementById('heading').textContent") == "Three methods"
    charts = opened.run(
        "[...document.querySelectorAll('.chart')].map(c => [c.id, c.querySelectorAll('svg').length])"
    )
    assert {name for name, _ in charts} >= {
        f"chart-{name}"
        for name in (
            "accuracy", "qcid", "worst-class", "loss", "labels", "cohort", "per-class", "participation-0",
            "participation-2", "time", "bytes",
        )
    }  # fmt: skip
    assert all(drawn for _, drawn in charts)
    drawn = "document.querySelectorAll('#chart-accuracy .scatterlayer .trace .js-line').length"
    assert opened.run(drawn) == 2 * len(METHODS)  # lines, and the bands under them
    assert opened.complaints == []
    assert asked(opened) == {report.resolve().as_uri()}


def test_no_button_of_a_chart_sends_it_anywhere(opened: Page, report: Path) -> None:
    titles = opened.run("[...document.querySelectorAll('.modebar-btn')].map(button => button.dataset.title)")
    assert set(titles) == {"Download plot", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"}
    opened.call("Browser.setDownloadBehavior", behavior="deny")
    opened.run("document.querySelectorAll('#chart-accuracy .modebar-btn').forEach(button => button.click())")
    opened.wait_for("document.querySelector('.plotly-notifier')")
    assert {url for url in asked(opened) if not url.startswith("blob:")} == {report.resolve().as_uri()}
    assert opened.complaints == []


def test_a_method_goes_from_all_charts_and_comes_back(opened: Page) -> None:
    click = "document.querySelector('#methods [data-group=\"1\"]').click()"
    before = traces(opened, "accuracy")
    opened.run(click)
    gone = ({*before} - {*traces(opened, "accuracy")}).pop()
    for chart in ("accuracy", "qcid", "labels"):
        assert gone not in traces(opened, chart)
        assert len(traces(opened, chart)) == 2
    for chart in ("cohort", "per-class", "time", "bytes"):
        assert opened.run(f"document.getElementById('chart-{chart}').data[0].y.length") == 2
    assert opened.run("document.querySelector('figure[data-group=\"1\"]').hidden")
    assert opened.run("document.querySelector('#overview tr[data-group=\"1\"]').classList.contains('off')")
    assert (
        opened.run("document.querySelector('#methods [data-group=\"1\"]').getAttribute('aria-pressed')")
        == "false"
    )
    opened.run(click)
    assert traces(opened, "accuracy") == before
    opened.run("document.getElementById('all').click()")
    assert traces(opened, "accuracy") == []
    opened.run("document.getElementById('all').click()")
    assert traces(opened, "qcid") == before
    assert opened.complaints == []


def test_curves_go_over_rounds_or_bytes_or_seconds(opened: Page) -> None:
    x = "document.getElementById('chart-accuracy').data.at(-1).x.at(-1)"
    assert opened.run(x) == 60
    opened.run("document.querySelector('#axes input[value=megabytes]').click()")
    assert opened.run(x) == pytest.approx(60 * 2 * 5 * 62_000 * 4 / 1e6)
    title = "document.querySelector('#chart-qcid .xtitle').textContent"
    assert opened.run(title) == "Megabytes sent, both ways"
    opened.run("document.querySelector('#axes input[value=seconds]').click()")
    assert opened.run(x) == pytest.approx(60 * 0.115, rel=1e-3)
    assert opened.complaints == []


def test_dark_follows_the_system_until_the_reader_chooses(opened: Page, report: Path) -> None:
    theme = "document.documentElement.dataset.theme"
    ink = "document.getElementById('chart-accuracy').layout.font.color"
    assert opened.run(theme) == "light"
    light = opened.run(ink)
    opened.prefer("dark")
    opened.wait_for(f"{theme} === 'dark'")
    assert opened.run(ink) != light
    opened.run("document.getElementById('theme').click()")
    assert (opened.run(theme), opened.run(ink)) == ("light", light)
    opened.open(report)
    assert opened.run(theme) == "light"
    assert opened.complaints == []


def test_a_reader_with_a_keyboard_reaches_switches_and_values(opened: Page) -> None:
    seen = []
    for _ in range(40):
        opened.press("Tab")
        seen.append(opened.run("document.activeElement.id || document.activeElement.dataset.group || ''"))
        if seen[-1] == "chart-accuracy":
            break
    assert {"theme", "print", "0", "1", "2", "all", "chart-accuracy"} <= set(seen)
    opened.press("ArrowRight")
    opened.press("End")
    opened.wait_for("document.getElementById('live').textContent.includes('60')")
    spoken = opened.run("document.getElementById('live').textContent")
    assert all(method in spoken for method in METHODS)
    assert "seeds" in spoken
    opened.run("document.querySelector('#methods [data-group=\"0\"]').focus()")
    opened.press(" ")
    assert len(traces(opened, "accuracy")) == 2
    for chart in ("bytes", "per-class", "participation-1"):
        opened.run(f"document.getElementById('chart-{chart}').focus()")
        opened.run("document.getElementById('live').textContent = ''")
        opened.press("ArrowRight")
        opened.wait_for("document.getElementById('live').textContent")
    assert opened.complaints == []


def test_every_chart_has_a_table_and_every_line_its_own_dash_and_marker(opened: Page) -> None:
    without = "[...document.querySelectorAll('main figure')].filter(f => !f.closest('section').querySelector('table')).map(f => f.innerText)"
    assert opened.run(without) == []
    looks = opened.run(
        "document.getElementById('chart-accuracy').data.filter(t => !t.meta.band)"
        ".map(t => [t.line.color, t.line.dash, t.marker.symbol])"
    )
    for kind in zip(*looks, strict=True):
        assert len(set(kind)) == len(METHODS)


def test_it_prints_in_light_whatever_the_screen_is(opened: Page) -> None:
    opened.run("document.getElementById('theme').click()")
    opened.run("window.dispatchEvent(new Event('beforeprint'))")
    assert opened.run("document.documentElement.dataset.theme") == "light"
    assert opened.run("document.getElementById('chart-accuracy').layout.width") < 800
    opened.run("window.dispatchEvent(new Event('afterprint'))")
    assert opened.run("document.documentElement.dataset.theme") == "dark"
    paper = opened.pdf()
    assert paper.startswith(b"%PDF")
    assert paper.count(b"/Type /Page") > 3
    assert opened.complaints == []


def test_names_stay_names(page: Page, tmp_path: Path) -> None:
    extra = {"model": {"name": HOSTILE}}
    write_run(tmp_path / "runs" / "a", "uniform", rounds=5, extra=extra)
    write_run(tmp_path / "runs" / "b", "uniform", rounds=5, extra={HOSTILE: {"<i>": "</table>"}})
    write_report([tmp_path / "runs"], tmp_path / "r.html", title=HOSTILE)
    page.complaints.clear()
    page.requests.clear()
    page.open(tmp_path / "r.html")
    assert page.run("document.title").split() == HOSTILE.split()
    assert page.run("document.querySelectorAll('main img, main i, body a:not(.skip), figure b').length") == 0
    chips = page.run("[...document.querySelectorAll('#methods button')].map(b => b.textContent)")
    assert any(HOSTILE[:30] in chip for chip in chips)
    page.run("document.getElementById('chart-accuracy').focus()")
    page.press("ArrowRight")
    page.wait_for("document.getElementById('live').textContent.includes('<img src=x')")
    assert page.complaints == []
    assert asked(page) == {(tmp_path / "r.html").resolve().as_uri()}


def test_runs_that_lack_nearly_everything_make_a_page(page: Page, tmp_path: Path) -> None:
    folder = tmp_path / "flower"
    folder.mkdir()
    lines = [{"round": index, "cohort": ["17a", "b"], "accuracy": index / 10} for index in range(1, 4)]
    (folder / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "fresh").mkdir()
    (tmp_path / "fresh" / "rounds.jsonl").write_text("")
    write_report([tmp_path], tmp_path / "r.html")
    page.complaints.clear()
    page.open(tmp_path / "r.html")
    assert page.run("document.body.dataset.ready") == "yes"
    assert traces(page, "accuracy") == ["flower"]
    assert page.run("document.getElementById('overview').innerText").count("unfinished") == 2
    assert page.complaints == []


def test_runs_without_rounds_are_switched_like_others_and_complain_of_nothing(
    page: Page, tmp_path: Path
) -> None:
    for name, rounds in (("uniform", 9), ("fedcbs-exact", 6), ("everyone", 0)):
        write_run(tmp_path / name, name, rounds=rounds, status="finished" if rounds else "diverged")
    (tmp_path / "everyone" / "rounds.jsonl").unlink()
    write_report([tmp_path], tmp_path / "r.html")
    page.complaints.clear()
    page.open(tmp_path / "r.html")
    assert "1 run recorded no round" in page.run("document.querySelector('main p.warning').innerText")
    assert page.run("document.querySelector('#overview h3').textContent") == "Up to round 6"
    rows = "[...document.querySelectorAll('#overview tr[data-group] th')].map(cell => cell.textContent)"
    assert page.run(rows) == ["everyone", "fedcbs-exact", "uniform", "fedcbs-exact", "uniform"]
    assert traces(page, "accuracy") == ["fedcbs-exact", "uniform"]
    for number, left in ((0, ["fedcbs-exact", "uniform"]), (1, ["uniform"])):
        page.run(f"document.querySelector('#methods [data-group=\"{number}\"]').click()")
        assert page.run("document.getElementById('chart-time').data[0].y") == left
    assert page.run("document.querySelectorAll('#overview tr.off').length") == 3
    assert page.run("document.querySelectorAll('#overview tr.off[data-group=\"1\"]').length") == 2
    assert page.complaints == []
