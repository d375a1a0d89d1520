"""Figures go to files whole or not at all, and the same figure gives the same file."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from fedcbs._files import write_whole
from fedcbs.errors import InvalidArgumentError, MissingExtraError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SUFFIXES", "check_figure_path", "require_matplotlib", "save_figure"]

SUFFIXES = (".png", ".pdf", ".svg")
"""What a figure can be saved as."""

_UNDATED: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".pdf": {"CreationDate": None},
    ".svg": {"Date": None},
}


def require_matplotlib() -> None:
    """Refuse to go on without matplotlib; does not import it."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtraError("matplotlib", extra="plot", purpose="drawing a figure")


def check_figure_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a figure to be drawn later, if it can be.

    >>> check_figure_path("balance.jpeg")
    Traceback (most recent call last):
    ...
    fedcbs.errors.InvalidArgumentError: figure 'balance.jpeg' must end in .png, .pdf or .svg
    """
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise InvalidArgumentError(f"figure {str(target)!r} must end in .png, .pdf or .svg")
    if target.is_dir() or not target.parent.is_dir() or not os.access(target.parent, os.W_OK):
        raise InvalidArgumentError(
            f"figure {str(target)!r} must be a file in a folder that exists and can be written to; make it first"
        )
    require_matplotlib()
    return target


def save_figure(figure: Figure, path: str | os.PathLike[str], *, dpi: int = 160) -> None:
    """Write a figure in the format that the path ends in."""
    target = check_figure_path(path)
    suffix = target.suffix.lower()

    def write(file: BinaryIO) -> None:
        figure.savefig(file, format=suffix[1:], dpi=dpi, metadata=_UNDATED[suffix])

    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "fedcbs", "svg.fonttype": "path"}):
        write_whole(target, write)
