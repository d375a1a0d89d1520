"""The command line: ``fedcbs COMMAND ...``, one module for each command."""

from fedcbs.cli._main import main

__all__ = ["main"]
