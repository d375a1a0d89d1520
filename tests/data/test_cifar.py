"""CIFAR in both of its layouts, and pickles that are not what they should be."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcbs.data import load_dataset
from fedcbs.data._pickles import UnsafePickleError, load_arrays
from fedcbs.errors import DataFileError
from tests.data.writers import cifar_records, write_cifar10_binary, write_cifar10_python

UNCHECKED = "cifar10,verify=no"


def test_both_layouts_hold_the_same(tmp_path: Path) -> None:
    write_cifar10_binary(tmp_path / "a" / "cifar-10-batches-bin")
    write_cifar10_python(tmp_path / "b" / "cifar-10-batches-py")
    binary, pickled = (load_dataset(UNCHECKED, data_dir=tmp_path / name) for name in "ab")
    assert binary.train.features.shape == (100, 3, 32, 32)
    assert np.array_equal(binary.train.features, pickled.train.features)
    assert np.array_equal(binary.test.labels, pickled.test.labels)
    pixels, _ = cifar_records(20, 10)
    assert np.array_equal(binary.train.features[3], pixels[3].reshape(3, 32, 32))


@pytest.mark.parametrize("labels", ["fine", "coarse"])
def test_cifar100_has_fine_and_coarse_labels(tmp_path: Path, labels: str) -> None:
    binary, pickled = tmp_path / "a", tmp_path / "b"
    fine_names, coarse_names = [f"f{k}" for k in range(100)], [f"c{k}" for k in range(20)]
    for folder in (binary, pickled):
        folder.mkdir()
    for part, count in (("train", 200), ("test", 100)):
        pixels, both = cifar_records(count, 100, 2)
        (binary / f"{part}.bin").write_bytes(np.hstack([both, pixels]).tobytes())
        batch = {b"data": pixels, b"fine_labels": both[:, 1].tolist(), b"coarse_labels": both[:, 0].tolist()}
        (pickled / part).write_bytes(pickle.dumps(batch, protocol=2))
    (binary / "fine_label_names.txt").write_text("\n".join(fine_names))
    (binary / "coarse_label_names.txt").write_text("\n".join(coarse_names))
    names = {b"fine_label_names": fine_names, b"coarse_label_names": coarse_names}
    (pickled / "meta").write_bytes(pickle.dumps(names))
    sets = [
        load_dataset(f"cifar100,verify=no,labels={labels}", data_dir=folder) for folder in (binary, pickled)
    ]
    assert np.array_equal(sets[0].train.labels, sets[1].train.labels)
    assert (
        sets[0].class_names == sets[1].class_names == tuple(fine_names if labels == "fine" else coarse_names)
    )
    expected = np.arange(200) % 100
    assert np.array_equal(sets[0].train.labels, expected if labels == "fine" else expected // 5)


def test_published_files_are_checked(tmp_path: Path) -> None:
    write_cifar10_binary(tmp_path)
    with pytest.raises(DataFileError, match=r"data_batch_1\.bin.*MD5.*5dd7e06a"):
        load_dataset("cifar10", data_dir=tmp_path)


def test_a_truncated_batch_is_refused(tmp_path: Path) -> None:
    write_cifar10_binary(tmp_path)
    path = tmp_path / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataFileError, match=r"data_batch_3\.bin.*no multiple of 3073"):
        load_dataset(UNCHECKED, data_dir=tmp_path)


def test_a_label_that_is_no_class_is_refused(tmp_path: Path) -> None:
    write_cifar10_binary(tmp_path)
    path = tmp_path / "test_batch.bin"
    content = bytearray(path.read_bytes())
    content[3073] = 200
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=r"test_batch\.bin' record 1 has label 200"):
        load_dataset(UNCHECKED, data_dir=tmp_path)


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        ({b"data": np.zeros((20, 3072), np.uint8), b"labels": [0] * 19}, "20 images and 19 labels"),
        ({b"data": np.zeros((20, 3071), np.uint8), b"labels": [0] * 20}, "no array 'data'"),
        ({b"data": np.zeros((20, 3072), np.float32), b"labels": [0] * 20}, "no array 'data'"),
        ({b"data": np.zeros((20, 3072), np.uint8), b"labels": ["0"] * 20}, "no list 'labels'"),
        ({b"data": np.zeros((20, 3072), np.uint8)}, "no list 'labels'"),
        ([1, 2, 3], "no pickled batch"),
    ],
)
def test_a_batch_of_another_form_is_refused(tmp_path: Path, batch: Any, reason: str) -> None:
    write_cifar10_python(tmp_path)
    (tmp_path / "data_batch_2").write_bytes(pickle.dumps(batch, protocol=2))
    with pytest.raises(DataFileError, match=f"data_batch_2.*{reason}"):
        load_dataset(UNCHECKED, data_dir=tmp_path)


class Attack:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_a_pickle_that_runs_code_runs_nothing(tmp_path: Path) -> None:
    write_cifar10_python(tmp_path)
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps({b"data": Attack(tmp_path / "broken-in")}))
    with pytest.raises(DataFileError, match=r"data_batch_1.*asks for posix\.mkdir"):
        load_dataset(UNCHECKED, data_dir=tmp_path)
    assert not (tmp_path / "broken-in").exists()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_of_every_protocol_are_read(protocol: int) -> None:
    arrays = {
        "bytes": np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
        "columns": np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)),
        "floats": np.linspace(0, 1, 5),
        "none": np.zeros((0, 3), np.int16),
    }
    found = load_arrays(pickle.dumps({**arrays, "more": [1, ("a", None, 2.5)]}, protocol=protocol))
    for name, array in arrays.items():
        assert np.array_equal(found[name], array)
        assert found[name].shape == array.shape
    assert found["more"] == [1, ("a", None, 2.5)]


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps(np.array([{"an": "object"}], dtype=object)),
        pickle.dumps(np.array(["text"])),
        pickle.dumps(eval),
        pickle.dumps(Path()),
        b"cos\nsystem\n(S'true'\ntR.",
        b"cnumpy\ndtype\n(S'O'\ntR.",
        b"cbuiltins\ngetattr\n.",
        b"c_codecs\nencode\n(S'x'\nS'rot13'\ntR.",
    ],
)
def test_other_objects_are_refused(content: bytes) -> None:
    with pytest.raises(UnsafePickleError):
        load_arrays(content)


def test_an_array_that_lies_about_its_size_is_refused() -> None:
    content = pickle.dumps(np.zeros(4, np.uint8), protocol=2).replace(b"K\x04\x85", b"K\x40\x85")
    with pytest.raises(UnsafePickleError, match=r"shape \(64,\) that has 4 bytes"):
        load_arrays(content)
