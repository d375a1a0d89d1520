"""A grid whose nodes are real client apps in this process, with faults on demand, and no clock to wait for."""

from __future__ import annotations

import contextlib
import copy
import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

try:
    from flwr.supercore.task_identity import TaskIdentity
except ImportError:
    TaskIdentity = None

MODEL = {"weight": np.zeros((3, 2), dtype=np.float32), "bias": np.zeros(2, dtype=np.float32)}
NO_ANSWER = object()

Fault = Callable[[Message], object]


def identify() -> None:
    """Flower from 1.38 on makes no message without a task."""
    if TaskIdentity is not None:
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1


def model() -> ArrayRecord:
    return ArrayRecord({name: _array(value) for name, value in MODEL.items()})


def _array(value: np.ndarray) -> Any:
    from flwr.app import Array

    return Array(value)


class FakeNode:
    """A node: an app, its context, and what goes wrong with it."""

    def __init__(self, app: ClientApp, node_id: int, config: dict[str, Any]) -> None:
        self.app = app
        self.context = Context(
            run_id=1, node_id=node_id, node_config=config, state=RecordDict(), run_config={}
        )
        self.online = True
        self.fault: Fault | None = None
        self.received: list[str] = []


class FakeGrid(Grid):
    """Delivers messages at once; a message to a dead node stays without a reply."""

    def __init__(self, apps: Sequence[ClientApp], *, first_id: int = 1000, start: int = 0) -> None:
        identify()
        ids = [first_id + 7919 * (number * 31 % 97) + number for number in range(len(apps))]
        self.nodes = {
            node_id: FakeNode(app, node_id, {"partition-id": start + number})
            for number, (node_id, app) in enumerate(zip(ids, apps, strict=True))
        }
        self.timeouts: list[float | None] = []
        self.sent: list[Message] = []
        self._numbers = itertools.count()

    def node(self, partition: int) -> FakeNode:
        return next(
            node for node in self.nodes.values() if node.context.node_config["partition-id"] == partition
        )

    def partition_of(self, node_id: int) -> int:
        return int(self.nodes[node_id].context.node_config["partition-id"])

    def add(self, app: ClientApp, node_id: int, **config: Any) -> FakeNode:
        self.nodes[node_id] = FakeNode(app, node_id, config)
        return self.nodes[node_id]

    def get_node_ids(self) -> list[int]:
        return [node_id for node_id, node in self.nodes.items() if node.online]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        assert isinstance(messages, list)
        self.timeouts.append(timeout)
        self.sent += messages
        replies = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = f"message-{next(self._numbers)}"
            with contextlib.suppress(StopIteration):
                replies.append(self._deliver(message))
        return replies[::-1]

    def _deliver(self, message: Message) -> Message:
        node = self.nodes[message.metadata.dst_node_id]
        node.received.append(message.metadata.message_type)
        delivered = copy.copy(message)
        delivered.__dict__["_metadata"] = copy.copy(message.metadata)
        delivered.__dict__["_content"] = RecordDict(dict(message.content))
        outcome = node.fault(delivered) if node.fault is not None else None
        if outcome is NO_ANSWER:
            raise StopIteration
        if isinstance(outcome, Message):
            return outcome
        if isinstance(outcome, Exception):
            return self._error(message, str(outcome))
        try:
            return node.app(delivered, node.context)
        except Exception as error:
            return self._error(message, f"Traceback ...\n{type(error).__name__}: {error}")

    @staticmethod
    def _error(message: Message, reason: str) -> Message:
        reply = Message(Error(code=2, reason=reason), reply_to=message)
        reply.metadata.__dict__["_src_node_id"] = 1  # as the SuperLink's own errors have it
        return reply

    def trained(self) -> list[list[int]]:
        """Partitions that were sent messages of training, round by round."""
        rounds: dict[object, list[int]] = {}
        for message in self.sent:
            if message.metadata.message_type.startswith("train"):
                key = id(message.content)
                rounds.setdefault(key, []).append(self.partition_of(message.metadata.dst_node_id))
        return [sorted(cohort) for cohort in rounds.values()]

    # What a grid must have and these tests do not use.
    def set_run(self, run: Any) -> None: ...

    @property
    def run(self) -> Any:
        return None

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise NotImplementedError

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        raise NotImplementedError


def counts_of(num_clients: int, num_classes: int = 5, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 4, size=(num_clients, num_classes))
    counts[np.arange(num_clients), np.arange(num_clients) % num_classes] += 20
    return counts


def partition(context: Context) -> int:
    return int(context.node_config["partition-id"])


def training_app(counts: np.ndarray) -> ClientApp:
    """An app whose training moves the model by a function of the node's data."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        own = counts[partition(context)]
        step = np.float32(0.01) * np.arange(1, 7, dtype=np.float32) * (1 + partition(context) % 3)
        arrays = message.content["arrays"].to_numpy_ndarrays()
        moved = [arrays[0] + step.reshape(3, 2), arrays[1] + np.float32(own[0])]
        record = ArrayRecord(dict(zip(message.content["arrays"], [_array(a) for a in moved], strict=True)))
        metrics = MetricRecord({"num-examples": int(own.sum()), "train_loss": 1.0 / (1 + partition(context))})
        return Message(RecordDict({"arrays": record, "metrics": metrics}), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        own = counts[partition(context)]
        metrics = MetricRecord({"num-examples": int(own.sum()), "eval_acc": 0.5, "eval_loss": 0.7})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def wait_less(monkeypatch: Any) -> None:
    """Waiting takes no time, but the clock goes on."""
    now = itertools.count(start=time.monotonic(), step=0.5)
    monkeypatch.setattr("fedcbs.flower._roster.time.monotonic", lambda: next(now))
    monkeypatch.setattr("fedcbs.flower._roster.time.sleep", lambda _: None)
