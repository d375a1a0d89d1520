"""Reports as files: a page, a figure or a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from fedcbs._files import write_whole
from fedcbs.errors import InvalidArgumentError, UnknownNameError
from fedcbs.report._groups import Group, group_runs
from fedcbs.report._measure import longest
from fedcbs.report._remarks import Remarks, remarks_on
from fedcbs.report._run import load_runs

__all__ = ["FORMATS", "format_of", "write_report"]

FORMATS = ("html", "pdf", "png", "svg", "csv")
"""What a report can be written as."""


def format_of(path: str | os.PathLike[str], format: str | None = None) -> str:  # noqa: A002  # the option's name
    """Return the format of a report: the one asked for, or the one that the file's name ends in.

    >>> format_of("report.html"), format_of("rounds", "csv")
    ('html', 'csv')
    """
    name = (format or Path(path).suffix.removeprefix(".")).lower()
    if name not in FORMATS:
        if format is None:
            raise InvalidArgumentError(
                f"out={str(path)!r} must end in one of {', '.join(FORMATS)}, or name the format beside it"
            )
        raise UnknownNameError("format", format, FORMATS)
    return name


def write_report(
    runs: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002  # the option's name
    title: str | None = None,
    targets: Sequence[float] | None = None,
    panels: Sequence[str] | None = None,
) -> Remarks:
    """Compare runs in one file, whole or not at all; return what it holds and lacks.

    Runs that differ in nothing but the seed are drawn as one line with a band. Runs may be unfinished or diverged, also
    before their first round, and may lack whatever a real federation does not know.

    Parameters
    ----------
    runs
        Run directories, or folders that hold them.
    out
        The file.
    format
        One of :data:`FORMATS`; by what `out` ends in, where it is not given.
    title
        Title of a page.
    targets
        Accuracies to say the rounds to; chosen by what runs reached where none are given.
    panels
        Panels of a figure; see :data:`fedcbs.report.PANELS`.
    """
    kind = format_of(out, format)
    if panels is not None and kind in ("html", "csv"):
        raise InvalidArgumentError(
            f"panels={','.join(panels)!r}: a {kind} file has none; leave them out, or write a .pdf, .png or .svg file"
        )
    groups = group_runs(load_runs(runs))
    if kind in ("pdf", "png", "svg"):
        from fedcbs.report._paper import write_figure

        write_figure(_drawable(groups, out), out, kind=kind, panels=panels)
        return remarks_on(groups, kind)
    if kind == "csv":
        from fedcbs.report._csv import table_of_rounds

        text = table_of_rounds(groups)
    else:
        from fedcbs.report._page import page

        text = page(groups, title=title or "Runs compared", targets=targets)
    content = text.encode("utf-8", errors="replace")

    def write(file: BinaryIO) -> None:
        file.write(content)

    write_whole(out, write)
    return remarks_on(groups, kind)


def _drawable(groups: Sequence[Group], out: str | os.PathLike[str]) -> list[Group]:
    found = [group for group in groups if longest(group).rounds.size]
    if not found:
        raise InvalidArgumentError(
            f"out={str(out)!r}: none of these runs has a round to draw; write a page (.html), which says how they ended"
        )
    return found
