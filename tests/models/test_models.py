"""Models by name and by import path."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fedcbs.errors import InvalidArgumentError, UnknownNameError
from fedcbs.models import default_model, known_models, make_model

SIZES = {  # parameters of the paper's models and LEAF's
    ("linear", (1, 28, 28), 10): 7_850,
    ("mlp", (1, 28, 28), 10): 50_890,
    ("cnn", (3, 32, 32), 10): 62_006,
    ("leaf-cnn", (1, 28, 28), 62): 6_603_710,
}


class Custom(nn.Module):
    def __init__(self, shape, num_classes, *, width=3):
        super().__init__()
        self.inner = nn.Linear(shape[0], width)
        self.out = nn.Linear(width, num_classes)

    def forward(self, x):
        return self.out(self.inner(x))


def fixed() -> nn.Module:
    return nn.Linear(4, 2)


def anything(**options) -> nn.Module:
    return nn.Linear(4, options["outputs"])


def needs_more(shape, depth) -> nn.Module:
    return nn.Linear(shape[0], depth)


def not_a_module(shape):
    return shape


NUMBER = 3


@pytest.mark.parametrize(("name", "shape", "num_classes"), SIZES)
def test_sizes(name, shape, num_classes):
    model = make_model(name, shape=shape, num_classes=num_classes, seed=0)
    assert sum(parameter.numel() for parameter in model.parameters()) == SIZES[name, shape, num_classes]
    assert model(torch.zeros(2, *shape)).shape == (2, num_classes)


@pytest.mark.parametrize("name", [*known_models(), f"{__name__}:Custom"])
def test_weights_are_a_function_of_the_seed(name):
    def weights(seed: int) -> torch.Tensor:
        shape = (3, 32, 32) if "cnn" in name else (12,)
        model = make_model(name, shape=shape, num_classes=5, seed=seed)
        return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])

    before = torch.get_rng_state()
    first = weights(1)
    torch.manual_seed(99)
    assert torch.equal(weights(1), first)
    assert not torch.equal(weights(2), first)
    torch.manual_seed(5)
    expected = torch.get_rng_state()
    weights(1)
    assert torch.equal(torch.get_rng_state(), expected)
    torch.set_rng_state(before)


def test_options():
    model = make_model("mlp", shape=(6,), num_classes=2, seed=0, hidden=[5, 4])
    assert [each.out_features for each in model if isinstance(each, nn.Linear)] == [5, 4, 2]
    assert (
        make_model(f"{__name__}:Custom", shape=(6,), num_classes=2, seed=0, width=7).inner.out_features == 7
    )
    assert make_model(f"{__name__}:fixed", shape=(9,), num_classes=8, seed=0).out_features == 2
    assert make_model(f"{__name__}:anything", shape=(9,), num_classes=8, seed=0, outputs=8).out_features == 8


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mlpp", {}, "did you mean 'mlp'"),
        ("mlp", {"hiden": 3}, "did you mean 'hidden'"),
        ("mlp", {"hidden": 0}, "hidden=0"),
        ("mlp", {"hidden": [3, 2.5]}, "hidden=2.5"),
        ("linear", {"hidden": 3}, "not known"),
        ("no.such.package:Net", {}, "cannot be imported"),
        (f"{__name__}:Nothing", {}, "cannot be imported"),
        (f"{__name__}:NUMBER", {}, "name a class or a function"),
        (f"{__name__}:needs_more", {}, "depth"),
        (f"{__name__}:not_a_module", {}, "must return a torch.nn.Module"),
        (f"{__name__}:Custom", {"widht": 3}, "did you mean 'width'"),
        ("cnn", {}, "no image"),
    ],
)
def test_refusals(name, options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        make_model(name, shape=(12,), num_classes=3, seed=0, **options)


def test_too_small_for_the_cnn():
    with pytest.raises(InvalidArgumentError, match="too small for 'cnn'"):
        make_model("cnn", shape=(1, 8, 8), num_classes=10, seed=0)
    with pytest.raises(InvalidArgumentError, match="must be odd"):
        make_model("leaf-cnn", shape=(1, 8, 8), num_classes=10, seed=0, kernel=4)


@pytest.mark.parametrize("shape", [(64,), (1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 4, 4)])
def test_the_default_fits(shape):
    make_model(default_model(shape), shape=shape, num_classes=3, seed=0)


def test_unknown_name_is_told_what_is_known():
    with pytest.raises(UnknownNameError, match="cnn, leaf-cnn, linear, mlp"):
        make_model("resnet", shape=(3,), num_classes=2, seed=0)
