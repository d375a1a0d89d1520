"""The entry point: parses, runs a command, and turns what goes wrong into one line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import fedcbs
from fedcbs.cli._commands import commands
from fedcbs.cli._parser import Parser
from fedcbs.cli._run_progress import INTERRUPTED
from fedcbs.errors import DivergedError, FedCBSError, RunError

__all__ = ["main"]

WRONG, FAILED, BROKEN_PIPE = 2, 1, 141
"""Exit codes; the last is that of a program that SIGPIPE ended."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    argv
        Arguments; those of the process where none are given.

    Examples
    --------
    >>> main(["--version"])
    fedcbs ...
    0
    """
    # OpenMP's threads, which PyTorch starts, wait for work by turning in circles unless told otherwise before it is imported.
    # Beside another run that takes the cores from those who have work.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        args = _parser().parse_args(argv)
        code: int = args.run(args)
        sys.stdout.flush()  # a reader that went away shows here, and not while Python shuts down
        return code
    except SystemExit as leave:  # argparse: help, version, or a mistake that it has reported
        return leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    except BrokenPipeError:
        _forget_output()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except FedCBSError as error:
        return _complain(str(error), FAILED if isinstance(error, DivergedError | RunError) else WRONG)
    except (OSError, MemoryError) as error:
        return _complain(str(error) or "out of memory; ask for fewer clients or rounds", FAILED)


def _parser() -> Parser:
    about = (fedcbs.__doc__ or "").partition("\n")[0]
    parser = Parser(prog="fedcbs", description=about, epilog="'fedcbs COMMAND --help' tells more.")
    parser.add_argument("--version", action="version", version=f"fedcbs {fedcbs.__version__}")
    subparsers = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, parser_class=Parser
    )
    for command in commands():
        command.add_parser(subparsers)
    return parser


def _complain(message: str, code: int) -> int:
    sys.stderr.write(f"fedcbs: error: {' '.join(message.split())}\n")
    return code


def _forget_output() -> None:
    """Let Python's last flush go nowhere; the reader of the output has gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):  # the output is no file of the system, as under a test
        pass
    finally:
        os.close(nowhere)
