"""The same batches give the same weights in every engine, whatever the model and the rule."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fedcbs.engine import Engine, LocalRule, Plan, _generic, make_engine
from fedcbs.engine._generic import GenericEngine
from fedcbs.models import make_model
from tests.engine import cases, models

SEQUENCES = ["linear", "mlp", "cnn", "leaf-cnn"]
MODULES = [
    models.BatchNormCNN,
    models.Residual,
    models.BatchNormMLP,
    models.DropoutMLP,
    models.TanhMLP,
    models.Refusing,
    models.Frozen,
    models.Recurrent,
    models.PlainCNN,
]
RULES = list(cases.rules(1))
OPTIONS = {"cnn": {"kernel": 2, "channels": (3, 7), "hidden": (9,)}, "leaf-cnn": {"hidden": 11, "kernel": 3}}


def sequence(name: str):
    return make_model(name, shape=(2, 8, 8), num_classes=cases.CLASSES, seed=3, **OPTIONS.get(name, {}))


def engines(model, *names: str, **options) -> list[Engine]:
    data = cases.dataset()
    return [
        make_engine(model, data, engine=name, note=lambda _: None, threads=1, **options) for name in names
    ]


def assert_same_training(reference: Engine, other: Engine, rule_name: str, *, tolerance: float) -> None:
    start, plan = reference.initial(), cases.plan()
    rule = cases.rules(reference.num_parameters)[rule_name]
    expected = cases.trained(reference, start, plan, rule)
    found = cases.trained(other, start, plan, rule)
    for one, two, before in zip(expected[:2], found[:2], (start.parameters, start.buffers), strict=True):
        moved = (one - before).norm()
        assert (one - two).norm() <= tolerance * moved + 1e-6
    np.testing.assert_allclose(found[2], expected[2], rtol=1e-5, atol=1e-6)
    assert np.isnan(found[2][4])
    assert torch.equal(found[0][4], start.parameters)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", SEQUENCES)
def test_kernel_as_loop(name, rule):
    loop, kernel = engines(sequence(name), "loop", "kernel")
    assert_same_training(loop, kernel, rule, tolerance=1e-4 if "cnn" not in name else 1e-3)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", MODULES)
def test_generic_as_loop(kind, rule):
    loop, generic = engines(cases.build(kind), "loop", "generic")
    assert_same_training(loop, generic, rule, tolerance=1e-4)


STACKABLE = [kind for kind in MODULES if kind not in (models.DropoutMLP, models.Refusing, models.Recurrent)]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", STACKABLE)
def test_stacked_as_loop(kind, rule, monkeypatch):
    loop, generic = engines(cases.build(kind), "loop", "generic")
    assert isinstance(generic, GenericEngine)
    monkeypatch.setattr(
        _generic, "CPU_STACK", 3
    )  # as on a GPU: any model that vmap takes, any number of clients
    monkeypatch.setattr(generic, "_stacks", True)
    assert_same_training(loop, generic, rule, tolerance=1e-4)


@pytest.mark.parametrize("kind", [models.TanhMLP, models.Frozen])
def test_small_models_are_stacked_where_clients_are_many(kind):
    loop, generic = engines(cases.build(kind), "loop", "generic")
    assert isinstance(generic, GenericEngine)
    assert generic.stacks
    plan = cases.plan()
    many = Plan(np.tile(plan.indices, (4, 1, 1)), np.tile(plan.sizes, (4, 1)))
    rule = LocalRule(0.1, 0.01, 0.9)
    expected, found = (cases.trained(each, loop.initial(), many, rule) for each in (loop, generic))
    torch.testing.assert_close(found[0], expected[0], rtol=1e-4, atol=1e-6)
    two = make_engine(cases.build(kind), cases.dataset(), engine="generic", threads=2)
    assert torch.equal(cases.trained(two, loop.initial(), many, rule)[0], found[0])


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_generic_as_loop_on_sequences(name):
    loop, generic = engines(sequence(name), "loop", "generic")
    assert_same_training(loop, generic, "all", tolerance=1e-3)


@pytest.mark.parametrize("model", [*SEQUENCES, *MODULES], ids=str)
def test_evaluation(model):
    model = sequence(model) if isinstance(model, str) else cases.build(model)
    loop, other = engines(model, "loop", "auto")
    weights = loop.initial()
    for part, indices in (("test", None), ("train", np.arange(70)[::-1]), ("train", np.arange(0))):
        expected, found = (engine.evaluate(weights, part, indices) for engine in (loop, other))
        np.testing.assert_allclose(found.loss, expected.loss, rtol=1e-5)
        np.testing.assert_equal(found.per_class, expected.per_class)
        np.testing.assert_equal(found.worst_class, expected.worst_class)
    clients = [np.arange(5), np.arange(0), np.arange(5, 80)]
    np.testing.assert_allclose(other.losses(weights, clients), loop.losses(weights, clients), rtol=1e-5)


@pytest.mark.parametrize("model", [*SEQUENCES, *MODULES], ids=str)
def test_class_gradients(model):
    model = sequence(model) if isinstance(model, str) else cases.build(model)
    loop, other = engines(model, "loop", "auto")
    parameters, buffers, _ = cases.trained(loop, loop.initial(), cases.plan(), cases.rules(1)["plain"])
    groups = [np.flatnonzero(cases.dataset().train.labels == label) for label in range(cases.CLASSES)]
    expected = loop.class_gradients(parameters, buffers, groups)
    assert expected.shape == (cases.CLIENTS, cases.CLASSES)
    np.testing.assert_allclose(other.class_gradients(parameters, buffers, groups), expected, rtol=1e-3)
