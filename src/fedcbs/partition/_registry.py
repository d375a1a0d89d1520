"""Names of partition schemes, as a command line spells them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedcbs._specs import spec_integers, spec_numbers, split_spec
from fedcbs.errors import InvalidArgumentError, UnknownNameError
from fedcbs.partition._cases import Case1, Case2
from fedcbs.partition._classes import ClassesPerClient
from fedcbs.partition._classwise import DirichletClasswise
from fedcbs.partition._fedcor import DirichletFedCor
from fedcbs.partition._given import GivenCounts, load_label_counts
from fedcbs.partition._hsu import DirichletHsu
from fedcbs.partition._iid import IID
from fedcbs.partition._scheme import PartitionScheme
from fedcbs.partition._shards import Shards

__all__ = ["list_partitions", "parse_partition"]

_Build = Callable[[str | None, dict[str, Any]], PartitionScheme]


@dataclass(frozen=True)
class _Entry:
    """How a name becomes a scheme: `form` is the full spelling, `options` what it takes besides."""

    form: str
    summary: str
    options: tuple[str, ...]
    build: _Build


def parse_partition(
    text: str,
    *,
    alpha: float | None = None,
    examples_per_client: int | None = None,
    min_examples: int | None = None,
) -> PartitionScheme:
    """Return the scheme that `text` names, such as ``dirichlet-hsu`` or ``shards:2``.

    Parameters
    ----------
    text
        A name of :func:`list_partitions`, with its value after a colon where it has one.
    alpha
        Concentration, for the Dirichlet schemes; may also stand after the colon.
    examples_per_client
        Size of each client, or their mean where sizes vary.
    min_examples
        Size of the smallest client, for the schemes that make sizes vary.

    Examples
    --------
    >>> parse_partition("dirichlet-hsu", alpha=0.1, examples_per_client=250)
    DirichletHsu(examples_per_client=250, alpha=0.1, prior=None)
    >>> parse_partition("shards:3")
    Shards(examples_per_client=None, shards_per_client=3)
    >>> parse_partition("shards:3", alpha=0.1)
    Traceback (most recent call last):
    ...
    fedcbs.errors.InvalidArgumentError: alpha=0.1 is no option of 'shards'; leave it out, or use one that takes it: dirichlet-classwise, dirichlet-fedcor, dirichlet-hsu
    """
    name, values = split_spec(text, "partition")
    if name not in _ENTRIES:
        raise UnknownNameError("partition", name, _ENTRIES)
    entry = _ENTRIES[name]
    if values is not None and ":" not in entry.form:
        raise InvalidArgumentError(f"partition={text!r}: nothing may follow {name!r}; write {name!r} alone")
    given = {"alpha": alpha, "examples_per_client": examples_per_client, "min_examples": min_examples}
    options = {option: value for option, value in given.items() if value is not None}
    for option, value in options.items():
        if option not in entry.options:
            takers = sorted(other for other, known in _ENTRIES.items() if option in known.options)
            raise InvalidArgumentError(
                f"{option}={value} is no option of {name!r}; leave it out, or use one that takes it: {', '.join(takers)}"
            )
    return entry.build(values, options)


def list_partitions() -> dict[str, str]:
    """Return each spelling that :func:`parse_partition` knows, with one line of description.

    Square brackets stand around what may be left out.

    >>> list_partitions()["iid"]
    'every client a random sample of all examples; equal sizes'
    """
    return {entry.form: entry.summary for entry in _ENTRIES.values()}


def _dirichlet(scheme: Callable[..., PartitionScheme], name: str) -> _Build:
    def build(values: str | None, options: dict[str, Any]) -> PartitionScheme:
        if values is not None:
            alpha = spec_numbers(values, "partition", f"{name}:ALPHA", count=1)[0]
            if options.setdefault("alpha", alpha) != alpha:
                raise InvalidArgumentError(
                    f"alpha={options['alpha']}, but partition={f'{name}:{values}'!r} says {values}; say it once"
                )
        if "alpha" not in options:
            raise InvalidArgumentError(
                f"alpha=None, but {name!r} needs it; give a number above 0, such as 0.1"
            )
        return scheme(**options)

    return build


def _numbered(scheme: Callable[..., PartitionScheme], form: str, *, count: int = 1) -> _Build:
    """Build a scheme whose leading fields are whole numbers after the colon; without any, its defaults hold."""

    def build(values: str | None, options: dict[str, Any]) -> PartitionScheme:
        optional = form.endswith("]")
        if values is None and optional:
            return scheme(**options)
        spelling = form.replace("[", "").replace("]", "")
        return scheme(*spec_integers(values, "partition", spelling, count=count), **options)

    return build


def _plain(scheme: Callable[..., PartitionScheme], *fields: int) -> _Build:
    return lambda _, options: scheme(*fields, **options)


def _from_file(values: str | None, options: dict[str, Any]) -> PartitionScheme:  # noqa: ARG001 - it has none
    if not values:
        raise InvalidArgumentError("partition='counts' needs a file of label counts; write 'counts:FILE'")
    return GivenCounts(load_label_counts(values))


_SIZE = ("examples_per_client",)
_VARYING = ("alpha", "examples_per_client", "min_examples")

_ENTRIES = {
    "dirichlet-hsu": _Entry(
        "dirichlet-hsu[:ALPHA]",
        "class mixture of each client from Dir(alpha/B); equal sizes (Hsu et al. 2019; Fed-CBS)",
        ("alpha", "examples_per_client"),
        _dirichlet(DirichletHsu, "dirichlet-hsu"),
    ),
    "dirichlet-fedcor": _Entry(
        "dirichlet-fedcor[:ALPHA]",
        "class mixture of each client from Dir(alpha/B); sizes solved so that every example is used (FedCor)",
        _VARYING,
        _dirichlet(DirichletFedCor, "dirichlet-fedcor"),
    ),
    "dirichlet-classwise": _Entry(
        "dirichlet-classwise[:ALPHA]",
        "each class cut over the clients by Dir(alpha); sizes vary widely (Yurochkin et al. 2019; Flower)",
        _VARYING,
        _dirichlet(DirichletClasswise, "dirichlet-classwise"),
    ),
    "classes": _Entry(
        "classes:K",
        "each client holds K classes, each class equally many clients",
        _SIZE,
        _numbered(ClassesPerClient, "classes:K"),
    ),
    "shards": _Entry(
        "shards[:K]",
        "sort by label, cut into equal shards, deal K (2) to each client (McMahan et al. 2017)",
        _SIZE,
        _numbered(Shards, "shards[:K]"),
    ),
    "iid": _Entry("iid", "every client a random sample of all examples; equal sizes", _SIZE, _plain(IID)),
    "case1": _Entry(
        "case1[:MAJORITY,MINORITY]",
        "one class per client; that many clients for each class of the first and of the second half",
        _SIZE,
        _numbered(Case1, "case1[:MAJORITY,MINORITY]", count=2),
    ),
    "case1-3to1": _Entry(
        "case1-3to1",
        "Fed-CBS Case 1, 3:1: 120 clients; 18 and 6 clients a class",
        _SIZE,
        _plain(Case1, 18, 6),
    ),
    "case1-5to1": _Entry(
        "case1-5to1",
        "Fed-CBS Case 1, 5:1: 120 clients; 20 and 4 clients a class",
        _SIZE,
        _plain(Case1, 20, 4),
    ),
    "case1-16to8": _Entry(
        "case1-16to8",
        "120 clients; 16 and 8 clients a class, which is what the paper's 3:1 table fits",
        _SIZE,
        _plain(Case1, 16, 8),
    ),
    "case2": _Entry(
        "case2[:CLIENTS]",
        "Fed-CBS Case 2: one class per client; 20 clients for each class",
        _SIZE,
        _numbered(Case2, "case2[:CLIENTS]"),
    ),
    "counts": _Entry(
        "counts:FILE", "label counts from a .csv or .npy file, a client per row", (), _from_file
    ),
}
