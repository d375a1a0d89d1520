"""Figures: made for any result, the same file for the same result, and without traces in matplotlib's global state."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

import matplotlib as mpl

from fedcbs.errors import InvalidArgumentError, MissingExtraError
from fedcbs.laboratory import BalanceResult, balance, population
from fedcbs.plotting import check_figure_path, colours_of, figure_of_balance, plot_balance
from fedcbs.selectors import selector_types

SMALL = population("dirichlet-hsu:0.3", num_clients=30, num_classes=4, examples_per_client=20)


@pytest.fixture(scope="module")
def result() -> BalanceResult:
    return balance(["everyone", "uniform", "fedcbs-exact"], SMALL, cohort_size=4, rounds=30, seeds=2)


@pytest.mark.parametrize(("suffix", "head"), [(".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml")])
def test_a_figure_is_saved_in_the_format_of_its_suffix_and_the_same_each_time(
    result: BalanceResult, tmp_path: Path, suffix: str, head: bytes
) -> None:
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    plot_balance(result, first)
    plot_balance(result, second)
    assert first.read_bytes().startswith(head)
    assert first.read_bytes() == second.read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


def test_a_figure_says_what_it_shows(result: BalanceResult) -> None:
    figure = figure_of_balance(result)
    assert len(figure.axes) == 4
    assert all(axes.get_title(loc="left") for axes in figure.axes)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(result)
    rounds = figure.axes[0]
    means = {line.get_label(): np.asarray(line.get_ydata()) for line in rounds.get_lines()}
    assert means["uniform"][-1] == pytest.approx(result["uniform"].qcid[:, -3:].mean())


def test_the_users_settings_are_left_alone(result: BalanceResult, tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    plot_balance(result, tmp_path / "figure.svg")
    assert dict(mpl.rcParams) == before
    pyplot = importlib.import_module("matplotlib.pyplot")
    assert pyplot.get_fignums() == []


@pytest.mark.parametrize(
    ("counts", "options"),
    [
        ([[2, 0], [0, 2]], {"cohort_size": 2}),  # balanced exactly: QCID 0 in every round
        ([[2, 0], [2, 0]], {"cohort_size": 1}),  # one class only
        (np.eye(70, dtype=int), {"cohort_size": 3}),  # more classes than there are borders to draw
        ([[2, 1], [1, 2]], {"cohort_size": 1, "rounds": 1, "seeds": 1}),
        (np.eye(4, dtype=int), {"cohort_size": 1, "availability": "bernoulli:0.1", "rounds": 40, "seeds": 2}),
    ],
    ids=["balanced", "one class", "many classes", "one round", "skipped rounds"],
)
def test_unusual_results_can_be_drawn(counts: object, options: dict[str, object], tmp_path: Path) -> None:
    settings = {"availability": "always", "rounds": 12, "seeds": 2, **options}
    found = balance(["everyone", "uniform", "fedcbs-exact"], counts, **settings)  # type: ignore[arg-type]
    plot_balance(found, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_colours_are_distinct_and_belong_to_names() -> None:
    names = [*selector_types()]
    assert colours_of(names[:6]) == {name: colours_of([*reversed(names[:6])])[name] for name in names[:6]}
    assert len(set(colours_of(names[:12]).values())) == 12
    assert colours_of(["uniform"])["uniform"] == colours_of(names)["uniform"]


@pytest.mark.parametrize("path", ["figure", "figure.gif", "nowhere/figure.png"])
def test_a_path_that_cannot_be_drawn_to_is_refused(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgumentError, match="figure"):
        check_figure_path(path)


def test_without_matplotlib_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)  # noqa: ARG005
    with pytest.raises(MissingExtraError, match=r"pip install 'fedcbs\[plot\]'"):
        check_figure_path(tmp_path / "figure.png")
