"""Experiments are declared as they should be, run at the smallest scale, go on, and are put beside the paper's numbers."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest

from fedcbs.cli import main
from fedcbs.errors import InvalidArgumentError, UnknownNameError
from fedcbs.experiments import (
    Choice,
    Experiment,
    collect,
    core_seconds,
    experiment,
    experiment_names,
    jobs_of,
    markdown,
    paper_numbers,
    run_experiment,
    verdict,
)
from fedcbs.experiments._catalog import _paper
from fedcbs.experiments._measures import MEASURES
from fedcbs.experiments._orders import order_of
from fedcbs.experiments._results import document
from fedcbs.sweeps import Here
from tests.report.runs import write_run

NAMES = experiment_names()


def part_of(found: Experiment) -> Choice:
    scale = found.scale("smoke")
    settings, methods = found.settings_at(scale), found.methods_at(scale)
    return Choice(tuple(s.name for s in settings[:1]), tuple(m.name for m in methods[:2]))


@pytest.mark.parametrize("name", NAMES)
def test_every_run_that_is_declared_can_be_configured(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from fedcbs.availability import parse_availability
    from fedcbs.partition import parse_partition
    from fedcbs.selectors import parse_selector
    from fedcbs.sweeps._work import config_of

    found = experiment(name)
    for measure in found.measures:
        assert measure in MEASURES
    for scale in found.scales.values():
        jobs = jobs_of(found, scale, tmp_path)
        assert len({job.folder for job in jobs}) == len(jobs)
        assert core_seconds(found, scale) >= 0
        for job in jobs:
            config = config_of(job)
            parse_selector(config.selector.name)
            parse_availability(config.availability.rule)
            if config.partition.scheme != "owner":
                takes = config.partition.scheme.startswith("dirichlet")
                alpha = (config.partition.alpha or 0.1) if takes else None
                parse_partition(config.partition.scheme, alpha=alpha)


def test_the_papers_numbers_belong_to_settings_and_methods() -> None:
    for name in NAMES:
        found = experiment(name)
        names = {method.paper for method in found.methods if method.paper}
        settings = {setting.numbers for setting in found.settings}
        for table in found.numbers.values():
            numbers = paper_numbers(table)
            assert settings <= set(numbers) or settings & set(numbers)
            for row in numbers.values():
                assert all(std >= 0 for _, std in row.values())
            assert names & {method for row in numbers.values() for method in row}
    assert set(_paper()["methods"].values()) >= {"all", "rand", "pow-d", "Fed-cucb", "Fed-CBS"}


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_runs_at_the_smallest_scale(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = experiment(name)
    scale = found.scale("smoke")
    choice = part_of(found) if found.kind == "training" else None
    done = run_experiment(found, scale, tmp_path, Here(), choice=choice, threads=1)
    assert {outcome.status for outcome in done.outcomes} <= {"done"}, done.outcomes
    written = json.loads((done.folder / "results.json").read_text())
    assert written["experiment"] == name
    assert written["versions"]["fedcbs"]
    assert (done.folder / "README.md").read_text().startswith(f"# {found.title}")
    if found.kind == "training":
        again = run_experiment(found, scale, tmp_path, Here(), choice=choice, threads=1)
        assert again.document == done.document
    if found.kind == "training" and found.runs == name:
        with (done.folder / "rounds.csv").open() as file:
            assert len(list(csv.DictReader(file))) == sum(run["rounds"] for run in written["runs"])
        assert all("directory" not in run["config"]["data"] for run in written["runs"])


def test_an_experiment_goes_on_with_more_rounds_and_is_rendered_from_what_is_there(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = experiment("fashion-dirichlet")
    scale = found.scale("smoke")
    choice = Choice(("alpha-0.1",), ("uniform", "everyone"))
    with pytest.raises(
        InvalidArgumentError, match=r"holds nothing of experiment 'fashion-dirichlet' at scale 'smoke'"
    ):
        collect(found, scale, tmp_path)
    assert list(tmp_path.iterdir()) == []
    first = run_experiment(found, scale, tmp_path, Here(), choice=choice, rounds=1, threads=1)
    assert first.document["rounds"]["alpha-0.1"] == 1
    assert first.document["missing"] == 22
    run_experiment(found, scale, tmp_path, Here(), choice=Choice(("alpha-0.1",), ("uniform",)), threads=1)
    both = collect(found, scale, tmp_path).document
    assert both["rounds"]["alpha-0.1"] == 1  # which is as far as everyone is
    cells = {cell["method"]: cell for cell in both["tables"][1]["rows"][0]["cells"]}
    assert (cells["uniform"]["runs"], cells["fedcbs-exact"]["runs"]) == (1, 0)
    last = run_experiment(found, scale, tmp_path, Here(), choice=choice, threads=1)
    assert last.document["rounds"]["alpha-0.1"] == 2


def test_measures_are_what_a_loop_over_the_rounds_says(tmp_path: Path) -> None:
    from fedcbs.report import load_run

    run = load_run(write_run(tmp_path / "r", "uniform", rounds=50, evaluate_every=4))
    assert run.label_counts is not None
    lines = [json.loads(line) for line in (tmp_path / "r" / "rounds.jsonl").read_text().splitlines()]
    accuracies = [line["accuracy"] for line in lines if line["accuracy"] is not None]
    target = sorted(accuracies)[len(accuracies) // 2]
    first = next(line["round"] for line in lines if (line["accuracy"] or 0) >= target)
    value = {name: measure.value(run, target) for name, measure in MEASURES.items()}
    assert value["rounds"] == first
    assert value["accuracy"] == pytest.approx(100 * max(accuracies))
    assert value["final"] == pytest.approx(100 * accuracies[-1])
    assert value["qcid"] == pytest.approx(100 * sum(line["qcid"] for line in lines) / 50)
    sent = sum(line["bytes_up"] + line["bytes_down"] for line in lines if line["round"] <= first)
    assert value["bytes_to_target"] == pytest.approx(sent / 1e6)
    assert math.isnan(value["time_to_target"])
    assert math.isnan(MEASURES["rounds"].value(run, 0.99))
    alone = [sum((c / 250 - 0.1) ** 2 for c in run.label_counts[n]) for line in lines for n in line["cohort"]]
    assert value["members"] == pytest.approx(100 * sum(alone) / len(alone))
    assert value["coverage"] == 100 * len({c for line in lines for c in line["cohort"]}) / 40


def test_orders_are_compared_pair_by_pair() -> None:
    def cell(
        name: str, paper: float, ours: float | None, std: float = 1.0, held: int = 2
    ) -> dict[str, object]:
        return {"title": name, "paper": paper, "ours": ours, "std": std, "runs": 2, "held": held}

    def order(measure: str, *cells: dict[str, object]) -> tuple[int, dict[str, list[list[str]]]]:
        found = order_of(MEASURES[measure], cells)
        assert found is not None
        return found.pop("pairs"), {kind: pairs for kind, pairs in found.items() if pairs}

    assert order("rounds", cell("a", 100, 90), cell("b", 200, 300), cell("c", 300, 200), cell("d", 400, 302)) == (
        6, {"reversed": [["b", "c"]]},
    )  # fmt: skip
    for one, other in ((10, 9), (9, 10)):  # the same rule whichever comes first
        assert order("rounds", cell("a", 1, one, 5), cell("b", 2, other, 5)) == (1, {"close": [["a", "b"]]})
    never = order("rounds", cell("a", 1, None, held=0), cell("b", 2, 9), cell("c", 3, None, held=0))
    assert never == (2, {"reversed": [["a", "b"]]})
    assert order("accuracy", cell("a", 50, 50), cell("b", 40, 40)) == (1, {})
    assert order_of(MEASURES["rounds"], [cell("a", 1, 1)]) is None


def test_what_some_runs_did_not_reach_and_what_one_run_did_decide_nothing() -> None:
    def cell(name: str, paper: float, ours: float | None, runs: int, held: int) -> dict[str, object]:
        return {"title": name, "paper": paper, "ours": ours, "std": 1.0, "runs": runs, "held": held}

    rounds = MEASURES["rounds"]
    assert order_of(rounds, [cell("a", 1, 10, 2, 1), cell("b", 2, 90, 2, 2)]) is None
    assert order_of(rounds, [cell("a", 1, 10, 2, 1), cell("b", 2, None, 2, 0)]) is None
    assert order_of(rounds, [cell("a", 1, 10, 1, 1), cell("b", 2, 90, 2, 2)]) == {
        "pairs": 0, "reversed": [], "close": [], "single": [["a", "b"]],
    }  # fmt: skip
    assert order_of(MEASURES["qcid"], [cell("a", 1, 10, 2, 2), cell("b", 2, None, 2, 0)]) is None
    row = {"order": {"pairs": 3, "reversed": [["a", "b"]], "close": [], "single": [["a", "c"]]}}
    assert verdict({"tables": [{"rows": [row]}]}) == (
        "2 of 3 pairs of methods in the paper's order, 1 the other way round, 1 more undecided: single runs"
    )
    row["order"] = {"pairs": 0, "reversed": [], "close": [], "single": [["a", "c"]]}
    assert verdict({"tables": [{"rows": [row]}]}) == "1 pair of methods undecided: single runs"
    row["order"] = {"pairs": 3, "reversed": [], "close": [["a", "b"]]}  # as results had it before
    assert (
        verdict({"tables": [{"rows": [row]}]})
        == "2 of 3 pairs of methods in the paper's order, 1 too close to tell"
    )


def written(out: Path, method: str, seed: int, rounds: int, setting: str = "alpha-0.1") -> None:
    """A run of fashion-dirichlet at laptop scale, of which so many rounds are done."""
    own = experiment("fashion-dirichlet").config
    extra: dict[str, dict[str, object]] = {"data": {"dataset": own["data.dataset"]}}
    folder = out / "fashion-dirichlet" / "laptop" / setting / method / f"seed-{seed}"
    write_run(folder, method, seed=seed, rounds=rounds, status=None, extra=extra)


def test_every_run_that_is_there_counts_and_what_is_left_out_is_said(tmp_path: Path) -> None:
    found = experiment("fashion-dirichlet")
    for seed, rounds in ((0, 60), (3, 60), (7, 50), (1, 20)):
        written(tmp_path, "uniform", seed, rounds)
    written(tmp_path, "astraea", 0, 10)
    written(tmp_path, "uniform", 0, 40, "alpha-0.2")
    done = collect(found, found.scale("laptop"), tmp_path)
    document, page = done.document, (done.folder / "README.md").read_text()
    assert document["rounds"] == {"alpha-0.1": 50, "alpha-0.2": 40}
    assert document["other_seeds"] == [7]
    assert {(run["method"], run["seed"], run["rounds"]) for run in document["left_out"]} == {
        ("uniform", 1, 20), ("astraea", 0, 10),
    }  # fmt: skip
    cells = {cell["method"]: cell for cell in document["tables"][3]["rows"][0]["cells"]}
    assert (cells["uniform"]["runs"], cells["uniform"]["wanted"], cells["astraea"]["runs"]) == (3, 5, 0)
    assert document["missing"] == 3 * 8 * 4 + 1 - 4
    assert "left out: only 10 of 60 rounds" in page
    assert "(3 of 5 runs, 1 left out)" in page
    assert "Dirichlet 0.1: 2 with 10 to 20 of 60 rounds" in page
    assert "50 (Dirichlet 0.1), 40 (Dirichlet 0.2)" in page
    assert f"; {document['missing'] - 2} runs not done yet" in page


def test_results_leave_nothing_of_earlier_ones_behind(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = experiment("fashion-dirichlet")
    written(tmp_path / "runs", "uniform", 0, 10)
    results = tmp_path / "results"
    results.mkdir()
    for name in ("figure.png", "qcid.png", "notes.txt"):
        (results / name).write_text("old")
    collect(found, found.scale("laptop"), tmp_path / "runs", results=results)
    kept = {"README.md", "results.json", "rounds.csv", "curves.png", "notes.txt"}
    assert {path.name for path in results.iterdir()} == kept
    good = (results / "README.md").read_text()
    with pytest.raises(InvalidArgumentError, match="holds nothing of experiment 'fashion-dirichlet'"):
        collect(found, found.scale("laptop"), tmp_path / "none", results=results)
    collect(found, found.scale("laptop"), tmp_path / "none", results=results, compute=True)  # all runs failed
    assert (results / "README.md").read_text() == good


def test_a_seed_that_is_named_twice_is_run_once(tmp_path: Path) -> None:
    found = experiment("own-balance")
    jobs = jobs_of(found, found.scale("smoke"), tmp_path, choice=Choice(methods=("uniform",), seeds=(1, 1)))
    assert [job.folder.name for job in jobs] == ["seed-1"]


def test_a_mean_over_the_runs_that_reached_the_target_is_not_compared() -> None:
    found = experiment("table1-cifar10")
    scale = found.scale("laptop")
    numbers: dict[tuple[str, str, str], list[float]] = {
        (measure, s.name, m.name): []
        for measure in found.measures
        for s in found.settings
        for m in found.methods
    }
    numbers["rounds", "alpha-0.1", "uniform"] = [248.0, math.nan]
    numbers["rounds", "alpha-0.1", "pow-d"] = [1000.0, 1100.0]
    page = markdown(document(found, scale, numbers, rounds={}, missing=48))
    assert "| uniform | 951 ± 202 | 248 (1 of 2 reached it) |  |" in page
    assert "| pow-d | 1,147 ± 130 | 1,050 ± 71 (2 of 3 runs) | -97 |" in page
    assert "pairs in the paper's order" not in page
    bounded = document(found, scale, numbers, rounds={"alpha-0.1": 1500}, missing=48)
    assert "pairs in the paper's order" not in markdown(bounded)  # at least 874 in the mean
    numbers["rounds", "alpha-0.1", "fedcbs-paper"] = [500.0, 560.0]
    numbers["rounds", "alpha-0.1", "uniform"] = [1248.0, math.nan]
    bounded = document(found, scale, numbers, rounds={"alpha-0.1": 1500}, missing=48)
    # fedcbs-paper before uniform and before pow-d; uniform, at least 1,374, might be behind pow-d, and is
    assert "2 of 3 pairs in the paper's order; the other way round: uniform before pow-d" in markdown(bounded)


def test_what_was_changed_is_said_and_another_dataset_is_not_compared(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = experiment("table1-cifar10")
    scale = found.scale("smoke")
    choice = Choice(("alpha-0.1",), ("uniform", "pow-d"))
    options = {"momentum": 0.5}
    done = run_experiment(found, scale, tmp_path, Here(), choice=choice, options=options, threads=1)
    changed = {
        entry["key"]: (entry["own"], entry["used"], entry["runs"]) for entry in done.document["changed"]
    }
    assert changed == {
        "data.dataset": ("cifar10", "digits", 2),
        "model.name": ("cnn", "linear", 2),
        "training.schedule": ("equal-steps:5", "steps:1", 2),
        "training.momentum": ("0.0", "0.5", 2),
        "evaluation.every": ("5", "1", 2),
    }
    page = (done.folder / "README.md").read_text()
    assert page.startswith(f"# {found.title} (run on digits)\n\n**Not the experiment as it is declared.**")
    assert "`data.dataset=digits` instead of `cifar10`" in page
    assert all(row["order"] is None for table in done.document["tables"] for row in table["rows"])
    assert verdict(done.document) == "run on digits, so there is nothing to compare with"


def test_figures_say_what_they_smooth_and_name_only_what_was_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    from fedcbs.experiments import _figures
    from fedcbs.plotting import save_figure

    drawn: list[Any] = []

    def keep(figure: Any, path: Path, *, dpi: int) -> None:
        drawn.append(figure)
        save_figure(figure, path, dpi=dpi)

    monkeypatch.setattr(_figures, "save_figure", keep)
    found = experiment("fashion-dirichlet")
    for method in ("uniform", "fedcbs-exact"):
        written(tmp_path, method, 0, 200)
    done = collect(found, found.scale("laptop"), tmp_path)
    (figure,) = drawn
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["uniform", "fedcbs-exact"]
    said = "and over the last 4 rounds"
    assert said in figure.get_supxlabel().replace("\n", " ")
    assert said in (done.folder / "README.md").read_text()


def test_what_was_not_run_is_said_and_not_made_up() -> None:
    found = experiment("figure1-mnist")
    scale = found.scale("paper")
    numbers = {
        (measure, s.name, m.name): []
        for measure in found.measures
        for s in found.settings
        for m in found.methods
    }
    empty = document(found, scale, numbers, rounds={}, missing=48)
    assert [entry["held"] for entry in empty["expectations"]] == [None] * 6
    assert verdict(empty) == "nothing to compare with"
    assert all(cell["ours"] is None for row in empty["tables"][0]["rows"] for cell in row["cells"])


def test_a_declaration_that_cannot_work_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    base = 'title = "T"\npaper = "none"\nmeasures = ["qcid"]\nmethods = ["uniform"]\n'
    scales = "[scales.smoke]\nrounds = 1\nseeds = 1\n"
    settings = '[[settings]]\nname = "a"\n'
    file.write_text(base + settings + scales)
    assert experiment(str(file)).methods[0].config == {"selector.name": "uniform"}
    for text, said in (
        (base + settings + scales + "settings = ['b']\n", "setting of scale smoke='b'"),
        (base + settings + settings + scales, "names a setting twice"),
        (base + settings + scales.replace("rounds = 1", "rounds = 0"), "at least 1"),
        (base + settings, "scales"),
        ("colour = 1\n" + base + settings + scales, "colour"),
        ("title = [", "no TOML"),
        ('extends = "none"\n', "no file"),
    ):
        file.write_text(text)
        with pytest.raises((InvalidArgumentError, UnknownNameError), match=said):
            experiment(str(file))


def test_the_command_lists_and_runs_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    assert main(["experiment", "list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in NAMES)
    out = ["--scale", "smoke", "--out", str(tmp_path), "--jobs", "1"]
    only = ["--only", "setting=alpha-0.1", "--only", "selector=uniform,fedcbs-exact"]
    assert main(["experiment", "table1-cifar10", *out, *only]) == 0
    text, told = capsys.readouterr()
    assert "Rounds to the target accuracy" in text
    assert "2 runs: 2 done" in told
    assert main(["experiment", "table1-cifar10", *out, "--render", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["missing"] == 25
    for wrong, said in (
        (["table1"], "experiment='table1' is not known"),
        (["table1-cifar10", "--only", "alpha-0.1"], "setting=NAME"),
        (["table1-cifar10", "--only", "setting=alpha-9"], "alpha-9"),
        (["table1-cifar10", "--scale", "huge"], "invalid choice"),
    ):
        assert main(["experiment", *wrong]) == 2
        assert said in capsys.readouterr().err
