"""What a node does for privacy: it encodes its label counts under the selector's key, and only under the pinned one."""

from __future__ import annotations

from collections.abc import Sequence

from flwr.app import Context, RecordDict

from fedcbs.flower._errors import FederationError

__all__ = ["FINGERPRINT", "refuse_clear_text", "relayed", "upload"]

FINGERPRINT = "fedcbs-fingerprint"
"""Entry of the node's configuration: the public key's fingerprint, which the operator got from the selector."""


def refuse_clear_text(context: Context) -> None:
    """Refuse to tell label counts in the clear where the operator pinned a key."""
    if FINGERPRINT in context.node_config:
        raise FederationError(
            f"label counts were asked for in the clear, but {FINGERPRINT} is set in this node's configuration; "
            "the server must use the private mode, or the operator remove the entry"
        )


def upload(counts: Sequence[int], question: RecordDict, context: Context, name: str) -> bytes:
    """Encode label counts as the federation's mode has it."""
    raise NotImplementedError


def relayed(question: RecordDict, context: Context) -> RecordDict:
    """Pass a request on to the selector, if this node is its organisation's."""
    raise NotImplementedError
