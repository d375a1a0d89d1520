"""Requests to the selector's service that travel through a SuperNode of its organisation."""

from __future__ import annotations

from flwr.app import Context, RecordDict

from fedcbs.flower._errors import FederationError

__all__ = ["relayed"]


def relayed(question: RecordDict, context: Context) -> RecordDict:
    """Pass a request on to the selector, if this node is its organisation's."""
    del question, context
    raise FederationError("this node is not the selector's")
