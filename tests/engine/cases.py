"""A small dataset, plans and rules that all engines are tried on."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from fedcbs.data import Dataset, Examples
from fedcbs.engine import Engine, LocalRule, Plan, Weights

CLIENTS, CLASSES = 5, 4


def dataset(
    shape: tuple[int, ...] = (2, 8, 8), *, classes: int = CLASSES, size: int = 90, floats: bool = False
):
    """Images that a model can learn to tell apart; bytes unless floats are asked for."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, size)
    centres = rng.normal(size=(classes, *shape))
    features = np.clip(128 + 40 * centres[labels] + 25 * rng.normal(size=(size, *shape)), 0, 255)
    features = (features / 255).astype(np.float32) if floats else features.astype(np.uint8)
    channels = shape[0] if len(shape) == 3 else 1
    examples, test = Examples(features, labels), Examples(features[: size // 2], labels[: size // 2])
    mean, std = np.linspace(0.4, 0.6, channels), np.linspace(0.2, 0.3, channels)
    return Dataset("small", examples, test, classes, tuple(mean), tuple(std))


def plan(*, steps: int = 4, width: int = 6, size: int = 90) -> Plan:
    """Five clients: full batches, a ragged last one, fewer steps, ragged in the middle, none at all."""
    rng = np.random.default_rng(1)
    indices = rng.integers(0, size, (CLIENTS, steps, width))
    sizes = np.full((CLIENTS, steps), width)
    sizes[1, -1] = max(2, width // 3)
    sizes[2, 2:] = 0
    sizes[3, 1] = max(2, width - 1)
    sizes[4] = 0
    indices[np.arange(width) >= sizes[:, :, None]] = -1
    return Plan(indices, sizes)


def pull(logits: torch.Tensor, labels: torch.Tensor, activations: torch.Tensor) -> torch.Tensor:
    """A penalty that uses all that it is given."""
    chosen = logits.gather(1, labels[:, None]).mean()
    return 0.1 * activations.softmax(dim=1).square().mean() + 0.01 * logits.square().mean() - 0.02 * chosen


def rules(num_parameters: int, *, classes: int = CLASSES) -> dict[str, LocalRule]:
    """Each term of the rule, and all together."""
    generator = torch.Generator().manual_seed(2)
    corrections = 0.01 * torch.randn(CLIENTS, num_parameters, generator=generator)
    shared = torch.rand(classes, generator=generator)
    own = torch.rand(CLIENTS, classes, generator=generator)
    return {
        "plain": LocalRule(0.1),
        "decay": LocalRule(0.1, weight_decay=0.01),
        "momentum": LocalRule(0.1, weight_decay=0.01, momentum=0.9),
        "proximal": LocalRule(0.1, proximal=0.5),
        "corrections": LocalRule(0.1, corrections=corrections),
        "class-weights": LocalRule(0.1, class_weights=shared),
        "client-class-weights": LocalRule(0.1, class_weights=own),
        "penalty": LocalRule(0.1, penalty=pull),
        "all": LocalRule(0.05, 0.01, 0.9, 0.1, corrections, own),
        "all-penalty": LocalRule(0.05, 0.01, 0.9, 0.1, corrections, own, pull),
    }


def trained(engine: Engine, start: Weights, plan: Plan, rule: LocalRule):
    """All clients' parameters, buffers and losses, in one piece each."""
    chunks = list(engine.train(start, plan, rule))
    covered = [client for chunk in chunks for client in chunk.clients]
    assert covered == list(range(plan.num_clients))
    parameters = torch.cat([chunk.parameters.clone() for chunk in chunks])
    buffers = torch.cat([chunk.buffers.clone() for chunk in chunks])
    return parameters, buffers, np.concatenate([chunk.losses for chunk in chunks])


def build(kind: type[nn.Module]) -> nn.Module:
    """A module with weights that are always the same."""
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return kind()
