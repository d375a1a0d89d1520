"""``fedcbs experiment``: the tables and figures of the paper, run and put beside its numbers."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcbs.cli._commands import Subparsers
from fedcbs.cli._console import print_json, show, tell
from fedcbs.cli._parser import at_least, listing
from fedcbs.cli._run_progress import INTERRUPTED, Interrupt, stops_politely
from fedcbs.cli._sweep import _seeds, add_worker_options, executor_of, refuse_missing_data
from fedcbs.cli._sweep_progress import exit_code, say_outcomes, sweep_progress

if TYPE_CHECKING:
    from fedcbs.experiments import Experiment

__all__ = ["add_parser", "run"]

DESCRIPTION = """\
Run an experiment: one for each table and figure of the Fed-CBS paper, and some beyond it. Results stand beside the paper's
numbers, with the difference, and with whether the paper's order of methods held.

What is done is not done again: the same command goes on where it was stopped, by whatever stopped it. Results are written
from whatever runs are there, so they can be looked at while others still run.

The experiments are short TOML files in the package; a file of your own of the same form works as well."""

EXAMPLES = """\
examples:
  fedcbs experiment list
      all experiments, and about how long each takes on two cores
  fedcbs experiment qcid-labels
      the QCID tables, on labels alone
  fedcbs experiment --scale smoke --out trial all
      everything at a size that takes seconds, without any dataset
  fedcbs experiment fashion-dirichlet --scale laptop --data-dir ~/data/fashion-mnist --out results
      rounds to a target on Fashion-MNIST, reduced
  fedcbs experiment table1-cifar10 --scale paper --only setting=alpha-0.1 --only selector=uniform,fedcbs-exact --max-minutes 60
      an hour of a part of it; the same command goes on
  fedcbs experiment table1-cifar10 --scale paper --render
      the table of what is there; nothing is run"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``fedcbs experiment``."""
    parser = subparsers.add_parser(
        "experiment",
        help="run the paper's tables and figures, beside its numbers",
        description=DESCRIPTION,
        late_epilog=_epilog,
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "name", metavar="NAME", help="list, all, one of those below, or a file that ends in .toml"
    )
    parser.add_argument(
        "--scale",
        choices=("smoke", "laptop", "paper"),
        default="laptop",
        help="smoke (seconds), laptop (all of it in a night on two cores) or paper (default: %(default)s)",
    )
    parser.add_argument(
        "-o",
        "--out",
        default="experiment-runs",
        metavar="DIR",
        help="where runs and results go (default: %(default)s)",
    )
    parser.add_argument("--results", metavar="DIR", help="where results go (default: DIR/results/NAME-SCALE)")
    parser.add_argument("--data-dir", metavar="DIR", help="where the dataset's files are")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="KIND=NAME[,NAME...]",
        help="run only a setting or a selector (method), such as setting=alpha-0.1; may be repeated",
    )
    parser.add_argument(
        "--seeds", type=_seeds, metavar="N|S,S...", help="how many seeds, or which, such as 3,4"
    )
    parser.add_argument(
        "--rounds", type=at_least(1), metavar="R",
        help="rounds of each run to do for now, where fewer than the scale says; runs go on from there later",
    )  # fmt: skip
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="any key of the runs' configuration"
    )
    parser.add_argument("--render", action="store_true", help="run nothing; write down what is there")
    add_worker_options(parser)
    parser.add_argument("--json", action="store_true", help="print what was found as JSON, and nothing else")
    parser.add_argument("--quiet", action="store_true", help="no progress, no table")


def run(args: argparse.Namespace) -> int:
    """Run experiments and report."""
    if args.name == "list":
        show(_table())
        return 0
    from fedcbs.errors import InvalidArgumentError
    from fedcbs.experiments import experiment, experiment_names

    names = experiment_names() if args.name == "all" else [args.name]
    end = None if args.max_minutes is None else time.monotonic() + 60 * args.max_minutes
    codes = []
    for name in names:  # all of them together have the time that there is
        if end is not None:
            args.max_minutes = max((end - time.monotonic()) / 60, 1e-6)
        try:
            codes.append(_run_one(experiment(name), args))
        except InvalidArgumentError as error:
            if not (args.render and args.name == "all"):
                raise
            tell(str(error))  # none of its runs is there; others may be
            continue
        if codes[-1] == INTERRUPTED:
            break
    return max(codes, default=1)


def _run_one(found: Experiment, args: argparse.Namespace) -> int:
    from fedcbs.experiments import Choice, collect, jobs_of, markdown, run_experiment
    from fedcbs.experiments._run import say_nothing
    from fedcbs.runs import parse_assignment

    scale, out = found.scale(args.scale), Path(args.out)
    options: dict[str, Any] = dict(parse_assignment(text) for text in args.set)
    if args.data_dir is not None:
        options["data.directory"] = args.data_dir
    choice = Choice.of(args.only, args.seeds or ())
    choice.check(found)
    results = Path(args.results) if args.results is not None else None
    interrupt = Interrupt()
    quiet = args.quiet or args.json
    if args.render:
        done = collect(found, scale, out, results=results)
    else:
        executor, threads = executor_of(args)
        part = {"choice": choice, "options": options, "threads": threads, "rounds": args.rounds}
        jobs = jobs_of(found, scale, out, **part)
        if args.ray is None:
            refuse_missing_data(jobs)
        with stops_politely() as interrupt, sweep_progress(jobs, quiet=quiet) as watch:
            done = run_experiment(
                found, scale, out, executor, **part, max_minutes=args.max_minutes, watch=watch,
                tell=say_nothing if quiet else tell, results=results,
            )  # fmt: skip
    if args.json:
        print_json(done.document)
    elif not args.quiet:
        show(_page(markdown(done.document)))
    code = exit_code(done.outcomes)
    if done.outcomes and (code or not quiet):
        say_outcomes(done.outcomes)
    if not quiet:
        tell(f"results: {done.folder}")
    return INTERRUPTED if interrupt.came else code


def _page(text: str) -> Any:
    """Markdown, drawn on a screen; as it is where it goes into a file or a pipe."""
    from rich.markdown import Markdown
    from rich.text import Text

    return Markdown(text) if sys.stdout.isatty() else Text(text.rstrip("\n"), overflow="ignore", no_wrap=True)


def _table() -> Any:
    """All experiments, with about how long they take."""
    from rich.table import Table

    from fedcbs.experiments import SCALES, core_seconds, experiment, experiment_names

    grid = Table(box=None, pad_edge=False, header_style="bold")
    grid.add_column("experiment", no_wrap=True)
    for scale in SCALES:
        grid.add_column(scale, justify="right", no_wrap=True)
    grid.add_column("in the paper")
    grid.add_column("what")
    totals = dict.fromkeys(SCALES, 0.0)
    for name in experiment_names():
        found = experiment(name)
        shared = found.runs != found.name
        seconds = {scale: 0.0 if shared else core_seconds(found, found.scale(scale)) for scale in SCALES}
        for scale in SCALES:
            totals[scale] += seconds[scale]
        times = [
            f"as {found.runs}" if shared and i == 0 else "" if shared else _time(seconds[s])
            for i, s in enumerate(SCALES)
        ]
        grid.add_row(name, *times, found.paper, found.title)
    grid.add_section()
    grid.add_row(
        "all",
        *(_time(totals[scale]) for scale in SCALES),
        "",
        "about, on two cores; runs that end at a target take less",
    )
    return grid


def _time(core_seconds: float) -> str:
    """Core seconds as time on two cores.

    >>> _time(100), _time(10_000), _time(100_000)
    ('50 s', '1.4 h', '14 h')
    """
    seconds = core_seconds / 2
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5000 else f"{seconds / 3600:.2g} h"


def _epilog() -> str:
    from fedcbs.experiments import experiment, experiment_names

    return "\n\n".join(
        [listing("experiments", {name: experiment(name).title for name in experiment_names()}), EXAMPLES]
    )
