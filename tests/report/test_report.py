"""Runs are read leniently, grouped by all but the seed, and measured against slow references."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

from fedcbs.cli import main
from fedcbs.errors import InvalidArgumentError, MissingExtraError
from fedcbs.report import find_runs, group_runs, load_run, load_runs, write_report
from fedcbs.report._charts import charts
from fedcbs.report._groups import differences
from fedcbs.report._measure import axes_of, band, class_shares, participation, reached, running_mean
from fedcbs.report._paper import PANELS
from fedcbs.report._style import looks_of
from fedcbs.report._tables import overview, settings, targets_table
from tests.report.runs import write_run, write_runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_runs(
        tmp_path_factory.mktemp("runs"), ("uniform", "fedcbs-exact", "everyone"), rounds=30, evaluate_every=3
    )


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path / "r", "uniform", seed=4, rounds=12, evaluate_every=5))
    lines = [json.loads(line) for line in (tmp_path / "r" / "rounds.jsonl").read_text().splitlines()]
    assert (run.seed, run.status, run.num_clients) == (4, "finished", 40)
    assert run.rounds.tolist() == list(range(1, 13))
    assert [c.tolist() for c in run.cohorts] == [line["cohort"] for line in lines]
    evaluated = np.flatnonzero(np.isfinite(run.columns["accuracy"])) + 1
    assert evaluated.tolist() == [5, 10, 12]
    assert run.per_class is not None
    assert np.isnan(run.per_class[0]).all()
    assert run.columns["qcid"].tolist() == [line["qcid"] for line in lines]
    assert run.times_selected().tolist() == [sum(n in line["cohort"] for line in lines) for n in range(40)]


def test_a_run_in_progress_is_read_up_to_its_last_whole_line(tmp_path: Path) -> None:
    write_run(tmp_path / "r", rounds=6, status=None)
    file = tmp_path / "r" / "rounds.jsonl"
    file.write_text(file.read_text()[:-30])
    run = load_run(tmp_path / "r")
    assert (len(run.rounds), run.status) == (5, "unfinished")


def test_a_broken_line_within_a_run_is_named(tmp_path: Path) -> None:
    write_run(tmp_path / "r", rounds=6)
    file = tmp_path / "r" / "rounds.jsonl"
    lines = file.read_text().splitlines()
    for broken in ('{"round": ', '{"round": 2}', "[]", '{"round": "3"}', "NaN"):
        file.write_text("\n".join([*lines[:2], broken, *lines[3:]]))
        with pytest.raises(InvalidArgumentError, match="line 3"):
            load_run(tmp_path / "r")


def test_numbers_that_are_none_or_absurd_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "rounds.jsonl").write_text(
        '{"round": 1, "accuracy": "high", "qcid": NaN, "loss": Infinity, "cohort": [-1], "seconds": 3, "asked": [1]}\n'
        '{"round": 2, "accuracy": true, "per_class_accuracy": [0.5], "cohort": [1, 2], "bytes_up": 1e999}\n'
        '{"round": 7, "accuracy": 0.25, "per_class_accuracy": [0.1, null], "cohort_label_counts": [0, 0]}\n'
    )
    run = load_run(tmp_path)
    assert np.isnan(run.columns["qcid"]).all()
    assert np.isnan(run.columns["loss"]).all()
    assert [c.tolist() for c in run.cohorts] == [[], [1, 2], []]
    assert run.first_round_with(0.2) in (2, 7)
    (group,) = group_runs([run])
    assert class_shares(group) is None
    assert group.label == tmp_path.name
    charts([group])


def test_folders_are_searched_and_what_is_no_run_is_refused(runs: Path, tmp_path: Path) -> None:
    assert len(find_runs([runs])) == 6
    assert find_runs([runs / "uniform-0", runs]) == [
        runs / "uniform-0",
        *(p for p in find_runs([runs]) if p.name != "uniform-0"),
    ]
    for wrong in (tmp_path, tmp_path / "none", runs / "uniform-0" / "rounds.jsonl"):
        with pytest.raises(InvalidArgumentError, match="name"):
            find_runs([wrong])
    with pytest.raises(InvalidArgumentError, match="at least one"):
        load_runs([])


def test_seeds_are_one_group_and_labels_say_what_differs(tmp_path: Path) -> None:
    for seed in range(2):
        for rate in (0.01, 0.1):
            extra = {
                "training": {"learning_rate": rate, "decay": rate * 2},
                "run": {"checkpoint_every": seed},
            }
            write_run(tmp_path / f"u-{seed}-{rate}", "uniform", seed=seed, rounds=3, extra=extra)
        write_run(
            tmp_path / f"e-{seed}",
            "fedcbs-exact",
            seed=seed,
            rounds=3,
            extra={"selector": {"sweeps": 3}, "training": {"decay": 0.02}},
        )
    groups = {group.label: [run.seed for run in group.runs] for group in group_runs(load_runs([tmp_path]))}
    assert groups == {
        "fedcbs-exact, learning_rate=0.01": [0, 1],
        "uniform, learning_rate=0.01": [0, 1],
        "uniform, learning_rate=0.1": [0, 1],
    }
    assert set(differences(group_runs(load_runs([tmp_path])))) >= {"training.learning_rate", "selector.name"}


def test_options_of_one_selector_tell_its_groups_apart(tmp_path: Path) -> None:
    for sweeps in (1, 5):
        write_run(tmp_path / str(sweeps), "fedcbs-exact", rounds=2, extra={"selector": {"sweeps": sweeps}})
    write_run(tmp_path / "u", "uniform", rounds=2, extra={"data": {"auxiliary": 32}})
    labels = [group.label for group in group_runs(load_runs([tmp_path]))]
    assert labels == ["fedcbs-exact, sweeps=1", "fedcbs-exact, sweeps=5", "uniform"]
    assert len({look.light for look in looks_of(group_runs(load_runs([tmp_path])))}) == 3


def test_a_band_is_the_mean_over_the_seeds_that_got_there(tmp_path: Path) -> None:
    for seed, length in enumerate((9, 6, 3)):
        write_run(
            tmp_path / str(seed), seed=seed, rounds=length, evaluate_every=3, extra={"run": {"rounds": 9}}
        )
    write_run(tmp_path / "longer", seed=3, rounds=3, evaluate_every=4, extra={"run": {"rounds": 90}})
    (group,) = group_runs(load_runs([tmp_path]))
    assert len(group.runs) == 4
    group = dataclasses.replace(group, runs=group.runs[:3])
    found = band(group, "accuracy")
    assert found.rounds.tolist() == [3, 6, 9]
    assert found.seeds.tolist() == [3, 2, 1]
    for place, index in enumerate((3, 6, 9)):
        values = [run.columns["accuracy"][index - 1] for run in group.runs if len(run.rounds) >= index]
        assert found.mean[place] == pytest.approx(np.mean(values))
        assert found.std[place] == pytest.approx(np.std(values, ddof=1) if len(values) > 1 else 0.0)
    assert axes_of(group, found.rounds)["megabytes"][0] == pytest.approx(3 * 2 * 5 * 62_000 * 4 / 1e6)


def test_a_running_mean_is_what_a_loop_says() -> None:
    rng = np.random.default_rng(0)
    values = np.where(rng.random(50) < 0.3, np.nan, rng.random(50))
    for window in (1, 4, 100):
        parts = [values[max(0, i + 1 - window) : i + 1] for i in range(50)]
        slow = [np.nanmean(p) if np.isfinite(p).any() else math.nan for p in parts]
        np.testing.assert_allclose(running_mean(values, window), slow, atol=1e-12)


def test_participation_counts_every_selection_once(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path / "r", "uniform", rounds=130, num_clients=130))
    found = participation(run)
    assert found is not None
    assert run.label_counts is not None
    weights = np.diff(found.clients)[:, None] * np.diff(-(-np.arange(61) * 130 // 60))
    assert (found.share * weights).sum() == pytest.approx(130 * 5)
    assert found.main_class is not None
    assert (np.diff(found.main_class) >= 0).all()
    order = np.lexsort(
        (-run.label_counts.max(axis=1) / run.label_counts.sum(axis=1), run.label_counts.argmax(axis=1))
    )
    times = run.times_selected()[order]
    rows = (found.share * weights).sum(axis=1)
    for row, first, last in zip(rows, found.clients[:-1], found.clients[1:], strict=True):
        assert row == pytest.approx(times[first:last].sum())


def test_rounds_to_a_target_say_who_did_not_reach_it(runs: Path) -> None:
    groups = group_runs(load_runs([runs]))
    easy, hard = 0.05, 0.99
    table = targets_table(groups, [hard, easy])
    assert table is not None
    assert table.header[1::2] == ["Rounds to 5%", "Rounds to 99%"]
    for group, row in zip(groups, table.rows, strict=True):
        first = [int(run.rounds[np.flatnonzero(run.columns["accuracy"] >= easy)[0]]) for run in group.runs]
        assert row[1] == f"{np.mean(first):,.0f} ± {np.std(first, ddof=1):,.0f}"
        assert row[3:] == ["not reached", "-"]
        assert reached(group, easy).rounds == tuple(first)
    assert table.rows[[g.method for g in groups].index("uniform")][2] == "1.00"


def test_the_overview_marks_the_best_and_the_settings_name_the_rest(runs: Path) -> None:
    groups = group_runs(load_runs([runs]))
    table = overview(groups)
    column = table.header.index("QCID, 1e-2")
    assert [table.rows[row][0] for row, place in table.best if place == column] == ["everyone"]
    titles = [title for title, _ in settings(groups)]
    assert titles == ["What differs", "What is the same for all", "Versions", "Runs"]


def test_the_table_of_rounds_has_them_all(runs: Path, tmp_path: Path) -> None:
    write_report([runs], tmp_path / "rounds.csv")
    with (tmp_path / "rounds.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6 * 30
    first = rows[0]
    assert (first["method"], first["seed"], first["round"], first["accuracy"]) == ("everyone", "0", "1", "")
    assert float(first["qcid"]) == pytest.approx(load_run(runs / "everyone-0").columns["qcid"][0])


@pytest.mark.parametrize("kind", ["pdf", "png", "svg"])
def test_figures_are_the_same_file_each_time(runs: Path, tmp_path: Path, kind: str) -> None:
    pytest.importorskip("matplotlib")
    for name in "ab":
        write_report([runs], tmp_path / f"{name}.{kind}", panels=["accuracy", "qcid"])
    assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


def test_every_panel_can_be_drawn_alone(runs: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for panel in PANELS:
        if panel == "simulated-time":
            with pytest.raises(InvalidArgumentError, match="simulated-time"):
                write_report([runs], tmp_path / "p.svg", panels=[panel])
        else:
            write_report([runs / "uniform-0"], tmp_path / "p.svg", panels=[panel])


def test_a_page_is_the_same_each_time_and_plotly_takes_its_charts(runs: Path, tmp_path: Path) -> None:
    objects = pytest.importorskip("plotly.graph_objects")
    for name in ("a.html", "b.html"):
        write_report([runs], tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    for chart in charts(group_runs(load_runs([runs]))):
        objects.Figure(data=chart.traces, layout=chart.layout)  # refuses what plotly does not know


def test_a_large_comparison_stays_small(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    source = (write_run(tmp_path / "one", "uniform", rounds=3000) / "rounds.jsonl").read_bytes()
    config = json.loads((tmp_path / "one" / "config.json").read_text())
    for number in range(30):
        folder = tmp_path / "many" / str(number)
        folder.mkdir(parents=True)
        config["config"]["training"]["learning_rate"] = number // 2
        config["config"]["run"]["seed"] = number % 2
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "rounds.jsonl").write_bytes(source)
    write_report([tmp_path / "many"], tmp_path / "r.html")
    assert (tmp_path / "r.html").stat().st_size < 10e6


def test_the_command_writes_whole_files_or_none(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("plotly")
    assert (
        main(["report", str(runs), "-o", str(tmp_path / "r.html"), "--targets", "0.1,0.2", "--title", "T"])
        == 0
    )
    assert "Rounds to 10%" in (tmp_path / "r.html").read_text(encoding="utf-8")
    capsys.readouterr()
    for arguments, said in (
        ([str(runs), "-o", str(tmp_path / "r.doc")], "must end in"),
        ([str(runs), "-o", str(tmp_path / "r.html"), "--format", "htm"], "did you mean 'html'"),
        ([str(tmp_path / "none"), "-o", str(tmp_path / "x.html")], "no folder"),
        ([str(runs), "-o", str(tmp_path / "no" / "x.html")], "there is no folder"),
        ([str(runs), "-o", str(tmp_path / "x.pdf"), "--panels", "acuracy"], "did you mean 'accuracy'"),
        ([str(runs), "-o", str(tmp_path / "x.html"), "--targets", "45"], "at most 1"),
        ([str(runs), "-o", str(tmp_path / "x.html"), "--panels", "qcid"], "leave them out"),
    ):  # fmt: skip
        assert main(["report", *arguments]) == 2
        assert said in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.html"]


def test_a_page_without_plotly_names_the_extra(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"fedcbs\[report\]"):
        write_report([runs], tmp_path / "r.html")
