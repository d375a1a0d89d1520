"""``fedcbs compare``: several selectors on several seeds, and a table of how they did."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcbs.cli._commands import Subparsers
from fedcbs.cli._console import print_json, progress_bar, show, tell
from fedcbs.cli._parser import at_least, listing
from fedcbs.cli._run import check_plot
from fedcbs.cli._run_options import add_run_options, config_of
from fedcbs.cli._run_progress import stops_politely

if TYPE_CHECKING:
    from fedcbs.runs import Comparison, RunConfig

__all__ = ["add_parser", "run"]

DEFAULT_SELECTORS = "uniform,pow-d,fedcbs-sharp"

DESCRIPTION = """\
Train with several selectors on several seeds, everything else alike: the same split, the same clients available in the same
rounds, the same first model. Runs go on in parallel, one a core; each has a directory of its own under --out. The same
command again goes on where it stopped.

What is reported for each selector, as mean and standard deviation over seeds:
  rounds to A      rounds until the test accuracy first reached A; by default the best A in whole percent that every run reached
  best             best test accuracy
  worst class      accuracy of the worst class, at the last evaluation
  QCID             imbalance of the cohorts' pooled labels, in units of 1e-2
  coverage         share of the clients ever selected
  up, down         traffic from clients and to them
  simulated        time that the rounds would have taken in the federation"""

EXAMPLES = """\
examples:
  fedcbs compare
      three selectors on digits
  fedcbs compare --partition case1-5to1 --clients 120 --selectors uniform,astraea,fedcbs-exact --plot case1.png
      one class a client, five times as many clients of some classes
  fedcbs compare --dataset cifar10 --target 0.45 --rounds 1500 --seeds 4 --out table1
      as in the paper's first table"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``fedcbs compare``."""
    parser = subparsers.add_parser(
        "compare",
        help="train with several selectors on several seeds, and compare",
        description=DESCRIPTION,
        late_epilog=_epilog,
    )
    parser.set_defaults(run=run)
    group = parser.add_argument_group("comparison")
    group.add_argument(
        "--selectors",
        default=DEFAULT_SELECTORS,
        metavar="NAME[,NAME...]",
        help="which to compare, each with options as in fedcbs-exact:sweeps=5 (default: %(default)s)",
    )
    group.add_argument(
        "--seeds", type=at_least(1), default=3, metavar="S", help="how many seeds (default: %(default)s)"
    )
    group.add_argument(
        "--jobs",
        "--processes",
        dest="processes",
        type=at_least(1),
        metavar="N",
        help="runs at a time (default: one a core)",
    )
    add_run_options(parser)
    output = parser.add_argument_group("output")
    output.add_argument(
        "-o", "--out", metavar="DIR", help="directory of all runs (default: runs/compare-DATASET)"
    )
    output.add_argument("--plot", metavar="FILE", help="draw a figure (.png, .pdf or .svg); needs matplotlib")
    output.add_argument("--json", action="store_true", help="print JSON, and nothing else")
    output.add_argument("--quiet", action="store_true", help="no progress, no table")


def run(args: argparse.Namespace) -> int:
    """Run the comparison and report."""
    check_plot(args.plot)
    config = config_of(args)
    selectors = [name.strip() for name in args.selectors.split(",") if name.strip()]
    out = Path(args.out) if args.out is not None else Path("runs") / _name(config)
    from fedcbs.runs import compare

    with stops_politely(), progress_bar("rounds", quiet=args.quiet) as progress:
        found = compare(
            config, selectors, out=out, seeds=args.seeds, processes=args.processes, progress=progress
        )
    return _report(args, found)


def _report(args: argparse.Namespace, found: Comparison) -> int:
    standings = found.standings()
    diverged = {name: standing.diverged for name, standing in standings.items() if standing.diverged}
    if args.json:
        rows = {name: standing.to_json() for name, standing in standings.items()}
        print_json({"directory": str(found.path), "targets": list(found.targets), "selectors": rows})
    elif not args.quiet:
        from fedcbs.cli._compare_table import remarks, table

        show(table(standings, found.targets), *remarks(found))
        tell(f"runs: {found.path}")
    for name, number in diverged.items():
        tell(f"fedcbs: {name} diverged on {number} of its seeds; lower --learning-rate")
    if args.plot is not None:
        from fedcbs.plotting import plot_runs

        plot_runs(found.runs, args.plot)
        if not args.quiet:
            tell(f"figure: {args.plot}")
    return 1 if diverged else 0


def _name(config: RunConfig) -> str:
    return "compare-" + config.data.dataset.replace(":", "-").replace("/", "-")


def _epilog() -> str:
    from fedcbs.selectors import selector_types

    kinds: dict[str, Any] = dict(selector_types())
    return "\n\n".join([listing("selectors", {name: kind.summary for name, kind in kinds.items()}), EXAMPLES])
