"""Requests to the selector's service that travel through a SuperNode of its organisation.

For federations in which the server's machine must not reach the selector directly: the selector's organisation runs an
ordinary SuperNode, whose configuration says where its service is::

    --node-config 'fedcbs-selector-url="https://localhost:8443" fedcbs-selector-certificates="/etc/fedcbs/certificates"'

The node passes bytes on and holds no key: the app that it runs came from the server's side. It is never trained on.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast, final

from flwr.app import Context, RecordDict
from flwr.serverapp import Grid

from fedcbs import _checks
from fedcbs.errors import FedCBSError, InvalidArgumentError, UnreachableError
from fedcbs.flower._ask import ask
from fedcbs.flower._errors import FederationError, WrongAnswerError
from fedcbs.flower._wire import Query, blob, packed, values
from fedcbs.service import SelectorClient
from fedcbs.service._client import RemoteSelector
from fedcbs.service._errors import error_from_json, error_to_json

__all__ = ["RelayedSelector", "relayed"]

URL = "fedcbs-selector-url"
CERTIFICATES = "fedcbs-selector-certificates"
CALLER = "fedcbs-selector-caller"
PATHS = re.compile(r"/v1/federations/[^/]+(/[a-z]+(/[^/]+)?)?")
PATIENCE = 5.0
"""Seconds that a node keeps trying; the server tries again for longer."""


@final
class RelayedSelector(RemoteSelector):
    """A selector that is reached through a SuperNode of its organisation.

    Parameters
    ----------
    node
        The SuperNode's name (``flwr supernode register --name``), its public key (as the line of its ``.pub`` file), or
        its id.
    timeout
        Seconds that one request may take.
    """

    def __init__(self, node: str, *, timeout: float = 300.0) -> None:
        if not isinstance(node, str) or not node.strip():
            raise InvalidArgumentError(f"node={node!r} must be the name, public key or id of a SuperNode")
        self._node = node.strip()
        self._timeout = _checks.real(timeout, "timeout", minimum=0, open_minimum=True)
        self._grid: Grid | None = None

    def bind(self, grid: Grid) -> None:
        """Note the grid of the run."""
        self._grid = grid

    def own_nodes(self, grid: Grid) -> frozenset[int]:
        """The relaying node, if it is online."""
        return frozenset(info.node_id for info in grid.get_nodes() if self._is_it(info))

    def _is_it(self, info: Any) -> bool:
        key = bytes(getattr(info, "public_key", b""))
        names = {getattr(info, "name", ""), str(info.node_id)}
        return self._node in names or (bool(key) and _same_key(key, self._node))

    def _send(self, method: str, path: str, body: bytes = b"") -> bytes:
        if self._grid is None:
            raise FederationError(
                "a relayed selector is reached from within a run only; give it to with_selector"
            )
        nodes = self.own_nodes(self._grid)
        if len(nodes) != 1:
            found = "no SuperNode" if not nodes else f"{len(nodes)} SuperNodes"
            raise UnreachableError(f"{found} online is {self._node[:60]!r}, which relays to the selector")
        (node,) = nodes
        content = packed({"method": method, "path": path}, {"body": body})
        answers = ask(self._grid, {node: content}, Query.RELAY, timeout=self._timeout)
        if node in answers.failed:
            raise UnreachableError(
                f"the SuperNode {self._node[:60]!r} does not relay: {answers.failed[node]}"
            )
        told = answers.contents[node]
        if "error" in values(told):
            raise error_from_json(json.loads(str(values(told)["error"])))
        try:
            return blob(told, "answer")
        except WrongAnswerError as error:
            raise UnreachableError(f"the SuperNode {self._node[:60]!r} relays no answer: {error}") from None


def relayed(question: RecordDict, context: Context) -> RecordDict:
    """Pass a request on to the selector, if this node is its organisation's."""
    if URL not in context.node_config:
        raise FederationError(f"this node relays to no selector; {URL} is not in its configuration")
    entries = values(question)
    method, path = str(entries["method"]), str(entries["path"])
    if method not in ("GET", "PUT", "POST", "DELETE") or not PATHS.fullmatch(path):
        raise FederationError(f"{method} {path[:80]!r} is no request to a selector")
    certificates = cast("str | None", context.node_config.get(CERTIFICATES))
    caller = str(context.node_config.get(CALLER, "server"))
    url = str(context.node_config[URL])
    try:
        with SelectorClient(url, certificates=certificates, name=caller, patience=PATIENCE) as link:
            answer = link.forward(method, path, blob(question, "body"))
    except FedCBSError as error:
        return packed({"error": json.dumps(error_to_json(error))})
    return packed({}, {"answer": answer})


def _same_key(key: bytes, line: str) -> bool:
    """Whether two public keys are one, as PEM or as the line of an OpenSSH file."""
    if key.decode(errors="replace").split()[:2] == line.split()[:2]:
        return True
    try:
        from cryptography.hazmat.primitives import serialization

        load = serialization.load_ssh_public_key
        other = load(line.encode())
        mine = load(key) if key.startswith(b"ecdsa") else serialization.load_pem_public_key(key)
    except (ImportError, ValueError):
        return False
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return mine.public_bytes(*form) == other.public_bytes(*form)
