"""Where datasets are looked for: the folder given, then those of FEDCBS_DATA, then the hub's cache."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from fedcbs.data._hub import Hub, check_blob, hub_cache, snapshot
from fedcbs.data._known import Known
from fedcbs.data._layout import Files, Layout
from fedcbs.errors import DataFileError, InvalidArgumentError, MissingDataError

__all__ = ["VARIABLE", "checked_folder", "find_folder", "find_hub", "find_known", "roots"]

VARIABLE = "FEDCBS_DATA"
"""Environment variable that names folders to look in, separated as in PATH."""


def roots(data_dir: str | os.PathLike[str] | None) -> list[Path]:
    """Return the folders to look in, in order: `data_dir`, then those of the environment."""
    given = [] if data_dir is None else [checked_folder(data_dir, "data_dir")]
    named = [text for text in os.environ.get(VARIABLE, "").split(os.pathsep) if text]
    return given + [checked_folder(text, VARIABLE) for text in named]


def find_known(known: Known, data_dir: str | os.PathLike[str] | None = None) -> tuple[Layout, Files]:
    """Return the first complete copy of a published dataset.

    Raises
    ------
    MissingDataError
        There is none; the message says where it was looked for, and what for.
    """
    partial: list[Files] = []
    folders = roots(data_dir)
    for place in _places(known, folders):
        for layout in known.layouts:
            files = layout.find(place)
            if files is not None and not files.missing:
                return layout, files
            if files is not None:
                partial.append(files)
    raise MissingDataError(_message(known, folders, partial))


def find_hub(layout: Layout, hub: Hub, data_dir: str | os.PathLike[str] | None = None) -> Files:
    """Return the files of a dataset of the hub, from a folder that has its name or from the hub's cache."""
    folders = roots(data_dir)
    names = (hub.repo, hub.repo.replace("/", "__"), hub.repo.rpartition("/")[2])
    for place in (root / name for root in folders for name in names):
        if place.is_dir():
            return complete(layout, place)
    cached = snapshot(hub)
    if cached is None:
        where = ", ".join(repr(str(folder)) for folder in (*folders, hub_cache()))
        revision = f",revision={hub.revision}" if hub.revision else ""
        raise MissingDataError(
            f"dataset='hf:{hub.repo}' was found nowhere; looked in: {where}. Get it with"
            f" 'fedcbs data get hf:{hub.repo}{revision}', or name its folder, as in 'hf:PATH'"
        )
    return complete(layout, cached)


def find_folder(path: str, data_dir: str | os.PathLike[str] | None) -> Path | None:
    """Return a folder of this name, from here or in one of the folders to look in."""
    here = Path(path).expanduser()
    if here.is_dir():
        return here
    return next((root / path for root in roots(data_dir) if (root / path).is_dir()), None)


def complete(layout: Layout, folder: Path) -> Files:
    """Return all the files of a layout in a folder that must have them."""
    files = layout.find(folder)
    if files is None:
        raise DataFileError(f"{str(folder)!r} has none of what it should have: {layout.expects}")
    if files.missing:
        raise DataFileError(
            f"{str(folder)!r} lacks {', '.join(files.missing)}; it should have: {layout.expects}"
        )
    for path in (path for paths in files.paths.values() for path in paths):
        check_blob(path)
    return files


def checked_folder(path: str | os.PathLike[str], name: str) -> Path:
    """Return `path` if it is a folder."""
    try:
        folder = Path(path).expanduser()
        is_folder = folder.is_dir()
    except (TypeError, ValueError, OSError, RuntimeError):
        folder, is_folder = Path(), False
    if not is_folder:
        raise InvalidArgumentError(f"{name}={str(path)!r} is no folder; check the spelling")
    return folder


def _places(known: Known, folders: Sequence[Path]) -> Iterator[Path]:
    """Folders that may have a dataset: those with its name before the one that has them all."""
    for root in folders:
        yield from (root / name for name in known.folders if (root / name).is_dir())
        yield root
    if known.hub is None:
        return
    # Another commit will do where the contents can be told from others.
    for hub in (known.hub, Hub(known.hub.repo)) if known.digests else (known.hub,):
        cached = snapshot(hub)
        if cached is not None:
            yield cached


def _message(known: Known, folders: Sequence[Path], partial: Sequence[Files]) -> str:
    where = ", ".join(repr(str(folder)) for folder in (*folders, hub_cache()))
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
