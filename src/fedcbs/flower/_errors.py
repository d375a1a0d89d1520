"""What can go wrong in a federation, beyond what single clients do.

::

    FederationError                   (also RuntimeError)  base
    ├── SelectionNotHonouredError     a strategy addressed other nodes than the selected ones
    ├── FederationStateError          a saved state that does not fit this run
    └── WrongAnswerError              a node's answer that cannot be used; the node is left out, the round goes on
"""

from __future__ import annotations

from fedcbs.errors import FedCBSError

__all__ = ["FederationError", "FederationStateError", "SelectionNotHonouredError", "WrongAnswerError"]


class FederationError(FedCBSError, RuntimeError):
    """A federation cannot go on; the message says what to change."""


class SelectionNotHonouredError(FederationError):
    """The wrapped strategy addressed other nodes than the selected ones."""


class FederationStateError(FederationError):
    """A checkpoint cannot be continued by this run."""


class WrongAnswerError(FederationError):
    """A node answered what cannot be used."""
