"""On real data: MNIST learns, and balance pays where each client has one class. Skipped where the data are not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedcbs.runs import RunConfig, simulate

MNIST = Path(__file__).parents[3] / "shared" / "data" / "mnist"
FLOOR, MARGIN = 0.85, 0.10

needs_mnist = pytest.mark.skipif(not MNIST.is_dir(), reason="there is no ../shared/data/mnist")


def accuracies(config: RunConfig) -> list[float]:
    return [record.accuracy for record in simulate(config) if record.accuracy is not None]


def mean_accuracies(config: RunConfig, selector: str) -> list[float]:
    """Accuracy on average over the rounds, of three seeds."""
    seeds = range(3)
    runs = [
        config.with_options({"selector": selector, "seed": seed, "evaluation.every": 3}) for seed in seeds
    ]
    return [float(np.mean(accuracies(run))) for run in runs]


@needs_mnist
def test_mnist_is_learnt_in_a_few_rounds() -> None:
    config = RunConfig.of(
        dataset="mnist",
        data_dir=MNIST,
        partition="iid",
        clients=100,
        examples_per_client=100,
        learning_rate=0.1,
        rounds=15,
        **{"evaluation.every": 15},
    )
    assert accuracies(config)[-1] > FLOOR


@needs_mnist
def test_fedcbs_beats_uniform_on_one_class_clients_over_three_seeds() -> None:
    """The paper's Figure 1: 100 clients of one class each, 10 of them a round."""
    config = RunConfig.of(
        dataset="mnist",
        data_dir=MNIST,
        partition="classes:1",
        clients=100,
        examples_per_client=100,
        learning_rate=0.1,
        rounds=30,
    )
    balanced, uniform = (mean_accuracies(config, name) for name in ("fedcbs-exact", "uniform"))
    assert np.mean(balanced) > np.mean(uniform) + MARGIN
    assert min(balanced) > max(uniform)


def test_fedcbs_beats_uniform_on_digits_with_rare_classes() -> None:
    """Case 1, 5:1, on the embedded dataset: five times as many clients of some classes."""
    config = RunConfig.of(partition="case1-5to1", rounds=30)
    balanced, uniform = (mean_accuracies(config, name) for name in ("fedcbs-exact", "uniform"))
    assert np.mean(balanced) > np.mean(uniform) + MARGIN
    assert min(balanced) > max(uniform)
