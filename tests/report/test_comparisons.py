"""What a report makes of runs that ended early, of different lengths, and of which uniform selection is the baseline."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

from fedcbs.cli import main
from fedcbs.errors import InvalidArgumentError
from fedcbs.report import Group, find_runs, group_runs, load_run, load_runs, write_report
from fedcbs.report._charts import charts
from fedcbs.report._groups import baselines
from fedcbs.report._lengths import all_have, common_round, cut, same_length
from fedcbs.report._measure import axes_of, default_targets
from fedcbs.report._remarks import remarks_on
from fedcbs.report._table import Table
from fedcbs.report._tables import overview, overview_in_common, settings, targets_table
from tests.report.runs import write_run


def write_ended(
    folder: Path, selector: str = "uniform", *, status: str | None = "diverged", **more: int
) -> Path:
    """Write a run that ended before its first round was over: it has no records."""
    write_run(folder, selector, rounds=0, status=status, **more)
    (folder / "rounds.jsonl").unlink()
    return folder


def groups_of(*paths: Path) -> list[Group]:
    return group_runs(load_runs(paths))


def row(table: Table, label: str) -> dict[str, str]:
    return next(dict(zip(table.header, cells, strict=True)) for cells in table.rows if cells[0] == label)


def bold(table: Table, column: str) -> list[str]:
    place = table.header.index(column)
    return [table.rows[number][0] for number, found in sorted(table.best) if found == place]


def with_rate(folder: Path, selector: str, rate: float, **more: object) -> Path:
    return write_run(folder, selector, extra={"training": {"learning_rate": rate}}, **more)  # type: ignore[arg-type]


# ---- runs without rounds


def test_a_sweep_whose_runs_diverge_at_once_is_shown_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    pytest.importorskip("plotly")
    runs, page, table = tmp_path / "sw", tmp_path / "r.html", tmp_path / "r.csv"
    sweep = ["sweep", "--selectors", "uniform", "--seeds", "2", "--set", "rounds=2", "--jobs", "1", "--quiet"]
    main([*sweep, "--set", "training.learning_rate=0.1,1e30", "--out", str(runs)])
    assert len(list(runs.rglob("rounds.jsonl"))) == 2
    capsys.readouterr()
    assert main(["report", str(runs), "-o", str(page)]) == 0
    said = capsys.readouterr().err
    assert "4 runs of 2 configurations, 4 rounds. Not all finished: 2 diverged." in said
    assert "2 runs recorded no round (2 diverged), so no chart shows them" in said
    text = page.read_text(encoding="utf-8")
    assert "4 runs of 2 configurations" in text
    assert '<p class="warning">2 runs recorded no round (2 diverged)' in text
    found = row(overview(groups_of(runs)), "uniform, learning_rate=1e+30")
    assert (found["Runs"], found["Rounds"], found["Status"]) == ("2", "0", "diverged")
    assert set([*found.values()][4:]) == {"-"}

    assert main(["report", str(runs), "-o", str(table), "--quiet"]) == 0
    assert "so the table has no row of them" in capsys.readouterr().err
    with table.open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == 4


@pytest.mark.parametrize("status", ["diverged", "failed", "interrupted", None])
def test_a_run_without_rounds_is_a_run(tmp_path: Path, status: str | None) -> None:
    folder = write_ended(tmp_path / "runs" / "r", status=status, seed=3)
    assert find_runs([tmp_path]) == find_runs([folder]) == [folder]
    run = load_run(folder)
    assert (run.status, run.last_round, run.seed, run.cohorts) == (status or "unfinished", 0, 3, [])
    (group,) = groups_of(tmp_path)
    assert charts([group]) == []
    assert targets_table([group]) is None


def test_a_summary_alone_is_a_run_and_other_peoples_files_are_none(tmp_path: Path) -> None:
    for name, file, content in (
        ("a", "summary.json", '{"status": "failed"}'),
        ("b", "summary.json", '{"status": 200}'),
        ("c", "summary.json", "[1"),
        ("d", "config.json", '{"model_type": "bert"}'),
        ("e", "config.json", '"'),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text(content)
    assert find_runs([tmp_path]) == [tmp_path / "a"]
    assert load_run(tmp_path / "a").status == "failed"
    for other in "bcde":
        with pytest.raises(InvalidArgumentError, match="name a run directory"):
            find_runs([tmp_path / other])
        with pytest.raises(InvalidArgumentError, match="name a run directory"):
            load_run(tmp_path / other)


def test_runs_without_rounds_alone_make_a_page_and_a_figure_says_that_it_cannot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("plotly")
    for seed in range(5):
        write_ended(tmp_path / "runs" / f"seed={seed}", seed=seed)
    remarks = write_report([tmp_path / "runs"], tmp_path / "r.html")
    assert remarks.holds == "5 runs of 1 configuration, 0 rounds. Not all finished: 5 diverged."
    assert remarks.lacks.count("seed=") == 3
    assert remarks.lacks.endswith("and 2 more")
    assert main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "r.pdf")]) == 2
    assert "write a page" in capsys.readouterr().err
    assert not (tmp_path / "r.pdf").exists()


def test_a_diverged_seed_does_not_hide_what_the_others_have(tmp_path: Path) -> None:
    write_ended(tmp_path / "0", seed=0)
    for seed in (1, 2):
        write_run(tmp_path / str(seed), seed=seed, rounds=6)
    (group,) = groups_of(tmp_path)
    found = row(overview([group]), "uniform")
    assert (found["Rounds"], found["Status"]) == ("0 to 6", "1 diverged, 2 finished")
    assert found["Best accuracy"].endswith("% (2 of 3)")
    assert set(axes_of(group, np.arange(1, 7))) == {"seconds", "megabytes"}
    alone = dataclasses.replace(group, runs=group.runs[1:])
    assert default_targets([group]) == default_targets([alone]) != []
    names = {chart.name for chart in charts([group])}
    assert {"participation-0", "time", "bytes"} <= names
    (runs_table,) = (table for title, table in settings([group]) if title == "Runs")
    assert [cells[2:] for cells in runs_table.rows] == [
        ["0", "0", "diverged"],
        ["1", "6", "finished"],
        ["2", "6", "finished"],
    ]


def test_a_seed_that_diverged_early_does_not_make_the_others_look_cheap(tmp_path: Path) -> None:
    write_run(tmp_path / "0", seed=0, rounds=2, status="diverged", extra={"run": {"rounds": 10}})
    write_run(tmp_path / "1", seed=1, rounds=10)
    (group,) = groups_of(tmp_path)
    rounds = np.arange(1, 11)
    np.testing.assert_allclose(axes_of(group, rounds)["megabytes"], rounds * 2 * 5 * 62_000 * 4 / 1e6)


def test_remarks_say_nothing_where_nothing_is_left_out(tmp_path: Path) -> None:
    write_run(tmp_path / "r", rounds=1)
    remarks = remarks_on(groups_of(tmp_path))
    assert (remarks.holds, remarks.lacks) == ("1 run of 1 configuration, 1 round.", "")


def test_a_figure_leaves_out_whom_it_cannot_draw_and_says_so(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    write_run(tmp_path / "runs" / "u", "uniform", rounds=4)
    write_run(tmp_path / "runs" / "e", "fedcbs-exact", rounds=4)
    write_ended(tmp_path / "runs" / "o", "oort")
    remarks = write_report([tmp_path / "runs"], tmp_path / "r.svg", panels=["accuracy"])
    assert "1 run recorded no round (1 diverged), so the figure does not show it" in remarks.lacks
    drawn = (tmp_path / "r.svg").read_text(encoding="utf-8")
    assert "fedcbs-exact" in drawn
    assert "oort" not in drawn


# ---- what rounds to a target are compared with


def test_the_baseline_is_uniform_selection_with_the_same_settings(tmp_path: Path) -> None:
    for rate, speed in ((0.05, 40), (0.2, 20)):
        with_rate(tmp_path / f"u{rate}", "uniform", rate, rounds=speed)
        with_rate(tmp_path / f"e{rate}", "fedcbs-exact", rate, rounds=speed)
    with_rate(tmp_path / "e0.5", "fedcbs-exact", 0.5, rounds=30)
    groups = groups_of(tmp_path)
    target = 0.3
    first = {group.label: group.runs[0].first_round_with(target) for group in groups}
    table = targets_table(groups, [target])
    assert table is not None
    assert table.header == ["Method", "Rounds to 30%", "uniform / this"]
    for rate in ("0.05", "0.2"):
        mine, base = first[f"fedcbs-exact, learning_rate={rate}"], first[f"uniform, learning_rate={rate}"]
        assert mine is not None
        assert base is not None
        found = row(table, f"fedcbs-exact, learning_rate={rate}")["uniform / this"]
        assert found == f"{base / mine:.2f}"
        assert row(table, f"uniform, learning_rate={rate}")["uniform / this"] == "1.00"
    assert first["uniform, learning_rate=0.05"] != first["uniform, learning_rate=0.2"]
    assert row(table, "fedcbs-exact, learning_rate=0.5")["uniform / this"] == "-"
    assert "the baseline, uniform with settings that are the same but for the selector" in table.note


def test_options_of_a_selector_and_what_follows_from_it_are_no_other_settings(tmp_path: Path) -> None:
    write_run(tmp_path / "u", "uniform", rounds=3)
    write_run(
        tmp_path / "e", "fedcbs-exact", rounds=3, extra={"selector": {"sweeps": 3}, "data": {"auxiliary": 9}}
    )
    write_run(tmp_path / "k", "fedcbs-exact", rounds=3, cohort_size=6)
    groups = groups_of(tmp_path)
    assert [group.method for group in groups] == ["fedcbs-exact", "fedcbs-exact", "uniform"]
    assert baselines(groups) == [2, None, 2]
    write_run(tmp_path / "u9", "uniform", rounds=3, extra={"data": {"auxiliary": 9}})
    assert baselines(groups_of(tmp_path)) == [3, None, 2, 3]


def test_where_there_is_no_pair_nothing_is_compared(tmp_path: Path) -> None:
    with_rate(tmp_path / "u", "uniform", 0.1, rounds=9)
    with_rate(tmp_path / "e", "fedcbs-exact", 0.2, rounds=9)
    table = targets_table(groups_of(tmp_path), [0.1])
    assert table is not None
    assert table.header == ["Method", "Rounds to 10%"]
    assert "No uniform here has the same settings as another method" in table.note


def test_without_uniform_the_first_group_is_the_baseline(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "everyone", rounds=9)
    write_run(tmp_path / "b", "fedcbs-exact", rounds=9)
    with_rate(tmp_path / "c", "fedcbs-exact", 0.2, rounds=9)
    groups = groups_of(tmp_path)
    assert baselines(groups) == [0, 0, None]
    table = targets_table(groups, [0.1])
    assert table is not None
    assert table.header[2] == "everyone / this"
    assert "the baseline, everyone, learning_rate=0.01 with" in table.note


# ---- different lengths


def test_the_best_of_runs_of_different_lengths_is_marked_up_to_the_round_that_all_have(
    tmp_path: Path,
) -> None:
    write_run(tmp_path / "u", "uniform", rounds=60)
    write_run(tmp_path / "e", "fedcbs-exact", rounds=15)
    write_run(tmp_path / "o", "astraea", rounds=4, status="diverged")
    groups = groups_of(tmp_path)
    assert (common_round(groups), same_length(groups)) == (15, False)
    whole = overview(groups)
    assert whole.best == frozenset()
    assert "no number is marked as best" in whole.note
    assert [row(whole, name)["Rounds"] for name in ("uniform", "fedcbs-exact", "astraea")] == [
        "60",
        "15",
        "4",
    ]
    found = overview_in_common(groups)
    assert found is not None
    common, table = found
    assert common == 15
    assert [cells[2] for cells in table.rows] == ["15", "4", "15"]
    accuracy = {
        g.label: float(np.nanmax(g.runs[0].columns["accuracy"][:15])) for g in groups if g.label != "astraea"
    }
    assert bold(table, "Best accuracy") == [max(accuracy, key=accuracy.__getitem__)]
    assert row(table, "uniform")["Best accuracy"] == f"{100 * accuracy['uniform']:.2f}%"
    assert bold(table, "Megabytes") == ["fedcbs-exact", "uniform"]  # and not what stopped early
    assert "among methods whose runs all have round 15" in table.note


def test_runs_of_one_length_need_no_second_overview(tmp_path: Path) -> None:
    for name in ("uniform", "fedcbs-exact"):
        write_run(tmp_path / name, name, rounds=8)
    write_run(tmp_path / "o", "astraea", rounds=4, status="diverged")
    write_ended(tmp_path / "fresh", "everyone", status=None)
    groups = groups_of(tmp_path)
    assert overview_in_common(groups) is None
    assert bold(overview(groups), "QCID, 1e-2") == ["fedcbs-exact"]
    assert "among methods whose runs all have round 8" in overview(groups).note
    assert [all_have(group, 8) for group in groups] == [True, False, False, True]


def test_a_row_of_the_second_overview_is_of_its_group(tmp_path: Path) -> None:
    write_ended(tmp_path / "a", "everyone")
    write_run(tmp_path / "b", "uniform", rounds=8)
    write_run(tmp_path / "c", "fedcbs-exact", rounds=6)
    found = overview_in_common(groups_of(tmp_path))
    assert found is not None
    assert [cells[0] for cells in found[1].rows] == ["uniform", "fedcbs-exact"]
    assert list(found[1].groups) == [1, 2]


def test_a_run_up_to_a_round_is_as_if_it_had_been_written_so(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "long", rounds=12, evaluate_every=3)
    (group,) = cut(groups_of(folder), 7)
    lines = (folder / "rounds.jsonl").read_text().splitlines()[:7]
    (folder / "rounds.jsonl").write_text("\n".join(lines) + "\n")
    short, run = load_run(folder), group.runs[0]
    assert run.rounds.tolist() == short.rounds.tolist() == list(range(1, 8))
    for name, values in short.columns.items():
        np.testing.assert_array_equal(run.columns[name], values)
    assert [c.tolist() for c in run.cohorts] == [json.loads(line)["cohort"] for line in lines]
    np.testing.assert_array_equal(run.per_class, short.per_class)
    np.testing.assert_array_equal(run.cohort_labels, short.cohort_labels)
    np.testing.assert_array_equal(run.failed, short.failed)


def accuracies(
    folder: Path, selector: str, values: list[float], status: str = "finished", seed: int = 0
) -> None:
    folder.mkdir()
    config = {"selector": {"name": selector}, "run": {"seed": seed}}
    (folder / "config.json").write_text(json.dumps({"format": 1, "config": config}))
    (folder / "summary.json").write_text(json.dumps({"status": status}))
    lines = (json.dumps({"round": index, "accuracy": value}) for index, value in enumerate(values, start=1))
    (folder / "rounds.jsonl").write_text("".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize(
    ("rounds", "status", "best"),
    [
        (2, "finished", []),  # it might reach the target in round 3, before the others
        (3, "finished", ["b"]),  # it cannot be sooner than round 4
        (2, "diverged", ["b"]),
    ],
)
def test_the_fewest_rounds_are_marked_where_no_shorter_run_could_need_fewer(
    tmp_path: Path, rounds: int, status: str, best: list[str]
) -> None:
    accuracies(tmp_path / "1", "a", [0.1] * 8 + [0.6])
    accuracies(tmp_path / "2", "b", [0.1] * 3 + [0.6])
    accuracies(tmp_path / "3", "c", [0.1] * rounds, status)
    table = targets_table(groups_of(tmp_path), [0.5])
    assert table is not None
    assert bold(table, "Rounds to 50%") == best
    assert row(table, "c")["Rounds to 50%"] == "not reached"


def test_a_method_of_which_one_seed_was_soon_may_need_fewer_rounds(tmp_path: Path) -> None:
    accuracies(tmp_path / "1", "a", [0.1] * 9 + [0.6])
    accuracies(tmp_path / "2", "b", [0.6], seed=0)
    accuracies(tmp_path / "3", "b", [0.1] * 10, seed=1)
    table = targets_table(groups_of(tmp_path), [0.5])
    assert table is not None
    assert bold(table, "Rounds to 50%") == []
    assert math.isclose(float(row(table, "a")["Rounds to 50%"]), 10)
    assert row(table, "b")["Rounds to 50%"] == "1 (1 of 2)"
