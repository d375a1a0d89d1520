"""Image folders: their two forms, sizes and colours, and images that are broken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedcbs.data import load_dataset
from fedcbs.errors import DataFileError, InvalidArgumentError
from tests.data.writers import images, png, write_image_folder

pytest.importorskip("PIL")


def test_a_class_is_a_folder_and_a_share_is_held_out(tmp_path: Path) -> None:
    write_image_folder(tmp_path, classes=("dog", "cat", "eel"), count=10)
    (tmp_path / "notes.txt").write_text("beside the classes")
    (tmp_path / "cat" / "Thumbs.db").write_text("beside the images")
    (tmp_path / "cat" / ".hidden.png").write_text("hidden")
    dataset = load_dataset(f"folder:{tmp_path},test=0.3")
    assert dataset.class_names == ("cat", "dog", "eel")
    assert (len(dataset.train), len(dataset.test), dataset.train.shape) == (21, 9, (3, 8, 8))
    assert np.bincount(dataset.test.labels).tolist() == [3, 3, 3]
    again = load_dataset(f"folder:{tmp_path},test=0.3")
    assert np.array_equal(dataset.test.features, again.test.features)
    cats = {pixels.tobytes() for pixels in np.moveaxis(images(10, 8, 8, 3, seed=1), -1, 1)}
    held = [part.features[part.labels == 0] for part in (dataset.train, dataset.test)]
    assert {pixels.tobytes() for pixels in np.concatenate(held)} == cats


@pytest.mark.parametrize("test", ["test", "val"])
def test_parts_are_kept_apart(tmp_path: Path, test: str) -> None:
    write_image_folder(tmp_path / "train", count=5)
    write_image_folder(tmp_path / test, classes=("dog",), count=2)
    dataset = load_dataset(f"folder:{tmp_path}")
    assert (len(dataset.train), dataset.test.labels.tolist()) == (10, [1, 1])
    with pytest.raises(InvalidArgumentError, match="leave test= out"):
        load_dataset(f"folder:{tmp_path},test=0.5")


def test_it_is_also_found_below_the_folders_to_look_in(tmp_path: Path) -> None:
    write_image_folder(tmp_path / "pets")
    assert len(load_dataset("folder:pets", data_dir=tmp_path).train) == 10


def test_grey_and_coloured_images_become_alike(tmp_path: Path) -> None:
    write_image_folder(tmp_path)
    (tmp_path / "cat" / "grey.png").write_bytes(png(images(1, 8, 8)[0]))
    assert load_dataset(f"folder:{tmp_path}").train.shape == (3, 8, 8)
    assert load_dataset(f"folder:{tmp_path},mode=L").train.shape == (1, 8, 8)


def test_sizes_must_agree_or_be_made_to(tmp_path: Path) -> None:
    write_image_folder(tmp_path)
    (tmp_path / "cat" / "large.png").write_bytes(png(images(1, 12, 10, 3)[0]))
    with pytest.raises(DataFileError, match=r"large\.png' has 12 x 10 pixels, .*0\.png' 8 x 8.*size=8"):
        load_dataset(f"folder:{tmp_path}")
    assert load_dataset(f"folder:{tmp_path},size=6").train.shape == (3, 6, 6)
    assert load_dataset(f"folder:{tmp_path},size=6x5").train.shape == (3, 6, 5)


@pytest.mark.parametrize(
    "content", [b"", b"no image", png(images(1, 8, 8, 3)[0])[:80], b"\x89PNG\r\n\x1a\n" + bytes(40)]
)
def test_a_broken_image_is_named(tmp_path: Path, content: bytes) -> None:
    write_image_folder(tmp_path)
    (tmp_path / "dog" / "broken.png").write_bytes(content)
    with pytest.raises(DataFileError, match=r"dog/broken\.png' is (no image|broken).*repair or remove it"):
        load_dataset(f"folder:{tmp_path}")


def test_sixteen_bits_a_channel_are_refused(tmp_path: Path) -> None:
    write_image_folder(tmp_path)
    (tmp_path / "dog" / "deep.png").write_bytes(png(np.full((8, 8), 40_000, np.uint16)))  # type: ignore[arg-type]
    with pytest.raises(DataFileError, match=r"deep\.png' has pixels of kind 'I;16'"):
        load_dataset(f"folder:{tmp_path}")


def test_a_class_of_the_test_part_alone_is_refused(tmp_path: Path) -> None:
    write_image_folder(tmp_path / "train")
    write_image_folder(tmp_path / "test", classes=("cat", "owl"))
    with pytest.raises(DataFileError, match=r"owl' is a class that the train part does not have"):
        load_dataset(f"folder:{tmp_path}")


def test_a_folder_without_classes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="has none of what it should have"):
        load_dataset(f"folder:{tmp_path}")
    write_image_folder(tmp_path, classes=("all",))
    with pytest.raises(DataFileError, match="put those of each class into a folder of its own"):
        load_dataset(f"folder:{tmp_path}")
    with pytest.raises(InvalidArgumentError, match="is no folder"):
        load_dataset(f"folder:{tmp_path / 'elsewhere'}")


@pytest.mark.parametrize(
    "option", ["size=0", "size=a", "size=1x2x3", "mode=CMYK", "test=0", "test=1", "test=x", "colour=no"]
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, option: str) -> None:
    write_image_folder(tmp_path)
    with pytest.raises(InvalidArgumentError):
        load_dataset(f"folder:{tmp_path},{option}")
