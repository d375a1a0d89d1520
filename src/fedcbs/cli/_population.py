"""Options that describe a population of clients; shared by commands."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from fedcbs.cli._parser import at_least, positive

if TYPE_CHECKING:
    from fedcbs.laboratory import Population

__all__ = ["add_population_options", "population_of", "population_settings"]

DEFAULT_PARTITION, DEFAULT_ALPHA = "dirichlet-hsu", 0.1


def add_population_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that :func:`population_of` reads."""
    group = parser.add_argument_group("population")
    group.add_argument(
        "--partition",
        metavar="SCHEME",
        help=f"who holds which labels; see below (default: {DEFAULT_PARTITION} with --alpha {DEFAULT_ALPHA})",
    )
    group.add_argument("--alpha", type=positive, metavar="A", help="concentration of a Dirichlet scheme")
    group.add_argument(
        "--clients",
        type=at_least(1),
        metavar="N",
        help="clients in the population (default: as the scheme or file says, else 200)",
    )
    group.add_argument(
        "--classes", type=at_least(1), metavar="B", help="classes (default: as the file says, else 10)"
    )
    group.add_argument(
        "--examples-per-client",
        type=at_least(1),
        metavar="Q",
        help="examples of each client, or their mean where sizes vary (default: 250)",
    )
    group.add_argument(
        "--min-examples",
        type=at_least(0),
        metavar="Q",
        help="size of the smallest client, where a scheme makes sizes vary",
    )


def population_of(args: argparse.Namespace) -> Population:
    """Return the population that the options describe."""
    from fedcbs.laboratory import population

    partition, alpha = args.partition, args.alpha
    if partition is None:
        partition, alpha = DEFAULT_PARTITION, DEFAULT_ALPHA if alpha is None else alpha
    return population(
        partition,
        alpha=alpha,
        num_clients=args.clients,
        num_classes=args.classes,
        examples_per_client=args.examples_per_client,
        min_examples=args.min_examples,
    )


def population_settings(args: argparse.Namespace, resolved: Population) -> dict[str, Any]:
    """Return the options as resolved, in plain values."""
    return {
        "partition": args.partition or DEFAULT_PARTITION,
        "alpha": getattr(resolved.scheme, "alpha", None),
        "clients": resolved.num_clients,
        "classes": resolved.num_classes,
        "examples_per_client": resolved.scheme.examples_per_client,
        "min_examples": getattr(resolved.scheme, "min_examples", None),
    }
