"""On a GPU, where there is one: the same weights as on the CPU, up to what its arithmetic allows."""

from __future__ import annotations

import pytest
import torch

from fedcbs.engine import _stacked, make_engine
from tests.engine import cases, models
from tests.engine.test_agreement import MODULES, RULES, assert_same_training, sequence

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here"),
    pytest.mark.filterwarnings("ignore:RNN module weights are not part of single contiguous chunk"),
]


@pytest.mark.parametrize("engine", ["loop", "generic"])
@pytest.mark.parametrize("model", ["mlp", "cnn", *MODULES], ids=str)
def test_as_on_the_cpu(model, engine):
    if model is models.DropoutMLP:
        pytest.skip("a GPU draws other numbers from the same seed")
    model = sequence(model) if isinstance(model, str) else cases.build(model)
    data = cases.dataset()
    with torch.backends.cudnn.flags(allow_tf32=False):
        loop = make_engine(model, data, engine="loop")
        gpu = make_engine(model, data, engine=engine, device="cuda", note=lambda _: None)
        for rule in RULES:
            assert_same_training(loop, gpu, rule, tolerance=2e-3)
        weights = loop.initial()
        assert abs(loop.evaluate(weights).loss - gpu.evaluate(weights).loss) < 1e-4


@pytest.mark.parametrize("kind", MODULES)
def test_same_bits_again(kind):
    engine = make_engine(cases.build(kind), cases.dataset(), device="cuda", note=lambda _: None)
    rule = cases.rules(engine.num_parameters)["momentum"]
    before = torch.cuda.get_rng_state(), torch.get_rng_state()
    one, two = (cases.trained(engine, engine.initial(), cases.plan(), rule) for _ in range(2))
    assert torch.equal(one[0], two[0])
    assert all(
        torch.equal(*states)
        for states in zip(before, (torch.cuda.get_rng_state(), torch.get_rng_state()), strict=True)
    )


@pytest.mark.parametrize("model", ["mlp", "cnn", models.BatchNormCNN], ids=str)
@pytest.mark.parametrize("rule", ["decay", "client-class-weights"])
def test_a_recording_gives_the_bits_of_step_by_step(model, rule, monkeypatch):
    module = sequence(model) if isinstance(model, str) else cases.build(model)
    ends = []
    for recordings in (_stacked.RECORDINGS, 0):
        monkeypatch.setattr(_stacked, "RECORDINGS", recordings)
        engine = make_engine(module, cases.dataset(), device="cuda", note=lambda _: None)
        own = cases.rules(engine.num_parameters)[rule]
        ends.append([cases.trained(engine, engine.initial(), cases.plan(), own) for _ in range(2)])
    for recorded, stepped in zip(*ends, strict=True):
        assert torch.equal(recorded[0], stepped[0])
        assert torch.equal(recorded[1], stepped[1])
        assert list(recorded[2]) == pytest.approx(list(stepped[2]), abs=0, nan_ok=True)
