"""``fedcbs data``: which datasets there are, how to get them, and what is in them."""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcbs.cli._commands import Subparsers
from fedcbs.cli._console import print_json, show, tell
from fedcbs.cli._parser import Parser, at_least, listing, positive
from fedcbs.errors import InvalidArgumentError

if TYPE_CHECKING:
    from fedcbs.data import Dataset
    from fedcbs.partition import Partition

__all__ = ["add_parser", "run"]

DESCRIPTION = """\
Datasets to train on. A published one is looked for in --data-dir, then in the folders that the environment variable
FEDCBS_DATA names, then in the cache of the Hugging Face hub. `fedcbs data get` downloads it; nothing else does."""

EXAMPLES = """\
examples:
  fedcbs data list
      all datasets, and where those are that this machine has
  fedcbs data get cifar10
      download into the hub's cache, where it is found from then on
  fedcbs data get hf:user/name --data-dir ~/datasets
      any dataset of the hub that has images and labels, into a folder of your own
  fedcbs data describe mnist --partition dirichlet-hsu --alpha 0.1 --clients 40 --plot clients.png
      who would hold what
  fedcbs data describe femnist --partition owner --json
      the dataset's own owners as clients; for scripts

'fedcbs data --help' shows this page, 'fedcbs data COMMAND --help' more."""

_PARTITION_OPTIONS = ("clients", "alpha", "examples_per_client", "min_examples", "plot")


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``fedcbs data``."""
    parser = subparsers.add_parser(
        "data", help="list, get and describe datasets", description=DESCRIPTION, late_epilog=_epilog
    )
    parser.set_defaults(run=run)
    inner = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    _add_list(inner)
    _add_get(inner)
    _add_describe(inner)


def run(args: argparse.Namespace) -> int:
    """Run the inner command that was chosen."""
    code: int = args.act(args)
    return code


def _add_list(inner: Subparsers) -> None:
    parser = inner.add_parser("list", help="all datasets, and where those are that this machine has")
    parser.set_defaults(act=_list)
    _add_data_dir(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, and nothing else")


def _add_get(inner: Subparsers) -> None:
    parser = inner.add_parser(
        "get",
        help="download a dataset from the Hugging Face hub",
        description="Download a dataset from the Hugging Face hub, hold each file to its checksum, and load it once.",
    )
    parser.set_defaults(act=_get)
    parser.add_argument("name", metavar="NAME", help="such as cifar10, or hf:USER/NAME[,revision=COMMIT]")
    parser.add_argument(
        "--data-dir", metavar="DIR", help="folder to put it in, under its name (default: the hub's cache)"
    )
    parser.add_argument("--quiet", action="store_true", help="say nothing of what goes well")


def _add_describe(inner: Subparsers) -> None:
    parser = inner.add_parser(
        "describe",
        help="what is in a dataset, and who holds what under a partition",
        description="Load a dataset and show its shapes, classes and sizes; with --partition also the label counts of\neach"
        " client. The same seed gives the same clients.",
        late_epilog=_epilog,
    )
    parser.set_defaults(act=_describe)
    parser.add_argument("name", metavar="DATASET", help="see below")
    _add_data_dir(parser)
    parser.add_argument(
        "--no-cache", action="store_true", help="keep no decoded copy of what is slow to decode"
    )
    _add_clients(parser)
    _add_output(parser)


def _add_clients(parser: Parser) -> None:
    group = parser.add_argument_group("clients")
    group.add_argument("--partition", metavar="SCHEME", help="who holds which examples; see below")
    group.add_argument(
        "--clients", type=at_least(1), metavar="N", help="how many clients (default: as the scheme says)"
    )
    group.add_argument("--alpha", type=positive, metavar="A", help="concentration of a Dirichlet scheme")
    group.add_argument(
        "--examples-per-client",
        type=at_least(1),
        metavar="Q",
        help="examples of each, or their mean (default: all)",
    )
    group.add_argument("--min-examples", type=at_least(0), metavar="Q", help="size of the smallest client")
    group.add_argument(
        "--seed", type=at_least(0), default=0, metavar="S", help="the seed (default: %(default)s)"
    )


def _add_output(parser: Parser) -> None:
    output = parser.add_argument_group("output")
    output.add_argument(
        "--show", type=at_least(0), default=10, metavar="K", help="clients to show (default: %(default)s)"
    )
    output.add_argument(
        "--json", action="store_true", help="print JSON, with all label counts, and nothing else"
    )
    output.add_argument("--plot", metavar="FILE", help="draw the label counts (.png, .pdf or .svg)")


def _add_data_dir(parser: Parser) -> None:
    parser.add_argument("--data-dir", metavar="DIR", help="folder to look in first")


def _list(args: argparse.Namespace) -> int:
    from fedcbs.data import find_dataset, known_datasets, published_datasets

    published = published_datasets()
    rows: dict[str, dict[str, Any]] = {}
    for name, summary in known_datasets().items():
        rows[name] = {"summary": summary, "examples": None, "bytes": None, "found": None}
        if known := published.get(name):
            found = find_dataset(name, data_dir=args.data_dir)
            rows[name] |= {
                "examples": known.num_examples,
                "bytes": known.num_bytes,
                "found": None if found is None else str(found),
            }
    has_digits = importlib.util.find_spec("sklearn") is not None
    rows["digits"] |= {
        "examples": 1797,
        "bytes": 1797 * 64 * 4,
        "found": "in scikit-learn" if has_digits else None,
    }
    if args.json:
        print_json({"datasets": rows})
    else:
        from fedcbs.cli._data_tables import list_table

        show(list_table(rows))
    return 0


def _get(args: argparse.Namespace) -> int:
    from fedcbs.data import get_dataset, load_dataset

    def note(text: str) -> None:
        if not args.quiet:
            tell(text)

    if args.name == "digits":
        note("digits come with scikit-learn; there is nothing to get")
        return 0
    folder = _found(args.name, args.data_dir)
    if folder is None:
        folder = get_dataset(args.name, data_dir=args.data_dir, note=note)
        note("decoding")
    dataset = load_dataset(args.name, data_dir=args.data_dir)
    if not args.quiet:
        show(f"{args.name}: {len(dataset.train):,} + {len(dataset.test):,} examples in {folder}")
    return 0


def _found(name: str, data_dir: str | None) -> Path | None:
    """Where a published dataset is already, if that is where it should go."""
    from fedcbs.data import find_dataset, published_datasets

    wanted = None if data_dir is None else Path(data_dir).expanduser()
    if name not in published_datasets() or (wanted is not None and not wanted.is_dir()):
        return None
    found = find_dataset(name, data_dir=wanted)
    return found if wanted is None or (found is not None and found.is_relative_to(wanted)) else None


def _describe(args: argparse.Namespace) -> int:
    _check_options(args)
    if args.plot is not None:
        from fedcbs.plotting import check_figure_path

        check_figure_path(args.plot)
    from fedcbs.data import load_dataset, split

    dataset = load_dataset(args.name, data_dir=args.data_dir, cache=not args.no_cache)
    partition = None
    if args.partition is not None:
        partition = split(
            dataset,
            args.partition,
            num_clients=args.clients,
            alpha=args.alpha,
            examples_per_client=args.examples_per_client,
            min_examples=args.min_examples,
            seed=args.seed,
        )
    _report(args, dataset, partition)
    return 0


def _report(args: argparse.Namespace, dataset: Dataset, partition: Partition | None) -> None:
    from fedcbs.cli._data_tables import class_table, client_table, facts, headline

    counts = None
    if partition is not None:
        counts = partition.label_counts(dataset.train.labels, dataset.num_classes)
    if args.json:
        print_json(facts(dataset, partition, counts, args))
    else:
        show(*headline(dataset), class_table(dataset))
        if partition is not None and counts is not None:
            show(*client_table(partition, counts, _scheme(args), args.show))
    if args.plot is not None and counts is not None:
        from fedcbs.plotting import plot_label_counts

        title = f"{dataset.name}, {_scheme(args)}"
        plot_label_counts(counts, args.plot, class_names=dataset.class_names, title=title)
        tell(f"figure: {args.plot}")


def _scheme(args: argparse.Namespace) -> str:
    return f"{args.partition}" + (f", alpha {args.alpha:g}" if args.alpha else "")


def _check_options(args: argparse.Namespace) -> None:
    given = [name for name in _PARTITION_OPTIONS if getattr(args, name) is not None]
    if args.partition is None and given:
        option = given[0].replace("_", "-")
        raise InvalidArgumentError(
            f"--{option} says something of clients; say --partition too, such as dirichlet-hsu:0.1"
        )


def _epilog() -> str:
    from fedcbs.data import known_datasets
    from fedcbs.partition import list_partitions

    schemes = {**list_partitions(), "owner": "the dataset's own owners, such as the writers of femnist"}
    return "\n\n".join(
        [listing("datasets", known_datasets()), listing("partition schemes", schemes), EXAMPLES]
    )
