"""Running the service: TLS with client certificates, on uvicorn."""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import logging
import os
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcbs import _checks
from fedcbs._files import existing_file
from fedcbs.errors import InvalidArgumentError, MissingExtraError
from fedcbs.service._app import ANYBODY
from fedcbs.service._limits import Limits

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ["Listen", "serve"]

GRACE_SECONDS = 60


@dataclasses.dataclass(frozen=True)
class Listen:
    """Where the service listens, and how it knows who calls.

    Parameters
    ----------
    host, port
        Address; port 0 takes a free one.
    certificates
        Folder with ``selector.pem``, ``selector.key`` and ``ca.pem``, as ``fedcbs selector certificates`` makes it.
    insecure
        Whether to do without TLS, which is possible on the loopback interface only: whoever can reach it is the same
        caller then.
    """

    host: str = "127.0.0.1"
    port: int = 8443
    certificates: str | os.PathLike[str] | None = None
    insecure: bool = False

    def __post_init__(self) -> None:
        _checks.integer(self.port, "port", minimum=0, maximum=65535)
        if self.insecure == (self.certificates is not None):
            raise InvalidArgumentError(
                "certificates: name a folder of them (fedcbs selector certificates makes one), or say --insecure"
                " to do without TLS on the loopback interface; not both"
            )
        if self.insecure and not _is_loopback(self.host):
            raise InvalidArgumentError(
                f"host={self.host!r} is not the loopback interface, and --insecure works there only; use certificates"
            )

    def context(self) -> ssl.SSLContext | None:
        """TLS 1.3 and nothing older; callers without a certificate of the authority are turned away."""
        if self.certificates is None:
            return None
        folder = Path(self.certificates)
        paths = [
            existing_file(folder / name, "certificates")
            for name in ("selector.pem", "selector.key", "ca.pem")
        ]
        if os.name == "posix" and paths[1].stat().st_mode & 0o077:
            raise InvalidArgumentError(
                f"certificates: others can read {str(paths[1])!r}; run: chmod 600 {paths[1]}"
            )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_cert_chain(paths[0], paths[1])
            context.load_verify_locations(paths[2])
        except (ssl.SSLError, OSError) as error:
            raise InvalidArgumentError(
                f"certificates={str(folder)!r} cannot be used ({error}); make new ones"
            ) from None
        return context


def serve(
    app: Starlette,
    listen: Listen,
    *,
    limits: Limits | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until a signal says to end; requests that are under way are finished first.

    Parameters
    ----------
    app
        What :func:`make_app` returned.
    listen
        Where.
    limits
        How many connections at once.
    ready
        Called with the address once it listens.
    """
    try:
        import uvicorn
    except ImportError:
        raise MissingExtraError("uvicorn", extra="serve", purpose="the selector's service") from None
    context = listen.context()
    config = uvicorn.Config(
        app,
        http=_protocol(secure=context is not None),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        limit_concurrency=(limits or Limits()).connections,
        timeout_graceful_shutdown=GRACE_SECONDS,
        h11_max_incomplete_event_size=2**16,
    )
    config.load()
    config.ssl = context
    listener = _listener(listen)
    name = f"{'http' if context is None else 'https'}://{_address(listener)}"
    if ready is not None:
        ready(name)
    with contextlib.closing(listener), _ends_on_signals():
        uvicorn.Server(config).run(sockets=[listener])


def _protocol(*, secure: bool) -> type[Any]:
    """The HTTP protocol that knows the name in the peer's certificate, and hands it on with each request."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Named(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            peer = _common_name(transport) if secure else ANYBODY
            self.app_state = {**self.app_state, "peer": peer}

    return Named


def _common_name(transport: Any) -> str:
    certificate = transport.get_extra_info("peercert") or {}
    for part in certificate.get("subject", ()):
        for key, value in part:
            if key == "commonName":
                return str(value)
    return ""


def _listener(listen: Listen) -> socket.socket:
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    try:
        return socket.create_server((listen.host, listen.port), family=family)
    except OSError as error:
        raise InvalidArgumentError(
            f"host={listen.host!r}, port={listen.port}: cannot listen there ({error.strerror or error}); choose another"
        ) from error


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@contextlib.contextmanager
def _ends_on_signals() -> Iterator[None]:
    """Let uvicorn end on SIGTERM and SIGINT, and the process go on to close its files instead of dying of the signal."""
    seen = logging.getLogger("fedcbs.service")

    def handle(number: int, _frame: object) -> None:
        seen.info("ended by %s", signal.Signals(number).name)

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
