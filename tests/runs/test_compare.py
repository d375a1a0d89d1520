"""Comparisons: in this process and in several, interrupted, with runs that diverge; and the commands that train."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fedcbs.cli import main
from fedcbs.errors import FedCBSError, InvalidArgumentError, RunError
from fedcbs.plotting import figure_of_runs
from fedcbs.runs import RunConfig, compare, read_run, start
from tests.runs.federations import rounds_of

BASE = RunConfig.of(clients=30, cohort_size=3, rounds=6, schedule="steps:3", threads=1, seed=2)
OPTIONS = ["--clients=30", "--cohort-size=3", "--rounds=6", "--schedule=steps:3", "--threads=1"]


def test_a_comparison_and_the_same_again(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    found = compare(
        BASE,
        ["uniform", "fedcbs-exact:sweeps=2"],
        out=tmp_path / "cmp",
        seeds=2,
        processes=1,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen[0] == (0, 24)
    assert seen[-1] == (24, 24)
    assert [run.config["run"]["seed"] for run in found.runs["uniform"]] == [2, 3]
    standings = found.standings()
    assert standings["fedcbs-exact:sweeps=2"].qcid < standings["uniform"].qcid
    assert len(standings["uniform"].best_accuracy) == 2
    assert found.targets
    for standing in standings.values():
        assert all(reached is not None for reached in standing.rounds_to[found.targets[0]])
    before = rounds_of(tmp_path / "cmp" / "uniform" / "seed-2")
    compare(BASE, ["uniform", "fedcbs-exact:sweeps=2"], out=tmp_path / "cmp", seeds=2, processes=1)
    assert rounds_of(tmp_path / "cmp" / "uniform" / "seed-2") == before
    more = compare(BASE, ["uniform", "astraea"], out=tmp_path / "cmp", seeds=1, processes=1)
    assert set(more.runs) == {"uniform", "astraea"}
    with pytest.raises(RunError, match="holds a comparison with other options"):
        compare(BASE.with_options({"rounds": 7}), ["uniform"], out=tmp_path / "cmp", seeds=1)


def test_several_processes_give_what_one_gives(tmp_path: Path) -> None:
    one = compare(BASE, ["uniform", "ou"], out=tmp_path / "one", seeds=1, processes=1)
    two = compare(BASE, ["uniform", "ou"], out=tmp_path / "two", seeds=1, processes=2)
    for name in ("uniform", "ou"):
        assert rounds_of(one.runs[name][0].path) == rounds_of(two.runs[name][0].path)


def test_all_runs_hold_out_the_same_where_one_selector_needs_it(tmp_path: Path) -> None:
    found = compare(BASE, ["uniform", "fed-cucb"], out=tmp_path / "cmp", seeds=1, processes=1)
    uniform, bandit = (found.runs[name][0] for name in ("uniform", "fed-cucb"))
    assert uniform.config["data"]["auxiliary"] == bandit.config["data"]["auxiliary"] == 13
    assert uniform.label_counts is not None
    assert bandit.label_counts is not None
    assert uniform.label_counts.tolist() == bandit.label_counts.tolist()


def test_a_process_that_is_killed_is_noticed_and_the_comparison_goes_on_when_run_again(
    tmp_path: Path,
) -> None:
    config, names = BASE.with_options({"rounds": 100}), ["uniform", "fedcbs-exact"]
    killed: list[int] = []

    def kill_one(done: int, total: int) -> None:
        children = multiprocessing.active_children()
        if 0 < done < total and not killed:
            killed.append(done)
            os.kill(children[0].pid or 0, signal.SIGKILL)

    with pytest.raises(
        RunError, match=r"a process of the comparison ended with code -9 .* run the same command"
    ):
        compare(config, names, out=tmp_path / "cmp", seeds=1, processes=2, progress=kill_one)
    assert killed[0] < 200  # there was work left
    assert not multiprocessing.active_children()
    again = compare(config, names, out=tmp_path / "cmp", seeds=1, processes=1)
    whole = compare(config, names, out=tmp_path / "whole", seeds=1, processes=1)
    for name in names:
        assert rounds_of(again.runs[name][0].path) == rounds_of(whole.runs[name][0].path)


def test_an_interrupted_comparison_saves_every_run(tmp_path: Path) -> None:
    out = tmp_path / "cmp"
    command = [sys.executable, "-m", "fedcbs", "compare", f"--out={out}", "--json", "--seeds=1"]
    command += ["--selectors=uniform,fedcbs-exact", *OPTIONS, "--processes=2"]
    endless = [*command, "--rounds=200000"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        endless, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    paths = [out / name / "seed-0" for name in ("uniform", "fedcbs-exact")]
    for _ in range(6000):
        if all((path / "rounds.jsonl").exists() and len(rounds_of_now(path)) > 3 for path in paths):
            break
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, message = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in message
    for path in paths:
        summary = json.loads((path / "summary.json").read_text())
        assert summary["status"] == "interrupted"
        assert summary["rounds"] == len(read_run(path).records)


def rounds_of_now(path: Path) -> list[str]:
    return (path / "rounds.jsonl").read_text().splitlines()


def test_a_selector_that_diverges_is_a_row_and_an_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["compare", f"--out={tmp_path / 'cmp'}", "--selectors=uniform", "--seeds=1", "--processes=1"]
    assert main([*arguments, *OPTIONS, "--learning-rate=1e9"]) == 1
    told = capsys.readouterr()
    assert "uniform diverged on 1 of its seeds" in told.err
    assert "uniform" in told.out


def test_mistakes_are_refused_before_any_run(tmp_path: Path) -> None:
    out = tmp_path / "cmp"
    for selectors, options, message in (
        (["uniform", "unifrom"], {}, "did you mean 'uniform'"),
        (["uniform", "uniform"], {}, "names one twice"),
        ([], {}, "selectors is empty"),
        (["uniform"], {"learning_rate": -1.0}, r"learning_rate=-1\.0"),
        (["uniform"], {"cohort_size": 31}, "there are 30 clients"),  # known only once the data are
    ):
        with pytest.raises(FedCBSError, match=message):
            compare(BASE.with_options(options), selectors, out=out, processes=1)
        assert not out.exists()
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    with pytest.raises(InvalidArgumentError, match="holds other files"):
        compare(BASE, ["uniform"], out=out)


def test_the_table_and_the_json_and_the_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compare", f"--out={tmp_path / 'cmp'}", "--selectors=uniform,fedcbs-exact", "--seeds=2"]
    arguments += ["--processes=1", *OPTIONS, "--target=0.2,0.99"]
    assert main([*arguments, f"--plot={tmp_path / 'cmp.png'}"]) == 0
    told = capsys.readouterr()
    assert "rounds to 0.2" in told.out
    assert "not reached" in told.out
    assert "2 seeds; digits, 30 clients" in told.out
    assert (tmp_path / "cmp.png").stat().st_size > 10_000
    assert main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["targets"] == [0.2, 0.99]
    assert document["selectors"]["uniform"]["rounds_to"]["0.99"] == [None, None]


def test_run_prints_a_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, figure = tmp_path / "run", tmp_path / "run.svg"
    assert main(["run", f"--out={out}", *OPTIONS, "--target=0.1", f"--plot={figure}"]) == 0
    told = capsys.readouterr()
    for word in ("selector", "fedcbs-sharp", "plain+fedavg", "QCID", "coverage", "traffic", "accuracy 0.1"):
        assert word in told.out
    assert f"run: {out}" in told.err
    assert figure.read_text().startswith("<?xml")
    assert main(["run", f"--out={out}", *OPTIONS]) == 1
    assert "holds a run already; go on with it by `fedcbs resume" in capsys.readouterr().err
    assert main(["resume", "--json", str(out)]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert document["status"] == "finished"
    assert document["config"]["selector"]["name"] == "fedcbs-sharp"
    assert main(["resume", "--quiet", "--rounds=8", str(out)]) == 0
    assert capsys.readouterr() == ("", "")


def test_run_names_its_own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--quiet", "--selector=pow-d:num_candidates=9", "--seed=7", *OPTIONS]) == 0
    assert read_run("runs/digits-pow-d-num_candidates9-seed7").summary is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--learning-rate=fast"], "training.learning_rate='fast' must be a number"),
        (["--rounds=many"], "run.rounds='many' must be a whole number"),
        (["--set=training.momentm=1"], "did you mean 'momentum'"),
        (["--plot=run.jpeg"], "must end in .png, .pdf or .svg"),
        (["--config=nowhere.toml"], "is no file"),
        (["--algorithm=fednova+fedavg"], "both say how the server moves"),
    ],
)
def test_wrong_options_are_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", f"--out={tmp_path / 'run'}", *OPTIONS, *arguments]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_the_figure_copes_with_runs_of_one_round_and_without_evaluation(tmp_path: Path) -> None:
    config = BASE.with_options({"rounds": 1, "dropout": 1.0})
    found = start(config, tmp_path / "run")
    assert len(figure_of_runs({"uniform": [found]}).axes) == 4
