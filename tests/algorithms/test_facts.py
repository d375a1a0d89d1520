"""What must hold in closed form, whatever the data."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fedcbs.algorithms import (
    Algorithm,
    FedAvg,
    FedAvgM,
    FedMax,
    FedNova,
    FedProx,
    LocalMethod,
    Plain,
    RatioLoss,
    Scaffold,
    ServerRule,
    Work,
    parse_algorithm,
)
from fedcbs.algorithms._fednova import accumulation
from fedcbs.algorithms._scaffold import ScaffoldState
from fedcbs.engine import LocalRule, make_engine
from fedcbs.errors import InvalidArgumentError, UnknownNameError
from fedcbs.selectors import Estimates
from tests.algorithms.reference import TinyModel, tiny_dataset, tiny_plan
from tests.algorithms.test_reference import fast_rounds

RULE = LocalRule(learning_rate=0.1, weight_decay=0.001)


def one_round(
    local: LocalMethod,
    server: ServerRule,
    steps: tuple[int, ...],
    rule: LocalRule = RULE,
    weights: tuple[float, ...] | None = None,
    estimates: Estimates | None = None,
) -> torch.Tensor:
    engine = make_engine(TinyModel(), tiny_dataset(), engine="loop", threads=1)
    start, algorithm = engine.initial(), Algorithm(local, server)
    clients = np.arange(len(steps))
    state = algorithm.init(len(steps) + 5, start)
    work = Work(
        clients,
        tiny_plan(1, steps),
        np.array(weights or [1.0] * len(steps)),
        estimates,
        np.array([3, 3]) if estimates is not None else np.zeros(0, np.int64),
    )
    own = algorithm.rule(rule, state, clients, None)
    return algorithm.round(engine, state, start, work, own).weights.parameters


def test_fednova_is_fedavg_where_all_make_the_same_number_of_steps() -> None:
    for rule in (RULE, LocalRule(0.1, momentum=0.9)):
        nova, average = (one_round(Plain(), server, (4, 4, 4), rule) for server in (FedNova(), FedAvg()))
        torch.testing.assert_close(nova, average, rtol=1e-5, atol=1e-6)
    nova, average = (one_round(Plain(), server, (1, 7)) for server in (FedNova(), FedAvg()))
    assert not torch.allclose(nova, average, rtol=1e-3, atol=1e-3)


def test_fedprox_without_pull_is_plain_sgd() -> None:
    assert one_round(FedProx(mu=0.0), FedAvg(), (3, 5)).equal(one_round(Plain(), FedAvg(), (3, 5)))


def test_fedmax_without_its_term_is_plain_sgd() -> None:
    assert one_round(FedMax(beta=0.0), FedAvg(), (3, 5)).equal(one_round(Plain(), FedAvg(), (3, 5)))


def test_server_momentum_of_zero_is_fedavg() -> None:
    assert one_round(Plain(), FedAvgM(momentum=0.0), (3, 5)).equal(one_round(Plain(), FedAvg(), (3, 5)))


def test_ratio_loss_with_beta_of_zero_is_plain_sgd() -> None:
    plain, _ = fast_rounds(Algorithm(Plain(), FedAvg()), RULE)
    even, _ = fast_rounds(Algorithm(RatioLoss(beta=0.0), FedAvg()), RULE)
    torch.testing.assert_close(even, plain, rtol=1e-6, atol=1e-7)


def test_scaffold_of_one_client_that_always_answers_is_plain_sgd() -> None:
    engine = make_engine(TinyModel(), tiny_dataset(), engine="loop", threads=1)
    found = []
    for local in (Plain(), Scaffold()):
        algorithm, weights = Algorithm(local, FedAvg()), engine.initial()
        state = algorithm.init(1, weights)
        for number in range(1, 5):
            rule = algorithm.rule(RULE, state, np.array([0]), None)
            work = Work(np.array([0]), tiny_plan(number, (4,)), np.ones(1))
            outcome = algorithm.round(engine, state, weights, work, rule)
            weights, state = outcome.weights, outcome.state
        found.append(weights.parameters)
    torch.testing.assert_close(found[1], found[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_the_servers_control_variate_is_the_mean_of_the_clients(precision: str) -> None:
    _, state = fast_rounds(Algorithm(Scaffold(precision=precision), FedAvg()), RULE)
    local = state.local
    assert isinstance(local, ScaffoldState)
    mean = local.own(np.arange(3)).mean(dim=0)
    torch.testing.assert_close(local.control, mean, rtol=1e-4, atol=1e-6)


def test_normalisation_follows_the_papers_closed_forms() -> None:
    steps = np.array([0, 1, 3, 10])
    np.testing.assert_allclose(accumulation(LocalRule(0.3), steps), steps)
    m = 0.9
    expected = (steps - m * (1 - m**steps) / (1 - m)) / (1 - m)
    np.testing.assert_allclose(accumulation(LocalRule(0.3, momentum=m), steps), expected, rtol=1e-12)
    pull = 0.3 * 0.5
    expected = (1 - (1 - pull) ** steps) / pull
    np.testing.assert_allclose(accumulation(LocalRule(0.3, proximal=0.5), steps), expected, rtol=1e-12)


def test_estimates_count_like_updates_that_were_sent() -> None:
    engine = make_engine(TinyModel(), tiny_dataset(), engine="loop", threads=1)
    start = engine.initial().parameters
    far = np.ones((2, engine.num_parameters))
    estimates = Estimates(np.array([3, 4]), far, np.array([0.25, 0.25]))
    alone = one_round(Plain(), FedAvg(), (3, 3), weights=(0.25, 0.25))
    mixed = one_round(Plain(), FedAvg(), (3, 3), weights=(0.25, 0.25), estimates=estimates)
    torch.testing.assert_close(mixed - start, (alone - start) / 2 + 0.5, rtol=1e-5, atol=1e-6)
    nova = one_round(Plain(), FedNova(), (3, 3), weights=(0.25, 0.25), estimates=estimates)
    torch.testing.assert_close(nova, mixed, rtol=1e-5, atol=1e-6)  # all made three steps


def test_only_the_proportions_of_weights_matter() -> None:
    one = one_round(Plain(), FedAvg(), (3, 5), weights=(1.0, 3.0))
    other = one_round(Plain(), FedAvg(), (3, 5), weights=(0.1, 0.3))
    torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fedprx", "did you mean 'fedprox'"),
        ("fedprox+scaffold", "fedprox and scaffold both say how clients train"),
        ("fednova+fedadam", "both say how the server moves"),
        ("fedprox:mu=-1", "mu=-1.0 must be a finite number of at least 0"),
        ("fedprox:nu=1", "option of fedprox='nu' is not known"),
        ("fedprox:mu", "'mu' must have the form option=value"),
        ("fedavgm:momentum=1", "momentum=1.0 must be from 0 to below 1"),
        ("scaffold:precision=float8", "precision='float8' is not known"),
        ("ratio-loss:alpha=0:beta=0", "leave no loss to train on"),
        ("fedadam:tau=0", "tau=0.0 must be a finite number above 0"),
    ],
)
def test_what_cannot_be_is_refused(text: str, message: str) -> None:
    with pytest.raises((InvalidArgumentError, UnknownNameError), match=message):
        parse_algorithm(text)


def test_scaffold_refuses_momentum_on_clients() -> None:
    with pytest.raises(InvalidArgumentError, match=r"momentum=0\.9 on clients does not go with scaffold"):
        parse_algorithm("scaffold+fedavgm").check(LocalRule(0.1, momentum=0.9))


def test_a_state_is_restored_as_it_was() -> None:
    algorithm = parse_algorithm("scaffold:precision=bfloat16+fedadam")
    _, state = fast_rounds(algorithm, RULE)
    engine = make_engine(TinyModel(), tiny_dataset(), engine="loop", threads=1)
    again = algorithm.restore(algorithm.init(3, engine.initial()), state.to_arrays())
    for name, array in again.to_arrays().items():
        assert np.array_equal(array, state.to_arrays()[name]), name
    assert again.local.own(np.arange(3)).equal(state.local.own(np.arange(3)))  # type: ignore[attr-defined]
    with pytest.raises(InvalidArgumentError, match="saved by another server rule"):
        parse_algorithm("scaffold").restore(
            parse_algorithm("scaffold").init(3, engine.initial()), state.to_arrays()
        )
