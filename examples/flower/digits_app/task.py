"""The task: data of each client, a small model in NumPy, and its training.

NumPy rather than a framework: every message to a client starts a fresh Python, and that should take no time.
"""

from __future__ import annotations

import functools
import importlib.util
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedcbs.partition import DirichletHsu

NUM_CLASSES = 10
HIDDEN = 32
TEST_SHARE = 5  # every fifth example
DATA_SEED = 7

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Examples:
    """Images as rows, and their labels."""

    images: Floats
    labels: NDArray[np.int64]


@functools.cache
def digits() -> tuple[Examples, Examples]:
    """Training and test examples; the file comes with scikit-learn, which need not be imported for it."""
    spec = importlib.util.find_spec("sklearn")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("the digits come with scikit-learn; install it with: pip install scikit-learn")
    path = Path(spec.submodule_search_locations[0], "datasets", "data", "digits.csv.gz")
    rows = np.loadtxt(path, delimiter=",")
    images, labels = rows[:, :-1] / 16.0, rows[:, -1].astype(np.int64)
    test = np.arange(len(rows)) % TEST_SHARE == 0
    return Examples(images[~test], labels[~test]), Examples(images[test], labels[test])


def examples_of(partition_id: int, num_partitions: int, alpha: float) -> Examples:
    """The part of one client: labels drawn from a Dirichlet distribution, the smaller alpha the more one-sided."""
    train, _ = digits()
    split = DirichletHsu(alpha=alpha).split(train.labels, num_partitions, np.random.default_rng(DATA_SEED))
    mine = split[partition_id]
    return Examples(train.images[mine], train.labels[mine])


def initial_model(seed: int) -> dict[str, Floats]:
    """One hidden layer; a function of the seed."""
    rng = np.random.default_rng(seed)
    return {
        "hidden.weight": rng.normal(0, 0.2, (64, HIDDEN)),
        "hidden.bias": np.zeros(HIDDEN),
        "output.weight": rng.normal(0, 0.2, (HIDDEN, NUM_CLASSES)),
        "output.bias": np.zeros(NUM_CLASSES),
    }


def losses(model: dict[str, Floats], examples: Examples) -> Floats:
    """Cross-entropy of each example."""
    logits, _ = _forward(model, examples.images)
    return _cross_entropies(logits, examples.labels)


def accuracy(model: dict[str, Floats], examples: Examples) -> float:
    """Share of the examples that the model gets right."""
    logits, _ = _forward(model, examples.images)
    return float((logits.argmax(axis=1) == examples.labels).mean())


def train(
    model: dict[str, Floats],
    examples: Examples,
    *,
    epochs: int,
    learning_rate: float,
    rng: np.random.Generator,
    batch_size: int = 32,
) -> tuple[dict[str, Floats], float]:
    """Plain SGD; return the trained model and the mean loss on the way."""
    model = {name: array.copy() for name, array in model.items()}
    seen: list[float] = []
    for _ in range(epochs):
        order = rng.permutation(len(examples.labels))
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            gradients, loss = _gradients(model, examples.images[batch], examples.labels[batch])
            seen.append(loss)
            for name, gradient in gradients.items():
                model[name] -= learning_rate * gradient
    return model, float(np.mean(seen))


def _forward(model: dict[str, Floats], images: Floats) -> tuple[Floats, Floats]:
    hidden = np.maximum(images @ model["hidden.weight"] + model["hidden.bias"], 0.0)
    return hidden @ model["output.weight"] + model["output.bias"], hidden


def _cross_entropies(logits: Floats, labels: NDArray[np.int64]) -> Floats:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(labels)), labels]


def _gradients(
    model: dict[str, Floats], images: Floats, labels: NDArray[np.int64]
) -> tuple[dict[str, Floats], float]:
    logits, hidden = _forward(model, images)
    errors = np.exp(logits - logits.max(axis=1, keepdims=True))
    errors /= errors.sum(axis=1, keepdims=True)
    errors[np.arange(len(labels)), labels] -= 1.0
    errors /= len(labels)
    back = (errors @ model["output.weight"].T) * (hidden > 0)
    gradients = {
        "hidden.weight": images.T @ back,
        "hidden.bias": back.sum(axis=0),
        "output.weight": hidden.T @ errors,
        "output.bias": errors.sum(axis=0),
    }
    return gradients, float(_cross_entropies(logits, labels).mean())
