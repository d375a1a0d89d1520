"""Arrays in memory and in files, and datasets of PyTorch's kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcbs.data import from_arrays, from_torch, load_dataset
from fedcbs.errors import DataFileError, InvalidArgumentError, UnknownNameError
from tests.data.writers import images

LABELS = np.arange(20) % 4


def test_bytes_stay_bytes_and_numbers_become_floats() -> None:
    assert from_arrays(images(20, 5, 5), LABELS).train.features.dtype == np.uint8
    for dtype in (bool, np.int16, np.float16, np.float64):
        assert from_arrays(np.ones((20, 3), dtype), LABELS).train.features.dtype == np.float32


@pytest.mark.parametrize(
    ("shape", "channels", "expected"),
    [
        ((28, 28), "auto", (1, 28, 28)),
        ((28, 28, 3), "auto", (3, 28, 28)),
        ((3, 28, 28), "auto", (3, 28, 28)),
        ((1, 28, 1), "auto", (1, 28, 1)),
        ((1, 28, 3), "last", (3, 1, 28)),
        ((28, 28, 3), "first", (28, 28, 3)),
        ((7,), "auto", (7,)),
    ],
)
def test_the_channel_comes_first(shape: tuple[int, ...], channels: Any, expected: tuple[int, ...]) -> None:
    assert from_arrays(images(20, *shape), LABELS, channels=channels).train.shape == expected


def test_normalisation_is_that_of_the_train_part_channel_by_channel() -> None:
    pixels = images(20, 6, 6, 3)
    dataset = from_arrays(pixels, LABELS, pixels[:4], LABELS[:4])
    scaled = pixels / 255
    assert dataset.mean == pytest.approx(scaled.mean(axis=(0, 1, 2)), abs=1e-6)
    assert dataset.std == pytest.approx(scaled.std(axis=(0, 1, 2)), abs=1e-6)
    floats = from_arrays(scaled.astype(np.float32), LABELS, scaled[:4].astype(np.float32), LABELS[:4])
    assert floats.mean == pytest.approx(dataset.mean, abs=2e-6)
    assert floats.std == pytest.approx(dataset.std, abs=2e-6)
    assert from_arrays(np.full((20, 2), 7.0), LABELS).std == (1.0,)


def test_what_is_held_out_is_the_same_each_time_and_of_every_class() -> None:
    pixels = images(100, 3)
    labels = np.arange(100) % 7
    first, again = (from_arrays(pixels, labels, held_out=0.3) for _ in range(2))
    assert np.array_equal(first.test.features, again.test.features)
    assert np.bincount(first.test.labels).tolist() == [4] * 7  # 0.3 of 14 or 15, rounded
    both = np.concatenate([first.train.features, first.test.features])
    assert {row.tobytes() for row in both} == {row.tobytes() for row in pixels}


def test_owners_have_one_numbering_in_both_parts() -> None:
    dataset = from_arrays(
        images(3, 2), [0, 1, 0], images(2, 2), [0, 1], train_owners=["eve", "bob", "eve"], test_owners=["bob", "zoe"]
    )  # fmt: skip
    assert dataset.train.owner_names == dataset.test.owner_names == ("bob", "eve", "zoe")
    assert dataset.train.owners is not None
    assert dataset.test.owners is not None
    assert (dataset.train.owners.tolist(), dataset.test.owners.tolist()) == ([1, 0, 1], [0, 2])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"train_features": images(19, 2)}, "train_features has 19 examples, train_labels 20"),
        ({"train_features": np.zeros((20, 0))}, "it must have a row an example"),
        ({"train_features": np.zeros(20)}, "it must have a row an example"),
        ({"train_features": [["a"]] * 20}, "must hold numbers"),
        ({"train_features": [[1.0], [1.0, 2.0]] * 10}, "rectangular"),
        ({"train_features": np.full((20, 2), np.nan)}, r"train_features\[0, 0\]=nan"),
        ({"train_features": np.full((20, 2), 1e39)}, "is no finite float32"),
        ({"train_features": np.full((20, 2), 2**40)}, r"beyond 2\*\*24"),
        ({"train_labels": np.full(20, -1)}, r"train_labels\[0\]=-1"),
        ({"train_labels": np.full(20, 0.5)}, r"train_labels\[0\]=0.5"),
        ({"num_classes": 3}, r"labels\[.*\]=3 must be a class from 0 to 2"),
        ({"class_names": ["a"]}, "class_names has 1 names, but there are 4 classes"),
        ({"mean": [0.0, 0.0]}, "mean has 2 numbers, but there are 1 channels"),
        ({"std": [0.0]}, r"std\[0\]=0.0"),
        ({"held_out": 0.0}, "test=0.0"),
        ({"held_out": 1.0}, "nothing to train on"),
        ({"train_labels": np.arange(20)}, "no class has two examples"),
        ({"test_features": images(2, 2)}, "give both or neither"),
        ({"test_features": images(2, 3), "test_labels": [0, 1]}, "they must agree"),
        ({"test_features": np.zeros((2, 2)), "test_labels": [0, 1]}, "give both as the same"),
        ({"test_owners": [1, 2]}, "test_owners is given without"),
        ({"train_owners": [1, 2]}, "owners has shape"),
        ({"train_owners": [0.5] * 20}, "whole number or text"),
        ({"channels": "middle"}, "channels='middle'"),
    ],
)
def test_what_cannot_be_a_dataset_is_refused(changes: dict[str, Any], reason: str) -> None:
    arguments = {"train_features": images(20, 2), "train_labels": LABELS, **changes}
    with pytest.raises(InvalidArgumentError, match=reason):
        from_arrays(**arguments)


@pytest.mark.parametrize(
    "names",
    [
        ("train_features", "train_labels", "test_features", "test_labels"),
        ("x_train", "y_train", "x_test", "y_test"),
        ("train_images", "train_labels", "test_images", "test_labels"),
    ],
)
def test_a_file_of_arrays_is_read_by_customary_names(tmp_path: Path, names: tuple[str, ...]) -> None:
    path = tmp_path / "birds.npz"
    pixels = images(20, 6, 6, 3)
    arrays = (pixels, LABELS[:, None], pixels[:5], LABELS[:5, None])  # Keras keeps labels as columns
    np.savez(path, **dict(zip(names, arrays, strict=True)))  # type: ignore[arg-type]
    dataset = load_dataset(f"arrays:{path}")
    assert np.array_equal(dataset.train.features, np.moveaxis(pixels, -1, 1))
    assert dataset.test.labels.tolist() == [0, 1, 2, 3, 0]


def test_a_file_may_hold_one_part_owners_and_names(tmp_path: Path) -> None:
    path = tmp_path / "birds.npz"
    np.savez(path, x=images(20, 4), y=LABELS, owners=np.arange(20) // 5, class_names=np.array(list("abcd")))
    dataset = load_dataset(f"arrays:{path},test=0.4")
    assert (len(dataset.test), dataset.class_names, dataset.train.owner_names) == (
        8,
        tuple("abcd"),
        tuple("0123"),
    )


def test_files_of_other_arrays_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.npz"
    for content, reason in ((b"", "cannot be read"), (b"PK\x03\x04 no archive", "cannot be read")):
        path.write_bytes(content)
        with pytest.raises(DataFileError, match=reason):
            load_dataset(f"arrays:{path}")
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(DataFileError, match="it is a single array"):
        load_dataset(f"arrays:{path}")
    np.savez(path, a=np.zeros(3))
    with pytest.raises(DataFileError, match="has the arrays a; it must have 'train_features'"):
        load_dataset(f"arrays:{path}")
    np.savez(path, x=np.array([object()] * 4, dtype=object), y=np.zeros(4))
    with pytest.raises(DataFileError, match="cannot be read as arrays"):
        load_dataset(f"arrays:{path}")
    with pytest.raises(InvalidArgumentError, match="is no file"):
        load_dataset("arrays:nowhere.npz")


class TestTorch:
    """Datasets that are asked for one example after another."""

    def test_tensors_of_bytes_divided_become_bytes(self) -> None:
        torch = pytest.importorskip("torch")
        pixels = torch.from_numpy(images(20, 3, 4, 4))
        scaled = torch.utils.data.TensorDataset(pixels.float() / 255, torch.from_numpy(LABELS))
        dataset = from_torch(scaled, scaled, name="scaled")
        assert np.array_equal(dataset.train.features, pixels.numpy())
        assert dataset.train.features.dtype == np.uint8
        assert dataset.train.labels.tolist() == LABELS.tolist()
        assert dataset.mean != (0.0, 0.0, 0.0)

    def test_other_floats_are_taken_as_they_are(self) -> None:
        torch = pytest.importorskip("torch")
        values = torch.randn(20, 5, generator=torch.Generator().manual_seed(0))
        values[:3] = 0.0  # which might be bytes, until the fourth shows that they are not
        dataset = from_torch(torch.utils.data.TensorDataset(values, torch.from_numpy(LABELS)), held_out=0.5)
        assert (dataset.train.features.dtype, dataset.mean, dataset.std) == (np.float32, (0.0,), (1.0,))
        both = np.concatenate([dataset.train.features, dataset.test.features])
        assert {row.tobytes() for row in both} == {row.tobytes() for row in values.numpy()}

    def test_pillow_images_have_their_channel_first(self) -> None:
        image = pytest.importorskip("PIL.Image")
        pairs = [(image.fromarray(pixels), k % 2) for k, pixels in enumerate(images(10, 4, 6, 3))]
        assert from_torch(pairs).train.shape == (3, 4, 6)

    @pytest.mark.parametrize(
        ("pairs", "reason"),
        [
            ([], "no examples"),
            (iter([]), "has no length"),
            ([1, 2], r"train\[0\] is int, and no pair"),
            ([("text", 0)] * 4, "holds no numbers"),
            ([(np.zeros(3), 0), (np.zeros(4), 0)], r"train\[1\] has shape \(4,\), the ones before \(3,\)"),
            ([(np.full(3, np.inf), 0)] * 4, "not finite"),
            ([(np.zeros(3), -1)] * 4, r"the class of train\[0\]=-1"),
            ([(np.zeros(3), [0, 1])] * 4, r"the class of train\[0\]"),
        ],
    )
    def test_what_is_no_dataset_of_pairs_is_refused(self, pairs: Any, reason: str) -> None:
        with pytest.raises(InvalidArgumentError, match=reason):
            from_torch(pairs)

    def test_random_transforms_are_refused(self) -> None:
        rng = np.random.default_rng(0)

        class Noisy:
            def __len__(self) -> int:
                return 4

            def __getitem__(self, index: int) -> tuple[Any, int]:
                return rng.random(3), index % 2

        with pytest.raises(InvalidArgumentError, match="leave random transforms out"):
            from_torch(Noisy())


class TestImportPath:
    """A user's own, by module and name."""

    CODE = """
import numpy as np
from fedcbs.data import from_arrays
PAIRS = [(np.full((1, 2, 2), k, np.uint8), k % 2) for k in range(10)]
def pair(): return PAIRS, PAIRS[:4]
def alone(): return PAIRS
def dataset(data_dir=None): return from_arrays(np.zeros((10, 2)), np.arange(10) % 2, name=f"in {data_dir}")
def wrong(): return 1, 2, 3
class Held:
    @staticmethod
    def make(): return PAIRS
"""

    @pytest.fixture(autouse=True)
    def _module(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "birds_of_a_user.py").write_text(self.CODE)
        monkeypatch.chdir(tmp_path)

    @pytest.mark.parametrize(
        ("name", "train", "test"),
        [("pair", 10, 4), ("alone", 8, 2), ("PAIRS", 8, 2), ("dataset", 8, 2), ("Held.make", 8, 2)],
    )
    def test_what_it_returns_becomes_a_dataset(self, name: str, train: int, test: int) -> None:
        dataset = load_dataset(f"birds_of_a_user:{name}")
        assert (len(dataset.train), len(dataset.test)) == (train, test)

    def test_the_folder_is_handed_on(self, tmp_path: Path) -> None:
        assert load_dataset("birds_of_a_user:dataset", data_dir=tmp_path).name == f"in {tmp_path}"
        assert len(load_dataset("birds_of_a_user:alone,test=0.4").test) == 4

    @pytest.mark.parametrize(
        ("spec", "reason"),
        [
            ("birds_of_a_user:nothing", "has no attribute 'nothing'"),
            ("no.such.module:make", "cannot be imported"),
            ("birds_of_a_user:wrong", "must return a Dataset, a pair"),
            ("birds_of_a_user:", "nothing after the colon"),
        ],
    )
    def test_what_cannot_be_imported_is_told(self, spec: str, reason: str) -> None:
        with pytest.raises(InvalidArgumentError, match=reason):
            load_dataset(spec)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("cifar11", "did you mean 'cifar10'"),
        ("Mnist", "did you mean 'mnist'"),
        ("floder:photos", "did you mean 'folder'"),
        ("mnist,verfy=no", "did you mean 'verify'"),
    ],
)
def test_a_slip_gets_a_suggestion(spec: str, reason: str) -> None:
    with pytest.raises(UnknownNameError, match=reason):
        load_dataset(spec)


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "   ",
        3,
        None,
        "digits:x",
        "digits,verify=no",
        "mnist,verify=maybe",
        "mnist,verify=no,verify=no",
        "folder:",
    ],
)
def test_other_specs_are_refused(spec: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        load_dataset(spec)


def test_a_data_dir_must_be_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidArgumentError, match=r"data_dir=.* is no folder"):
        load_dataset("mnist", data_dir=tmp_path / "elsewhere")
    monkeypatch.setenv("FEDCBS_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(InvalidArgumentError, match=r"FEDCBS_DATA=.* is no folder"):
        load_dataset("mnist")


def test_the_digits_are_always_the_same() -> None:
    first, again = load_dataset(), load_dataset("digits")
    assert np.array_equal(first.test.features, again.test.features)
    assert np.bincount(first.test.labels).min() == 35
    assert (first.train.features.min(), first.train.features.max()) == (0.0, 1.0)
