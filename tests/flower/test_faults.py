"""Nodes that are late, leave, die, are silent, answer garbage, or lie."""

from __future__ import annotations

import itertools
import logging
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

from fedcbs.flower import FederationError, with_answers, with_selector
from tests.flower.fake import (
    NO_ANSWER,
    FakeGrid,
    counts_of,
    model,
    partition,
    training_app,
    wait_less,
)

COUNTS = counts_of(10)


def answering() -> Any:
    return with_answers(training_app(COUNTS), label_counts=lambda context: COUNTS[partition(context)])


@pytest.fixture
def grid() -> FakeGrid:
    return FakeGrid([answering()] * 8)


def run(grid: FakeGrid, rounds: int = 4, selector: str = "fedcbs-exact", **options: Any) -> Any:
    options = {"cohort_size": 3, "seed": 1, "wait": 5} | options
    strategy = with_selector(FedAvg(), selector, **options)
    return strategy.start(grid, model(), num_rounds=rounds, timeout=60)


def during(kind: str, outcome: Any) -> Any:
    def fault(message: Message) -> Any:
        if not message.metadata.message_type.startswith(kind):
            return None
        return outcome(message) if callable(outcome) else outcome

    return fault


def test_who_does_not_answer_is_left_alone_for_some_rounds(grid: FakeGrid) -> None:
    for number in range(3):
        grid.node(number).fault = during("train", NO_ANSWER)
    result = run(grid, rounds=12, selector="uniform", pause=3)
    dead = {0, 1, 2}
    cohorts = grid.trained()
    for number in dead:
        rounds = [index for index, cohort in enumerate(cohorts) if number in cohort]
        assert all(later - earlier > 3 for earlier, later in itertools.pairwise(rounds))
    assert any(metrics["fedcbs-failed"] for metrics in result.train_metrics_clientapp.values())


def test_errors_made_by_the_superlink_are_the_nodes(grid: FakeGrid) -> None:
    grid.node(4).fault = during("train", RuntimeError("node unavailable"))
    result = run(grid, selector="everyone", cohort_size=8, rounds=2)
    assert result.train_metrics_clientapp[1]["fedcbs-failed"] == [4]
    assert 4 in result.train_metrics_clientapp[2]["fedcbs-cohort"]  # no smaller cohort than asked for


def test_a_cohort_is_filled_up_with_those_that_failed_longest_ago(grid: FakeGrid) -> None:
    grid.node(4).fault = during("train", NO_ANSWER)
    run(grid, selector="uniform", cohort_size=8, rounds=3)
    assert all(len(cohort) == 8 for cohort in grid.trained())


def garbage(**arrays: np.ndarray) -> Any:
    def outcome(message: Message) -> Message:
        record = ArrayRecord({name: Array(array) for name, array in arrays.items()})
        metrics = MetricRecord({"num-examples": 5, "train_loss": 0.1})
        return Message(RecordDict({"arrays": record, "metrics": metrics}), reply_to=message)

    return outcome


def without_weight(message: Message) -> Message:
    metrics = MetricRecord({"other": 5})
    return Message(RecordDict({"arrays": model(), "metrics": metrics}), reply_to=message)


@pytest.mark.parametrize(
    "outcome",
    [
        garbage(weight=np.full((3, 2), np.nan, np.float32), bias=np.zeros(2, np.float32)),
        garbage(weight=np.zeros((2, 2), np.float32), bias=np.zeros(2, np.float32)),
        garbage(other=np.zeros(3, np.float32)),
        lambda message: Message(RecordDict(), reply_to=message),
        without_weight,
    ],
    ids=["nan", "shape", "names", "empty", "no weight"],
)
def test_garbage_is_kept_from_the_aggregate(grid: FakeGrid, outcome: Any) -> None:
    grid.node(2).fault = during("train", outcome)
    result = run(grid, selector="everyone", cohort_size=8, rounds=1)
    assert result.train_metrics_clientapp[1]["fedcbs-failed"] == [2]
    assert np.isfinite(result.arrays.to_numpy_ndarrays()[0]).all()
    others = [COUNTS[c][0] for c in range(8) if c != 2]
    sizes = [COUNTS[c].sum() for c in range(8) if c != 2]
    assert result.arrays.to_numpy_ndarrays()[1][0] == pytest.approx(
        np.average(others, weights=sizes), rel=1e-5
    )


def test_a_negative_weight_is_garbage(grid: FakeGrid) -> None:
    def outcome(message: Message) -> Message:
        metrics = MetricRecord({"num-examples": -50, "train_loss": 0.1})
        return Message(RecordDict({"arrays": model(), "metrics": metrics}), reply_to=message)

    grid.node(2).fault = during("train", outcome)
    result = run(grid, selector="everyone", cohort_size=8, rounds=1)
    assert result.train_metrics_clientapp[1]["fedcbs-failed"] == [2]


def test_a_round_in_which_nobody_answers_keeps_the_model(grid: FakeGrid) -> None:
    for node in grid.nodes.values():
        node.fault = during("train", NO_ANSWER)
    result = run(grid, rounds=2)
    assert not result.arrays
    assert result.train_metrics_clientapp[1]["fedcbs-answered"] == []


def claiming(counts: Any) -> Any:
    return with_answers(training_app(COUNTS), label_counts=lambda _: counts)


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ([1, 2], "2 label counts came for 5 classes"),
        ([-1, 2, 3, 4, 5], "label_counts"),
        ([10**6, 0, 0, 0, 0], "1000000 examples are more than max_examples=1000"),
    ],
)
def test_counts_that_cannot_be_are_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, counts: list[int], said: str
) -> None:
    wait_less(monkeypatch)
    grid = FakeGrid([answering()] * 7 + [claiming(counts)])
    with caplog.at_level(logging.WARNING, logger="flwr.fedcbs"):
        run(grid, max_examples=1000, rounds=3)
    assert said in caplog.text
    assert all(7 not in cohort for cohort in grid.trained())


def test_who_trains_on_other_numbers_than_it_told_is_named_once(
    caplog: pytest.LogCaptureFixture, grid: FakeGrid
) -> None:
    grid.nodes[next(iter(grid.nodes))].app = claiming([1, 1, 1, 1, 1])
    with caplog.at_level(logging.WARNING, logger="flwr.fedcbs"):
        run(grid, selector="fedcbs-paper", cohort_size=8, rounds=3)
    assert caplog.text.count("told 5 examples but trained on") == 1


def test_a_client_without_examples_is_not_available(grid: FakeGrid) -> None:
    grid.nodes[next(iter(grid.nodes))].app = claiming([0, 0, 0, 0, 0])
    result = run(grid, rounds=2)
    assert result.train_metrics_clientapp[1]["fedcbs-available"] == 7


def test_a_node_that_joins_late_is_asked_then_and_can_be_picked() -> None:
    grid = FakeGrid([answering()] * 6)
    late = [grid.add(answering(), 5_000_000 + number, **{"partition-id": number}) for number in (6, 7)]
    for node in late:
        node.online = False

    def evaluate(server_round: int, _: ArrayRecord) -> None:
        for node in late:
            node.online = server_round >= 2

    strategy = with_selector(FedAvg(), "fedcbs-exact", cohort_size=3, seed=1, wait=5)
    result = strategy.start(grid, model(), num_rounds=8, timeout=60, evaluate_fn=evaluate)
    available = [metrics["fedcbs-available"] for metrics in result.train_metrics_clientapp.values()]
    assert available == [6, 6, 8, 8, 8, 8, 8, 8]
    assert any({6, 7} & set(cohort) for cohort in grid.trained()[2:])
    questions = [m for m in grid.sent if m.metadata.message_type == "query.fedcbs_statistics"]
    assert len(questions) == 8


def test_a_node_that_leaves_is_not_selected_while_it_is_away(grid: FakeGrid) -> None:
    def evaluate(server_round: int, _: ArrayRecord) -> None:
        grid.node(5).online = not 2 <= server_round < 5

    strategy = with_selector(FedAvg(), "everyone", cohort_size=7, seed=1, wait=5)
    result = strategy.start(grid, model(), num_rounds=7, timeout=60, evaluate_fn=evaluate)
    sizes = [len(cohort) for cohort in grid.trained()]
    assert sizes == [8, 8, 7, 7, 7, 8, 8]
    assert list(result.train_metrics_clientapp) == list(range(1, 8))


def test_a_client_is_known_again_behind_another_node(grid: FakeGrid) -> None:
    def evaluate(server_round: int, _: ArrayRecord) -> None:
        if server_round == 2:
            grid.node(5).online = False
            grid.add(answering(), 77, **{"partition-id": 5})

    strategy = with_selector(FedAvg(), "everyone", cohort_size=8, seed=1, wait=5)
    result = strategy.start(grid, model(), num_rounds=4, timeout=60, evaluate_fn=evaluate)
    assert [len(cohort) for cohort in grid.trained()] == [8, 8, 8, 8]
    assert result.train_metrics_clientapp[4]["fedcbs-cohort"] == list(range(8))


def test_two_nodes_of_one_name_are_one_client(grid: FakeGrid, caplog: pytest.LogCaptureFixture) -> None:
    grid.add(answering(), 77, **{"partition-id": 5})
    with caplog.at_level(logging.WARNING, logger="flwr.fedcbs"):
        result = run(grid, selector="everyone", cohort_size=8, rounds=2)
    assert "client '5' is behind node" in caplog.text
    assert result.train_metrics_clientapp[2]["fedcbs-cohort"] == list(range(8))


def test_clients_that_cannot_tell_their_loss_are_left_out_of_the_choice(grid: FakeGrid) -> None:
    def losses(_: ArrayRecord, context: Any, __: int | None) -> float:
        if partition(context) in (1, 2):
            raise ValueError("no data today")
        return 1.0

    for node in grid.nodes.values():
        node.app = with_answers(
            training_app(COUNTS), label_counts=lambda context: COUNTS[partition(context)], losses=losses
        )
    run(grid, selector="pow-d:num_candidates=8", rounds=2)
    assert all(not {1, 2} & set(cohort) for cohort in grid.trained())


def test_nobody_who_can_tell_ends_the_run(grid: FakeGrid) -> None:
    with pytest.raises(FederationError, match="none of the clients that selection asked in round 1"):
        run(grid, selector="pow-d:num_candidates=8")


def test_waits_for_clients_and_goes_on_with_fewer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, grid: FakeGrid
) -> None:
    wait_less(monkeypatch)
    with caplog.at_level(logging.INFO, logger="flwr.fedcbs"):
        result = run(grid, min_clients=20, cohort_size=12, rounds=2)
    assert "8 clients are ready, waiting for 20" in caplog.text
    assert caplog.text.count("going on with them") == 1  # later rounds do not wait again
    assert [len(cohort) for cohort in grid.trained()] == [8, 8]
    assert result.train_metrics_clientapp[1]["fedcbs-available"] == 8


def test_no_client_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    wait_less(monkeypatch)
    with pytest.raises(FederationError, match="no client was ready within wait=5 s"):
        run(FakeGrid([]))


def test_messages_live_as_long_as_they_are_waited_for(grid: FakeGrid) -> None:
    run(grid, query_timeout=17)
    for message in grid.sent:
        limit = 17 if message.metadata.message_type.startswith("query") else 60
        assert message.metadata.ttl == limit


def test_messages_whose_sending_was_interrupted_are_sent_again(
    grid: FakeGrid, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class ObjectPushError(Exception):
        """As Flower's."""

    monkeypatch.setattr("fedcbs.flower._patient.PAUSE", 0.0)
    send, calls = grid.send_and_receive, [0]

    def interrupted(messages: Any, *, timeout: float | None = None) -> Any:
        calls[0] += 1
        if calls[0] in (1, 4, 5):
            raise ObjectPushError("session lost")
        return send(messages, timeout=timeout)

    monkeypatch.setattr(grid, "send_and_receive", interrupted)
    with caplog.at_level(logging.WARNING, logger="flwr.fedcbs"):
        result = run(grid, rounds=3)
    assert caplog.text.count("was interrupted (session lost); sending them again") == 3
    assert all(metrics["fedcbs-failed"] == [] for metrics in result.train_metrics_clientapp.values())


def test_an_app_without_answers_will_do_where_nothing_is_asked() -> None:
    grid = FakeGrid([training_app(COUNTS)] * 6)
    result = run(grid, selector="uniform", rounds=2)
    assert [len(cohort) for cohort in grid.trained()] == [3, 3]
    assert result.train_metrics_clientapp[1]["fedcbs-available"] == 6
