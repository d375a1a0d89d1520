"""The commands, in the order in which they are listed. A command is a module of this package with two functions.

``add_parser(subparsers)`` adds the command's parser, with ``set_defaults(run=run)``; ``run(args)`` does the work and returns
the exit code. A module imports what is heavy where it is used, so that ``fedcbs --help`` stays quick.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator
from typing import Protocol, TypeAlias, cast

from fedcbs.cli._parser import Parser

__all__ = ["COMMANDS", "Command", "Subparsers", "commands"]

Subparsers: TypeAlias = "argparse._SubParsersAction[Parser]"

COMMANDS = (
    "_run",
    "_resume",
    "_compare",
    "_balance",
    "_selectors",
    "_partition",
    "_data",
    "_private",
    "_audit",
    "_selector",
)


class Command(Protocol):
    """What the module of a command has."""

    def add_parser(self, subparsers: Subparsers) -> None:
        """Add the command's parser, with `run` as its default `run`."""

    def run(self, args: argparse.Namespace) -> int:
        """Do the work and return the exit code."""


def commands() -> Iterator[Command]:
    """Import the commands."""
    for name in COMMANDS:
        yield cast(Command, importlib.import_module(f"fedcbs.cli.{name}"))
