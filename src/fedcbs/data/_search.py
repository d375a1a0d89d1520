"""Where datasets are looked for: the folder given, then those of FEDCBS_DATA, then the hub's cache."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fedcbs.data._known import Known
from fedcbs.data._layout import Files, Layout
from fedcbs.errors import InvalidArgumentError, MissingDataError

__all__ = ["VARIABLE", "find_known", "roots"]

VARIABLE = "FEDCBS_DATA"
"""Environment variable that names folders to look in, separated as in PATH."""


def roots(data_dir: str | os.PathLike[str] | None) -> list[Path]:
    """Return the folders to look in, in order: `data_dir`, then those of the environment."""
    found = []
    if data_dir is not None:
        found.append(_folder(data_dir, "data_dir"))
    named = [text for text in os.environ.get(VARIABLE, "").split(os.pathsep) if text]
    return found + [_folder(text, VARIABLE) for text in named]


def find_known(known: Known, data_dir: str | os.PathLike[str] | None = None) -> tuple[Layout, Files]:
    """Return the first complete copy of a dataset.

    Raises
    ------
    MissingDataError
        There is none; the message says where it was looked for, and what for.
    """
    partial: list[Files] = []
    folders = roots(data_dir)
    for root in folders:
        for place in [*(root / name for name in known.folders), root]:
            for layout in known.layouts if place.is_dir() else ():
                files = layout.find(place)
                if files is not None and not files.missing:
                    return layout, files
                if files is not None:
                    partial.append(files)
    raise MissingDataError(_message(known, folders, partial))


def _message(known: Known, folders: Sequence[Path], partial: Sequence[Files]) -> str:
    where = ", ".join(repr(str(folder)) for folder in folders) or "no folder, for none was named"
    parts = [f"dataset={known.name!r} was found nowhere; looked in: {where}."]
    parts += [
        f"{str(files.folder)!r} has a part of it, but not {', '.join(files.missing)}." for files in partial
    ]
    expected = "; or ".join(layout.expects for layout in known.layouts)
    parts.append(f"Expected, in a folder or in its {known.folders[0]!r}: {expected}.")
    parts.append(
        f"Get it with 'fedcbs data get {known.name}', or name the folder that has it by --data-dir or {VARIABLE}"
    )
    return " ".join(parts)


def _folder(path: str | os.PathLike[str], name: str) -> Path:
    try:
        folder = Path(path).expanduser()
        is_folder = folder.is_dir()
    except (TypeError, ValueError, OSError, RuntimeError):
        folder, is_folder = Path(), False
    if not is_folder:
        raise InvalidArgumentError(f"{name}={os.fspath(path)!r} is no folder; check the spelling")
    return folder
