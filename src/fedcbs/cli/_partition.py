"""``fedcbs partition``: draw label counts from a scheme, to look at or to keep."""

from __future__ import annotations

import argparse
import io
from typing import TYPE_CHECKING

from fedcbs.cli._commands import Subparsers
from fedcbs.cli._console import check_target, print_json, show, tell, write_bytes
from fedcbs.cli._parser import at_least, listing
from fedcbs.cli._population import add_population_options, population_of
from fedcbs.errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.console import RenderableType

__all__ = ["add_parser", "run"]

DESCRIPTION = """\
Draw label counts from a partition scheme, and show the first clients: how many examples of each class they hold, and the
QCID of their own data. The same seed gives the population that `fedcbs balance` uses."""

EXAMPLES = """\
examples:
  fedcbs partition --partition dirichlet-hsu --alpha 0.5 --clients 20
  fedcbs partition --partition shards:2 --seed 3 --out counts.csv
  fedcbs balance --partition counts:counts.csv"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``fedcbs partition``."""
    parser = subparsers.add_parser(
        "partition",
        help="draw label counts from a partition scheme",
        description=DESCRIPTION,
        late_epilog=_epilog,
    )
    parser.set_defaults(run=run)
    add_population_options(parser)
    parser.add_argument(
        "--seed", type=at_least(0), default=0, metavar="S", help="the seed (default: %(default)s)"
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--show", type=at_least(0), default=10, metavar="K", help="clients to show (default: %(default)s)"
    )
    output.add_argument(
        "--json", action="store_true", help="print all label counts as JSON, and nothing else"
    )
    output.add_argument("-o", "--out", metavar="FILE", help="write the label counts to a .csv or .npy file")


def run(args: argparse.Namespace) -> int:
    """Draw the label counts, and show or keep them."""
    if args.out is not None:
        check_target(args.out, "--out")
        if not args.out.lower().endswith((".csv", ".npy")):
            raise InvalidArgumentError(f"--out {args.out!r} must end in .csv or .npy")
    counts = population_of(args).label_counts(args.seed)
    if args.json:
        print_json({"label_counts": counts.tolist()})
    else:
        show(_table(counts, args.show))
    if args.out is not None:
        _write(counts, args.out)
        tell(f"label counts: {args.out}")
    return 0


def _table(counts: NDArray[np.int64], shown: int) -> RenderableType:
    from rich.table import Table

    from fedcbs.imbalance import qcid

    grid = Table(box=None, pad_edge=False, header_style="bold", show_footer=True)
    grid.add_column("client", footer=f"all {len(counts)}")
    for label in range(counts.shape[1]):
        grid.add_column(str(label), justify="right", footer=str(counts[:, label].sum()))
    grid.add_column("examples", justify="right", footer=str(counts.sum()))
    grid.add_column("QCID", justify="right", footer=f"{qcid(counts):.4f}")
    for client, row in enumerate(counts[:shown]):
        own = f"{qcid(row[None]):.4f}" if row.any() else ""
        grid.add_row(str(client), *map(str, row.tolist()), str(row.sum()), own)
    return grid


def _write(counts: NDArray[np.int64], path: str) -> None:
    import numpy as np

    buffer = io.BytesIO()
    if path.lower().endswith(".npy"):
        np.save(buffer, counts)
    else:
        np.savetxt(buffer, counts, fmt="%d", delimiter=",")
    write_bytes(buffer.getvalue(), path)


def _epilog() -> str:
    from fedcbs.partition import list_partitions

    return "\n\n".join([listing("partition schemes", list_partitions()), EXAMPLES])
