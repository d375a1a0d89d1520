"""The service from the other side, with nothing but the standard library."""

from __future__ import annotations

import abc
import dataclasses
import http.client
import json
import logging
import os
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs import _checks
from fedcbs._files import existing_file
from fedcbs.errors import InvalidArgumentError, NotAllowedError, ServiceError, UnreachableError
from fedcbs.private import PublicKeys
from fedcbs.service import _codec as codec
from fedcbs.service._errors import MORE_LATER, error_from_json
from fedcbs.service._link import Cohort, FederationOptions, FederationStatus, Membership, SelectorLink

__all__ = ["RemoteSelector", "SelectorClient"]

Made = TypeVar("Made")

LOG = logging.getLogger("fedcbs.service")
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0


class RemoteSelector(SelectorLink):
    """A selector elsewhere: requests as the service takes them, whatever carries them there."""

    def create(self, federation: str, options: FederationOptions) -> FederationStatus:
        """Make a federation and its keys; one that exists with the same options stays as it is."""
        return self._json("PUT", _path(federation), dataclasses.asdict(options), made=_status)

    def status(self, federation: str) -> FederationStatus:
        """Say how a federation stands."""
        return self._json("GET", _path(federation), made=_status)

    def federations(self) -> tuple[str, ...]:
        """Names of the federations that the caller may use."""
        return self._json("GET", "/v1/federations", made=lambda found: tuple(found["federations"]))

    def health(self) -> bool:
        """Whether the service answers and can read its state."""
        return self._json("GET", "/health", made=lambda found: bool(found["status"] == "ok"))

    def public_keys(self, federation: str) -> PublicKeys:
        """Return what clients encrypt with; check its fingerprint against one that came another way."""
        return codec.public_from_bytes(self._send("GET", _path(federation, "public")))

    def masks(self, federation: str, seeds: Mapping[str, bytes]) -> bytes:
        """Return the masks for these clients' sealed seeds, in a mode that exchanges masks."""
        return self._send("POST", _path(federation, "masks"), codec.named_to_bytes("seeds", seeds))

    def put_statistics(self, federation: str, gram: bytes) -> Membership:
        """Hand in what the server computed from the uploads; it takes the place of what was there."""
        return _understood(self._send("PUT", _path(federation, "statistics"), gram), _membership)

    def put_rows(self, federation: str, setup: bytes) -> Membership:
        """Hand in sizes and diagonal instead of the whole matrix, in mode ``fhe``; `select` then asks for single rows."""
        return _understood(self._send("PUT", _path(federation, "rows"), setup), _membership)

    def put_row(self, federation: str, client: str, row: bytes) -> None:
        """Hand in one row, which is kept."""
        self._send("PUT", _path(federation, "rows", client), row)

    def put_upload(self, federation: str, client: str, upload: bytes) -> None:
        """Hand in one client's upload, where the selector does the server's computation too."""
        self._send("PUT", _path(federation, "uploads", client), upload)

    def remove_upload(self, federation: str, client: str) -> None:
        """Forget a client's upload; from then on it cannot be selected."""
        self._send("DELETE", _path(federation, "uploads", client))

    def observe(
        self,
        federation: str,
        round_index: int,
        *,
        answered: Sequence[str],
        failed: Sequence[str] = (),
        **learnt: ArrayLike | None,
    ) -> None:
        """Tell the outcome of a round."""
        told = {
            name: codec.array_to_json(np.asarray(value))
            for name, value in learnt.items()
            if value is not None
        }
        document = {"answered": list(answered), "failed": list(failed), "learnt": told}
        self._json("PUT", _path(federation, "rounds", str(round_index)), document, made=dict)

    def _select(
        self,
        federation: str,
        *,
        round_index: int,
        cohort_size: int,
        available: tuple[str, ...],
        answers: Mapping[str, tuple[tuple[str, ...], NDArray[np.float64]]],
        redo: bool,
    ) -> Cohort:
        _checks.integer(round_index, "round_index", minimum=1)
        document = {
            "cohort_size": int(cohort_size),
            "available": list(available),
            "redo": redo,
            "answers": {
                key: {"clients": list(clients), "values": codec.array_to_json(values)}
                for key, (clients, values) in answers.items()
            },
        }
        path = _path(federation, "rounds", str(round_index))
        return self._json("POST", path, document, made=codec.cohort_from_json)

    def _json(self, method: str, path: str, document: object = None, *, made: Callable[[Any], Made]) -> Made:
        body = b"" if document is None else json.dumps(document).encode()
        return _understood(self._send(method, path, body), made)

    @abc.abstractmethod
    def _send(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Carry a request there and its answer back, or raise the service's error."""


@final
class SelectorClient(RemoteSelector):
    """A selector that ``fedcbs selector serve`` runs elsewhere.

    While nobody answers it tries again: every request can be repeated without harm.

    Parameters
    ----------
    url
        Its address, ``https://HOST:PORT``; ``http://`` is taken for the loopback interface only.
    certificates
        Folder with ``ca.pem``, and ``NAME.pem`` and ``NAME.key`` of the caller.
    name
        The caller's name.
    patience
        Seconds to keep trying.
    timeout
        Seconds that one answer may take; opening the statistics of thousands of clients takes some.
    """

    def __init__(
        self,
        url: str,
        *,
        certificates: str | os.PathLike[str] | None = None,
        name: str = "server",
        patience: float = 60.0,
        timeout: float = 900.0,
    ) -> None:
        parts = _parts(url)
        self._host, self._port = parts.hostname or "", parts.port or 8443
        self._context = _context(parts.scheme, certificates, name)
        self._patience = _checks.real(patience, "patience", minimum=0)
        self._timeout = _checks.real(timeout, "timeout", minimum=0, open_minimum=True)
        self._url, self._lock = url, threading.Lock()
        self._connection: http.client.HTTPConnection | None = None

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._drop()

    def forward(self, method: str, path: str, body: bytes) -> bytes:
        """Send somebody else's request, for those who pass requests on."""
        return self._send(method, path, body)

    def _send(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Send a request until there is an answer or patience ends."""
        end, pause = time.monotonic() + self._patience, FIRST_PAUSE
        while True:
            try:
                status, wait, content = self._once(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                self._give_up_on(error)
                status, wait, content, problem = 0, pause, b"", f"{type(error).__name__}: {error}"
            if status == 200:
                return content
            if status and (status not in MORE_LATER or time.monotonic() + wait > end):
                raise _problem(status, content)
            if time.monotonic() + wait > end:
                raise UnreachableError(
                    f"the selector at {self._url} does not answer ({problem}); is it running? "
                    f"Tried for {self._patience:g} s"
                )
            if pause == FIRST_PAUSE:
                LOG.warning("the selector at %s does not answer; trying again", self._url)
            time.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _once(self, method: str, path: str, body: bytes) -> tuple[int, float, bytes]:
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._connect()
                self._connection.request(method, path, body, {"Content-Length": str(len(body))})
                answer = self._connection.getresponse()
                content = answer.read()
            except BaseException:
                self._drop()
                raise
            if answer.will_close:
                self._drop()
        after = answer.headers.get("Retry-After", "")
        return answer.status, float(after) if after.isdigit() else FIRST_PAUSE, content

    def _connect(self) -> http.client.HTTPConnection:
        if self._context is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=self._timeout, context=self._context
        )

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _give_up_on(self, error: Exception) -> None:
        """Raise where trying again cannot help."""
        if isinstance(error, ssl.SSLCertVerificationError):
            raise UnreachableError(
                f"the selector at {self._url} shows a certificate that is not good ({error.verify_message}); use the ca.pem"
                " of its operator, and a host name that its certificate has"
            ) from error
        if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
            raise NotAllowedError(
                f"the selector at {self._url} does not accept this certificate ({error.reason}); ask its operator for one"
            ) from error


def _understood(content: bytes, made: Callable[[Any], Made]) -> Made:
    """Make something of an answer, whatever is at that address."""
    try:
        return made(json.loads(content))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ServiceError("the answer makes no sense; is this the address of a selector?") from None


def _status(found: Any) -> FederationStatus:
    return FederationStatus(**found)


def _membership(found: Any) -> Membership:
    return Membership(tuple(found["clients"]), dict(found["refused"]))


def _problem(status: int, content: bytes) -> Exception:
    try:
        document = json.loads(content)
    except ValueError:
        document = None
    if not isinstance(document, dict) or "error" not in document:
        return ServiceError(f"the selector answered with status {status}; is this its address?")
    return error_from_json(document)


def _parts(url: str) -> urllib.parse.SplitResult:
    try:
        parts = urllib.parse.urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.path in ("", "/")
        _ = parts.port
    except ValueError:
        good = False
    if not good:
        raise InvalidArgumentError(f"url={url!r} must be https://HOST:PORT")
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise InvalidArgumentError(
            f"url={url!r} would send everything in the clear; use https, or the loopback interface"
        )
    return parts


def _context(scheme: str, certificates: str | os.PathLike[str] | None, name: str) -> ssl.SSLContext | None:
    if scheme == "http":
        return None
    if certificates is None:
        raise InvalidArgumentError(
            "certificates: none are given; name the folder with ca.pem and the caller's certificate and key"
        )
    folder = Path(certificates)
    paths = [
        existing_file(folder / file, "certificates") for file in ("ca.pem", f"{name}.pem", f"{name}.key")
    ]
    try:
        context = ssl.create_default_context(cafile=str(paths[0]))
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(paths[1], paths[2])
    except (ssl.SSLError, OSError) as error:
        raise InvalidArgumentError(f"certificates={str(folder)!r} cannot be used ({error})") from None
    return context


def _path(federation: str, *more: str) -> str:
    quoted = (urllib.parse.quote(str(part), safe="") for part in (federation, *more))
    return "/v1/federations/" + "/".join(quoted)
