"""LEAF's JSON: ``train/*.json`` and ``test/*.json``, in each the examples of many writers.

``{"users": [...], "num_samples": [...], "user_data": {USER: {"x": [[784 numbers from 0 to 1], ...], "y": [...]}}}``.
The numbers are bytes divided by 255, and become bytes again.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fedcbs.data._dataset import Examples
from fedcbs.data._json_stream import JsonStream
from fedcbs.data._layout import Files, Layout, Parts
from fedcbs.errors import DataFileError

__all__ = ["LeafLayout"]

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_MOST_SPELLINGS = 2**16
_OFF_A_BYTE = 0.05
"""How far 255 times a number may be from a whole one: some write four digits after the point."""


@dataclass(frozen=True)
class LeafLayout(Layout):
    """The two folders that LEAF's scripts leave, for images.

    Parameters
    ----------
    shape
        Shape of an image.
    num_classes
        Number of classes; labels are below it.
    """

    shape: tuple[int, int, int] = (1, 28, 28)
    num_classes: int = 62
    slow: ClassVar[bool] = True

    @property
    def expects(self) -> str:
        """The files, in words."""
        return "train/*.json, test/*.json as LEAF writes them"

    def find(self, folder: Path) -> Files | None:
        """Return the files of both parts, in a folder or in its `data`."""
        for place in (folder, folder / "data"):
            paths = {part: tuple(sorted((place / part).glob("*.json"))) for part in ("train", "test")}
            if any(paths.values()):
                return Files(place, paths, tuple(f"{part}/*.json" for part in paths if not paths[part]))
        return None

    def read(self, files: Files, *, verify: bool) -> Parts:  # noqa: ARG002 - no checksum is published
        """Decode the files."""
        writers: dict[str, int] = {}
        train, test = (_Part(self, writers) for _ in range(2))
        for part, paths in ((train, files.paths["train"]), (test, files.paths["test"])):
            for path in paths:
                part.add_file(path)
        names = tuple(writers)
        return Parts(train.examples(names), test.examples(names))


class _Part:
    """Examples as they come in; a bytearray grows in place, so that nothing is held twice."""

    def __init__(self, layout: LeafLayout, writers: dict[str, int]) -> None:
        self._layout = layout
        self._size = int(np.prod(layout.shape))
        self._writers = writers
        self._bytes = _Bytes()
        self._pixels = bytearray()
        self._labels = array("q")
        self._owners = array("q")

    def examples(self, names: tuple[str, ...]) -> Examples:
        pixels = np.frombuffer(self._pixels, np.uint8).reshape(-1, *self._layout.shape)
        labels, owners = (np.frombuffer(values, np.int64) for values in (self._labels, self._owners))
        return Examples(pixels, labels, owners, names)

    def add_file(self, path: Path) -> None:
        sizes: dict[str, int] = {}
        rest: dict[str, Any] = {}
        try:
            with path.open(encoding="utf-8") as file:
                stream = JsonStream(file)
                for key in stream.object():
                    if key == "user_data":
                        for user in stream.object():
                            if user in sizes:
                                raise ValueError(f"user {user!r} is in it twice")
                            sizes[user] = self._add_user(stream, user)
                    else:
                        rest[key] = stream.value()
                stream.end()
            _check_sizes(sizes, rest)
        except (ValueError, OSError, RecursionError) as error:
            raise DataFileError(
                f"{str(path)!r} is no JSON of LEAF's FEMNIST ({error}); it is damaged or another file, make it again"
            ) from error

    def _add_user(self, stream: JsonStream, user: str) -> int:
        counts: dict[str, int] = {}
        for field in stream.object():
            if field in counts:
                raise ValueError(f"user {user!r} has {field!r} twice")
            if field == "x":
                counts[field] = self._add_images(stream.rows(), user)
            elif field == "y":
                counts[field] = self._add_labels(stream.array(), user)
            else:
                stream.value()
        if counts.keys() != {"x", "y"} or counts["x"] != counts["y"]:
            raise ValueError(f"user {user!r} has {counts.get('x', 0)} images and {counts.get('y', 0)} labels")
        owner = self._writers.setdefault(user, len(self._writers))
        self._owners.extend([owner] * counts["y"])
        return counts["y"]

    def _add_images(self, rows: Iterator[list[str]], user: str) -> int:
        before = len(self._pixels)
        for row in rows:
            if len(row) != self._size:
                raise ValueError(f"user {user!r} has an image that is not {self._size} numbers")
            self._pixels += bytes(map(self._bytes.__getitem__, row))
        return (len(self._pixels) - before) // self._size

    def _add_labels(self, labels: Iterator[Any], user: str) -> int:
        before = len(self._labels)
        for label in labels:
            if type(label) is not int or not 0 <= label < self._layout.num_classes:
                raise ValueError(
                    f"user {user!r} has label {label!r}; labels are from 0 to {self._layout.num_classes - 1}"
                )
            self._labels.append(label)
        return len(self._labels) - before


class _Bytes(dict[str, int]):
    """The byte that a number stands for, by its spelling: of 256 numbers there are few, so that each is parsed once."""

    def __missing__(self, spelling: str) -> int:
        text = spelling.strip()
        if not _NUMBER.fullmatch(text):
            raise ValueError(f"{text[:20]!r} stands where a number must")
        level = 255 * float(text)
        whole = round(min(max(level, -1.0), 256.0))
        if not (0 <= whole <= 255 and abs(level - whole) <= _OFF_A_BYTE):
            raise ValueError(f"{text[:20]} is no byte divided by 255")
        if len(self) < _MOST_SPELLINGS:
            self[spelling] = whole
        return whole


def _check_sizes(sizes: dict[str, int], rest: dict[str, Any]) -> None:
    """Hold what the file says of itself against what was in it."""
    if not sizes:
        raise ValueError("it has no 'user_data', or no users in it")
    users, counts = rest.get("users"), rest.get("num_samples")
    if not isinstance(users, list) or not isinstance(counts, list) or len(users) != len(counts):
        raise ValueError("'users' and 'num_samples' must be lists of the same length")
    said = dict(zip(map(str, users), counts, strict=True))
    for user in said.keys() | sizes.keys():
        if said.get(user) != sizes.get(user):
            raise ValueError(
                f"user {user!r} should have {said.get(user, 0)} examples and has {sizes.get(user, 0)}"
            )
