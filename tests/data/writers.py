"""Small files in each layout, written from scratch."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
"""Real data beside the repository, where there is any."""

MNIST_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


def images(count: int, *shape: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


def idx_bytes(array: NDArray[np.uint8]) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_mnist(
    folder: Path, *, zipped: bool = False, train: int = 30, test: int = 10
) -> dict[str, NDArray[np.uint8]]:
    """The four files of MNIST's layout, with labels that count up; returns the images."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for part, count in (("train", train), ("test", test)):
        found[part] = images(count, 28, 28, seed=count)
        labels = (np.arange(count) % 10).astype(np.uint8)
        for name, array in zip(MNIST_FILES[part], (found[part], labels), strict=True):
            content = idx_bytes(array)
            (folder / f"{name}{'.gz' if zipped else ''}").write_bytes(
                gzip.compress(content) if zipped else content
            )
    return found


def cifar_records(
    count: int, num_classes: int, label_bytes: int = 1
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    pixels = images(count, 3072, seed=count)
    labels = (np.arange(count) % num_classes).astype(np.uint8)
    if label_bytes == 2:
        return pixels, np.stack([labels // 5, labels], axis=1)
    return pixels, labels[:, None]


def write_cifar10_binary(folder: Path, count: int = 20) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in [f"data_batch_{k}.bin" for k in range(1, 6)] + ["test_batch.bin"]:
        pixels, labels = cifar_records(count, 10)
        (folder / name).write_bytes(np.hstack([labels, pixels]).tobytes())


def write_cifar10_python(folder: Path, count: int = 20, protocol: int = 2) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in [f"data_batch_{k}" for k in range(1, 6)] + ["test_batch"]:
        pixels, labels = cifar_records(count, 10)
        batch = {b"data": pixels, b"labels": [int(label) for label in labels[:, 0]], b"batch_label": b"one"}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=protocol))


def leaf_file(users: dict[str, tuple[NDArray[np.uint8], list[int]]], digits: int | None = None) -> str:
    """A file of LEAF's; `digits` after the point, as some write them."""
    data = {}
    for user, (pixels, labels) in users.items():
        rows = (pixels.reshape(len(pixels), -1) / 255).tolist()
        data[user] = {
            "x": rows if digits is None else [[round(v, digits) for v in row] for row in rows],
            "y": labels,
        }
    return json.dumps(
        {
            "users": list(users),
            "num_samples": [len(labels) for _, labels in users.values()],
            "user_data": data,
        }
    )


def write_leaf(folder: Path, *, files: int = 2, users: int = 3) -> dict[str, NDArray[np.uint8]]:
    """Both parts of LEAF's layout; returns the images of each part in the order of files and users."""
    found: dict[str, list[NDArray[np.uint8]]] = {"train": [], "test": []}
    for part, size in (("train", 5), ("test", 2)):
        (folder / part).mkdir(parents=True)
        for number in range(files):
            content = {}
            for user in range(users):
                pixels = images(size + user, 28, 28, seed=100 * number + user)
                content[f"f{number}_{user}"] = (pixels, [(user + k) % 62 for k in range(size + user)])
                found[part].append(pixels)
            (folder / part / f"all_data_{number}.json").write_text(
                leaf_file(content, digits=4 if number else None)
            )
    return {part: np.concatenate(arrays)[:, None] for part, arrays in found.items()}


def png(pixels: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def write_image_folder(
    folder: Path, *, classes: tuple[str, ...] = ("cat", "dog"), count: int = 6, side: int = 8
) -> None:
    for label, name in enumerate(classes):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for k, pixels in enumerate(images(count, side, side, 3, seed=label)):
            (folder / name / f"{k}.png").write_bytes(png(pixels))


def write_table(
    path: Path,
    pixels: NDArray[np.uint8],
    labels: list[int] | list[str],
    *,
    noted: bool = True,
    names: tuple[str, str] = ("image", "label"),
    extra: dict[str, list[str]] | None = None,
) -> None:
    """A parquet file as `datasets` writes them; with `noted`, its features are noted in it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    image, label = names
    columns = {image: [{"bytes": png(p), "path": None} for p in pixels], label: labels, **(extra or {})}
    table = pa.table(columns)
    if noted:
        kinds = {
            image: {"_type": "Image"},
            label: {"_type": "ClassLabel", "names": [f"c{k}" for k in range(10)]},
        }
        kinds |= {name: {"dtype": "string", "_type": "Value"} for name in extra or {}}
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": kinds}})})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
