"""``fedcbs sweep``: many runs, over seeds, selectors and any value."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fedcbs.cli._commands import Subparsers
from fedcbs.cli._console import print_json, tell
from fedcbs.cli._parser import at_least, positive
from fedcbs.cli._run_progress import INTERRUPTED, stops_politely
from fedcbs.cli._sweep_progress import exit_code, say_outcomes, sweep_progress

if TYPE_CHECKING:
    from fedcbs.sweeps import Executor, Job, Plan

__all__ = ["add_parser", "add_worker_options", "executor_of", "refuse_missing_data", "run"]

DESCRIPTION = """\
Run every combination of selectors, seeds and values of the configuration. Runs that are done are not done again: the same
command goes on where it was stopped, by whatever stopped it. A run that fails, or diverges, takes no other along.

The directory that it writes has one run directory for each combination, with a name that says which; `fedcbs report DIR`
compares them."""

EXAMPLES = """\
examples:
  fedcbs sweep --selectors uniform,fedcbs-exact --seeds 3 --set rounds=50 --out runs
      two selectors, three seeds each
  fedcbs sweep --set training.learning_rate=0.01,0.1 --set "availability=['class-quota:9,3','uniform:0.3']" --out grid
      four combinations; square brackets where a value has a comma in it
  fedcbs sweep sweep.toml --out runs --max-minutes 60
      an hour of what a file says; run it again to go on. In the file:
        seeds = 4
        selectors = ["uniform", "fedcbs-exact"]
        [vary]
        "partition.alpha" = [0.1, 0.5]
        [config.data]
        dataset = "fashion-mnist"
  fedcbs sweep sweep.toml --out /shared/runs --ray auto
      on a Ray cluster whose machines share the folder"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``fedcbs sweep``."""
    parser = subparsers.add_parser(
        "sweep",
        help="many runs, over seeds, selectors and any value",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    parser.set_defaults(run=run)
    parser.add_argument("file", nargs="?", metavar="FILE", help="TOML file; options go before what it says")
    parser.add_argument("--selectors", metavar="NAME[,NAME...]", help="who picks the cohorts")
    parser.add_argument(
        "--seeds",
        type=_seeds,
        metavar="N|S,S...",
        help="how many seeds, from 0 on; or which, such as 3,4 or 3,",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE[,VALUE...]",
        help="any key of a run's configuration; with several values, each is run; may be repeated",
    )
    parser.add_argument(
        "-o", "--out", default="runs", metavar="DIR", help="where the runs go (default: %(default)s)"
    )
    parser.add_argument("--list", action="store_true", help="list the runs and how they stand; run nothing")
    add_worker_options(parser)
    parser.add_argument(
        "--json", action="store_true", help="print how each run ended as JSON, and nothing else"
    )
    parser.add_argument("--quiet", action="store_true", help="say nothing but what went wrong")


def add_worker_options(parser: argparse.ArgumentParser) -> None:
    """Add what :func:`executor_of` reads, and the time limit."""
    group = parser.add_argument_group("where, and how long")
    group.add_argument(
        "--jobs",
        type=at_least(1),
        metavar="N",
        help="runs at a time (default: one a core, each with one thread)",
    )
    group.add_argument(
        "--ray", metavar="ADDRESS", help="run on a Ray cluster: auto, local, or ray://HOST:10001"
    )
    group.add_argument(
        "--max-minutes", type=positive, metavar="M", help="stop after that time, each run with a checkpoint"
    )


def executor_of(args: argparse.Namespace) -> tuple[Executor, int]:
    """Return where runs are done, and the threads of each; 0 for as many as there are cores."""
    import os

    from fedcbs.sweeps import Here, RayCluster, local

    if args.ray is not None:
        return RayCluster(args.ray), 0
    executor = local(args.jobs)
    if isinstance(executor, Here):
        return executor, 0
    cores = os.cpu_count() or 1
    return executor, max(1, cores // (args.jobs or cores))


def refuse_missing_data(jobs: Sequence[Job]) -> None:
    """Raise where none of the runs that are left can start, because their published dataset is not on this machine."""
    from fedcbs.data import published_datasets
    from fedcbs.data._search import find_known
    from fedcbs.errors import MissingDataError
    from fedcbs.sweeps._work import ended

    known, missing = published_datasets(), None
    wanted = {
        (str(job.options.get("data.dataset", "")).partition(",")[0], job.options.get("data.directory"))
        for job in jobs
        if ended(job) is None
    }
    for name, folder in sorted(wanted, key=str):
        if name not in known:
            return
        try:
            find_known(known[name], folder)
            return
        except MissingDataError as error:
            missing = missing or error
    if missing is not None:
        raise missing


def run(args: argparse.Namespace) -> int:
    """Run the sweep and say how it went."""
    from fedcbs.sweeps import run_jobs

    executor, threads = executor_of(args)
    jobs = _plan(args).jobs(args.out, threads=threads)
    if args.list:
        return _list(jobs)
    if args.ray is None:
        refuse_missing_data(jobs)
    with stops_politely() as interrupt, sweep_progress(jobs, quiet=args.quiet or args.json) as watch:
        outcomes = run_jobs(jobs, executor, max_minutes=args.max_minutes, watch=watch)
    if args.json:
        print_json([{"run": str(o.job.folder), "status": o.status, "message": o.message} for o in outcomes])
    elif not args.quiet or exit_code(outcomes):
        say_outcomes(outcomes)
        tell(f"runs: {args.out}")
    return INTERRUPTED if interrupt.came else exit_code(outcomes)


def _plan(args: argparse.Namespace) -> Plan:
    from fedcbs.errors import InvalidArgumentError
    from fedcbs.sweeps import Plan, parse_values

    plan = Plan.from_toml(args.file) if args.file is not None else Plan()
    vary: dict[str, list[Any]] = {}
    if args.selectors is not None:
        vary["selector"] = [name.strip() for name in args.selectors.split(",") if name.strip()]
    config: dict[str, Any] = {}
    for text in args.set:
        key, values = parse_values(text)
        if key in vary or key in config:
            raise InvalidArgumentError(f"--set {key} is given twice; give all its values at once")
        if len(values) == 1:
            config[key] = values[0]
        else:
            vary[key] = values
    return plan.changed(config=config, vary=vary, seeds=args.seeds)


def _list(jobs: Any) -> int:
    from fedcbs.sweeps._work import ended

    for job in jobs:
        known = ended(job)
        begun = "begun" if (job.folder / "config.json").is_file() else "-"
        print(f"{begun if known is None else known.status:10} {job.folder}")
    return 0


def _seeds(text: str) -> tuple[int, ...]:
    """Convert a number of seeds, or seeds.

    >>> _seeds("3"), _seeds("3,"), _seeds("4,7")
    ((0, 1, 2), (3,), (4, 7))
    """
    parts = [part.strip() for part in text.split(",")]
    try:
        numbers = [int(part) for part in parts if part]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 0 or (len(parts) == 1 and numbers[0] < 1):
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a number of seeds, or seeds with commas between them, such as 3,4 (or 3, for that one alone)"
        )
    return tuple(range(numbers[0])) if len(parts) == 1 else tuple(numbers)
