"""MNIST's layout: under its usual names and others, gzipped or not, and everything that can be wrong with a file."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from fedcbs.data import load_dataset, split
from fedcbs.data._idx import read_idx
from fedcbs.errors import DataFileError, MissingDataError
from tests.data.writers import MNIST_FILES, SHARED, idx_bytes, images, write_mnist

UNCHECKED = "mnist,verify=no"


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("place", ["", "mnist", "MNIST/raw"])
def test_the_four_files_are_found_and_decoded(tmp_path: Path, place: str, zipped: bool) -> None:
    pixels = write_mnist(tmp_path / place, zipped=zipped)
    dataset = load_dataset(UNCHECKED, data_dir=tmp_path)
    assert np.array_equal(dataset.train.features, pixels["train"][:, None])
    assert np.array_equal(dataset.test.features, pixels["test"][:, None])
    assert dataset.train.labels.tolist() == [k % 10 for k in range(30)]
    assert (dataset.train.features.dtype, dataset.num_classes, dataset.class_names[3]) == (np.uint8, 10, "3")


def test_other_names_are_told_apart_by_their_headers(tmp_path: Path) -> None:
    pixels = write_mnist(tmp_path)
    for number, name in enumerate(name for pair in MNIST_FILES.values() for name in pair):
        (tmp_path / name).rename(tmp_path / f"file-{number}.dat")
    (tmp_path / "notes.txt").write_text("not one of them")
    dataset = load_dataset(UNCHECKED, data_dir=tmp_path)
    assert np.array_equal(dataset.train.features, pixels["train"][:, None])


def test_a_folder_with_its_name_comes_before_files_beside_it(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    pixels = write_mnist(tmp_path / "fashion-mnist", train=20)
    dataset = load_dataset("fashion-mnist,verify=no", data_dir=tmp_path)
    assert np.array_equal(dataset.train.features, pixels["train"][:, None])


def test_folders_are_searched_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, count in (("given", 12), ("first", 14), ("second", 16)):
        write_mnist(tmp_path / name, train=count)
    monkeypatch.setenv("FEDCBS_DATA", f"{tmp_path / 'first'}:{tmp_path / 'second'}")
    assert len(load_dataset(UNCHECKED, data_dir=tmp_path / "given").train) == 12
    assert len(load_dataset(UNCHECKED).train) == 14


def test_what_is_missing_is_named_with_where_and_how(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(MissingDataError) as caught:
        load_dataset("mnist", data_dir=tmp_path)
    message = str(caught.value)
    for part in (
        str(tmp_path),
        "but not t10k-labels-idx1-ubyte",
        "fedcbs data get mnist",
        "FEDCBS_DATA",
        "--data-dir",
    ):
        assert part in message


def test_files_that_are_not_the_published_ones_are_refused(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    with pytest.raises(DataFileError, match=r"train-images.*not the published file.*verify=no"):
        load_dataset("mnist", data_dir=tmp_path)


HEADER = struct.pack(">HBB3I", 0, 8, 3, 2, 3, 4)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "starts with nothing"),
        (b"\x89PNG and so on", "no idx file"),
        (HEADER[:7], "ends within its header"),
        (HEADER + bytes(23), "truncated: 23 of 24 bytes"),
        (HEADER + bytes(25), "goes on after the 24 bytes"),
        (struct.pack(">HBB3I", 0, 8, 3, 2**31, 2**31, 2**31), "more than the file can hold"),
        (gzip.compress(HEADER + bytes(24))[:-9], "cannot be read"),
        (gzip.compress(HEADER + bytes(24))[:-8] + bytes(8), "cannot be read"),
        (idx_bytes(images(2, 3)), "array of 2 axes; 3 are needed"),
    ],
)
def test_damaged_files_are_refused_with_the_reason(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=reason) as caught:
        read_idx(path, axes=3)
    assert repr(str(path)) in str(caught.value)


def test_images_and_labels_must_be_as_many(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx_bytes(np.zeros(29, np.uint8)))
    with pytest.raises(DataFileError, match=r"has 30 images, .* 29 labels"):
        load_dataset(UNCHECKED, data_dir=tmp_path)


def test_labels_must_be_classes(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx_bytes(np.full(30, 77, np.uint8)))
    with pytest.raises(ValueError, match=r"train\.labels\[0\]=77 must be a class from 0 to 9"):
        load_dataset(UNCHECKED, data_dir=tmp_path)


def write_qmnist(folder: Path, part: str, digits: list[int], writers: list[int]) -> None:
    rows = np.zeros((len(digits), 8), ">i4")
    rows[:, 0], rows[:, 2] = digits, writers
    header = struct.pack(">HBB2I", 0, 12, 2, *rows.shape)
    (folder / f"qmnist-{part}-labels-idx2-int").write_bytes(header + rows.tobytes())


def test_writers_of_mnist_become_owners(tmp_path: Path) -> None:
    write_mnist(tmp_path / "mnist")
    with pytest.raises(MissingDataError, match="owner=qmnist needs qmnist-train-labels-idx2-int"):
        load_dataset(f"{UNCHECKED},owner=qmnist", data_dir=tmp_path)
    (tmp_path / "qmnist").mkdir()
    write_qmnist(
        tmp_path / "qmnist", "train", [k % 10 for k in range(30)], [100 + k // 10 for k in range(30)]
    )
    write_qmnist(tmp_path / "qmnist", "test", [k % 10 for k in range(40)], [7] * 40)
    dataset = load_dataset(f"{UNCHECKED},owner=qmnist", data_dir=tmp_path)
    assert dataset.train.owners is not None
    assert dataset.test.owners is not None
    assert dataset.train.owner_names == ("7", "100", "101", "102")
    assert dataset.train.owners.tolist() == [1 + k // 10 for k in range(30)]
    assert dataset.test.owners.tolist() == [0] * 10
    write_qmnist(tmp_path / "qmnist", "test", [3] * 40, [7] * 40)
    with pytest.raises(DataFileError, match="does not have MNIST's digits"):
        load_dataset(f"{UNCHECKED},owner=qmnist", data_dir=tmp_path)


@pytest.mark.skipif(not (SHARED / "qmnist").is_dir(), reason="the real QMNIST is not beside the repository")
def test_the_real_mnist_has_539_writers_to_train_on() -> None:
    dataset = load_dataset("mnist,owner=qmnist", data_dir=SHARED)
    partition = split(dataset, "owner", seed=0)
    assert (len(partition), int(partition.num_examples.sum())) == (539, 60_000)


@pytest.mark.skipif(not (SHARED / "mnist").is_dir(), reason="the real MNIST is not beside the repository")
def test_the_real_mnist_is_the_published_one() -> None:
    dataset = load_dataset("mnist", data_dir=SHARED)
    assert (dataset.train.features.shape, dataset.test.features.shape) == (
        (60_000, 1, 28, 28),
        (10_000, 1, 28, 28),
    )
    assert np.bincount(dataset.train.labels).tolist()[:3] == [5923, 6742, 5958]
    assert (dataset.mean, dataset.std) == ((0.1307,), (0.3081,))
