"""``fedcbs report``: any runs, compared in one file that can be sent by mail."""

from __future__ import annotations

import argparse

from fedcbs.cli._commands import Subparsers
from fedcbs.cli._console import check_target, tell

__all__ = ["add_parser", "run"]

DESCRIPTION = """\
Compare runs in one file. A page shows accuracy and balance over rounds, bytes or seconds, with bands over seeds; rounds to
a target; who was selected, and with which labels; accuracy of each class; time and bytes; and every chart as a table too.
It brings along all that it needs, so it works from a mail attachment, without a network.

Runs that differ in nothing but the seed are one line. Any runs can stand beside each other, also unfinished or diverged
ones, and those of a real federation, which knows less than a simulation. A run that diverged before its first round was
over has no numbers: a page shows how it ended; of a figure or a table, the command says what it leaves out."""

EXAMPLES = """\
examples:
  fedcbs report runs -o report.html
      all runs in a folder
  fedcbs report runs/uniform-0 runs/exact-0 -o report.html --title "Two runs" --targets 0.45,0.5
      two runs, and the rounds that they took to two accuracies
  fedcbs report --format pdf --panels accuracy,qcid -o figure.pdf runs
      two panels for a paper; .png and .svg likewise
  fedcbs report runs -o rounds.csv
      every round of every run, for other programs"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``fedcbs report``."""
    parser = subparsers.add_parser(
        "report",
        help="compare runs in one page, figure or table",
        description=DESCRIPTION,
        late_epilog=_epilog,
    )
    parser.set_defaults(run=run)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="a run directory, or a folder that holds some")
    parser.add_argument("-o", "--out", required=True, metavar="FILE", help="the file to write")
    parser.add_argument(
        "--format", metavar="FORMAT", help="html, pdf, png, svg or csv (default: what FILE ends in)"
    )
    parser.add_argument("--title", metavar="TEXT", help="title of the page")
    parser.add_argument(
        "--targets",
        type=_fractions,
        metavar="A[,A...]",
        help="accuracies to say the rounds to, such as 0.45,0.5 (default: those of the runs, or below what all reach)",
    )
    parser.add_argument(
        "--panels",
        metavar="NAME[,NAME...]",
        help="panels of a figure; see below (default: all there are numbers for)",
    )
    parser.add_argument("--quiet", action="store_true", help="say nothing but what is left out")


def run(args: argparse.Namespace) -> int:
    """Write the report."""
    from fedcbs.report import write_report
    from fedcbs.report._write import format_of

    format_of(args.out, args.format)
    check_target(args.out, "--out")
    panels = [name.strip() for name in args.panels.split(",") if name.strip()] if args.panels else None
    remarks = write_report(
        args.runs, args.out, format=args.format, title=args.title, targets=args.targets, panels=panels
    )
    if remarks.lacks:
        tell(f"fedcbs: {remarks.lacks}")
    if not args.quiet:
        tell(remarks.holds)
        tell(f"report: {args.out}")
    return 0


def _fractions(text: str) -> list[float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(0 < value <= 1 for value in values):
        raise argparse.ArgumentTypeError(
            f"{text!r} must be accuracies above 0 and at most 1, such as 0.45,0.5"
        )
    return values


def _epilog() -> str:
    from fedcbs.report._paper import PANELS

    return f"panels: {', '.join(PANELS)}\n\n{EXAMPLES}"
