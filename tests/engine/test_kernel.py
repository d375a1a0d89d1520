"""What the kernel carries and what it leaves to PyTorch, over many shapes of layers."""

from __future__ import annotations

import dataclasses

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import nn

from fedcbs.engine import LocalRule, Plan, make_engine
from fedcbs.engine._sequence import read_sequence
from fedcbs.engine._trace import UnsupportedModelError
from tests.engine import cases, models
from tests.engine.test_agreement import RULES, assert_same_training, engines, sequence


@st.composite
def networks(draw):
    """A sequence that the kernel carries, and the shape that it takes."""
    channels, height, width = (draw(st.integers(1, most)) for most in (4, 19, 35))
    shape, layers = (channels, height, width), []
    for _ in range(draw(st.integers(0, 3))):
        kernel = draw(st.integers(1, 5)), draw(st.integers(1, 5))
        padding = draw(st.integers(0, 3)), draw(st.integers(0, 3))
        pool = draw(st.integers(1, 3)), draw(st.integers(1, 3))
        sides = [
            (side + 2 * pad - own + 1) // window
            for side, own, pad, window in zip((height, width), kernel, padding, pool, strict=True)
        ]
        if min(sides) < 1:
            break
        outputs = draw(st.integers(1, 14))
        layers.append(nn.Conv2d(channels, outputs, kernel, padding=padding, bias=draw(st.booleans())))
        middle = [nn.ReLU()] if draw(st.booleans()) else []
        middle += [nn.MaxPool2d(pool)] if pool != (1, 1) else []
        layers += middle if draw(st.booleans()) else middle[::-1]
        channels, (height, width) = outputs, sides
    layers.append(nn.Flatten())
    features = channels * height * width
    for _ in range(draw(st.integers(0, 2))):
        outputs = draw(st.integers(1, 90))
        layers.append(nn.Linear(features, outputs, bias=draw(st.booleans())))
        layers += [nn.ReLU()] if draw(st.booleans()) else []
        features = outputs
    classes = draw(st.integers(2, 40))
    layers.append(nn.Linear(features, classes))
    return shape, classes, nn.Sequential(*layers)


@settings(max_examples=40)
@given(networks(), st.integers(1, 40), st.booleans(), st.integers(0, 9))
def test_any_sequence_trains_as_in_the_loop(network, width, floats, seed):
    shape, classes, model = network
    torch.manual_seed(seed)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3 / max(1, parameter[0].numel()) ** 0.5)
    data = cases.dataset(shape, classes=classes, floats=floats)
    loop, kernel = (make_engine(model, data, engine=name, threads=1) for name in ("loop", "kernel"))
    rng = np.random.default_rng(seed)
    plan = Plan(rng.integers(0, 90, (2, 2, width)), np.array([[width, width], [max(1, width // 2), 0]]))
    start, rule = loop.initial(), LocalRule(0.05, 0.01, 0.5)
    expected, _, losses = cases.trained(loop, start, plan, rule)
    found, _, own_losses = cases.trained(kernel, start, plan, rule)
    np.testing.assert_allclose(own_losses, losses, rtol=1e-4)
    # Where two values of a pooling window are equal up to rounding, the engines may choose differently.
    assert (found - expected).norm() <= 0.02 * (expected - start.parameters).norm() + 1e-6
    assert kernel.evaluate(start).loss == pytest.approx(loop.evaluate(start).loss, rel=1e-5)


@pytest.mark.parametrize("width", [129, 300, 513])
def test_batches_too_large_to_go_through_at_once(width):
    for name in ("mlp", "cnn"):
        loop, kernel = engines(sequence(name), "loop", "kernel")
        rng = np.random.default_rng(0)
        plan = Plan(rng.integers(0, 90, (2, 2, width)), np.array([[width, width // 2], [width - 1, 3]]))
        for rule in ("plain", "momentum"):
            own = cases.rules(loop.num_parameters)[rule]
            expected, found = (cases.trained(each, loop.initial(), plan, own)[0] for each in (loop, kernel))
            moved = (expected - loop.initial().parameters).norm()
            assert (found - expected).norm() <= 1e-3 * moved


class OutOfOrder(models.PlainCNN):
    """Layers registered in another order than they are used in."""

    def __init__(self) -> None:
        super().__init__()
        first = self.conv1
        del self.conv1
        self.conv1 = first

    def forward(self, x):
        x = nn.functional.max_pool2d(self.conv1(x), 2)
        x = self.conv2(x.relu()).relu().reshape(x.shape[0], -1)
        return self.fc2(nn.functional.dropout(self.fc1(x), 0.0).relu_())


@pytest.mark.parametrize("kind", [models.PlainCNN, OutOfOrder])
def test_modules_in_any_style(kind):
    loop, kernel = engines(cases.build(kind), "loop", "auto")
    assert kernel.name == "kernel"
    for rule in RULES:
        assert_same_training(loop, kernel, rule, tolerance=1e-3)
    state = kernel.state_dict(kernel.initial())
    cases.build(kind).load_state_dict(state)


def sequential(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(4))


def hooked() -> nn.Module:
    model = nn.Sequential(nn.Flatten(), nn.Linear(128, 4))
    model[1].register_forward_hook(lambda *_: None)
    return model


def tied() -> nn.Module:
    first = nn.Linear(128, 128)
    return nn.Sequential(nn.Flatten(), first, nn.ReLU(), first, nn.Linear(128, 4))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (sequential(nn.Conv2d(2, 3, 3, stride=2)), "stride 1"),
        (sequential(nn.Conv2d(2, 3, 3, dilation=2)), "stride 1"),
        (sequential(nn.Conv2d(2, 4, 3, groups=2)), "one group"),
        (sequential(nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect")), "zero padding"),
        (sequential(nn.Conv2d(2, 3, 3), nn.MaxPool2d(3, 2)), "side by side"),
        (sequential(nn.Conv2d(2, 3, 3), nn.MaxPool2d(2, ceil_mode=True)), "side by side"),
        (sequential(nn.MaxPool2d(2)), "MaxPool2d"),
        (sequential(nn.Conv2d(2, 3, 3), nn.AvgPool2d(2)), "AvgPool2d"),
        (nn.Sequential(nn.Flatten(), nn.Linear(128, 4), nn.ReLU()), "last layer"),
        (nn.Sequential(nn.Flatten(), nn.Linear(128, 4), nn.Softmax(1)), "Softmax"),
        (hooked(), "hook"),
        (tied(), "share parameters"),
        (models.DropoutMLP(), "Dropout"),
        (models.Residual(), "no chain"),
        (models.Refusing(), "cannot be traced"),
        (models.Frozen(), "sigmoid"),
        (models.BatchNormMLP(), "BatchNorm1d"),
    ],
    ids=str,
)
def test_what_it_leaves_to_pytorch(model, reason):
    model(torch.zeros(2, 2, 8, 8))  # lazy layers learn their sizes
    with pytest.raises(UnsupportedModelError, match=reason):
        read_sequence(model, (2, 8, 8))
    notes: list[str] = []
    assert make_engine(model, cases.dataset(), note=notes.append).name == "generic"
    assert len(notes) == 1


def test_a_penalty_goes_to_pytorch():
    model = nn.Sequential(nn.Flatten(), nn.Linear(128, 5), nn.ReLU(), nn.Linear(5, 4))
    kernel = make_engine(model, cases.dataset())
    plain, pulled = (
        cases.trained(kernel, kernel.initial(), cases.plan(), LocalRule(0.1, penalty=penalty))[0]
        for penalty in (None, cases.pull)
    )
    assert not torch.allclose(plain, pulled)


def test_one_mean_for_all_channels_is_every_channels() -> None:
    data = cases.dataset((3, 12, 12), classes=4)
    one = dataclasses.replace(data, mean=(0.3,), std=(0.5,))
    each = dataclasses.replace(data, mean=(0.3,) * 3, std=(0.5,) * 3)
    model = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(500, 4))
    found = [make_engine(model, one_of, engine="kernel", threads=1) for one_of in (one, each)]
    losses = [engine.losses(engine.initial(), [np.arange(9)]).tolist() for engine in found]
    assert losses[0] == losses[1]
