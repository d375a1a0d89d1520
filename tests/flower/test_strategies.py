"""Every strategy of the installed Flower, through the hook."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import flwr.serverapp.strategy as builtin
import numpy as np
import pytest
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg, Strategy

from fedcbs.errors import InvalidArgumentError
from fedcbs.flower import SelectionNotHonouredError, with_answers, with_selector
from tests.flower.fake import FakeGrid, counts_of, model, partition, training_app

COHORT = 4
COUNTS = counts_of(12)
OPTIONS: dict[str, dict[str, Any]] = {
    "QFedAvg": {"client_learning_rate": 0.1},
    "Krum": {"num_malicious_nodes": 1},
    "MultiKrum": {"num_malicious_nodes": 1, "num_nodes_to_select": 2},
    "Bulyan": {"num_malicious_nodes": 0},
    "FedProx": {"proximal_mu": 0.1},
}


def strategy_types() -> dict[str, type[Strategy]]:
    found = {name: getattr(builtin, name) for name in builtin.__all__}
    return {
        name: kind
        for name, kind in found.items()
        if inspect.isclass(kind) and issubclass(kind, Strategy) and not inspect.isabstract(kind)
    }


def wrapper(kind: type[Strategy]) -> bool:
    return "strategy" in inspect.signature(kind).parameters


def built(name: str) -> Strategy:
    kind = strategy_types()[name]
    if wrapper(kind):
        clipping = "initial_clipping_norm" if "Adaptive" in name else "clipping_norm"
        return kind(FedAvg(), noise_multiplier=0.1, num_sampled_clients=COHORT, **{clipping: 1.0})
    return kind(**OPTIONS.get(name, {}))


def booster(trees: int) -> bytes:
    tree = {"id": 0}
    params = {"num_trees": str(trees), "num_parallel_tree": "1"}
    inner = {"gbtree_model_param": params, "iteration_indptr": list(range(trees + 1))}
    inner |= {"trees": [tree] * trees, "tree_info": [0] * trees}
    return json.dumps({"learner": {"gradient_booster": {"model": inner}}}).encode()


def boosting_app(counts: np.ndarray) -> ClientApp:
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Any) -> Message:
        record = ArrayRecord([np.frombuffer(booster(1), dtype=np.uint8)])
        metrics = MetricRecord({"num-examples": int(counts[partition(context)].sum())})
        return Message(RecordDict({"arrays": record, "metrics": metrics}), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Any) -> Message:
        metrics = MetricRecord({"num-examples": int(counts[partition(context)].sum())})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def grid_for(name: str) -> tuple[FakeGrid, ArrayRecord]:
    boosts = name.startswith("FedXgb")
    app = boosting_app(COUNTS) if boosts else training_app(COUNTS)
    if "ClientSideAdaptive" in name:
        app = with_norm_bit(app)
    answering = with_answers(app, label_counts=lambda context: COUNTS[partition(context)])
    start = ArrayRecord([np.frombuffer(b"", dtype=np.uint8)]) if boosts else model()
    return FakeGrid([answering] * len(COUNTS)), start


def with_norm_bit(app: ClientApp) -> ClientApp:
    class Clipping(type(app)):
        def __call__(self, message: Message, context: Any) -> Message:
            reply = super().__call__(message, context)
            if message.metadata.message_type == "train":
                reply.content["metrics"]["norm_bit"] = 1
            return reply

    clipping = object.__new__(Clipping)
    clipping.__dict__.update(app.__dict__)
    return clipping


@pytest.fixture(scope="module")
def expected() -> list[list[int]]:
    """Cohorts of the first rounds, as plain FedAvg has them: they are the selector's alone."""
    return run("FedAvg")[1]


def run(name: str) -> tuple[Any, list[list[int]], Strategy]:
    grid, start = grid_for(name)
    strategy = with_selector(built(name), "fedcbs-exact", cohort_size=COHORT, seed=3)
    result = strategy.start(grid, start, num_rounds=3, timeout=60)
    return result, grid.trained(), strategy


@pytest.mark.parametrize("name", sorted(set(strategy_types()) - {"FedXgbCyclic"}))
def test_trains_the_selected_cohort_and_only_it(name: str, expected: list[list[int]]) -> None:
    result, cohorts, strategy = run(name)
    assert cohorts == expected
    assert all(len(cohort) == COHORT for cohort in cohorts)
    assert isinstance(strategy, strategy_types()[name])
    assert list(result.train_metrics_clientapp) == [1, 2, 3]
    assert len(result.train_metrics_clientapp[3]["fedcbs-cohort"]) == COHORT
    assert result.arrays


@pytest.mark.parametrize("name", sorted(set(strategy_types()) - {"FedXgbCyclic"}))
def test_leaves_the_strategy_as_it_was(name: str) -> None:
    grid, start = grid_for(name)
    plain = built(name)
    before = {key: value for key, value in vars(plain).items() if isinstance(value, int | float | str)}
    strategy = with_selector(plain, "uniform", cohort_size=COHORT)
    strategy.start(grid, start, num_rounds=1, timeout=60)
    after = {key: vars(plain)[key] for key in before}
    assert after == before
    for layer in (strategy, getattr(strategy, "strategy", strategy)):
        assert getattr(layer, "min_train_nodes", 2) == 2
        assert getattr(layer, "fraction_train", 1.0) == 1.0


def test_a_strategy_that_picks_one_of_its_nodes_itself_is_refused() -> None:
    grid, start = grid_for("FedXgbCyclic")
    strategy = with_selector(built("FedXgbCyclic"), "uniform", cohort_size=COHORT)
    with pytest.raises(SelectionNotHonouredError, match=r"FedXgbCyclic addressed the nodes \["):
        strategy.start(grid, start, num_rounds=1)


def test_which_is_no_matter_for_a_cohort_of_one() -> None:
    grid, start = grid_for("FedXgbCyclic")
    strategy = with_selector(built("FedXgbCyclic"), "uniform", cohort_size=1)
    strategy.start(grid, start, num_rounds=3)
    assert [len(cohort) for cohort in grid.trained()] == [1, 1, 1]


def test_every_strategy_is_covered() -> None:
    assert len(strategy_types()) >= 18


@pytest.mark.parametrize("name", [name for name, kind in sorted(strategy_types().items()) if wrapper(kind)])
def test_a_wrapper_around_the_selecting_strategy(name: str) -> None:
    if "ClientSide" in name:
        pytest.skip("the mod at the clients is covered above")
    grid, start = grid_for(name)
    inner = with_selector(FedAvg(), "fedcbs-exact", cohort_size=COHORT, seed=3)
    clipping = "initial_clipping_norm" if "Adaptive" in name else "clipping_norm"
    kind = strategy_types()[name]
    outer = kind(inner, noise_multiplier=0.1, num_sampled_clients=COHORT, **{clipping: 1.0})
    outer.start(grid, start, num_rounds=2, timeout=60)
    assert [len(cohort) for cohort in grid.trained()] == [COHORT, COHORT]


class OwnLoop(FedAvg):
    """A user's strategy with options and a start of its own."""

    def start(self, grid: Any, initial_arrays: ArrayRecord, num_rounds: int = 1, **named: Any) -> Any:  # type: ignore[override]
        del named
        for number in range(1, num_rounds + 1):
            from flwr.app import ConfigRecord

            messages = self.configure_train(number, initial_arrays, ConfigRecord(), grid)
            arrays, _ = self.aggregate_train(number, grid.send_and_receive(messages, timeout=5))
            initial_arrays = arrays or initial_arrays
        return initial_arrays


def test_a_start_of_its_own_is_kept(expected: list[list[int]]) -> None:
    grid, start = grid_for("FedAvg")
    strategy = with_selector(OwnLoop(), "fedcbs-exact", cohort_size=COHORT, seed=3)
    arrays = strategy.start(grid, start, num_rounds=3)
    assert isinstance(arrays, ArrayRecord)
    assert grid.trained() == expected


def test_a_strategy_that_does_not_train_asks_nobody() -> None:
    grid, start = grid_for("FedAvg")
    strategy = with_selector(FedAvg(fraction_train=0.0), "fedcbs-exact", cohort_size=COHORT)
    strategy.start(grid, start, num_rounds=1)
    assert {message.metadata.message_type for message in grid.sent} == {"evaluate"}


@pytest.mark.parametrize(
    ("strategy", "selector", "options", "said"),
    [
        (FedAvg, "uniform", {}, "must be a strategy of Flower's message API"),
        (FedAvg(), "unifrom", {}, "did you mean 'uniform'"),
        (FedAvg(), 5, {}, "must be a selector, or the name of one"),
        (FedAvg(), "uniform", {"cohort_size": 0}, "cohort_size=0 must be a whole number of at least 1"),
        (FedAvg(), "uniform", {"query_timeout": 0}, "query_timeout=0 must be a finite number above 0"),
        (FedAvg(), "uniform", {"class_gradients": 3}, "must be a function of the trained arrays"),
        (with_selector(FedAvg(), "uniform", cohort_size=1), "uniform", {}, "has a selector already"),
    ],
)
def test_wrong_arguments_are_named_at_once(
    strategy: Any, selector: Any, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        with_selector(strategy, selector, **({"cohort_size": 2} | options))


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgumentError, match=r"out='.*' cannot be made"):
        with_selector(FedAvg(), "uniform", cohort_size=2, out=tmp_path / "file" / "run")
