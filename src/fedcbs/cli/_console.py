"""What commands print: results on the standard output, everything else on the standard error."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from fedcbs.errors import InvalidArgumentError

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = [
    "check_target",
    "console_width",
    "print_json",
    "progress_bar",
    "show",
    "tell",
    "versions",
    "write_bytes",
    "write_json",
]

WIDTH_OF_FILES = 240
"""Columns of a table that goes into a file or a pipe, where there is no screen to fit."""


def show(*parts: RenderableType) -> None:
    """Print tables and texts on the standard output, in colour on a terminal."""
    from rich.console import Console

    console = Console(width=console_width(), highlight=False)
    for part in parts:
        console.print(part)


def console_width() -> int:
    """Columns that :func:`show` has: those of the screen, or many where there is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH_OF_FILES


def tell(message: str) -> None:
    """Print a remark on the standard error."""
    sys.stderr.write(f"{message}\n")


def print_json(document: object) -> None:
    """Print a document as JSON on the standard output."""
    sys.stdout.write(_as_json(document))


def write_json(document: object, path: str) -> None:
    """Write a document as JSON to a file, whole or not at all."""
    write_bytes(_as_json(document).encode(), path)


def write_bytes(content: bytes, path: str) -> None:
    """Write a file, whole or not at all."""
    from fedcbs._files import write_whole

    def write(file: BinaryIO) -> None:
        file.write(content)

    write_whole(path, write)


def check_target(path: str, option: str) -> None:
    """Refuse a file that could not be written, before long work starts."""
    target = Path(path)
    if target.is_dir():
        raise InvalidArgumentError(f"{option} {path!r} is a folder; name a file in it")
    if not target.parent.is_dir():
        raise InvalidArgumentError(
            f"{option} {path!r}: there is no folder {str(target.parent)!r}; make it first"
        )
    if not os.access(target.parent, os.W_OK):
        raise InvalidArgumentError(
            f"{option} {path!r}: the folder {str(target.parent)!r} cannot be written to; name another"
        )


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    import platform

    import numpy as np

    import fedcbs

    return {"fedcbs": fedcbs.__version__, "numpy": np.__version__, "python": platform.python_version()}


@contextlib.contextmanager
def progress_bar(label: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Give a function that takes (done, total), and draws a bar if somebody watches the standard error."""
    if quiet or not sys.stderr.isatty():
        yield _draw_nothing
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _as_json(document: object) -> str:
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _draw_nothing(done: int, total: int) -> None:
    """Stand for a bar that nobody would see."""
