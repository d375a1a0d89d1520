"""A run that stops and goes on is the run that never stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideAdaptiveClipping,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedYogi,
    Strategy,
)

from fedcbs import Need, selector_types
from fedcbs.flower import FederationStateError, with_answers, with_selector
from tests.flower.fake import NO_ANSWER, FakeGrid, counts_of, model, partition, training_app
from tests.flower.test_selectors import gradients, losses

COUNTS = counts_of(10)
ROUNDS = 7


def federation(first_id: int = 1000) -> FakeGrid:
    app = with_answers(
        training_app(COUNTS), label_counts=lambda context: COUNTS[partition(context)], losses=losses
    )
    return FakeGrid([app] * len(COUNTS), first_id=first_id)


def run(
    grid: FakeGrid, rounds: int, strategy: Strategy, selector: str = "fedcbs-exact", **options: Any
) -> Any:
    options = {"cohort_size": 3, "seed": 2, "wait": 5} | options
    if Need.CLASS_GRADIENTS in selector_types()[selector].learns:
        options["class_gradients"] = gradients
    made = with_selector(strategy, selector, **options)
    return made.start(grid, model(), num_rounds=rounds, timeout=60)


def numbers(result: Any) -> list[np.ndarray]:
    return result.arrays.to_numpy_ndarrays()


def records(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "rounds.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


OPTIMISERS = {
    "fedavg": FedAvg,
    "fedadam": FedAdam,
    "fedyogi": FedYogi,
    "fedavgm": lambda: FedAvgM(server_momentum=0.9, server_learning_rate=0.5),
}


@pytest.mark.parametrize("name", sorted(OPTIMISERS))
def test_moments_of_the_server_are_kept(tmp_path: Path, name: str) -> None:
    make = OPTIMISERS[name]
    whole = run(federation(), ROUNDS, make())
    run(federation(), 3, make(), out=tmp_path)
    again = run(federation(first_id=3), ROUNDS, make(), out=tmp_path)
    for one, two in zip(numbers(whole), numbers(again), strict=True):
        np.testing.assert_array_equal(one, two)
    assert list(again.train_metrics_clientapp) == [4, 5, 6, 7]


@pytest.mark.parametrize("selector", sorted(selector_types()))
def test_every_selector_goes_on_as_if_nothing_had_happened(tmp_path: Path, selector: str) -> None:
    kind = selector_types()[selector]
    if Need.DURATIONS in kind.needs | kind.learns:
        pytest.skip("learns from times on the clock")
    whole = federation()
    run(whole, ROUNDS, FedAvg(), selector)
    one, two = federation(), federation(first_id=3)
    run(one, 3, FedAvg(), selector, out=tmp_path)
    run(two, ROUNDS, FedAvg(), selector, out=tmp_path)
    assert one.trained() + two.trained() == whole.trained()


def test_nodes_are_not_asked_for_their_data_again(tmp_path: Path) -> None:
    run(federation(), 3, FedAvg(), out=tmp_path)
    grid = federation(first_id=3)
    run(grid, ROUNDS, FedAvg(), out=tmp_path)
    assert "query.fedcbs_statistics" not in {m.metadata.message_type for m in grid.sent}


def test_the_record_is_that_of_one_run(tmp_path: Path) -> None:
    run(federation(), ROUNDS, FedAdam(), out=tmp_path / "whole")
    run(federation(), 3, FedAdam(), out=tmp_path / "parts")
    run(federation(), ROUNDS, FedAdam(), out=tmp_path / "parts")
    whole, parts = records(tmp_path / "whole"), records(tmp_path / "parts")
    for one, two in zip(whole, parts, strict=True):
        two["bytes_up"], two["bytes_down"] = one["bytes_up"], one["bytes_down"]  # names are asked again
        assert one == two
    summary = json.loads((tmp_path / "parts" / "summary.json").read_text())
    assert summary["status"] == "finished"
    assert summary["rounds"] == ROUNDS
    config = json.loads((tmp_path / "parts" / "config.json").read_text())
    assert config["config"]["training"]["strategy"] == "FedAdam"
    assert config["config"]["selector"] == {"name": "fedcbs-exact", "cohort_size": 3}


class Killed(BaseException):
    """The process is gone: nothing after this line runs."""


@pytest.mark.parametrize(
    ("moment", "at"), [("train", 1), ("train", 4), ("evaluate", 1), ("evaluate", 9), ("query", 1)]
)
def test_killed_at_any_moment(tmp_path: Path, moment: str, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    run(federation(), ROUNDS, FedAdam(), out=tmp_path / "whole")
    grid = federation()
    seen = [0]

    def fault(message: Message) -> None:
        if message.metadata.message_type.startswith(moment) and seen[0] >= 3 * at:
            raise Killed
        seen[0] += message.metadata.message_type.startswith(moment)

    for node in grid.nodes.values():
        node.fault = fault
    monkeypatch.setattr("fedcbs.flower._journal.Journal.finish", lambda *_, **__: None)
    with pytest.raises(Killed):
        run(grid, ROUNDS, FedAdam(), out=tmp_path / "parts")
    monkeypatch.undo()
    again = run(federation(first_id=3), ROUNDS, FedAdam(), out=tmp_path / "parts")
    whole, parts = records(tmp_path / "whole"), records(tmp_path / "parts")
    assert [one["cohort"] for one in parts] == [one["cohort"] for one in whole]
    assert [one["qcid"] for one in parts] == [one["qcid"] for one in whole]
    assert list(again.train_metrics_clientapp)[-1] == ROUNDS


def test_killed_while_the_checkpoint_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = federation()
    run(whole, ROUNDS, FedAdam())
    one, two = federation(), federation(first_id=3)
    calls = [0]
    import fedcbs.flower._checkpoint as module

    original = module.write_plain

    def write(path: Path, value: object) -> None:
        calls[0] += 1
        if calls[0] == 6:
            raise Killed
        original(path, value)

    monkeypatch.setattr(module, "write_plain", write)
    monkeypatch.setattr("fedcbs.flower._journal.Journal.finish", lambda *_, **__: None)
    with pytest.raises(Killed):
        run(one, ROUNDS, FedAdam(), out=tmp_path)
    monkeypatch.undo()
    run(two, ROUNDS, FedAdam(), out=tmp_path)
    done = len(one.trained())
    assert one.trained()[: done - 1] + two.trained() == whole.trained()


def test_who_was_absent_is_remembered(tmp_path: Path) -> None:
    grid = federation()
    for number in range(4):
        grid.node(number).fault = lambda m: NO_ANSWER if m.metadata.message_type == "train" else None
    run(grid, 3, FedAvg(), "uniform", out=tmp_path, pause=8, seed=0)
    absent = {c for cohort in grid.trained() for c in cohort if c < 4}
    assert absent
    again = federation()
    run(again, 6, FedAvg(), "uniform", out=tmp_path, pause=8, seed=0)
    assert all(not absent & set(cohort) for cohort in again.trained())


def test_a_finished_run_has_nothing_left_to_do(tmp_path: Path) -> None:
    first = run(federation(), 3, FedAvg(), out=tmp_path)
    grid = federation()
    again = run(grid, 3, FedAvg(), out=tmp_path)
    assert not grid.sent
    for one, two in zip(numbers(first), numbers(again), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"seed": 5}, "seed=5, but the checkpoint"),
        ({"cohort_size": 4}, "cohort_size=4, but the checkpoint"),
        ({"selector": "uniform"}, "selector='uniform', but the checkpoint"),
        ({"strategy": FedAvgM()}, "is of the strategy FedAvg, but this run has FedAvgM"),
        ({"resume": False}, "holds a run; choose another folder"),
    ],
)
def test_another_run_does_not_go_on_from_it(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    run(federation(), 2, FedAvg(), out=tmp_path)
    with pytest.raises(FederationStateError, match=said):
        run(federation(), 4, **({"strategy": FedAvg(), "out": tmp_path} | options))


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    run(federation(), 2, FedAvg(), out=tmp_path)
    path = tmp_path / "checkpoint.npz"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(FederationStateError, match=r"checkpoint\.npz' cannot be read"):
        run(federation(), 4, FedAvg(), out=tmp_path)


def test_options_stay_as_the_operator_has_them_now(tmp_path: Path) -> None:
    run(federation(), 2, FedAdam(eta=0.1), out=tmp_path)
    strategy = with_selector(FedAdam(eta=0.5), "fedcbs-exact", cohort_size=3, seed=2, out=tmp_path)
    strategy.start(federation(), model(), num_rounds=3, timeout=60)
    assert strategy.eta == 0.5


def test_what_wrapped_strategies_remember_is_kept_too(tmp_path: Path) -> None:
    def private() -> DifferentialPrivacyServerSideAdaptiveClipping:
        return DifferentialPrivacyServerSideAdaptiveClipping(
            FedAdam(), noise_multiplier=0.1, num_sampled_clients=3
        )

    first = with_selector(private(), "fedcbs-exact", cohort_size=3, seed=2, out=tmp_path)
    first.start(federation(), model(), num_rounds=3, timeout=60)
    second = with_selector(private(), "fedcbs-exact", cohort_size=3, seed=2, out=tmp_path)
    second.start(federation(), model(), num_rounds=3, timeout=60)
    assert second.clipping_norm == first.clipping_norm != private().clipping_norm
    np.testing.assert_array_equal(second.strategy.m_t["weight"], first.strategy.m_t["weight"])


class Counting(FedAvg):
    """A user's strategy that gives its own state."""

    def __init__(self) -> None:
        super().__init__()
        self.own: Any = object()
        self.rounds = 0

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        self.own = object()
        self.rounds += 1
        return super().aggregate_train(server_round, replies)

    def state_dict(self) -> dict[str, Any]:
        return {"seen": np.array([self.rounds])}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loaded = state["seen"].tolist()


def test_a_strategy_may_give_its_state_itself(tmp_path: Path) -> None:
    run(federation(), 2, Counting(), out=tmp_path)
    strategy = with_selector(Counting(), "fedcbs-exact", cohort_size=3, seed=2, out=tmp_path)
    strategy.start(federation(), model(), num_rounds=3, timeout=60)
    assert strategy.loaded == [2]
    assert strategy.rounds == 3
