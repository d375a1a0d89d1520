"""CIFAR-10 and CIFAR-100, as their page publishes them: a binary form, and pickled dictionaries."""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcbs.data._dataset import Examples
from fedcbs.data._layout import Files, Layout, Parts, first_file
from fedcbs.data._pickles import load_arrays
from fedcbs.errors import DataFileError

__all__ = ["CifarBinary", "CifarPython", "check_md5"]

_PIXELS = 3 * 32 * 32
_SHAPE = (3, 32, 32)


@dataclass(frozen=True)
class _Cifar(Layout):
    """Files of records, several of them for training.

    Parameters
    ----------
    train, test
        File names of each part.
    num_classes
        Number of classes; labels are below it.
    names
        Where the names of the classes are: candidates for a file, which may be missing.
    md5
        Checksums of the published files, by name.
    """

    train: tuple[str, ...]
    test: tuple[str, ...]
    num_classes: int
    names: tuple[str, ...] = ()
    md5: Mapping[str, str] = field(default_factory=dict)

    @property
    def expects(self) -> str:
        """The files, in words."""
        return ", ".join((*self.train, *self.test))

    def find(self, folder: Path) -> Files | None:
        """Return the files, or None if the folder has none of them."""
        wanted = {"train": self.train, "test": self.test}
        paths = {part: tuple(folder / name for name in names) for part, names in wanted.items()}
        missing = tuple(path.name for part in paths.values() for path in part if not path.is_file())
        if len(missing) == len(self.train) + len(self.test):
            return None
        return Files(folder, paths, missing)

    def read(self, files: Files, *, verify: bool) -> Parts:
        """Decode the files."""
        if verify:
            for path in (*files.paths["train"], *files.paths["test"]):
                check_md5(path, self.md5.get(path.name))
        train, test = (self._part(files.paths[part]) for part in ("train", "test"))
        return Parts(train, test, self._class_names(files.folder))

    def _part(self, paths: tuple[Path, ...]) -> Examples:
        batches = [self._batch(path) for path in paths]
        images = np.empty((sum(len(batch[1]) for batch in batches), *_SHAPE), np.uint8)
        first = 0
        for pixels, labels in batches:
            images[first : first + len(labels)] = pixels.reshape(-1, *_SHAPE)
            first += len(labels)
        labels = np.concatenate([batch[1] for batch in batches])
        for path, (_, batch) in zip(paths, batches, strict=True):
            wrong = np.flatnonzero((batch < 0) | (batch >= self.num_classes))
            if wrong.size:
                raise DataFileError(
                    f"{str(path)!r} record {wrong[0]} has label {batch[wrong[0]]}; labels are from 0 to"
                    f" {self.num_classes - 1}, so the file is damaged or another; get it again"
                )
        return Examples(images, labels)

    @abc.abstractmethod
    def _batch(self, path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Pixels, a row an image, and labels."""

    def _class_names(self, folder: Path) -> tuple[str, ...]:
        """The classes' names; none where the file is missing or says something else."""
        path = first_file(folder, self.names)
        names = () if path is None else self._names_in(path)
        return names if len(names) == self.num_classes else ()

    @abc.abstractmethod
    def _names_in(self, path: Path) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class CifarBinary(_Cifar):
    """Records of label bytes and 3,072 pixels.

    Parameters
    ----------
    label_bytes
        Bytes before the pixels.
    label_at
        Which of these is the label.
    """

    label_bytes: int = 1
    label_at: int = 0

    def _batch(self, path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        size = path.stat().st_size
        record = self.label_bytes + _PIXELS
        if size == 0 or size % record:
            raise DataFileError(
                f"{str(path)!r} has {size} bytes, which is no multiple of {record}: it is truncated or another file;"
                " get it again"
            )
        records = np.memmap(path, np.uint8, mode="r", shape=(size // record, record))
        return records[:, self.label_bytes :], records[:, self.label_at].astype(np.int64)

    def _names_in(self, path: Path) -> tuple[str, ...]:
        return tuple(path.read_text(encoding="utf-8", errors="replace").split())


@dataclass(frozen=True)
class CifarPython(_Cifar):
    """Pickled dictionaries of ``data`` and labels.

    Parameters
    ----------
    labels
        Key of the labels.
    names_key
        Key of the class names in the file of these.
    """

    labels: str = "labels"
    names_key: str = "label_names"

    def _batch(self, path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        content = _unpickled(path)
        pixels, labels = content.get("data"), content.get(self.labels)
        if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (_PIXELS,):
            raise DataFileError(
                f"{str(path)!r} has no array 'data' of rows of {_PIXELS} bytes; it is another file, get it again"
            )
        if not isinstance(labels, list) or not all(type(label) is int for label in labels):
            raise DataFileError(f"{str(path)!r} has no list {self.labels!r} of whole numbers; get it again")
        if len(labels) != len(pixels):
            raise DataFileError(
                f"{str(path)!r} has {len(pixels)} images and {len(labels)} labels; they must agree, get it again"
            )
        return pixels, np.array(labels, dtype=np.int64)

    def _names_in(self, path: Path) -> tuple[str, ...]:
        names = _unpickled(path).get(self.names_key)
        return tuple(map(_text, names)) if isinstance(names, list) else ()


def check_md5(path: Path, md5: str | None) -> None:
    """Refuse a file with another checksum than the published one, if that is known."""
    if md5 is None:
        return
    with path.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != md5:
        raise DataFileError(
            f"{str(path)!r} is not the published file: its MD5 is {found}, not {md5}; get it again, or, for other"
            " data in this layout, say verify=no"
        )


def _unpickled(path: Path) -> dict[str, Any]:
    try:
        content = load_arrays(path.read_bytes())
        return {_text(key): value for key, value in content.items()}
    except Exception as error:
        raise DataFileError(f"{str(path)!r} is no pickled batch ({error}); get it again") from error


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
