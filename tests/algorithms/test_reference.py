"""Each local method with each server rule, over three rounds, beside the slow reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fedcbs.algorithms import (
    Algorithm,
    Work,
    local_methods,
    parse_local,
    parse_server,
    server_rules,
)
from fedcbs.engine import LocalRule, make_engine
from fedcbs.simulation._monitor import AuxiliaryMonitor, last_layer
from tests.algorithms.reference import SlowFederation, TinyModel, tiny_dataset, tiny_plan

STEPS = (5, 2, 8)
SIZES = (10.0, 30.0, 20.0)
LOCAL: dict[str, dict[str, float]] = {
    "plain": {},
    "fedprox": {"mu": 0.7},
    "scaffold": {},
    "fedmax": {"beta": 0.8},
    "ratio-loss": {"alpha": 0.6, "beta": 0.3},
}
SERVER: dict[str, dict[str, float]] = {
    "fedavg": {"learning_rate": 0.8},
    "fednova": {"learning_rate": 0.9},
    "fedavgm": {"learning_rate": 0.7, "momentum": 0.6},
    "fedadam": {"learning_rate": 0.05, "beta1": 0.8, "beta2": 0.95, "tau": 0.01},
    "fedyogi": {"learning_rate": 0.05, "beta1": 0.8, "beta2": 0.95, "tau": 0.01},
    "fedadagrad": {"learning_rate": 0.05, "beta1": 0.3, "tau": 0.01},
}


def spec(name: str, numbers: dict[str, float]) -> str:
    return ":".join([name, *(f"{key}={value}" for key, value in numbers.items())])


def fast_rounds(algorithm: Algorithm, rule: LocalRule, rounds: int = 3) -> tuple[torch.Tensor, Any]:
    model, dataset = TinyModel(), tiny_dataset()
    engine = make_engine(model, dataset, engine="loop", threads=1)
    weights = engine.initial()
    state = algorithm.init(len(STEPS), weights)
    clients = np.arange(len(STEPS))
    for number in range(1, rounds + 1):
        monitor = AuxiliaryMonitor(engine, weights, auxiliary(), last_layer(model, 3))
        own = algorithm.rule(rule, state, clients, monitor)
        work = Work(clients, tiny_plan(number, STEPS), np.array(SIZES))
        outcome = algorithm.round(engine, state, weights, work, own)
        weights, state = outcome.weights, outcome.state
    return weights.parameters, state


def auxiliary() -> tuple[np.ndarray[Any, np.dtype[np.int64]], ...]:
    labels = tiny_dataset().train.labels
    return tuple(np.flatnonzero(labels == label)[:4] for label in range(3))


def test_the_tables_are_complete() -> None:
    assert set(LOCAL) == set(local_methods())
    assert set(SERVER) == set(server_rules())


@pytest.mark.parametrize("server", SERVER)
@pytest.mark.parametrize("local", LOCAL)
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_three_rounds_equal_the_slow_reference(local: str, server: str, momentum: float) -> None:
    if momentum and (local == "scaffold" or (local == "fedprox" and server == "fednova")):
        pytest.skip("refused, or without a closed form")
    algorithm = Algorithm(parse_local(spec(local, LOCAL[local])), parse_server(spec(server, SERVER[server])))
    rule = LocalRule(learning_rate=0.05, weight_decay=0.01, momentum=momentum)
    clash = set(LOCAL[local]) & set(SERVER[server])
    assert not clash
    slow = SlowFederation(local, server, LOCAL[local] | SERVER[server], len(STEPS), SIZES)
    for number in range(1, 4):
        slow.round(tiny_plan(number, STEPS), lr=0.05, wd=0.01, momentum=momentum, auxiliary=auxiliary())
    fast, state = fast_rounds(algorithm, rule)
    np.testing.assert_allclose(fast.numpy(), slow.w, rtol=2e-4, atol=2e-5)
    if local == "scaffold":
        np.testing.assert_allclose(state.local.control.numpy(), slow.c, rtol=1e-3, atol=1e-4)
