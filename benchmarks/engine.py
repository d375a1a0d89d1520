"""How fast clients train and models are evaluated, beside the plain PyTorch loop in the same run.

    python benchmarks/engine.py [--json FILE] [--quick]

The plain loop is written as one finds it: a deep copy of the model and a DataLoader for each client, torch.optim.SGD, one
client after another. Both sides do the same work, 10 clients x 25 steps x batches of 50, on one thread, take turns, and
end with the same weights (their difference is in the table). Times are the least CPU time of a few turns, so that a busy
machine matters little; two threads against one is wall-clock time, which does want a quiet machine. `of peak` is the
arithmetic of the layers (not of padding, pooling or updates) over the time, as a share of what a large float32 matrix
product reaches on one thread in the same run. Peak memory is that of a process of its own.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import copy
import json
import multiprocessing
import platform
import re
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

import fedcbs
from fedcbs.data import Dataset, Examples
from fedcbs.engine import Engine, LocalRule, Plan, make_engine
from fedcbs.models import make_model

CLIENTS, STEPS, BATCH, EXAMPLES = 10, 25, 50, 250
RULE = LocalRule(learning_rate=0.01, weight_decay=5e-4)


class BatchNormCNN(nn.Module):
    """Two blocks of convolution, BatchNorm, ReLU and pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.conv2, self.norm2 = nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.out = nn.Linear(32 * 8 * 8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2)
        return self.out(x.view(x.size(0), -1))


class Block(nn.Module):
    """Two convolutions with GroupNorm around a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.GroupNorm(2, outputs), nn.GroupNorm(2, outputs)
        self.shortcut = (
            nn.Identity()
            if (inputs, stride) == (outputs, 1)
            else nn.Conv2d(inputs, outputs, 1, stride, bias=False)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Activations."""
        inner = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(inner + self.shortcut(x))


class Residual(nn.Module):
    """Three residual blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 1, 1)
        self.blocks = nn.Sequential(Block(8, 8, 1), Block(8, 16, 2), Block(16, 32, 2))
        self.out = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.out(self.blocks(F.relu(self.stem(x))).mean((2, 3)))


class TanhMLP(nn.Module):
    """An activation that the kernel does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.Tanh(), nn.Linear(64, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.layers(x)


DIGITS, COLOURS = (1, 28, 28), (3, 32, 32)
CASES: dict[str, tuple[Any, tuple[int, ...], int, int]] = {  # model, shape, classes, turns
    "MLP 784-64-10": ("mlp", DIGITS, 10, 7),
    "CNN 6-16-120-84": ("cnn", COLOURS, 10, 3),
    "LEAF CNN, 62 classes": ("leaf-cnn", DIGITS, 62, 1),
    "MLP with tanh": (TanhMLP, DIGITS, 10, 7),
    "CNN with BatchNorm": (BatchNormCNN, COLOURS, 10, 3),
    "residual network": (Residual, COLOURS, 10, 3),
}


def dataset(shape: tuple[int, ...], num_classes: int, size: int = CLIENTS * EXAMPLES) -> Dataset:
    """Noisy prototypes as bytes: something to learn, at no cost to make."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, num_classes, size)
    centres = rng.normal(size=(num_classes, *shape))
    features = np.clip(128 + 30 * centres[labels] + 30 * rng.normal(size=(size, *shape)), 0, 255)
    examples = Examples(features.astype(np.uint8), labels)
    test = Examples(np.resize(examples.features, (10_000, *shape)), np.resize(labels, 10_000))
    channels = shape[0]
    return Dataset("noise", examples, test, num_classes, (0.5,) * channels, (0.25,) * channels)


def schedule(clients: int = CLIENTS, steps: int = STEPS) -> Plan:
    """Batches of each client's own examples."""
    rng = np.random.default_rng(1)
    per_epoch = EXAMPLES // BATCH
    rows = [
        np.concatenate([rng.permutation(EXAMPLES) for _ in range(-(-steps // per_epoch))])[: steps * BATCH]
        + client % CLIENTS * EXAMPLES
        for client in range(clients)
    ]
    return Plan(np.stack(rows).reshape(clients, steps, BATCH), np.full((clients, steps), BATCH))


def plain_loop(model: nn.Module, data: Dataset, plan: Plan) -> Callable[[], list[dict[str, torch.Tensor]]]:
    """The yardstick."""
    features = torch.from_numpy(data.train.features).float().div(255).sub(0.5).div(0.25)
    everything = TensorDataset(features, torch.from_numpy(data.train.labels))
    loaders = []
    for client in range(plan.num_clients):
        own = Subset(everything, range(client * EXAMPLES, (client + 1) * EXAMPLES))
        loaders.append(DataLoader(own, batch_sampler=(plan.indices[client] - client * EXAMPLES).tolist()))
    criterion = nn.CrossEntropyLoss()

    def run() -> list[dict[str, torch.Tensor]]:
        results = []
        for loader in loaders:
            local = copy.deepcopy(model)
            local.train()
            optimizer = torch.optim.SGD(
                local.parameters(), lr=RULE.learning_rate, weight_decay=RULE.weight_decay
            )
            for inputs, labels in loader:
                optimizer.zero_grad()
                loss = criterion(local(inputs), labels)
                loss.backward()
                optimizer.step()
            results.append(local.state_dict())
        return results

    return run


def arithmetic(model: nn.Module, shape: tuple[int, ...]) -> int:
    """Floating-point operations of the layers in one example's training; none for the first layer's inputs."""
    counts: list[int] = []

    def count(module: nn.Module, _: Any, output: torch.Tensor) -> None:
        weight = module.weight
        counts.append(2 * weight.numel() // weight.shape[0] * output[0].numel())

    layers = [each for each in model.modules() if isinstance(each, nn.Linear | nn.Conv2d)]
    handles = [layer.register_forward_hook(count) for layer in layers]
    copy_ = model.eval()
    with torch.inference_mode():
        copy_(torch.zeros(2, *shape))
    for handle in handles:
        handle.remove()
    return 3 * sum(counts) - counts[0]


def seconds(function: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> float:
    start = clock()
    function()
    return clock() - start


def matmul_peak(size: int = 1024) -> float:
    """GFLOP/s of a large matrix product on one thread."""
    a, b, out = torch.randn(size, size), torch.randn(size, size), torch.empty(size, size)
    best = min(seconds(lambda: torch.mm(a, b, out=out)) for _ in range(15))
    return 2 * size**3 / best / 1e9


def train(engine: Engine, plan: Plan) -> torch.Tensor:
    return torch.cat([chunk.parameters for chunk in engine.train(engine.initial(), plan, RULE)])


def compare(name: str, *, quick: bool) -> dict[str, Any]:
    """One model, on one thread and on two."""
    kind, shape, num_classes, turns = CASES[name]
    torch.manual_seed(0)
    model = (
        make_model(kind, shape=shape, num_classes=num_classes, seed=0) if isinstance(kind, str) else kind()
    )
    data, plan = dataset(shape, num_classes), schedule()
    engine = make_engine(model, data, threads=1, note=lambda _: None)
    two = make_engine(model, data, threads=2, note=lambda _: None)
    run = plain_loop(copy.deepcopy(model), data, plan)
    short = schedule(clients=1, steps=2)
    plain_loop(copy.deepcopy(model), data, short)()
    for warm in (engine, two):
        train(warm, short)
    times: dict[str, list[float]] = {
        "loop": [],
        "engine": [],
        "one": [],
        "two": [],
        "evaluation": [],
        "peak": [],
    }
    for _ in range(1 if quick else turns):
        times["peak"].append(matmul_peak())
        start = time.process_time()
        expected = run()
        times["loop"].append(time.process_time() - start)
        for _ in range(3 if turns > 3 else 1):
            start, wall = time.process_time(), time.perf_counter()
            found = train(engine, plan)
            times["engine"].append(time.process_time() - start)
            times["one"].append(time.perf_counter() - wall)
            times["two"].append(seconds(lambda: train(two, plan), time.perf_counter))
        times["evaluation"].append(seconds(lambda: engine.evaluate(engine.initial())))
    names = [key for key, _ in model.named_parameters()]
    reference = torch.stack([torch.cat([each[key].reshape(-1) for key in names]) for each in expected])
    moved = reference - engine.initial().parameters
    operations = arithmetic(copy.deepcopy(model), shape) * CLIENTS * STEPS * BATCH
    best = {key: min(values) for key, values in times.items()}
    peak = max(times["peak"])
    return {
        "model": name,
        "engine": engine.name,
        "seconds_loop": best["loop"],
        "seconds_engine": best["engine"],
        "speedup": best["loop"] / best["engine"],
        "gflops": operations / best["engine"] / 1e9,
        "gflops_peak": peak,
        "of_peak": operations / best["engine"] / 1e9 / peak,
        "two_threads": best["one"] / best["two"],
        "seconds_evaluation": best["evaluation"],
        "difference": float((found - reference).norm() / moved.norm()),
    }


MEMORY = {  # model, shape, classes, clients, steps, examples
    "M = 120 clients, LEAF CNN, 62 classes": ("leaf-cnn", DIGITS, 62, 120, 1, 2500),
    "M = 60 clients, CNN": ("cnn", COLOURS, 10, 60, 25, 2500),
    "800,000 images of 28 x 28, MLP": ("mlp", DIGITS, 10, 10, 25, 800_000),
    "300 rounds of 10 clients, MLP": ("mlp", DIGITS, 10, 10, 25, 2500),
}


def peak_megabytes() -> float:
    """Of this process since it began; what getrusage says may be its parent's from before it began."""
    status = Path("/proc/self/status")
    if status.exists():
        found = re.search(r"^VmHWM:\s+(\d+) kB", status.read_text(), re.MULTILINE)
        if found:
            return int(found[1]) / 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def memory(name: str, pipe: Any) -> None:
    """Peak memory of one case, in this process."""
    model_name, shape, num_classes, clients, steps, size = MEMORY[name]
    labels = np.zeros(size, np.int64)
    features = np.zeros((size, *shape), np.uint8)
    features.fill(7)
    examples = Examples(features, labels)
    data = Dataset("flat", examples, examples, num_classes)
    model = make_model(model_name, shape=shape, num_classes=num_classes, seed=0)
    engine = make_engine(model, data, threads=2)
    plan, rounds = schedule(clients, steps), 300 if "rounds" in name else 2
    after: list[float] = []
    for _ in range(rounds):
        weights = engine.initial()
        total = torch.zeros_like(weights.parameters)
        for chunk in engine.train(weights, plan, RULE):
            total += chunk.parameters.sum(0)
        after.append(peak_megabytes())
    if size > 100_000:
        engine.evaluate(weights, "train")
    peak = peak_megabytes()
    pipe.send({"case": name, "peak_megabytes": peak, "grown_megabytes": peak - after[len(after) // 10]})


def memory_of(name: str) -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=memory, args=(name, send))
    process.start()
    found: dict[str, Any] = receive.recv()
    process.join()
    return found


def table(results: list[dict[str, Any]], memories: list[dict[str, Any]], load: float) -> str:
    """The results as a table to read."""
    lines = [
        "| model | engine | loop, ms | engine, ms | speedup | GFLOP/s | of peak | 2 threads | 10,000 images, ms "
        "| difference |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines.extend(
        f"| {row['model']} | {row['engine']} | {row['seconds_loop'] * 1e3:,.0f} | {row['seconds_engine'] * 1e3:,.1f} "
        f"| {row['speedup']:.1f}x | {row['gflops']:.0f} | {row['of_peak']:.0%} | {row['two_threads']:.2f}x "
        f"| {row['seconds_evaluation'] * 1e3:,.0f} | {row['difference']:.0e} |"
        for row in results
    )
    peaks = [row["gflops_peak"] for row in results]
    lines.append(
        f"\n{CLIENTS} clients x {STEPS} steps x batches of {BATCH}, one thread; a float32 matrix product reaches"
        f" {min(peaks):.0f} to {max(peaks):.0f} GFLOP/s here. Load of the machine at the end: {load:.1f} on"
        f" {os.cpu_count()} cores (the column of two threads means something on an idle machine only).\n"
    )
    lines += [
        "| peak memory of a process | MB | of it, grown after the first tenth of the rounds |",
        "|---|---|---|",
    ]
    lines.extend(
        f"| {row['case']} | {row['peak_megabytes']:,.0f} | {row['grown_megabytes']:,.0f} |"
        for row in memories
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the results there, and a table beside it")
    parser.add_argument("--quick", action="store_true", help="one turn each, and no measurement of memory")
    parser.add_argument("--only", help="only models whose name holds this")
    options = parser.parse_args()
    torch.set_num_threads(1)
    names = [name for name in CASES if not options.only or options.only in name]
    results = [compare(name, quick=options.quick) for name in names]
    memories = [] if options.quick or options.only else [memory_of(name) for name in MEMORY]
    load = os.getloadavg()[0]
    print(table(results, memories, load))
    if options.json:
        versions = {
            "fedcbs": fedcbs.__version__,
            "numpy": np.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        }
        found = {"versions": versions, "load": load, "speed": results, "memory": memories}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=1) + "\n")
        options.json.with_suffix(".md").write_text(table(results, memories, load) + "\n")


if __name__ == "__main__":
    main()
