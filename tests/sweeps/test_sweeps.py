"""Sweeps run every combination, survive what single runs do not, and go on where they were stopped."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fedcbs.cli import main
from fedcbs.errors import InvalidArgumentError, MissingExtraError, UnknownNameError
from fedcbs.sweeps import Here, Job, Plan, Processes, RayCluster, parse_values, run_jobs
from fedcbs.sweeps._job import folder_name

pytest.importorskip("torch")
pytest.importorskip("sklearn")

SMALL = {
    "dataset": "digits",
    "model": "linear",
    "training.engine": "loop",
    "training.threads": 1,
    "rounds": 4,
}


def plan(**more: Any) -> Plan:
    return Plan(config=SMALL, **{"vary": {"selector": ["uniform", "fedcbs-exact"]}, "seeds": (0, 1), **more})


def records(folder: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    for record in found:
        del record["seconds"]
    return found


def statuses(jobs: list[Job], executor: Any = None, **options: Any) -> list[str]:
    return [outcome.status for outcome in run_jobs(jobs, executor or Here(), **options)]


def test_a_plan_is_every_combination_and_names_say_which(tmp_path: Path) -> None:
    jobs = plan(vary={"selector.name": ["uniform", "oort"], "training.learning_rate": [0.1, 1]}).jobs(
        tmp_path
    )
    assert [job.name for job in jobs][:3] == [
        "uniform,learning_rate=0.1,seed=0",
        "uniform,learning_rate=0.1,seed=1",
        "uniform,learning_rate=1,seed=0",
    ]
    assert len({job.folder for job in jobs}) == 8
    assert jobs[2].options["training.learning_rate"] == 1.0


def test_names_of_folders_are_distinct_and_plain() -> None:
    texts = ["a b", "a:b", "a/b", "a-b", "../x", ".hidden", "x" * 300, "x" * 301, "é", ""]
    names = [folder_name({"selector": text}) for text in texts]
    assert (
        len(set(names) - {folder_name({"selector": "a-b"})}) == len(texts) - 2
    )  # 'a:b' and 'a-b' are no selectors both
    assert all("/" not in name and not name.startswith(".") and len(name) < 140 for name in names)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"vary": {"selector": []}}, "no values"),
        ({"vary": {"selector": ["uniform", "uniform"]}}, "twice"),
        ({"vary": {"selector": ["unifrom"]}}, "did you mean 'uniform'"),
        ({"vary": {"availability": ["always", "never"]}}, "availability"),
        ({"vary": {"run.seed": [1, 2]}}, "give seeds"),
        ({"vary": {"training.lr": [1]}}, "did you mean|Known"),
        ({"vary": {"learning_rate": ["fast"]}}, "must be a number"),
        ({"seeds": ()}, "at least one seed"),
        ({"seeds": (1, 1)}, "twice"),
        ({"seeds": (-1,)}, "at least 0"),
    ],
)
def test_a_plan_that_cannot_work_is_refused_before_anything_runs(
    options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises((InvalidArgumentError, UnknownNameError), match=said):
        plan(**options).jobs(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_plan_is_read_from_a_file_and_options_go_before_it(tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(
        'seeds = [3, 5]\nselectors = ["uniform", "oort"]\n[vary]\n"training.learning_rate" = [0.1, 0.2]\n'
        '[config.data]\ndataset = "digits"\n[config.run]\nrounds = 7\n'
    )
    found = Plan.from_toml(file)
    assert found == Plan(
        {"data.dataset": "digits", "run.rounds": 7},
        {"selector": ["uniform", "oort"], "training.learning_rate": [0.1, 0.2]},
        (3, 5),
    )
    changed = found.changed(config={"training.learning_rate": 0.5}, vary={"selector": ["pow-d"]}, seeds=(0,))
    assert [job.options["training.learning_rate"] for job in changed.jobs(tmp_path)] == [0.5]
    file.write_text("selector = ['uniform']\n")
    with pytest.raises(UnknownNameError, match="did you mean 'selectors'"):
        Plan.from_toml(file)
    file.write_text("seeds = [")
    with pytest.raises(InvalidArgumentError, match="no TOML"):
        Plan.from_toml(file)


def test_values_are_split_at_commas_unless_they_stand_in_brackets() -> None:
    assert parse_values("rounds=3") == ("rounds", [3])
    assert parse_values("selector=uniform,oort") == ("selector", ["uniform", "oort"])
    assert parse_values("momentum=[0.0, 0.9]") == ("momentum", [0.0, 0.9])


def test_one_run_that_fails_takes_no_other_along_and_processes_find_what_one_process_finds(
    tmp_path: Path,
) -> None:
    datasets = ["digits", "tests.sweeps.broken:dies", "tests.sweeps.broken:raises", "arrays:none.npz"]
    jobs = plan(vary={"dataset": datasets}, seeds=(0,)).jobs(tmp_path)
    outcomes = run_jobs(jobs, Processes(2))
    assert [outcome.status for outcome in outcomes] == ["done", "failed", "failed", "failed"]
    assert "SIGKILL" in outcomes[1].message
    assert "this dataset has a bug" in outcomes[2].message
    trace = jobs[2].folder.with_name(f"{jobs[2].folder.name}.error.txt")
    assert "raise RuntimeError" in trace.read_text()
    assert "none.npz" in outcomes[3].message
    alone = plan(vary={"dataset": ["digits"]}, seeds=(0,)).jobs(tmp_path / "alone")
    assert statuses(alone) == ["done"]
    assert records(alone[0].folder) == records(jobs[0].folder)


def test_a_run_that_diverged_is_told_and_not_run_again(tmp_path: Path) -> None:
    jobs = plan(vary={"learning_rate": [0.1, 1e12]}, seeds=(0,)).jobs(tmp_path)
    first = run_jobs(jobs, Here())
    assert [outcome.status for outcome in first] == ["done", "diverged"]
    assert [outcome.message for outcome in run_jobs(jobs, Here())] == [outcome.message for outcome in first]
    before = (jobs[1].folder / "config.json").stat().st_mtime_ns
    assert statuses(jobs) == ["done", "diverged"]
    assert (jobs[1].folder / "config.json").stat().st_mtime_ns == before


def test_a_sweep_whose_time_is_up_goes_on_to_the_same_end(tmp_path: Path) -> None:
    whole, parts = plan(seeds=(0,)).jobs(tmp_path / "whole"), plan(seeds=(0,)).jobs(tmp_path / "parts")
    assert statuses(whole) == ["done", "done"]
    assert statuses(parts, max_minutes=1e-9) == ["stopped", "stopped"]
    first = dataclasses.replace(parts[0], options={**parts[0].options, "run.rounds": 2})
    assert statuses([first]) == ["done"]
    assert statuses(parts) == ["done", "done"]  # two rounds more of the first
    for a, b in zip(whole, parts, strict=True):
        assert records(a.folder) == records(b.folder)


def test_a_sweep_that_is_killed_goes_on_to_the_same_end(tmp_path: Path) -> None:
    arguments = [
        "sweep",
        "--selectors",
        "uniform,fedcbs-exact",
        "--seeds",
        "1",
        "--jobs",
        "1",
        "--quiet",
        "-o",
    ]
    settings = [
        f"--set={key}={value}" for key, value in {**SMALL, "rounds": 80, "checkpoint_every": 4}.items()
    ]
    killed = subprocess.Popen(
        [sys.executable, "-m", "fedcbs", *arguments, str(tmp_path / "killed"), *settings]
    )
    file = tmp_path / "killed" / "uniform,seed=0" / "rounds.jsonl"
    end = time.monotonic() + 120
    while not (file.is_file() and file.read_text().count("\n") > 7):
        assert killed.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert main([*arguments, str(tmp_path / "killed"), *settings]) == 0
    assert main([*arguments, str(tmp_path / "whole"), *settings]) == 0
    for name in ("uniform,seed=0", "fedcbs-exact,seed=0"):
        assert records(tmp_path / "killed" / name) == records(tmp_path / "whole" / name)
        assert len(records(tmp_path / "killed" / name)) == 80


def test_ctrl_c_stops_a_sweep_with_checkpoints(tmp_path: Path) -> None:
    settings = [f"--set={key}={value}" for key, value in {**SMALL, "rounds": 100_000}.items()]
    command = [
        sys.executable,
        "-m",
        "fedcbs",
        "sweep",
        "--seeds",
        "2",
        "--jobs",
        "2",
        "-o",
        str(tmp_path / "s"),
        *settings,
    ]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    files = [tmp_path / "s" / f"seed={seed}" / "rounds.jsonl" for seed in range(2)]
    end = time.monotonic() + 120
    while not all(file.is_file() and file.read_text().count("\n") > 3 for file in files):
        assert time.monotonic() < end
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=60) == 130
    for file in files:
        summary = json.loads((file.parent / "summary.json").read_text())
        assert summary["status"] == "interrupted"
        assert summary["rounds"] == len(file.read_text().splitlines())


def test_a_run_that_was_stopped_beyond_what_is_asked_for_is_done(tmp_path: Path) -> None:
    (job,) = plan(vary={"selector": ["uniform"]}, seeds=(0,)).jobs(tmp_path)
    assert statuses([job]) == ["done"]
    stored = json.loads((job.folder / "config.json").read_text())
    stored["config"]["run"]["rounds"] = 9  # of which four are done
    (job.folder / "config.json").write_text(json.dumps(stored))
    (job.folder / "summary.json").write_text('{"status": "interrupted", "rounds": 4}')
    with (job.folder / "rounds.jsonl").open("a") as file:
        file.write('{"round": 5, "coh')  # is being written
    fewer, more = (
        dataclasses.replace(job, options={**job.options, "run.rounds": rounds}) for rounds in (3, 5)
    )
    before = (job.folder / "rounds.jsonl").read_bytes()
    assert statuses([fewer, job]) == ["done", "done"]
    assert (job.folder / "rounds.jsonl").read_bytes() == before
    assert statuses([more]) == ["done"]
    assert [record["round"] for record in records(job.folder)] == [1, 2, 3, 4, 5]


def test_a_folder_with_another_run_is_refused(tmp_path: Path) -> None:
    jobs = plan(seeds=(0,)).jobs(tmp_path)
    assert statuses(jobs[:1]) == ["done"]
    other = dataclasses.replace(jobs[0], options={**jobs[0].options, "training.momentum": 0.5})
    with pytest.raises(InvalidArgumentError, match=r"training\.momentum=0\.0, but 0\.5 is asked for"):
        run_jobs([other], Here())


def test_a_finished_run_counts_wherever_it_was_computed_and_another_goes_on_with_what_is_here(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    config = {**SMALL, "data.directory": str(data), "training.threads": 2}
    selectors = ["uniform", "fedcbs-exact"]
    jobs = Plan(config=config, vary={"selector": selectors}, seeds=(0,)).jobs(tmp_path / "runs")
    assert statuses(jobs) == ["done", "done"]
    stored = json.loads((jobs[0].folder / "config.json").read_text())
    stored["config"]["training"]["device"] = "cuda"
    (jobs[0].folder / "config.json").write_text(json.dumps(stored))
    assert statuses(jobs) == ["done", "done"]
    longer = [dataclasses.replace(job, options={**job.options, "run.rounds": 6}) for job in jobs]
    with pytest.raises(InvalidArgumentError, match=r"training\.device='cuda', but 'cpu' is asked for"):
        run_jobs(longer, Here())
    data.rename(tmp_path / "moved")
    moved = dataclasses.replace(
        longer[1], threads=1, options={**longer[1].options, "data.directory": str(tmp_path / "moved")}
    )
    assert statuses([moved]) == ["done"]
    now = json.loads((moved.folder / "config.json").read_text())["config"]
    assert now["training"]["threads"] == 1
    assert now["data"]["directory"] == str(tmp_path / "moved")


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    jobs = plan(seeds=(0,)).jobs(tmp_path)
    jobs[0].folder.mkdir()
    (jobs[0].folder / "thesis.tex").write_text("mine")
    (outcome,) = run_jobs(jobs[:1], Here())
    assert outcome.status == "failed"
    assert "holds other files" in outcome.message
    assert (jobs[0].folder / "thesis.tex").read_text() == "mine"


def test_the_command_says_what_there_is_and_how_it_went(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = [f"--set={key}={value}" for key, value in SMALL.items()]
    arguments = ["sweep", "--seeds", "2,", "-o", str(tmp_path / "s"), "--jobs", "1", *settings]
    assert main([*arguments, "--list"]) == 0
    assert capsys.readouterr().out.split() == ["-", str(tmp_path / "s" / "seed=2")]
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["status"] == "done"
    assert main(arguments) == 0
    assert "1 run: 1 done" in capsys.readouterr().err
    for wrong, said in (
        (["--set", "rounds"], "key=value"),
        (["--set", "rounds=5"], "given twice"),
        (["--seeds", "x"], "number of seeds"),
        (["--max-minutes", "0"], "above 0"),
        (["nofile.toml"], "is no file"),
    ):
        assert main([*arguments, *wrong]) == 2
        assert said in capsys.readouterr().err


def test_a_cluster_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"fedcbs\[ray\]"):
        RayCluster("auto")


def test_a_cluster_finds_what_one_process_finds(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="ray is not installed")
    jobs = plan(seeds=(0,)).jobs(tmp_path / "cluster")
    assert statuses(jobs, RayCluster("local")) == ["done", "done"]
    assert statuses(plan(seeds=(0,)).jobs(tmp_path / "here")) == ["done", "done"]
    for job in jobs:
        assert records(job.folder) == records(tmp_path / "here" / job.name)


def test_a_dataset_that_is_nowhere_is_told_before_any_run_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.delenv("FEDCBS_DATA", raising=False)
    for command in (["sweep", "--set", "dataset=mnist"], ["experiment", "figure1-mnist"]):
        assert main([*command, "--data-dir", "."] if command[0] == "experiment" else command) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.startswith("fedcbs: error: dataset='mnist' was found nowhere")
        assert told.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
