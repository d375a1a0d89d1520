"""The client's side: an app that also answers what selection asks.

    app = with_answers(app, label_counts=count_labels, losses=local_losses)

The functions are the user's and see the node's own data. A client that is never asked for something need not be able to
tell it. Label counts leave the node only as the federation's privacy mode encodes them, under a public key whose
fingerprint the node's operator pins in its configuration (``fedcbs-fingerprint``); a node with a pinned fingerprint
refuses to tell its label counts in the clear.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, cast

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from numpy.typing import ArrayLike, NDArray

from fedcbs import _checks
from fedcbs.errors import InvalidArgumentError
from fedcbs.flower import _client_privacy as privacy
from fedcbs.flower._errors import FederationError
from fedcbs.flower._log import LOG
from fedcbs.flower._relay import relayed
from fedcbs.flower._vectors import difference
from fedcbs.flower._wire import RECORD, Query, first_arrays, packed, values

__all__ = ["Losses", "with_answers"]

Counts = Callable[[Context], Sequence[int] | NDArray[np.integer[Any]]]
Sizes = Callable[[Context], int]
Losses = Callable[[ArrayRecord, Context, int | None], ArrayLike]
Durations = Callable[[Context], tuple[float, float]]


def with_answers(
    app: ClientApp,
    *,
    label_counts: Counts | None = None,
    num_examples: Sizes | None = None,
    losses: Losses | None = None,
    durations: Durations | None = None,
) -> ClientApp:
    """Return the app with the answers that selection needs; all else goes to the app as before.

    Works for apps of registered functions and for those made from a `client_fn`. Give what the selector needs:
    ``fedcbs selectors`` lists it.

    Parameters
    ----------
    app
        Any :class:`flwr.clientapp.ClientApp`.
    label_counts
        ``label_counts(context)`` tells how many training examples of each class the node has.
    num_examples
        ``num_examples(context)`` tells how many there are; by default the sum of `label_counts`.
    losses
        ``losses(arrays, context, limit)`` tells the loss of each training example at the model in `arrays`, of `limit`
        examples where that is not None. A single number is taken as their mean.
    durations
        ``durations(context)`` tells the seconds that training and upload are expected to take; by default they are
        learnt from the first rounds.
    """
    if not isinstance(app, ClientApp):
        raise InvalidArgumentError(f"app={app!r} must be a flwr ClientApp")
    kind = type(app)
    combined = type(f"Answering{kind.__name__}", (_Answering, kind), {})
    answering: Any = object.__new__(combined)
    answering.__dict__.update(app.__dict__)
    answering.__dict__["_fedcbs"] = _Answers(label_counts, num_examples, losses, durations)
    return cast(ClientApp, answering)


class _Answering(ClientApp):
    """What is put in front of the app's own class."""

    _fedcbs: _Answers

    def __call__(self, message: Message, context: Context) -> Message:
        """Answer our own queries; add to training replies what the server asked for."""
        category, _, action = message.metadata.message_type.partition(".")
        if category == "train" and message.has_content() and RECORD in message.content:
            return self._fedcbs.trained(message, context, super().__call__)
        if category != "query" or action not in set(Query):
            return super().__call__(message, context)
        if action == Query.UPDATES:
            return Message(self._fedcbs.update(message, context, super().__call__), reply_to=message)
        lifespan = getattr(
            self, "_lifespan", nullcontext
        )  # what the app sets up, the user's functions may rely on
        with lifespan(context):
            return Message(self._fedcbs.answer(Query(action), message, context), reply_to=message)


class _Answers:
    """The user's functions, and the answers made of them."""

    def __init__(
        self,
        label_counts: Counts | None,
        num_examples: Sizes | None,
        losses: Losses | None,
        durations: Durations | None,
    ) -> None:
        self._label_counts = label_counts
        self._num_examples = num_examples
        self._losses = losses
        self._durations = durations

    def answer(self, query: Query, message: Message, context: Context) -> RecordDict:
        """Answer a question that does not need the app itself."""
        if query is Query.HELLO:
            return packed({"name": _name(context)})
        if query is Query.STATISTICS:
            return self._statistics(message.content, context)
        if query is Query.LOSSES:
            limit = values(message.content).get("limit")
            return packed(self._loss(first_arrays(message.content), context, cast("int | None", limit)))
        return relayed(message.content, context)

    def _statistics(self, question: RecordDict, context: Context) -> RecordDict:
        asked = values(question)
        wanted = set(cast(list[str], asked["ask"]))
        entries: dict[str, Any] = {"name": _name(context)}
        blobs = {}
        if "label-counts" in wanted:
            entries["label-counts"] = privacy.clear_counts(self._counts(context), context)
        if "num-examples" in wanted:
            entries["num-examples"] = self._size(context)
        if "upload" in wanted:
            blobs["upload"] = privacy.upload(self._counts(context), question, context, entries["name"])
        if "durations" in wanted and self._durations is not None:
            entries["durations"] = [float(seconds) for seconds in self._durations(context)]
        return packed(entries, blobs)

    def _counts(self, context: Context) -> list[int]:
        if self._label_counts is None:
            raise FederationError("label counts were asked for; give label_counts= to with_answers")
        counts = _checks.integers(self._label_counts(context), "label_counts")
        return [int(count) for count in counts]

    def _size(self, context: Context) -> int:
        if self._num_examples is not None:
            return _checks.integer(self._num_examples(context), "num_examples", minimum=0)
        if self._label_counts is None:
            raise FederationError("the number of examples was asked for; give num_examples= to with_answers")
        return sum(self._counts(context))

    def _loss(self, arrays: ArrayRecord, context: Context, limit: int | None) -> dict[str, float]:
        if self._losses is None:
            raise FederationError("the local loss was asked for; give losses= to with_answers")
        told = np.asarray(self._losses(arrays, context, limit), dtype=np.float64)
        if told.size == 0:
            raise FederationError("losses= returned no loss; a client without examples has none")
        entries = {"loss": float(told.mean())}
        if told.ndim:
            entries["rms-loss"] = math.sqrt(float(np.mean(told**2)))
        return entries

    def trained(
        self, message: Message, context: Context, call: Callable[[Message, Context], Message]
    ) -> Message:
        """Train as the app does, and add what the server asked for with the message."""
        record = message.content.pop(RECORD)
        wanted = set(cast(Mapping[str, list[str]], record)["report"])
        entries: dict[str, Any] = {}
        if "losses" in wanted:
            try:
                entries.update(self._loss(first_arrays(message.content), context, None))
            except Exception as error:  # the training counts all the same, whatever the user's function does
                LOG.warning("no loss is told with the training: %s: %s", type(error).__name__, error)
        start = time.monotonic()
        reply = call(message, context)
        entries["seconds"] = time.monotonic() - start
        if reply.has_content():
            reply.content[RECORD] = ConfigRecord(entries)
        return reply

    def update(
        self, message: Message, context: Context, call: Callable[[Message, Context], Message]
    ) -> RecordDict:
        """Train as the app does, but only to tell the update or its norm; the node's state stays as it was."""
        record = cast(Mapping[str, Any], message.content.pop(RECORD))
        start = first_arrays(message.content)
        kind, state = message.metadata.message_type, context.state
        context.state = copy.deepcopy(state)
        try:
            message.metadata.message_type = str(record["train"])
            reply = call(message, context)
        finally:
            message.metadata.message_type, context.state = kind, state
        if reply.has_error():
            raise FederationError(f"training failed: {reply.error.reason}")
        update = difference(first_arrays(reply.content), start)
        if record["norm"]:
            return packed({"norm": float(np.linalg.norm(update))})
        return packed({}, {"update": update.astype("<f4").tobytes()})


def _name(context: Context) -> str:
    """The name that the node's operator gave, or its part of the data; empty where there is neither."""
    for key in ("fedcbs-name", "partition-id"):
        if key in context.node_config:
            return str(context.node_config[key])
    return ""
