"""``fedcbs run``: train a federation, and write down what happens."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcbs.cli._commands import Subparsers
from fedcbs.cli._console import print_json, show, tell
from fedcbs.cli._parser import listing
from fedcbs.cli._run_options import add_run_options, config_of, names_of_run
from fedcbs.cli._run_progress import run_progress, told_how_to_go_on

if TYPE_CHECKING:
    from fedcbs.runs import Run

__all__ = ["add_output_options", "add_parser", "report", "run"]

DESCRIPTION = """\
Train a model in a simulated federation: split a dataset among clients, let them come and go, let a selector pick a cohort
each round, train it, and move the global model. Everything random follows from the seed.

The directory that it writes has the configuration with all defaults filled in (config.json), one line a round
(rounds.jsonl: cohort, QCID, loss, accuracy, bytes, seconds), checkpoints, the final model (model.safetensors) and a
summary. `fedcbs resume DIR` goes on after a crash, a full disk or Ctrl-C, and ends bit for bit as if nothing had happened.

What you leave out has the paper's value where it has one: 200 clients by Dirichlet 0.1, 30% available, 10 picked, 5 epochs
of the largest client in batches of 50, learning rate 0.01 * 0.9992^round. docs/training.md explains every key."""

EXAMPLES = """\
examples:
  fedcbs run
      digits, the embedded dataset, in seconds; writes runs/digits-fedcbs-sharp-seed0
  fedcbs run --dataset fashion-mnist --data-dir ~/data --selector uniform --algorithm fednova --rounds 300 --out fm
      Fashion-MNIST from a folder
  fedcbs run --dataset cifar10 --partition case1-5to1 --target 0.45,0.5 --stop-at 0.5 --out cifar
      stop when the test accuracy reaches 50%
  fedcbs run --algorithm scaffold+fedavgm --set availability.dropout=0.1 --set availability.deadline=60
      clients that drop out, and a deadline
  fedcbs run --config experiment.toml --seed 4 --out seed4
      a file, and one option other than it says"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``fedcbs run``."""
    parser = subparsers.add_parser(
        "run",
        help="train a federation, and write down what happens",
        description=DESCRIPTION,
        late_epilog=_epilog,
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "--selector",
        dest="run:selector",
        metavar="NAME",
        help="who is picked, with options as in fedcbs-exact:sweeps=5 (default: fedcbs-sharp)",
    )
    add_run_options(parser)
    add_output_options(parser)


def add_output_options(parser: argparse.ArgumentParser, *, out: bool = True) -> None:
    """Add what :func:`report` reads."""
    group = parser.add_argument_group("output")
    if out:
        group.add_argument("-o", "--out", metavar="DIR", help="directory to make (default: runs/NAME)")
    group.add_argument("--plot", metavar="FILE", help="draw a figure (.png, .pdf or .svg); needs matplotlib")
    group.add_argument("--json", action="store_true", help="print the summary as JSON, and nothing else")
    group.add_argument("--quiet", action="store_true", help="no progress, no summary")


def run(args: argparse.Namespace) -> int:
    """Run a federation and report."""
    check_plot(args.plot)
    config = config_of(args)
    out = Path(args.out) if args.out is not None else Path("runs") / names_of_run(config)
    from fedcbs.runs import start

    with told_how_to_go_on(out), run_progress(config.run.rounds, quiet=args.quiet) as watch:
        found = start(config, out, watch=watch, note=None if args.quiet else tell)
    return report(args, found)


def check_plot(path: str | None) -> None:
    """Refuse a figure that could not be drawn, before long work starts."""
    if path is not None:
        from fedcbs.plotting import check_figure_path

        check_figure_path(path)


def report(args: argparse.Namespace, found: Run) -> int:
    """Print and draw what came of a run."""
    if args.json:
        print_json({"run": str(found.path), "config": found.config, **(found.summary or {})})
    elif not args.quiet:
        show(_table(found))
        tell(f"run: {found.path}")
    if args.plot is not None:
        from fedcbs.plotting import plot_runs

        plot_runs({found.config["selector"]["name"]: [found]}, args.plot)
        if not args.quiet:
            tell(f"figure: {args.plot}")
    return 0


def _table(found: Run) -> Any:
    from rich.table import Table

    from fedcbs.cli._run_table import summary_rows

    grid = Table(box=None, pad_edge=False, show_header=False)
    grid.add_column(style="bold")
    grid.add_column()
    for title, value in summary_rows(found):
        grid.add_row(title, value)
    return grid


def _epilog() -> str:
    from fedcbs.runs import algorithm_summaries
    from fedcbs.selectors import selector_types

    locals_, servers = algorithm_summaries()
    return "\n\n".join(
        [
            listing("local methods (--algorithm)", locals_),
            listing("server rules (--algorithm)", servers),
            listing("selectors", {name: kind.summary for name, kind in selector_types().items()}),
            EXAMPLES,
        ]
    )
