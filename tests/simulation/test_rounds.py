"""Whole rounds on the digits: every selector, every algorithm, faults, and rounds without anybody."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest

from fedcbs.algorithms import local_methods, server_rules
from fedcbs.errors import DivergedError, InformationError, InvalidArgumentError
from fedcbs.imbalance import qcid
from fedcbs.runs import RunConfig, build
from fedcbs.selectors import Need, selector_types
from fedcbs.simulation import RoundRecord, Simulation, SimulationState

BASE = RunConfig.of(
    dataset="digits", clients=30, availability="uniform:0.5", cohort_size=4, batch_size=20, rounds=3, seed=1
)


@functools.cache
def simulation(**options: object) -> Simulation:
    return build(
        BASE.with_options({key.replace("__", "."): value for key, value in options.items()})
    ).simulation


def play(sim: Simulation, rounds: int = 3) -> tuple[SimulationState, list[RoundRecord]]:
    state, records = sim.init(), []
    for number in range(rounds):
        state, record = sim.round(state, last=number == rounds - 1)
        records.append(record)
    return state, records


def plain(record: RoundRecord) -> dict[str, Any]:
    return {name: value for name, value in record.to_json().items() if name != "seconds"}


@pytest.mark.parametrize("name", list(selector_types()))
def test_every_selector_trains_and_goes_on_from_saved_arrays_to_the_same_end(name: str) -> None:
    sim = simulation(selector=name)
    state, records = play(sim)
    assert records[-1].accuracy is not None
    assert not state.weights.parameters.equal(sim.engine.initial().parameters)
    again = sim.init()
    replayed = []
    for number in range(3):
        again, record = sim.round(sim.restore(again.to_arrays()), last=number == 2)
        replayed.append(record)
    assert [plain(record) for record in replayed] == [plain(record) for record in records]
    assert again.weights.parameters.equal(state.weights.parameters)


@pytest.mark.parametrize("selector", ["fedcbs-exact", "ou"])
@pytest.mark.parametrize("server", list(server_rules()))
@pytest.mark.parametrize("local", list(local_methods()))
def test_every_algorithm_trains_with_selectors_of_either_kind(local: str, server: str, selector: str) -> None:
    sim = simulation(
        selector=selector,
        algorithm=f"{local}+{server}",
        schedule="epochs:2",
        dropout=0.2,
        deadline=30.0,
        late="partial",
    )
    _, records = play(sim, 2)
    assert records[-1].accuracy is not None
    assert all(record.loss is None or np.isfinite(record.loss) for record in records)


def test_a_record_says_what_happened() -> None:
    sim = simulation(selector="pow-d", dropout=0.5)
    state, records = play(sim, 6)
    for record in records:
        assert record.available == 15
        assert set(record.answered) | set(record.failed) == set(record.cohort)
        assert not set(record.answered) & set(record.failed)
        counts = sim.federation.label_counts[list(record.cohort)]
        assert record.qcid == qcid(counts)
        assert record.cohort_label_counts == tuple(counts.sum(axis=0))
        assert record.asked == {"losses": 8}
        model = 4 * state.weights.parameters.numel()
        assert record.bytes_down == 8 * model
        first = 8 * 30 if record.round == 1 else 0  # sizes of the clients, once
        assert record.bytes_up == (model + 16) * len(record.answered) + 8 * 8 + first
    assert any(record.failed for record in records)


def test_a_round_in_which_nobody_answers_leaves_the_model_as_it_was() -> None:
    sim = simulation(selector="uniform", dropout=1.0)
    state, records = play(sim, 2)
    assert state.weights.parameters.equal(sim.engine.initial().parameters)
    assert records[0].answered == ()
    assert len(records[0].failed) == 4
    assert records[0].loss is None
    assert state.selector.times_selected.sum() == 8


def test_a_round_in_which_nobody_is_available_is_written_down() -> None:
    sim = simulation(selector="uniform", availability="bernoulli:0.02")
    state, records = play(sim, 12)
    empty = [record for record in records if record.available == 0]
    assert empty
    assert empty[0].cohort == ()
    assert empty[0].qcid is None
    assert empty[0].cohort_label_counts is None
    assert state.round_index == 12
    short = [record for record in records if 0 < record.available < 4]
    assert all(len(record.cohort) == record.available for record in short)


def test_clients_without_examples_are_never_picked() -> None:
    sim = simulation(
        selector="uniform",
        partition="dirichlet-classwise",
        alpha=0.02,
        min_examples=0,
        clients=60,
        availability="always",
    )
    assert (sim.federation.num_examples == 0).any()
    _, records = play(sim, 2)
    held = sim.federation.num_examples
    assert all(held[list(record.cohort)].all() for record in records)


def test_the_selector_sets_the_weights_where_it_wants_to() -> None:
    sim = simulation(selector="clustered-size")
    state = sim.init()
    _, record = sim.round(state)
    assert len(record.answered) == 4


def test_a_run_that_diverges_says_so() -> None:
    sim = simulation(selector="uniform", learning_rate=1e8)
    with pytest.raises(DivergedError, match=r"diverged in round \d+: .*lower training\.learning_rate"):
        play(sim, 10)


def test_a_selector_that_asks_a_diverged_model_says_so_too() -> None:
    sim = simulation(selector="pow-d", learning_rate=1e8)
    with pytest.raises(DivergedError, match=r"diverged in round \d+"):
        play(sim, 10)


def test_accuracy_on_the_clients_own_distributions() -> None:
    sim = simulation(selector="uniform", evaluation__clients=True)
    _, records = play(sim, 2)
    record = records[-1]
    assert record.per_class_accuracy is not None
    assert record.client_accuracy is not None
    per_class = np.array(record.per_class_accuracy, dtype=float)
    counts = sim.federation.label_counts
    expected = counts @ per_class / counts.sum(axis=1)
    assert record.client_accuracy["mean"] == pytest.approx(expected.mean())
    assert record.client_accuracy["worst"] == pytest.approx(expected.min())


def test_needs_that_cannot_be_met_are_refused_before_the_first_round() -> None:
    with pytest.raises(InvalidArgumentError, match=r"goes by durations; set availability\.durations"):
        simulation(selector="fedcs", durations="none")
    with pytest.raises(InvalidArgumentError, match=r"deadline needs times"):
        simulation(selector="uniform", durations="none", deadline=5.0)
    with pytest.raises(InvalidArgumentError, match=r"fed-cucb' needs a few examples of each class"):
        simulation(selector="fed-cucb", auxiliary=0)
    with pytest.raises(InvalidArgumentError, match=r"ratio-loss' needs a few examples of each class"):
        simulation(algorithm="ratio-loss", auxiliary=0)
    with pytest.raises(InvalidArgumentError, match=r"cohort_size=40 but there are 30 clients"):
        simulation(cohort_size=40)


def test_only_what_is_asked_for_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = simulation(selector="fedcbs-exact")
    state = sim.init()
    for name in ("losses", "class_gradients"):
        monkeypatch.setattr(type(sim.engine), name, _must_not_be_called)
    _, record = sim.round(state)
    assert record.asked == {}


def _must_not_be_called(*_: object) -> None:
    raise AssertionError("nobody asked for it")


def test_updates_asked_for_are_those_that_training_gives() -> None:
    sim = simulation(selector="divfl", availability="always")
    state = sim.init()
    from fedcbs.simulation._simulation import _Round

    information = _Round(sim, state, last=False)._information(None)
    clients = np.array([3, 8, 11])
    asked = information.updates(clients)
    norms = information.update_norms(clients)
    np.testing.assert_allclose(norms, np.linalg.norm(asked, axis=1), rtol=1e-5)
    assert asked.dtype == np.float32
    losses = information.losses(clients)
    assert losses.shape == (3,)
    assert information.batch_losses(clients).shape == (3,)
    assert information.asked[Need.UPDATES].tolist() == [3, 8, 11]
    timeless = _Round(dataclasses.replace(sim, times=None), state, last=False)._information(None)
    with pytest.raises(InformationError, match="durations cannot be had"):
        timeless.durations(clients)
