"""Parsers whose errors are one line, and whose help can list what is known only after heavy imports."""

from __future__ import annotations

import argparse
import difflib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

__all__ = ["Parser", "at_least", "listing", "positive"]


class Parser(argparse.ArgumentParser):
    """An argument parser with one-line errors and an epilog that is written when help is asked for.

    Parameters
    ----------
    late_epilog
        Returns the epilog.
    """

    def __init__(
        self, *args: object, late_epilog: Callable[[], str] | None = None, **options: object
    ) -> None:
        options.setdefault("formatter_class", _Formatter)
        options.setdefault("allow_abbrev", False)
        super().__init__(*args, **options)  # type: ignore[arg-type]  # handed on as they came
        self._late_epilog = late_epilog

    def format_help(self) -> str:
        """Return the help text."""
        if self._late_epilog is not None:
            self.epilog = self._late_epilog()
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line, and where help is."""
        self.exit(2, f"fedcbs: error: {message} (see '{self.prog} --help')\n")

    def parse_known_args(  # type: ignore[override]  # narrower than argparse has it
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse, and complain of unknown options here, where it is known which options the command has."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            near = difflib.get_close_matches(unknown[0].partition("=")[0], self._option_string_actions, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return found, unknown

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Check a choice, and guess at what was meant where it is a command's name."""
        choices = action.choices
        if isinstance(action, argparse._SubParsersAction) and choices is not None and value not in choices:
            near = difflib.get_close_matches(str(value), choices, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(choices)}"
            raise argparse.ArgumentError(None, f"{value!r} is no {action.metavar}; {hint}")
        super()._check_value(action, value)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Leave, with a message on the standard error."""
        if message:
            sys.stderr.write(message)
        raise SystemExit(status)


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Texts as they are written, with room for the names of options."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, **{"max_help_position": 32, **options})

    def add_argument(self, action: argparse.Action) -> None:
        """Make room for an action; argparse forgets that the names of commands stand further in."""
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):
            self._action_max_length += 2


def at_least(minimum: int) -> Callable[[str], int]:
    """Return a converter of option values to whole numbers of at least `minimum`.

    >>> at_least(1)("20")
    20
    >>> at_least(1)("0")
    Traceback (most recent call last):
    ...
    argparse.ArgumentTypeError: '0' must be a whole number of at least 1
    """

    def convert(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = minimum - 1
        if number < minimum:
            raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of at least {minimum}")
        return number

    return convert


def positive(text: str) -> float:
    """Convert the value of an option to a finite number above 0.

    >>> positive("0.1")
    0.1
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"{text!r} must be a finite number above 0")
    return number


def listing(title: str, entries: Mapping[str, str]) -> str:
    """Return names with one line each, aligned, under a title.

    >>> print(listing("rules", {"always": "every client", "coin:P": "now and then"}))
    rules:
      always  every client
      coin:P  now and then
    """
    width = max(map(len, entries))
    lines = [f"  {name:<{width}}  {summary}" for name, summary in entries.items()]
    return "\n".join([f"{title}:", *lines])
