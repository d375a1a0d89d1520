"""What cannot work is refused before any work, with the argument, the value and the remedy."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch
from torch import nn

from fedcbs.data import Dataset, Examples
from fedcbs.engine import LocalRule, Plan, Weights, make_engine
from fedcbs.errors import InvalidArgumentError, UnknownNameError
from tests.engine import cases, models
from tests.engine.test_agreement import sequence

ENGINES = ["kernel", "generic", "loop"]


@pytest.fixture(params=ENGINES)
def engine(request):
    return make_engine(sequence("mlp"), cases.dataset(), engine=request.param)


def a_plan(indices, sizes) -> Plan:
    return Plan(np.asarray(indices, np.int64), np.asarray(sizes, np.int64))


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (a_plan([[[0, 90]]], [[2]]), "plan.indices holds 90; the train part has examples from 0 to 89"),
        (a_plan([[[0, -1]]], [[2]]), "plan.indices holds -1"),
        (a_plan([[[0, 1]]], [[3]]), "plan.sizes holds 3"),
    ],
)
def test_plans(engine, plan, message):
    with pytest.raises(InvalidArgumentError, match=message):
        engine.train(engine.initial(), plan, LocalRule(0.1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learning_rate": float("nan")}, "learning_rate=nan"),
        ({"momentum": float("inf")}, "momentum=inf"),
        ({"corrections": torch.zeros(2, 3)}, "corrections has shape"),
        (
            {"class_weights": torch.zeros(3)},
            r"class_weights has shape \(3,\); it must have \(4,\) or \(5, 4\)",
        ),
        ({"class_weights": torch.zeros(4, dtype=torch.float64)}, "must be torch.float32"),
    ],
)
def test_rules(engine, options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        engine.train(engine.initial(), cases.plan(), LocalRule(**({"learning_rate": 0.1} | options)))


def test_weights(engine):
    short = Weights(torch.zeros(3), torch.zeros(0))
    for call in (
        lambda: engine.train(short, cases.plan(), LocalRule(0.1)),
        lambda: engine.evaluate(short),
        lambda: engine.losses(short, []),
        lambda: engine.state_dict(short),
        lambda: engine.class_gradients(torch.zeros(1, 3), torch.zeros(1, 0), [np.arange(3)]),
    ):
        with pytest.raises(InvalidArgumentError, match="parameters has shape"):
            call()
    with pytest.raises(InvalidArgumentError, match="one row a model"):
        engine.class_gradients(torch.zeros(3), torch.zeros(0), [np.arange(3)])


def test_examples(engine):
    weights = engine.initial()
    with pytest.raises(InvalidArgumentError, match="part='valid'"):
        engine.evaluate(weights, "valid")
    with pytest.raises(
        InvalidArgumentError, match="indices holds 45; the test part has examples from 0 to 44"
    ):
        engine.evaluate(weights, "test", np.array([45]))
    with pytest.raises(InvalidArgumentError, match=r"clients\[1\] holds -2"):
        engine.losses(weights, [np.array([1]), np.array([-2])])
    with pytest.raises(InvalidArgumentError, match=r"examples\[1\] is empty"):
        engine.class_gradients(weights.parameters[None], weights.buffers[None], [np.arange(2), np.arange(0)])


def test_nothing_to_do(engine):
    weights = engine.initial()
    empty = Plan(np.zeros((0, 3, 2), np.int64), np.zeros((0, 3), np.int64))
    assert list(engine.train(weights, empty, LocalRule(0.1))) == []
    no_steps = Plan(np.zeros((2, 0, 2), np.int64), np.zeros((2, 0), np.int64))
    parameters, _, losses = cases.trained(engine, weights, no_steps, LocalRule(0.1))
    assert torch.equal(parameters, weights.parameters.expand(2, -1))
    assert np.isnan(losses).all()
    assert engine.losses(weights, []).shape == (0, 2)
    nobody = engine.class_gradients(torch.zeros(0, engine.num_parameters), torch.zeros(0, 0), [np.arange(3)])
    assert nobody.shape == (0, 1)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Linear(3, 4), "cannot take a batch of examples of shape"),
        (nn.Flatten(), "no parameters|turns 2 examples into"),
        (nn.Sequential(nn.Flatten(), nn.Linear(128, 5)), r"turns 2 examples into \(2, 5\).*4 classes"),
        (nn.Sequential(nn.Flatten(), nn.Linear(128, 4)).double(), "model"),
        (nn.LSTM(8, 4), "model"),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["auto", "loop"])
def test_models(model, message, name):
    with pytest.raises(InvalidArgumentError, match=message):
        make_engine(model, cases.dataset(), engine=name)


def test_frozen_models_have_nothing_to_train():
    model = sequence("mlp").requires_grad_(requires_grad=False)
    with pytest.raises(InvalidArgumentError, match="nothing to train"):
        make_engine(model, cases.dataset())


def test_options():
    with pytest.raises(UnknownNameError, match="did you mean 'kernel'"):
        make_engine(sequence("mlp"), cases.dataset(), engine="kernal")
    with pytest.raises(InvalidArgumentError, match="threads=0"):
        make_engine(sequence("mlp"), cases.dataset(), threads=0)
    for device in ("gpu", "cuda:99", "meta", "cuda" if not torch.cuda.is_available() else "tpu"):
        with pytest.raises(InvalidArgumentError, match=f"device='{device}'"):
            make_engine(sequence("mlp"), cases.dataset(), device=device)


def test_penalty_without_a_linear_layer():
    class Convolutional(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(2, 4, 8)

        def forward(self, x):
            return self.conv(x).flatten(1)

    for name in ("generic", "loop"):
        engine = make_engine(Convolutional(), cases.dataset(), engine=name)
        with pytest.raises(InvalidArgumentError, match="no linear layer"):
            list(engine.train(engine.initial(), cases.plan(), LocalRule(0.1, penalty=cases.pull)))


@pytest.mark.parametrize("name", ["generic", "loop"])
def test_a_batch_that_the_model_cannot_take(name):
    engine = make_engine(cases.build(models.BatchNormMLP), cases.dataset(), engine=name)
    plan = Plan(np.arange(4).reshape(2, 1, 2), np.array([[2], [1]]))
    with pytest.raises(
        InvalidArgumentError, match="fails on a batch of 1 of the plan's client 1: Expected more"
    ):
        list(engine.train(engine.initial(), plan, LocalRule(0.1)))


def test_normalisation():
    small = cases.dataset()
    for mean, std, message in (((0.5,), (0.0,), "std"), ((0.1, 0.2, 0.3), (1.0, 1.0, 1.0), "one a channel")):
        data = Dataset("small", small.train, small.test, cases.CLASSES, mean, std)
        with pytest.raises(InvalidArgumentError, match=message):
            make_engine(sequence("mlp"), data)


def test_read_only_examples():
    small = cases.dataset()
    features, labels = small.train.features.copy(), small.train.labels.copy()
    features.flags.writeable = labels.flags.writeable = False
    examples = Examples(features, labels)
    data = Dataset("small", examples, examples, cases.CLASSES, small.mean, small.std)
    for name in ENGINES:
        engine = make_engine(sequence("mlp"), data, engine=name)
        assert engine.evaluate(engine.initial()).loss > 0


def test_the_choice_is_logged(caplog):
    with caplog.at_level(logging.INFO, "fedcbs"):
        make_engine(cases.build(models.Residual), cases.dataset())
        make_engine(sequence("cnn"), cases.dataset())
    assert len(caplog.records) == 1
    assert "training with PyTorch and not with the compiled kernel: its layers are no chain" in caplog.text


def test_the_model_given_stays_as_it_was():
    model = cases.build(models.BatchNormCNN)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for name in ("auto", "loop"):
        engine = make_engine(model, cases.dataset(), engine=name, note=lambda _: None)
        cases.trained(engine, engine.initial(), cases.plan(), LocalRule(0.1))
        state = engine.state_dict(engine.initial())
        assert all(torch.equal(tensor, before[key]) for key, tensor in state.items())
    assert all(torch.equal(tensor, before[key]) for key, tensor in model.state_dict().items())
