"""``fedcbs selectors``: which there are, what they need to know, and their options."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
from typing import TYPE_CHECKING, Any

from fedcbs.cli._commands import Subparsers
from fedcbs.cli._console import console_width, print_json, show
from fedcbs.errors import UnknownNameError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fedcbs.selectors import Selector

__all__ = ["add_parser", "run"]

WIDE = 150
"""Columns from which the list has room for the papers."""

DESCRIPTION = """\
List the selectors, with what each needs to know before it chooses, what it learns from the clients that trained, and
where it comes from; or, with a name, all about one of them. Installed packages may add selectors of their own.

A selector that needs label statistics, sizes or durations at most can be compared by `fedcbs balance` in seconds. One
marked "training" needs losses or updates, which exist only where a model is trained."""

EPILOG = """\
needs:
  gram             inner products of the clients' label counts, and sizes; can be had under encryption
  label-counts     the label counts themselves
  num-examples     sizes of the clients
  durations        seconds that clients take
  losses, ...      asked of clients in every round, which costs messages
  updates, ...     model updates, or what is computed from them

examples:
  fedcbs selectors                     the list
  fedcbs selectors fedcbs-exact        its law, its options and their defaults
  fedcbs selectors --json              for scripts
  fedcbs balance --selectors fedcbs-exact:sweeps=10
                                       how options are given"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``fedcbs selectors``."""
    parser = subparsers.add_parser(
        "selectors",
        help="list the selectors, what they need to know, and their options",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.set_defaults(run=run)
    parser.add_argument("name", nargs="?", metavar="NAME", help="tell all about this one")
    parser.add_argument(
        "--json", action="store_true", help="print JSON, and nothing else, on the standard output"
    )


def run(args: argparse.Namespace) -> int:
    """List the selectors, or describe one."""
    from fedcbs.selectors import selector_types

    types = selector_types()
    if args.name is not None and args.name not in types:
        raise UnknownNameError("selector", args.name, types)
    facts = {name: _facts(kind) for name, kind in types.items()}
    if args.json:
        chosen = facts if args.name is None else {args.name: facts[args.name]}
        print_json({"selectors": chosen})
    elif args.name is None:
        show(_table(facts, wide=console_width() >= WIDE))
    else:
        show(*_description(args.name, types[args.name], facts[args.name]))
    return 0


def _facts(kind: type[Selector[Any]]) -> dict[str, Any]:
    from fedcbs.laboratory import training_needs

    return {
        "summary": kind.summary,
        "paper": kind.paper,
        "needs": sorted(kind.needs),
        "learns": sorted(kind.learns),
        "needs_training": bool(training_needs(kind)),
        "options": {
            field.name: {"type": str(field.type), "default": _default(field)}
            for field in dataclasses.fields(kind)
            if field.init
        },
    }


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return None if field.default_factory is dataclasses.MISSING else field.default_factory()


def _table(facts: dict[str, dict[str, Any]], *, wide: bool) -> RenderableType:
    """One row a selector; on a narrow screen without the papers, which a selector's own page has."""
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, header_style="bold")
    grid.add_column("selector", no_wrap=True, style="bold")
    for title in ("what it picks", "needs", "learns", "", *(["paper"] if wide else [])):
        grid.add_column(title, overflow="fold")
    for name, fact in facts.items():
        row = [name, fact["summary"], ", ".join(fact["needs"]), ", ".join(fact["learns"])]
        row.append("training" if fact["needs_training"] else "")
        grid.add_row(*row, *([fact["paper"]] if wide else []))
    return grid


def _explanations(kind: type[Selector[Any]]) -> list[str]:
    """What its file says of the strategy (paper, formula, what it follows, how it differs), and then the class."""
    module = inspect.getdoc(inspect.getmodule(kind)) if kind.__module__.startswith("fedcbs.") else None
    return [text for text in (module, inspect.getdoc(kind)) if text]


def _description(name: str, kind: type[Selector[Any]], fact: dict[str, Any]) -> list[RenderableType]:
    from rich.text import Text

    lines = [Text(name, style="bold"), Text(fact["paper"], style="dim"), Text("")]
    for part in _explanations(kind):
        lines += [Text(part), Text("")]
    for title, key in (("needs", "needs"), ("learns", "learns")):
        lines.append(Text(f"{title}: {', '.join(fact[key]) or 'nothing'}"))
    lines.append(
        Text("needs training" if fact["needs_training"] else "needs no training; try `fedcbs balance`")
    )
    options = [f"  {option}={about['default']}" for option, about in fact["options"].items()]
    lines.append(Text("\n".join(["options:", *options] if options else ["no options"])))
    return list(lines)
