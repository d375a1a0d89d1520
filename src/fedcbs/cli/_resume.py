"""``fedcbs resume``: go on with a run that stopped."""

from __future__ import annotations

import argparse

from fedcbs.cli._commands import Subparsers
from fedcbs.cli._console import tell
from fedcbs.cli._parser import at_least
from fedcbs.cli._run import add_output_options, check_plot, report
from fedcbs.cli._run_progress import run_progress, told_how_to_go_on

__all__ = ["add_parser", "run"]

DESCRIPTION = """\
Go on with a run from its last checkpoint: after Ctrl-C, kill -9, power loss or a full disk. What comes out is bit for bit what
an uninterrupted run would have given, on the same versions of fedcbs and PyTorch. A run that is finished is left as it is."""

EXAMPLES = """\
examples:
  fedcbs resume runs/digits-fedcbs-sharp-seed0
  fedcbs resume --rounds 500 runs/digits-fedcbs-sharp-seed0
      go on beyond the old end"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``fedcbs resume``."""
    parser = subparsers.add_parser(
        "resume", help="go on with a run that stopped", description=DESCRIPTION, epilog=EXAMPLES
    )
    parser.set_defaults(run=run)
    parser.add_argument("directory", metavar="DIR", help="what `fedcbs run` made")
    parser.add_argument("--rounds", type=at_least(1), metavar="R", help="a new number of rounds")
    parser.add_argument("--data-dir", metavar="DIR", help="where the dataset's files are, if they were moved")
    parser.add_argument(
        "--threads", type=at_least(1), metavar="T", help="a new number of threads of the engine"
    )
    add_output_options(parser, out=False)


def run(args: argparse.Namespace) -> int:
    """Go on with a run and report."""
    check_plot(args.plot)
    from fedcbs.runs import read_run, resume

    rounds = args.rounds or read_run(args.directory).config["run"]["rounds"]
    with told_how_to_go_on(args.directory), run_progress(rounds, quiet=args.quiet) as watch:
        found = resume(
            args.directory,
            rounds=args.rounds,
            threads=args.threads,
            data_dir=args.data_dir,
            watch=watch,
            note=None if args.quiet else tell,
        )
    return report(args, found)
