"""What a layout of a dataset on disk is: how to find it in a folder, and how to read it."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from fedcbs.data._dataset import Examples

__all__ = ["Files", "Layout", "Parts", "first_file"]


@dataclass(frozen=True)
class Files:
    """What a layout found in a folder.

    Parameters
    ----------
    folder
        Where.
    paths
        Files by their role.
    missing
        Roles that no file was found for; the layout is complete without any.
    """

    folder: Path
    paths: dict[str, tuple[Path, ...]] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Parts:
    """What a layout read: the parts, and what it learned about classes on the way.

    Parameters
    ----------
    train
        Examples to train on.
    test
        Examples to test on; None where the files have none.
    class_names
        What the files call the classes; may be empty.
    """

    train: Examples
    test: Examples | None = None
    class_names: tuple[str, ...] = ()


class Layout(abc.ABC):
    """One way in which a dataset lies on disk."""

    slow: ClassVar[bool] = False
    """Whether decoding takes so long that the result is worth keeping."""

    @property
    @abc.abstractmethod
    def expects(self) -> str:
        """The files, in words."""

    @abc.abstractmethod
    def find(self, folder: Path) -> Files | None:
        """Return the files of this layout in a folder, or None if it has none of them."""

    @abc.abstractmethod
    def read(self, files: Files, *, verify: bool) -> Parts:
        """Decode complete files; with `verify`, refuse those that are not the published ones."""


def first_file(folder: Path, names: tuple[str, ...]) -> Path | None:
    """Return the first of `names` that is a file in `folder`."""
    return next((folder / name for name in names if (folder / name).is_file()), None)
