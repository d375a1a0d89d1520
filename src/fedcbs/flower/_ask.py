"""Questions to nodes by Flower's query messages: who answered what, who did not and why, and how many bytes it took."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fedcbs.flower._wire import Query, content_bytes

__all__ = ["Answers", "Traffic", "ask", "sender"]

NO_ANSWER = "no answer before the timeout"


@dataclasses.dataclass
class Traffic:
    """Bytes of messages' contents: `down` to the nodes, `up` from them."""

    down: int = 0
    up: int = 0

    def add(self, other: Traffic) -> None:
        """Count what another one counted."""
        self.down += other.down
        self.up += other.up


@dataclasses.dataclass(frozen=True)
class Answers:
    """Answers by node, the reasons of those that gave none, and the bytes."""

    contents: Mapping[int, RecordDict]
    failed: Mapping[int, str]
    traffic: Traffic


def ask(grid: Grid, contents: Mapping[int, RecordDict], query: Query, *, timeout: float) -> Answers:
    """Send each node its question and wait for the answers, `timeout` seconds at most.

    A message lives as long as somebody waits for it: a node that comes back later finds no stale questions.
    """
    if not contents:
        return Answers({}, {}, Traffic())
    messages = [
        Message(content, dst_node_id=node, message_type=query.message_type, ttl=timeout)
        for node, content in contents.items()
    ]
    replies = list(grid.send_and_receive(messages, timeout=timeout))
    name_of = sender(messages)
    answered: dict[int, RecordDict] = {}
    failed: dict[int, str] = {}
    for reply in replies:
        node = name_of(reply)
        if reply.has_error():
            failed[node] = f"error {reply.error.code}: {last_line(reply.error.reason)}"
        else:
            answered[node] = reply.content
    for node in contents:
        if node not in answered:
            failed.setdefault(node, NO_ANSWER)
    return Answers(answered, failed, Traffic(_total(contents.values()), _total(answered.values())))


def sender(messages: Iterable[Message]) -> Callable[[Message], int]:
    """Return the function that tells which node a reply stands for.

    An error made by the SuperLink in a node's place has the SuperLink as its source, so the message that it replies to
    decides.
    """
    asked = {message.metadata.message_id: message.metadata.dst_node_id for message in messages}

    def of(reply: Message) -> int:
        return asked.get(reply.metadata.reply_to_message_id, reply.metadata.src_node_id)

    return of


def last_line(reason: str | None) -> str:
    r"""The end of a traceback is what says something.

    >>> last_line("Traceback ...\nValueError: no data\n")
    'ValueError: no data'
    """
    lines = [line for line in (reason or "").splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else "no reason given"


def _total(contents: Iterable[RecordDict]) -> int:
    sizes: dict[int, int] = {}  # many messages share one content
    total = 0
    for content in contents:
        if id(content) not in sizes:
            sizes[id(content)] = content_bytes(content)
        total += sizes[id(content)]
    return total
