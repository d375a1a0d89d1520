"""The tables that ``fedcbs data`` prints."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from fedcbs.data import Dataset
from fedcbs.imbalance import qcid
from fedcbs.partition import Partition

__all__ = ["class_table", "client_table", "facts", "headline", "list_table"]

_MOST_COLUMNS = 26


def list_table(rows: dict[str, dict[str, Any]]) -> Table:
    """Return a row for each dataset: what it is, how large, and where."""
    grid = _grid("dataset", "what it is", "examples", "memory", "on this machine")
    for name, row in rows.items():
        sized = row["examples"] is not None
        remedy = "pip install 'fedcbs[train]'" if name == "digits" else f"fedcbs data get {name}"
        where = Text(row["found"], style="green") if row["found"] else Text(remedy, style="dim")
        grid.add_row(
            Text(name, style="bold"),
            row["summary"],
            f"{row['examples']:,}" if sized else "",
            _megabytes(row["bytes"]) if sized else "",
            where if sized else "",
        )
    for column in grid.columns[2:4]:
        column.justify = "right"
    return grid


def headline(dataset: Dataset) -> Iterator[Text]:
    """Yield the facts of a dataset, a line each."""
    train, test = dataset.train, dataset.test
    shape = " x ".join(map(str, train.shape))
    yield Text(dataset.name, style="bold")
    yield Text(
        f"{len(train):,} examples to train on, {len(test):,} to test on; {dataset.num_classes} classes;"
        f" {shape} {train.features.dtype}, {_megabytes(train.nbytes + test.nbytes)}"
    )
    mean, std = (", ".join(f"{value:g}" for value in values) for values in (dataset.mean, dataset.std))
    yield Text(f"mean {mean}; std {std}")
    if train.owners is not None:
        sizes = np.bincount(train.owners)
        yield Text(
            f"{np.count_nonzero(sizes):,} owners; {_range(sizes[sizes > 0])} examples each to train on"
        )


def class_table(dataset: Dataset) -> Table:
    """Return a row for each class; of many, several side by side."""
    counts = [
        np.bincount(part.labels, minlength=dataset.num_classes) for part in (dataset.train, dataset.test)
    ]
    beside = min(-(-dataset.num_classes // 25), 4)
    rows = -(-dataset.num_classes // beside)
    grid = _grid(*("class", "train", "test") * beside)
    for column in grid.columns:
        column.justify = "left" if column.header == "class" else "right"
    for row in range(rows):
        cells: list[str] = []
        for label in range(row, dataset.num_classes, rows):
            name = dataset.class_names[label] if dataset.class_names else ""
            shown = f"{label}" if name in ("", str(label)) else f"{label} {name}"
            cells += [shown, *(f"{part[label]:,}" for part in counts)]
        grid.add_row(*cells)
    return grid


def client_table(
    partition: Partition, counts: NDArray[np.int64], scheme: str, shown: int
) -> Iterator[RenderableType]:
    """Yield a summary of the clients, and a row for each of the first."""
    sizes, classes = counts.sum(axis=1), (counts > 0).sum(axis=1)
    yield Text("")
    yield Text(f"{scheme}: {len(counts):,} clients", style="bold")
    empty = int((sizes == 0).sum())
    yield Text(
        f"{_range(sizes)} examples each, {int(sizes.sum()):,} in all; {_range(classes)} classes each;"
        f" QCID of all together {qcid(counts):.4f}" + (f"; {empty} without examples" if empty else "")
    )
    if not shown:
        return
    every = counts.shape[1] <= _MOST_COLUMNS
    grid = _grid(
        "client",
        *(map(str, range(counts.shape[1])) if every else ("most of",)),
        "examples",
        "classes",
        "QCID",
    )
    for column in grid.columns[1:]:
        column.justify = "right"
    for client, row in enumerate(counts[:shown]):
        name = "" if partition.owners is None else f" {partition.owners[client]}"
        cells = map(str, row.tolist()) if every else (_most(row),)
        own = f"{qcid(row[None]):.4f}" if row.any() else ""
        grid.add_row(f"{client}{name}", *cells, str(sizes[client]), str(classes[client]), own)
    if shown < len(counts):
        grid.add_row(Text("...", style="dim"))
    yield grid


def facts(
    dataset: Dataset, partition: Partition | None, counts: NDArray[np.int64] | None, args: argparse.Namespace
) -> dict[str, Any]:
    """Return all that is shown, and all label counts, in plain values."""
    document: dict[str, Any] = {"dataset": _dataset_facts(dataset)}
    if partition is not None and counts is not None:
        document["partition"] = {
            "scheme": args.partition,
            "alpha": args.alpha,
            "seed": args.seed,
            "clients": len(counts),
            "owners": None if partition.owners is None else partition.owners.tolist(),
            "qcid": qcid(counts),
            "label_counts": counts.tolist(),
        }
    return document


def _dataset_facts(dataset: Dataset) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "shape": list(dataset.train.shape),
        "dtype": str(dataset.train.features.dtype),
        "bytes": dataset.train.nbytes + dataset.test.nbytes,
        "classes": dataset.num_classes,
        "class_names": list(dataset.class_names),
        "mean": list(dataset.mean),
        "std": list(dataset.std),
        "owners": None if dataset.train.owners is None else len(np.unique(dataset.train.owners)),
        **{
            name: {
                "examples": len(part),
                "label_counts": np.bincount(part.labels, minlength=dataset.num_classes).tolist(),
            }
            for name, part in (("train", dataset.train), ("test", dataset.test))
        },
    }


def _grid(*titles: str) -> Table:
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        grid.add_column(title, overflow="fold")
    return grid


def _megabytes(size: int) -> str:
    """Bytes in a unit that leaves few digits.

    >>> _megabytes(55_000_000), _megabytes(460_000)
    ('55 MB', '0.46 MB')
    """
    return f"{size / 1e6:.3g} MB"


def _range(values: NDArray[np.int64]) -> str:
    """The least, the median and the most.

    >>> _range(np.array([3, 3])), _range(np.array([1, 2, 9]))
    ('3', '1 to 9 (median 2)')
    """
    low, high = int(values.min()), int(values.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,} (median {np.median(values):g})"


def _most(row: NDArray[np.int64]) -> str:
    """The classes that a client has most of."""
    order = np.argsort(-row, kind="stable")[:4]
    return ", ".join(f"{label} ({row[label]})" for label in order if row[label])
