"""``fedcbs audit``: what the selector of a federation could find out about its clients."""

from __future__ import annotations

import argparse
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
from fedcbs.errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.console import RenderableType

    from fedcbs.audit import AuditReport, GramReport
    from fedcbs.imbalance import DenseGram

__all__ = ["add_parser", "run"]

DESCRIPTION = """\
Attack a federation's label statistics as its own selector could: an honest one that opens the Gram matrix as the protocol
says, and then computes what follows from it. Encryption keeps label counts from the server; the inner products that the
selector opens fix them, since they are whole numbers, nearly always up to the names of the classes.

What is reported, without noise and with it:
  recovered   clients whose label distribution the attack gives within 5% (total variation), up to the names of classes
  exact       clients whose counts it gives exactly
  distance    mean total variation distance over clients
  insiders    clients then known by name of class, if so many clients tell the selector their own counts
  QCID        mean of the cohorts that each selector picks from noised counts, measured on the true ones, in 1e-2

Noise protects single examples, not a client's distribution: it is there to see what that costs and what it hides."""

EXAMPLES = """\
examples:
  fedcbs audit hospitals.csv --plot audit.png
      your own label counts: one line per client, one column per class
  fedcbs audit gram.npz
      an opened Gram matrix, as fedcbs private open writes it
  fedcbs audit --dataset mnist --partition shards:2 --clients 100
      a dataset and a partition of it
  fedcbs audit --partition dirichlet-hsu --alpha 0.1 --noise laplace:epsilon=0.5 --noise gaussian:rho=0.01
      a population drawn from a scheme, with noise of your choice"""

POPULATION = ("partition", "alpha", "clients", "classes", "examples_per_client", "min_examples")
DEFAULT_CLIENTS = 100


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``fedcbs audit``."""
    parser = subparsers.add_parser(
        "audit",
        help="what the selector could find out about the clients, and what noise does to that",
        description=DESCRIPTION,
        late_epilog=_epilog,
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="label counts (.csv, .npy) or an opened Gram (.npz)"
    )
    add_population_options(parser)
    data = parser.add_argument_group("dataset")
    data.add_argument("--dataset", metavar="NAME", help="labels to partition; see fedcbs data list")
    data.add_argument("--data-dir", metavar="DIR", help="folder to look for the dataset in first")
    _add_noise_options(parser)
    output = parser.add_argument_group("output")
    output.add_argument(
        "--json", action="store_true", help="print JSON, and nothing else, on the standard output"
    )
    output.add_argument("-o", "--out", metavar="FILE", help="write the JSON to a file")
    output.add_argument("--plot", metavar="FILE", help="draw a figure (.png, .pdf or .svg); needs matplotlib")
    output.add_argument("--quiet", action="store_true", help="no progress bar, no table")


def _add_noise_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("noise and what it costs")
    group.add_argument(
        "--noise",
        action="append",
        metavar="LAW",
        help="noise to try, as in laplace:epsilon=0.5 or gaussian:epsilon=1,delta=1e-6; may be given again; 'none' for none"
        " (default: laplace with epsilon 2, 1, 0.5, 0.1 and 0.02)",
    )
    group.add_argument(
        "--selectors",
        default="fedcbs-exact,uniform",
        metavar="NAME[,NAME...]",
        help="whose QCID is measured (default: %(default)s)",
    )
    group.add_argument(
        "--availability",
        default="uniform:0.3",
        metavar="RULE",
        help="who can be picked in a round (default: %(default)s)",
    )
    group.add_argument(
        "--cohort-size",
        type=at_least(1),
        default=10,
        metavar="M",
        help="clients to pick (default: %(default)s)",
    )
    group.add_argument(
        "--rounds", type=at_least(1), default=50, metavar="R", help="rounds to measure (default: %(default)s)"
    )
    group.add_argument(
        "--seed", type=at_least(0), default=0, metavar="S", help="the seed (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Run the audit and report."""
    if args.out is not None:
        check_target(args.out, "--out")
    if args.plot is not None:
        from fedcbs.plotting import check_figure_path

        check_figure_path(args.plot)
    subject, settings = _subject(args)
    from fedcbs.audit import audit, audit_gram
    from fedcbs.imbalance import DenseGram

    if isinstance(subject, DenseGram):
        if args.plot is not None:
            raise InvalidArgumentError(
                "--plot needs label counts; of a Gram matrix alone there is nothing to draw"
            )
        report: AuditReport | GramReport = audit_gram(subject)
    else:
        with progress_bar("laws of noise", quiet=args.quiet) as progress:
            report = audit(
                subject, noises=_noises(args), setting=_cost(args), seed=args.seed, progress=progress
            )
    _report(args, report, settings)
    return 0


def _subject(args: argparse.Namespace) -> tuple[NDArray[np.int64] | DenseGram, dict[str, Any]]:
    """What is to be audited, and how it came about."""
    given = [f"--{name.replace('_', '-')}" for name in POPULATION if getattr(args, name) is not None]
    if args.file is None:
        return _from_dataset(args) if args.dataset is not None else _drawn(args)
    if args.dataset is not None or [name for name in given if name != "--classes"]:
        raise InvalidArgumentError(
            f"{args.file!r} and {', '.join(given) or '--dataset'}: audit the one or the other"
        )
    from fedcbs.audit import load_opened_gram
    from fedcbs.partition import load_label_counts

    if args.file.lower().endswith(".npz"):
        return load_opened_gram(args.file, num_classes=args.classes), {"file": args.file}
    return load_label_counts(args.file), {"file": args.file}


def _drawn(args: argparse.Namespace) -> tuple[NDArray[np.int64], dict[str, Any]]:
    population = population_of(args)
    return population.label_counts(args.seed), population_settings(args, population)


def _from_dataset(args: argparse.Namespace) -> tuple[NDArray[np.int64], dict[str, Any]]:
    from fedcbs.data import load_dataset, split

    if args.classes is not None:
        raise InvalidArgumentError("--classes: the dataset says how many there are; leave it out")
    dataset = load_dataset(args.dataset, data_dir=args.data_dir)
    scheme, alpha = args.partition, args.alpha
    if scheme is None:
        scheme, alpha = "dirichlet-hsu", 0.1 if alpha is None else alpha
    options = {"examples_per_client": args.examples_per_client, "min_examples": args.min_examples}
    clients = args.clients if args.clients is not None or scheme == "owner" else DEFAULT_CLIENTS
    parts = split(dataset, scheme, num_clients=clients, alpha=alpha, seed=args.seed, **options)
    settings = {"dataset": args.dataset, "partition": scheme, "alpha": alpha, **options}
    return parts.label_counts(dataset.train.labels), settings


def _noises(args: argparse.Namespace) -> tuple[str, ...]:
    from fedcbs.audit import NOISES

    if args.noise is None:
        return NOISES
    return tuple(law for law in args.noise if law != "none")


def _cost(args: argparse.Namespace) -> Any:
    from fedcbs.audit import CostSetting

    names = tuple(name.strip() for name in args.selectors.split(",") if name.strip())
    return CostSetting(names, args.cohort_size, args.rounds, args.availability)


def _report(args: argparse.Namespace, report: AuditReport | GramReport, settings: dict[str, Any]) -> None:
    from fedcbs.audit import AuditReport

    document = {
        "settings": {**settings, "seed": args.seed},
        "versions": versions(),
        "findings": report.sentences(),
        **report.to_dict(),
    }
    if args.json:
        print_json(document)
    elif not args.quiet:
        if isinstance(report, AuditReport):
            show(_table(report), "")
        show(*(f"- {sentence}" for sentence in report.sentences()))
    if args.out is not None:
        write_json(document, args.out)
    if args.plot is not None and isinstance(report, AuditReport):
        from fedcbs.plotting import plot_audit

        plot_audit(report, args.plot)
    written = [f"{kind}: {path}" for kind, path in (("numbers", args.out), ("figure", args.plot)) if path]
    if written and not args.quiet:
        tell("\n".join(written))


def _table(report: AuditReport) -> RenderableType:
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, header_style="bold")
    grid.add_column("noise")
    numbers = list(report.rows[0].insiders)
    insiders = [f"{number} insider{'s' * (number > 1)}" for number in numbers]
    qcid = [f"QCID {name}" for name in report.setting.selectors]
    for title in ("recovered", "exact", "distance", *insiders, *qcid):
        grid.add_column(title, justify="right")
    for row in report.rows:
        best = row.best
        cells = [f"{best.close:.1%}", f"{best.exact:.1%}", f"{best.mean_distance:.3f}"]
        cells += [f"{row.insiders[number].clients:.1%}" for number in numbers]
        cells += [f"{row.qcid[name] * 100:.3f}" for name in report.setting.selectors]
        grid.add_row(row.noise or "none", *cells)
    return grid


def _epilog() -> str:
    from fedcbs.partition import list_partitions

    return "\n\n".join([listing("partition schemes", list_partitions()), EXAMPLES])
