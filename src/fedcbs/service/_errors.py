"""Errors over the wire: a status, and a JSON object with the error's name and message; on the other side the same error again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedcbs import errors
from fedcbs.errors import (
    AnswersNeededError,
    ConflictError,
    FedCBSError,
    NotAllowedError,
    ProtocolError,
    RowNeededError,
    ServiceError,
    UnknownNameError,
    UploadError,
)

__all__ = ["MORE_LATER", "error_from_json", "error_to_json", "status_of"]

MORE_LATER = (429, 503)
"""Statuses after which the same request may be sent again."""

_STATUSES: tuple[tuple[type[FedCBSError], int], ...] = (
    (AnswersNeededError, 428),
    (RowNeededError, 428),
    (ConflictError, 409),
    (NotAllowedError, 403),
    (ServiceError, 503),
    (ProtocolError, 422),
    (UnknownNameError, 404),
)


def status_of(error: FedCBSError) -> int:
    """Return the HTTP status of an error.

    >>> status_of(ConflictError("x")), status_of(FedCBSError("x"))
    (409, 400)
    """
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 400)


def error_to_json(error: FedCBSError) -> dict[str, Any]:
    """An error as a JSON object."""
    document: dict[str, Any] = {"error": type(error).__name__, "message": str(error)}
    if isinstance(error, AnswersNeededError):
        document |= {"need": error.need, "clients": list(error.clients)}
    if isinstance(error, RowNeededError):
        document |= {"client": error.client}
    if isinstance(error, UploadError):
        document |= {"client": error.client, "reason": error.reason}
    return document


def error_from_json(document: Mapping[str, Any]) -> FedCBSError:
    """An error from a JSON object; one of an unknown kind is a ServiceError.

    >>> error_from_json(error_to_json(UploadError("mallory", "it is cut short"))).client
    'mallory'
    """
    message = str(document.get("message", "the service gave no reason"))
    name = document.get("error")
    if name == "AnswersNeededError":
        return AnswersNeededError(str(document.get("need")), map(str, document.get("clients", ())), message)
    if name == "RowNeededError":
        return RowNeededError(str(document.get("client")))
    if name == "UploadError":
        return UploadError(str(document.get("client")), str(document.get("reason")))
    kind = getattr(errors, str(name), None)
    if not (isinstance(kind, type) and issubclass(kind, FedCBSError)):
        return ServiceError(message)
    error = kind.__new__(kind)  # some make their message of parts; this one is made already
    Exception.__init__(error, message)
    return error
