"""Whatever stops a run, going on ends as if nothing had."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcbs.cli import main
from fedcbs.cli._run_progress import stops_politely
from fedcbs.errors import DivergedError, InvalidArgumentError, RunError
from fedcbs.runs import RunConfig, read_run, resume, simulate, start
from fedcbs.runs._directory import RunDirectory
from fedcbs.selectors import make_selector
from fedcbs.simulation import RoundRecord
from tests.runs.federations import SMALL, VARIANTS, arguments, assert_same_end, rounds_of


class Stopped(Exception):  # noqa: N818
    """What a test stops a run with."""


def start_process(config: RunConfig, out: Path, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "fedcbs", "run", "--quiet", f"--out={out}", *arguments(config)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, **options)


def wait_for_rounds(process: subprocess.Popen[str], out: Path, rounds: int) -> None:
    path = out / "rounds.jsonl"
    for _ in range(30_000):
        if path.exists() and path.read_bytes().count(b"\n") >= rounds:
            return
        if process.poll() is not None:
            raise AssertionError(f"ended with {process.returncode}: {process.communicate()[1]}")
        time.sleep(0.002)
    raise AssertionError("the run does not go on")


@pytest.fixture(scope="module", params=list(VARIANTS))
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[RunConfig, Path]:
    """A run that nothing interrupted."""
    config = SMALL.with_options(VARIANTS[request.param])
    out = tmp_path_factory.mktemp(request.param) / "run"
    start(config, out)
    return config, out


@pytest.mark.parametrize("variant", ["remembering", "on disk"])
def test_kill_nine(variant: str, tmp_path: Path) -> None:
    config = SMALL.with_options(VARIANTS[variant] | {"rounds": 1500})
    out, expected = tmp_path / "run", tmp_path / "whole"
    process = start_process(config, out)
    wait_for_rounds(process, out, 16)
    process.kill()
    process.communicate()
    assert 16 <= len(read_run(out).records) < 1500
    assert not (out / "summary.json").exists()
    rounds = len(read_run(out).records) + 20  # enough to see that it goes on as it would have
    resume(out, rounds=rounds)
    start(config.with_options({"rounds": rounds}), expected)
    assert_same_end(out, expected)


def test_stopping_after_any_round(whole: tuple[RunConfig, Path], tmp_path: Path) -> None:
    config, expected = whole
    out, stops = tmp_path / "run", iter([1, 6, 7, 8, 20, 21, 39])

    def stop_at(number: int) -> Any:
        def watch(record: RoundRecord) -> None:
            if record.round == number:
                raise Stopped

        return watch

    with pytest.raises(Stopped):
        start(config, out, watch=stop_at(next(stops)))
    for number in stops:
        with pytest.raises(Stopped):
            resume(out, watch=stop_at(number))
    resume(out)
    assert_same_end(out, expected)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_the_last_round(number: signal.Signals, tmp_path: Path) -> None:
    config = SMALL.with_options({"checkpoint_every": 1000})
    out, expected = tmp_path / "run", tmp_path / "whole"

    def watch(record: RoundRecord) -> None:
        if record.round == 9:
            os.kill(os.getpid(), number)

    with pytest.raises(KeyboardInterrupt), stops_politely():
        start(config, out, watch=watch)
    stopped = read_run(out)
    assert stopped.summary is not None
    assert (stopped.summary["status"], stopped.summary["rounds"]) == ("interrupted", 9)
    seen: list[int] = []
    resume(out, watch=lambda record: seen.append(record.round))
    assert seen[0] == 10
    start(config, expected)
    assert_same_end(out, expected)


def test_control_c_in_the_terminal(tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = start_process(SMALL.with_options({"rounds": 100_000}), out)
    wait_for_rounds(process, out, 9)
    process.send_signal(signal.SIGINT)
    _, message = process.communicate()
    assert process.returncode == 130
    assert f"fedcbs resume {out}" in message
    found = read_run(out)
    assert found.summary is not None
    assert found.summary["status"] == "interrupted"
    assert len(found.records) == found.summary["rounds"]


def test_a_full_disk(tmp_path: Path) -> None:
    config = SMALL.with_options({"checkpoint_every": 5})
    out, expected = tmp_path / "run", tmp_path / "whole"
    limit = 26_000  # bytes of a file, of which rounds.jsonl needs more in the end

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    process = start_process(config, out, preexec_fn=fill)  # one thread here
    _, message = process.communicate()
    assert process.returncode == 1
    assert "no space left" in message
    assert f"fedcbs resume {out}" in message
    assert "Traceback" not in message
    assert not list(out.glob("*.part"))
    resume(out)
    start(config, expected)
    assert_same_end(out, expected)


def test_two_processes_on_one_directory(tmp_path: Path) -> None:
    out = tmp_path / "run"
    start(SMALL.with_options({"rounds": 2}), out)
    with RunDirectory.existing(out).locked(), pytest.raises(RunError, match="another process is working"):
        resume(out, rounds=4)
    assert len(resume(out, rounds=4).records) == 4


def test_a_damaged_checkpoint_falls_back_on_the_one_before(tmp_path: Path) -> None:
    out, expected, notes = tmp_path / "run", tmp_path / "whole", []
    config = SMALL.with_options(VARIANTS["remembering"])

    def watch(record: RoundRecord) -> None:
        if record.round == 30:
            raise Stopped

    with pytest.raises(Stopped):
        start(config, out, watch=watch)
    content = (out / "checkpoint.npz").read_bytes()
    (out / "checkpoint.npz").write_bytes(content[: len(content) // 2])
    resume(out, note=notes.append)
    assert "checkpoint.npz cannot be read" in notes[0]
    assert "going on from checkpoint.previous.npz, of round 21" in notes[0]
    start(config, expected)
    assert_same_end(out, expected)


def test_after_going_on_the_older_checkpoint_still_finds_its_vectors(tmp_path: Path) -> None:
    out, expected = tmp_path / "run", tmp_path / "whole"
    config = SMALL.with_options(VARIANTS["on disk"])

    def stop_at(number: int) -> Any:
        def watch(record: RoundRecord) -> None:
            if record.round == number:
                raise Stopped

        return watch

    with pytest.raises(Stopped):
        start(config, out, watch=stop_at(21))
    with pytest.raises(Stopped):
        resume(out, watch=stop_at(27))  # six rounds write vectors, and no checkpoint comes
    (out / "checkpoint.npz").write_bytes(b"damaged")
    resume(out)
    start(config, expected)
    assert_same_end(out, expected)


@pytest.mark.parametrize("selector", ["divfl", "clustered-similarity", "ou"])
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_where_updates_are_kept_makes_no_difference(selector: str, precision: str, tmp_path: Path) -> None:
    kept = f"{selector}:precision={precision}"
    start(SMALL.with_options({"selector": kept, "rounds": 12}), tmp_path / "memory")
    start(SMALL.with_options({"selector": f"{kept}:on_disk=true", "rounds": 12}), tmp_path / "disk")
    assert rounds_of(tmp_path / "memory") == rounds_of(tmp_path / "disk")
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("memory", "disk")]
    assert models[0] == models[1]
    with np.load(tmp_path / "memory" / "checkpoint.npz") as arrays:
        vectors = arrays["selector.updates"]
    size = (tmp_path / "disk" / "updates.bin").stat().st_size
    assert size <= 2 * 30 * vectors[0].nbytes  # of 30 clients, and a few more that checkpoints refer to


def test_updates_on_disk_need_a_folder() -> None:
    config = SMALL.with_options({"selector": "divfl:on_disk=true"})
    with pytest.raises(InvalidArgumentError, match="on_disk=true needs a folder to keep updates in"):
        next(simulate(config))


def test_damage_beyond_repair_is_an_error(tmp_path: Path) -> None:
    out = tmp_path / "run"
    start(SMALL.with_options({"rounds": 8}), out)
    (out / "summary.json").unlink()
    good = {path.name: path.read_bytes() for path in out.iterdir()}
    flipped = bytearray(good["checkpoint.npz"])
    flipped[len(flipped) // 2] ^= 0xFF
    for name in ("checkpoint.npz", "checkpoint.previous.npz"):
        (out / name).write_bytes(flipped)
    with pytest.raises(RunError, match="there is no other checkpoint, so start anew"):
        resume(out)
    (out / "checkpoint.npz").write_bytes(good["checkpoint.npz"])
    (out / "rounds.jsonl").write_bytes(good["rounds.jsonl"][:200])
    with pytest.raises(RunError, match="ends before round 1, but the checkpoint is of round 8"):
        resume(out)
    (out / "rounds.jsonl").write_bytes(b"nonsense\n" * 8)
    with pytest.raises(RunError, match=r"rounds\.jsonl line 1 is no record"):
        resume(out)
    (out / "config.json").write_text("{")
    with pytest.raises(RunError, match=r"config\.json cannot be read"):
        resume(out)
    with pytest.raises(InvalidArgumentError, match="holds no run"):
        resume(tmp_path / "nowhere")


def test_a_finished_run_is_left_as_it_is_and_can_be_prolonged(tmp_path: Path) -> None:
    out, longer = tmp_path / "run", tmp_path / "longer"
    config = SMALL.with_options({"rounds": 10, "evaluation.every": 5})
    start(config, out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    resume(out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    resume(out, rounds=20)
    start(config.with_options({"rounds": 20}), longer)
    assert_same_end(out, longer)
    with pytest.raises(RunError, match="round 20 is done"):
        resume(out, rounds=5)


def test_a_run_that_diverges_is_reported_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    config = SMALL.with_options({"learning_rate": 1e7})
    with pytest.raises(DivergedError, match="training diverged in round"):
        start(config, out)
    found = read_run(out)
    assert found.summary is not None
    assert found.summary["status"] == "diverged"
    assert not (out / "model.safetensors").exists()
    assert main(["resume", str(out)]) == 1
    assert "diverged, and would again" in capsys.readouterr().err


def test_stopping_early_at_an_accuracy(tmp_path: Path) -> None:
    config = SMALL.with_options({"selector": "fedcbs-exact", "stop_at": 0.5, "targets": [0.3, 0.5, 0.99]})
    found = start(config, tmp_path / "run")
    assert found.summary is not None
    assert found.summary["status"] == "finished"
    assert found.summary["rounds"] == len(found.records) < 40
    assert found.summary["targets"]["0.5"] == len(found.records)
    assert found.summary["targets"]["0.99"] is None
    (tmp_path / "run" / "summary.json").unlink()
    assert len(resume(tmp_path / "run").records) == len(found.records)


def test_what_is_simulated_is_what_is_written_down(tmp_path: Path) -> None:
    config = SMALL.with_options({"rounds": 5})
    records = list(simulate(config))
    found = start(config, tmp_path / "run")
    assert [r.cohort for r in records] == [r.cohort for r in found.records]
    assert [r.loss for r in records] == [r.loss for r in found.records]


def test_a_selector_with_other_defaults_does_not_go_on(tmp_path: Path) -> None:
    out = tmp_path / "run"
    start(SMALL, out)
    written = json.loads((out / "config.json").read_text())
    assert written["selector_options"]["exploration"] == make_selector("fedcbs-sharp").exploration
    written["selector_options"]["exploration"] = 0.7
    (out / "config.json").write_text(json.dumps(written))
    with pytest.raises(
        RunError, match=r"started with exploration=0\.7 of fedcbs-sharp.*go on with the version"
    ):
        resume(out, rounds=SMALL.run.rounds + 1)
