"""The service's HTTP interface. Who calls is the name in the client certificate; what they may do follows from it.

==========  ============================================  ====================================================
GET         /health                                       whether the state can be read
GET         /v1/federations                               names of the caller's federations
PUT         /v1/federations/{federation}                  make one (JSON of options); the caller becomes its owner
GET         /v1/federations/{federation}                  how it stands
GET         /v1/federations/{federation}/public           public keys, for everybody with a certificate
POST        /v1/federations/{federation}/masks            sealed seeds in, masks out
PUT         /v1/federations/{federation}/statistics       the Gram that the server computed
PUT         /v1/federations/{federation}/rows             sizes and diagonal, where rows come on demand
PUT         /v1/federations/{federation}/rows/{client}    the row of one client
PUT/DELETE  /v1/federations/{federation}/uploads/{client} one client's upload, by the owner or by that client
POST        /v1/federations/{federation}/rounds/{n}       the cohort of a round
PUT         /v1/federations/{federation}/rounds/{n}       the outcome of a round
==========  ============================================  ====================================================

All but the first two are done by :class:`LocalSelector`; nothing here decides anything but who may ask it. Bodies are never
logged.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import math
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from fedcbs.errors import FedCBSError, InvalidArgumentError, MissingExtraError, NotAllowedError
from fedcbs.service import _codec as codec
from fedcbs.service._errors import error_to_json, status_of
from fedcbs.service._limits import Limits, Pace
from fedcbs.service._link import FederationOptions, Membership
from fedcbs.service._local import LocalSelector

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["ANYBODY", "make_app"]

ANYBODY = "anybody"
"""The name of callers without a certificate, where the service runs without TLS on the loopback interface."""

SMALL = 2**16
LOG = logging.getLogger("fedcbs.service")

Handler = Callable[["Request"], Awaitable["Response"]]


def make_app(
    link: LocalSelector,
    *,
    limits: Limits | None = None,
    servers: Iterable[str] | None = None,
    modes: Iterable[str] | None = None,
) -> Starlette:
    """Return the service as an ASGI application.

    Parameters
    ----------
    link
        The selector that it stands before.
    limits
        How much callers may ask.
    servers
        Names that may make federations; everybody with a certificate where none are given.
    modes
        Modes that federations may have; all where none are given.
    """
    try:
        from starlette.applications import Starlette
        from starlette.routing import Route
    except ImportError:
        raise MissingExtraError("starlette", extra="serve", purpose="the selector's service") from None
    calls = _Calls(link, limits or Limits(), servers, modes)
    one = "/v1/federations/{federation}"
    routes = [
        ("/health", "GET", calls.health),
        ("/v1/federations", "GET", calls.federations),
        (one, "PUT", calls.create),
        (one, "GET", calls.status),
        (f"{one}/public", "GET", calls.public),
        (f"{one}/masks", "POST", calls.masks),
        (f"{one}/statistics", "PUT", calls.statistics),
        (f"{one}/rows", "PUT", calls.rows),
        (f"{one}/rows/{{client}}", "PUT", calls.row),
        (f"{one}/uploads/{{client}}", "PUT", calls.upload),
        (f"{one}/uploads/{{client}}", "DELETE", calls.remove),
        (f"{one}/rounds/{{round_index:int}}", "POST", calls.select),
        (f"{one}/rounds/{{round_index:int}}", "PUT", calls.observe),
    ]
    return Starlette(
        routes=[Route(path, calls.guarded(handler), methods=[method]) for path, method, handler in routes]
    )


class _Calls:
    """What each route does."""

    def __init__(
        self,
        link: LocalSelector,
        limits: Limits,
        servers: Iterable[str] | None,
        modes: Iterable[str] | None,
    ) -> None:
        self._link, self._limits, self._pace = link, limits, Pace(limits)
        self._servers = None if servers is None else frozenset(servers)
        self._modes = None if modes is None else tuple(modes)

    def guarded(self, handler: Handler) -> Handler:
        """Wrap a handler: pace before it, and errors as answers after it."""

        async def guarded(request: Request) -> Response:
            peer = _peer(request)
            wait = self._pace.wait(peer)
            if wait > 0:
                problem = {"error": "ServiceError", "message": "too many requests; wait, and ask again"}
                return _json(problem, 429, {"Retry-After": str(math.ceil(wait))})
            try:
                response = await handler(request)
            except FedCBSError as error:
                response = _json(error_to_json(error), status_of(error))
            except Exception as error:  # whatever it is, the others' requests go on
                place = _place(error)
                LOG.error("%s %s: %s at %s", request.method, request.url.path, type(error).__name__, place)
                problem = {"error": "ServiceError", "message": "the service failed; its log says where"}
                response = _json(problem, 500)
            LOG.info("%s %s %s %d", peer, request.method, request.url.path, response.status_code)
            return response

        return guarded

    async def health(self, _request: Request) -> Response:
        await _thread(self._link.federations)
        return _json({"status": "ok"})

    async def federations(self, request: Request) -> Response:
        peer = _peer(request)
        names = await _thread(self._link.federations)
        return _json({"federations": [name for name in names if self._link.owner(name) == peer]})

    async def create(self, request: Request) -> Response:
        peer = _peer(request)
        if self._servers is not None and peer not in self._servers:
            raise NotAllowedError(
                f"the certificate's name {peer!r} may not make federations; the selector's operator allows names by --server"
            )
        options = _options(_document(await self._body(request, SMALL)))
        if self._modes is not None and options.mode not in self._modes:
            raise NotAllowedError(
                f"mode={options.mode!r} is not offered by this selector; it offers {', '.join(self._modes)}"
            )
        name = request.path_params["federation"]
        return _json(dataclasses.asdict(await _thread(self._link.create, name, options, owner=peer)))

    async def status(self, request: Request) -> Response:
        name = await self._owned(request)
        return _json(dataclasses.asdict(await _thread(self._link.status, name)))

    async def public(self, request: Request) -> Response:
        keys = await _thread(self._link.public_keys, request.path_params["federation"])
        return _bytes(codec.public_to_bytes(keys))

    async def masks(self, request: Request) -> Response:
        name = await self._owned(request)
        seeds = codec.named_from_bytes("seeds", await self._body(request, self._limits.largest_request))
        return _bytes(await _thread(self._link.masks, name, seeds))

    async def statistics(self, request: Request) -> Response:
        name = await self._owned(request)
        gram = await self._body(request, self._limits.largest_request)
        return _members(await _thread(self._link.put_statistics, name, gram))

    async def rows(self, request: Request) -> Response:
        name = await self._owned(request)
        setup = await self._body(request, self._limits.largest_request)
        return _members(await _thread(self._link.put_rows, name, setup))

    async def row(self, request: Request) -> Response:
        name = await self._owned(request)
        row = await self._body(request, self._limits.largest_request)
        await _thread(self._link.put_row, name, request.path_params["client"], row)
        return _json({})

    async def upload(self, request: Request) -> Response:
        name, client = await self._owned(request, or_client=True), request.path_params["client"]
        upload = await self._body(request, self._limits.largest_upload)
        await _thread(self._link.put_upload, name, client, upload)
        return _json({})

    async def remove(self, request: Request) -> Response:
        name, client = await self._owned(request, or_client=True), request.path_params["client"]
        await _thread(self._link.remove_upload, name, client)
        return _json({})

    async def select(self, request: Request) -> Response:
        name = await self._owned(request)
        document = _document(await self._body(request, self._limits.largest_request))
        cohort = await _thread(
            self._link._select,
            name,
            round_index=request.path_params["round_index"],
            cohort_size=document.get("cohort_size"),
            available=_names(document, "available"),
            answers=_answers(document.get("answers", {})),
            redo=document.get("redo") is True,
        )
        return _json(codec.cohort_to_json(cohort))

    async def observe(self, request: Request) -> Response:
        name = await self._owned(request)
        document = _document(await self._body(request, self._limits.largest_request))
        learnt = document.get("learnt", {})
        if not isinstance(learnt, dict):
            raise InvalidArgumentError("learnt must be an object of arrays by name")
        await _thread(
            self._link.observe,
            name,
            request.path_params["round_index"],
            answered=_names(document, "answered"),
            failed=_names(document, "failed"),
            **{key: codec.array_from_json(value, key) for key, value in learnt.items()},
        )
        return _json({})

    async def _owned(self, request: Request, *, or_client: bool = False) -> str:
        """Return the federation's name if the caller may use it; before any of the body is read."""
        name, peer = str(request.path_params["federation"]), _peer(request)
        if or_client and peer == request.path_params["client"]:
            return name
        if await _thread(self._link.owner, name) != peer:
            raise NotAllowedError(f"federation {name!r} is not one of the certificate's name {peer!r}")
        return name

    async def _body(self, request: Request, most: int) -> bytes:
        """Read a body, and stop as soon as it is too large or too slow."""
        too_large = InvalidArgumentError(
            f"the request is larger than {most} bytes, which is as much as is taken"
        )
        declared = request.headers.get("content-length", "0")
        if declared.isascii() and declared.isdigit() and int(declared[:20]) > most:
            raise too_large
        pieces: list[bytes] = []
        size = 0
        stream = request.stream().__aiter__()
        while True:
            try:
                piece = await asyncio.wait_for(anext(stream), self._limits.body_seconds)
            except StopAsyncIteration:
                return b"".join(pieces)
            except TimeoutError:
                raise InvalidArgumentError(
                    f"nothing more of the request came in {self._limits.body_seconds:g} s"
                ) from None
            size += len(piece)
            if size > most:
                raise too_large
            pieces.append(piece)


def _peer(request: Request) -> str:
    peer = request.scope.get("state", {}).get("peer")
    if not isinstance(peer, str) or not peer:
        raise NotAllowedError("the client certificate has no common name; make one with one")
    return peer


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidArgumentError("the request is no JSON") from None
    if not isinstance(document, dict):
        raise InvalidArgumentError("the request must be a JSON object")
    return document


def _options(document: dict[str, Any]) -> FederationOptions:
    known = {field.name: field for field in dataclasses.fields(FederationOptions)}
    for name, value in document.items():
        if name not in known:
            raise InvalidArgumentError(f"{name!r} is no option of a federation; known: {', '.join(known)}")
        wanted = str if name in ("mode", "selector") else int
        if not (type(value) is wanted or (name == "seed" and value is None)):
            raise InvalidArgumentError(
                f"{name}={value!r} must be {'a text' if wanted is str else 'a whole number'}"
            )
    if "num_classes" not in document:
        raise InvalidArgumentError("num_classes is missing; say how many classes there are")
    return FederationOptions(**document)


def _names(document: dict[str, Any], key: str) -> tuple[str, ...]:
    names = document.get(key)
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise InvalidArgumentError(f"{key} must be a list of names of clients")
    return tuple(names)


def _answers(document: object) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise InvalidArgumentError("answers must be an object")
    found = {}
    for key, value in document.items():
        if not isinstance(value, dict):
            raise InvalidArgumentError(f"answers[{key!r}] must be an object with clients and values")
        found[key] = (_names(value, "clients"), codec.array_from_json(value.get("values"), key))
    return found


def _place(error: BaseException) -> str:
    """Where an error was raised; its message could quote what nobody is to read."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return "?" if step is None else f"{step.tb_frame.f_code.co_filename}:{step.tb_lineno}"


def _json(document: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse(document, status, headers)


def _members(members: Membership) -> Response:
    return _json({"clients": list(members.clients), "refused": dict(members.refused)})


def _bytes(content: bytes) -> Response:
    from starlette.responses import Response

    return Response(content, media_type="application/octet-stream")


async def _thread(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return await asyncio.to_thread(function, *args, **options)
