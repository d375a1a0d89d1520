"""Four idx files: images and labels to train on, images and labels to test on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np

from fedcbs.data._dataset import Examples
from fedcbs.data._idx import peek_idx, read_idx
from fedcbs.data._layout import Files, Layout, Parts, first_file
from fedcbs.errors import DataFileError

__all__ = ["IdxLayout"]

_ROLES = {
    "train-images": ("train-images", "idx3-ubyte"),
    "train-labels": ("train-labels", "idx1-ubyte"),
    "test-images": ("t10k-images", "idx3-ubyte"),
    "test-labels": ("t10k-labels", "idx1-ubyte"),
}
_Paths: TypeAlias = dict[str, tuple[Path, ...]]

_MOST_FILES = 64
"""A folder with more files is not searched for idx files of other names."""


@dataclass(frozen=True)
class IdxLayout(Layout):
    """The four files of MNIST, by their usual names or, failing these, by what their headers say.

    Parameters
    ----------
    sha256
        Checksum of the unzipped contents of each file, by role.
    """

    sha256: Mapping[str, str] = field(default_factory=dict)

    @property
    def expects(self) -> str:
        """The files, in words."""
        return ", ".join(f"{stem}-{kind}[.gz]" for stem, kind in _ROLES.values())

    def find(self, folder: Path) -> Files | None:
        """Return the four files in a folder or in its `raw`, or None if there is none of them."""
        for place in (folder, folder / "raw"):
            named = {role: first_file(place, _spellings(*parts)) for role, parts in _ROLES.items()}
            found: _Paths = {role: (path,) for role, path in named.items() if path is not None}
            if found:
                return Files(
                    place, found, tuple(f"{'-'.join(_ROLES[r])}[.gz]" for r in _ROLES if r not in found)
                )
        found = _by_header(folder)
        return Files(folder, found) if found else None

    def read(self, files: Files, *, verify: bool) -> Parts:
        """Decode the files."""
        return Parts(self._part(files, "train", verify), self._part(files, "test", verify))

    def _part(self, files: Files, part: str, verify: bool) -> Examples:
        sums = self.sha256 if verify else {}
        image_file, label_file = (files.paths[f"{part}-{kind}"][0] for kind in ("images", "labels"))
        images = read_idx(image_file, axes=3, sha256=sums.get(f"{part}-images"))
        labels = read_idx(label_file, axes=1, sha256=sums.get(f"{part}-labels"))
        if len(images) != len(labels):
            raise DataFileError(
                f"{str(image_file)!r} has {len(images)} images, {str(label_file)!r} {len(labels)} labels;"
                " they do not belong together, get both again"
            )
        if images.dtype != np.uint8 or labels.dtype.kind not in "iu":
            raise DataFileError(
                f"{str(image_file)!r} and its labels hold {images.dtype} and {labels.dtype}; they must hold bytes"
            )
        return Examples(images[:, None].view(np.uint8), labels.astype(np.int64))


def _spellings(stem: str, kind: str) -> tuple[str, ...]:
    return tuple(f"{stem}{mark}{kind}{end}" for end in ("", ".gz") for mark in ("-", "."))


def _by_header(folder: Path) -> _Paths:
    """Four idx files of any name: by number of axes, then by name, or the larger set for training."""
    files = sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
    if len(files) > _MOST_FILES:
        return {}
    shapes = {path: shape for path in files if (shape := peek_idx(path)) is not None}
    images = [path for path, shape in shapes.items() if len(shape) == 3]
    labels = [path for path, shape in shapes.items() if len(shape) == 1]
    if len(images) != 2 or len(labels) != 2:
        return {}
    roles: _Paths = {}
    for kind, pair in (("images", images), ("labels", labels)):
        tests = [any(word in path.name.lower() for word in ("test", "t10k", "valid")) for path in pair]
        if tests[0] == tests[1]:
            tests = [shapes[path][0] == min(shapes[other][0] for other in pair) for path in pair]
        if tests[0] == tests[1]:
            return {}
        for path, is_test in zip(pair, tests, strict=True):
            roles[f"{'test' if is_test else 'train'}-{kind}"] = (path,)
    return roles
