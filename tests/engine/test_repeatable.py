"""Same bits again, whatever the number of threads; nothing global is left changed."""

from __future__ import annotations

import os
import random
import signal
import threading
import time

import numpy as np
import pytest
import torch

from fedcbs.engine import LocalRule, Plan, make_engine
from tests.engine import cases, models
from tests.engine.test_agreement import sequence

MODELS = ["mlp", "cnn", models.BatchNormCNN, models.DropoutMLP, models.TanhMLP]


def engine(model, **options):
    model = sequence(model) if isinstance(model, str) else cases.build(model)
    return make_engine(model, cases.dataset(), note=lambda _: None, **options)


def global_state() -> list[object]:
    states = [torch.get_rng_state().tolist(), torch.get_num_threads(), torch.get_default_dtype()]
    numpys = np.random.get_state()[1].tolist()  # noqa: NPY002  # the one that must stay as it is
    return [*states, numpys, random.getstate(), torch.is_grad_enabled()]


@pytest.mark.parametrize("name", ["auto", "generic", "loop"])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_same_bits_with_any_number_of_threads(model, name):
    found = []
    for threads in (1, 2, 5, 2):
        own = engine(model, engine=name, threads=threads)
        rule = cases.rules(own.num_parameters)["all"]
        result = cases.trained(own, own.initial(), cases.plan(), rule)
        losses = own.losses(own.initial(), [np.arange(70), np.arange(3)])
        found.append(
            (*(tensor.numpy().tobytes() for tensor in result[:2]), result[2].tobytes(), losses.tobytes())
        )
    assert len(set(found)) == 1


@pytest.mark.parametrize("name", ["auto", "generic", "loop"])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_nothing_global_changes(model, name):
    before = global_state()
    own = engine(model, engine=name, threads=2)
    rule = cases.rules(own.num_parameters)["decay"]
    for _ in own.train(own.initial(), cases.plan(), rule):
        assert global_state() == before
    own.evaluate(own.initial())
    assert global_state() == before
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert seen == [torch.get_num_threads()]


@pytest.mark.parametrize("name", ["auto", "generic"])
@pytest.mark.parametrize("model", ["mlp", "cnn", models.DropoutMLP, models.TanhMLP], ids=str)
def test_a_client_does_not_depend_on_its_cohort(model, name):
    own, plan = engine(model, engine=name), cases.plan()
    together, _, _ = cases.trained(own, own.initial(), plan, LocalRule(0.1))
    alone, _, _ = cases.trained(own, own.initial(), Plan(plan.indices[1:2], plan.sizes[1:2]), LocalRule(0.1))
    torch.testing.assert_close(together[1], alone[0], rtol=1e-5, atol=1e-6)


def test_dropout_differs_between_clients_and_rounds():
    own = engine(models.DropoutMLP)
    indices = np.stack([np.arange(6), np.arange(6), np.arange(6)[::-1]])[:, None, :]
    plan = Plan(indices, np.full((3, 1), 6))
    found, _, _ = cases.trained(own, own.initial(), plan, LocalRule(0.1))
    assert torch.equal(found[0], found[1])  # the same batches
    assert not torch.allclose(found[0], found[2])  # the same examples, in another order


def test_a_diverged_client_harms_no_other():
    own = engine("cnn", threads=1)
    plan = cases.plan()
    expected, _, _ = cases.trained(own, own.initial(), plan, LocalRule(0.1))
    corrections = torch.zeros(cases.CLIENTS, own.num_parameters)
    corrections[0] = 1e37 * torch.randn(own.num_parameters, generator=torch.Generator().manual_seed(0))
    found, _, losses = cases.trained(own, own.initial(), plan, LocalRule(0.1, corrections=corrections))
    assert not np.isfinite(losses[0])
    torch.testing.assert_close(found[1:], expected[1:])
    start = own.initial()
    start.parameters.fill_(float("nan"))
    assert np.isnan(own.evaluate(start).loss)
    assert np.isnan(cases.trained(own, start, plan, LocalRule(0.1))[2]).all()
    again, _, _ = cases.trained(own, own.initial(), plan, LocalRule(0.1))
    assert torch.equal(again, expected)


def test_interrupted_training_ends_soon_and_leaves_the_engine_usable():
    own = engine("mlp", threads=2)
    plan = cases.plan(steps=3)
    expected, _, _ = cases.trained(own, own.initial(), plan, LocalRule(0.1))
    endless = Plan(np.zeros((4, 300_000, 6), np.int64), np.full((4, 300_000), 6))
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    start = time.process_time()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        list(own.train(own.initial(), endless, LocalRule(0.1)))
    timer.join()
    assert time.process_time() - start < 60
    again, _, _ = cases.trained(own, own.initial(), plan, LocalRule(0.1))
    assert torch.equal(again, expected)
