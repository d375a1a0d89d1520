"""``fedcbs balance``: how balanced the cohorts of different selectors are, without training."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING, Any

from fedcbs.cli._commands import Subparsers
from fedcbs.cli._console import (
    check_target,
    print_json,
    progress_bar,
    show,
    tell,
    versions,
    write_json,
)
from fedcbs.cli._parser import at_least, listing
from fedcbs.cli._population import add_population_options, population_of, population_settings

if TYPE_CHECKING:
    from fedcbs.laboratory import BalanceResult, Population
    from fedcbs.selectors import Selector

__all__ = ["add_parser", "run"]

DEFAULT_SELECTORS = "everyone,uniform,astraea,fedcbs-paper,fedcbs-sharp,fedcbs-exact"

DESCRIPTION = """\
Compare selectors on labels alone: draw a population, let clients come and go, let each selector pick a cohort every
round, and report how far the cohorts' pooled labels are from balanced. Nothing is trained, so it takes seconds.

What is reported for each selector:
  QCID       sum over classes of (share of the class in the cohort's data - 1/B)^2, in units of 1e-2; 0 is balanced.
             Mean over rounds, then mean and standard deviation over seeds
  lowest     lowest QCID of any of its cohorts
  coverage   share of the clients ever selected
  Gini       how unevenly clients were selected: 0 all alike, towards 1 few take all
  selected   times that the least and the most selected client was selected
  time       median time of one selection

All selectors see the same populations and the same available clients. The same seed gives the same result."""

EXAMPLES = """\
examples:
  fedcbs balance
      the paper's setting at alpha 0.1: 200 clients, 30% available, 10 picked
  fedcbs balance --partition case2 --availability class-quota:10,2 --plot balance.png
      one class per client, and five times as many of some classes available; with a figure
  fedcbs balance --selectors uniform,fedcbs-exact,fedcbs-exact:sweeps=10:exploration=0 --rounds 300
      a selector with other options, beside itself
  fedcbs balance --partition counts:hospitals.csv --cohort-size 5 --availability markov:0.1,0.3
      your own label counts: one line per client, one column per class
  fedcbs balance --clients 1000000 --cohort-size 100 --rounds 3 --seeds 1 --selectors uniform,fedcbs-exact
      a million clients
  fedcbs balance --json | python -c 'import json, sys; print(json.load(sys.stdin)["selectors"].keys())'
      for scripts: the numbers under "selectors", by name"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``fedcbs balance``."""
    parser = subparsers.add_parser(
        "balance",
        help="compare selectors on labels alone: balance, coverage, speed",
        description=DESCRIPTION,
        late_epilog=_epilog,
    )
    parser.set_defaults(run=run)
    add_population_options(parser)
    group = parser.add_argument_group("rounds")
    group.add_argument(
        "--availability",
        default="uniform:0.3",
        metavar="RULE",
        help="who can be picked in a round; see below (default: %(default)s)",
    )
    group.add_argument(
        "--cohort-size",
        type=at_least(1),
        default=10,
        metavar="M",
        help="clients to pick (default: %(default)s)",
    )
    group.add_argument(
        "--rounds", type=at_least(1), default=100, metavar="R", help="rounds of a seed (default: %(default)s)"
    )
    group.add_argument(
        "--seeds", type=at_least(1), default=4, metavar="S", help="populations to draw (default: %(default)s)"
    )
    group.add_argument(
        "--seed", type=at_least(0), default=0, metavar="S", help="the first seed (default: %(default)s)"
    )
    group.add_argument(
        "--selectors",
        default=DEFAULT_SELECTORS,
        metavar="NAME[,NAME...]",
        help="which to compare, each with options as in fedcbs-exact:sweeps=5; 'all' for all that need no training;"
        " see below (default: %(default)s)",
    )
    group.add_argument(
        "--durations",
        default="lognormal:0.5",
        metavar="lognormal:SIGMA[,NOISE]",
        help="how much clients differ in speed, for selectors that look at it, and a client from round to round"
        " (default: %(default)s)",
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--json", action="store_true", help="print JSON, and nothing else, on the standard output"
    )
    output.add_argument(
        "-o", "--out", metavar="FILE", help="write the JSON to a file, with the QCID of every round"
    )
    output.add_argument("--plot", metavar="FILE", help="draw a figure (.png, .pdf or .svg); needs matplotlib")
    output.add_argument("--quiet", action="store_true", help="no progress bar, no table")


def run(args: argparse.Namespace) -> int:
    """Run the comparison and report."""
    if args.out is not None:
        check_target(args.out, "--out")
    if args.plot is not None:
        from fedcbs.plotting import check_figure_path

        check_figure_path(args.plot)
    from fedcbs.laboratory import balance, named_selectors

    selectors = named_selectors(_names(args.selectors))
    population = population_of(args)
    with progress_bar("rounds", quiet=args.quiet) as progress:
        result = balance(
            selectors,
            population,
            availability=args.availability,
            cohort_size=args.cohort_size,
            rounds=args.rounds,
            seeds=args.seeds,
            seed=args.seed,
            durations=args.durations,
            progress=progress,
        )
    _report(args, result, _settings(args, population, selectors))
    return 0


def _report(args: argparse.Namespace, result: BalanceResult, settings: dict[str, Any]) -> None:
    document = {"settings": settings, "versions": versions(), **result.summary()}
    if args.json:
        print_json(document)
    elif not args.quiet:
        from fedcbs.cli._balance_table import remarks, table

        show(table(result), *remarks(result))
    if args.out is not None:
        for name, found in result.items():
            document["selectors"][name]["qcid_by_round"] = _without_nan(found.qcid.tolist())
        write_json(document, args.out)
    if args.plot is not None:
        from fedcbs.plotting import plot_balance

        plot_balance(result, args.plot)
    written = [f"{kind}: {path}" for kind, path in (("numbers", args.out), ("figure", args.plot)) if path]
    if written and not args.quiet:
        tell("\n".join(written))


def _names(text: str) -> list[str]:
    from fedcbs.laboratory import suitable_names

    names = [name.strip() for name in text.split(",") if name.strip()]
    return suitable_names() if names == ["all"] else names


def _settings(
    args: argparse.Namespace, population: Population, selectors: dict[str, Selector[Any]]
) -> dict[str, Any]:
    return {
        **population_settings(args, population),
        "availability": args.availability,
        "cohort_size": args.cohort_size,
        "rounds": args.rounds,
        "seeds": list(range(args.seed, args.seed + args.seeds)),
        "durations": args.durations,
        "selectors": {
            name: {"selector": selector.name, **dataclasses.asdict(selector)}
            for name, selector in selectors.items()
        },
    }


def _without_nan(rows: list[list[float]]) -> list[list[float | None]]:
    return [[None if value != value else value for value in row] for row in rows]


def _epilog() -> str:
    from fedcbs.availability import list_availabilities
    from fedcbs.laboratory import suitable_names
    from fedcbs.partition import list_partitions
    from fedcbs.selectors import selector_types

    types = selector_types()
    return "\n\n".join(
        [
            listing("partition schemes", list_partitions()),
            listing("rules of availability", list_availabilities()),
            listing(
                "selectors (fedcbs selectors tells more, also of those that need training)",
                {name: types[name].summary for name in suitable_names()},
            ),
            EXAMPLES,
        ]
    )
