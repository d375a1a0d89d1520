"""Replies to training: whose they are, which of them can be used, and what the selector learns from them.

A reply that cannot be used (numbers that are not finite, other arrays than everybody else's, no weight) becomes an error
reply in its node's place, so that the strategy treats it as it treats a node that failed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from flwr.app import Error, Message, MetricRecord, RecordDict

from fedcbs.flower._ask import last_line, sender
from fedcbs.flower._vectors import is_finite, same_form
from fedcbs.flower._wire import first_arrays

__all__ = ["Replies", "first_metrics", "sort_replies"]

GARBAGE = 0
"""Flower's code for an error of unknown kind."""


class Replies:
    """Replies of a round by client.

    Parameters
    ----------
    usable
        Replies by name.
    reasons
        Why there is none, by name.
    passed_on
        What the strategy gets to see: the usable ones, and errors in place of the others.
    """

    def __init__(self, usable: dict[str, Message], reasons: dict[str, str], passed_on: list[Message]) -> None:
        self.usable = usable
        self.reasons = reasons
        self.passed_on = passed_on


def sort_replies(
    replies: Sequence[Message], sent: Mapping[str, Message], *, weight_key: str | None, check: bool
) -> Replies:
    """Tell usable replies from the others; `sent` are the messages of training by client."""
    name_at = {message.metadata.dst_node_id: name for name, message in sent.items()}
    node_of = sender(sent.values())
    first: dict[str, Message] = {}
    for reply in replies:
        name = name_at.get(node_of(reply))
        if name is not None:
            first.setdefault(name, reply)
    # In the cohort's order: sums of floating-point numbers must not depend on whose reply came first.
    came = {name: first[name] for name in sent if name in first}
    candidates = {name: reply for name, reply in came.items() if not reply.has_error()}
    reasons = dict.fromkeys(set(sent) - set(came), "no reply before the timeout")
    for name in set(came) - set(candidates):
        error = came[name].error
        reasons[name] = f"error {error.code}: {last_line(error.reason)}"
    for name, why in (_garbage(candidates, sent, weight_key) if check else {}).items():
        reasons[name] = why
        came[name] = Message(Error(code=GARBAGE, reason=why), reply_to=sent[name])
        del candidates[name]
    return Replies(candidates, {name: reasons[name] for name in sent if name in reasons}, list(came.values()))


def first_metrics(content: RecordDict) -> MetricRecord | None:
    """The metrics of a reply, under whatever name they go."""
    return next(iter(content.metric_records.values()), None)


def _garbage(
    replies: Mapping[str, Message], sent: Mapping[str, Message], weight_key: str | None
) -> dict[str, str]:
    """Replies that would spoil the aggregate or stop the run, and why."""
    wrong = {name: why for name, reply in replies.items() if (why := _broken(reply.content, weight_key))}
    forms = {
        name: _form(reply.content, sent[name].content) for name, reply in replies.items() if name not in wrong
    }
    if forms:
        # What fits the model that was sent comes first; a strategy that sends something else is judged by the majority.
        usual = max(Counter(forms.values()).items(), key=lambda item: (item[0][0], item[1]))[0]
        for name, form in forms.items():
            if form != usual:
                wrong[name] = "its arrays or metrics have other names or shapes than those of the others"
    return wrong


def _broken(content: RecordDict, weight_key: str | None) -> str | None:
    if not all(is_finite(record) for record in content.array_records.values()):
        return "its arrays hold numbers that are not finite"
    metrics = first_metrics(content)
    weight = None if metrics is None or weight_key is None else metrics.get(weight_key)
    if isinstance(weight, int | float) and not (math.isfinite(weight) and weight >= 0):
        return f"its {weight_key} is {weight}"
    return None


Form = tuple[bool, tuple[object, ...]]


def _form(content: RecordDict, sent: RecordDict) -> Form:
    records = list(content.array_records.items())
    fits = len(records) == 1 and bool(sent.array_records) and same_form(records[0][1], first_arrays(sent))
    arrays = tuple(sorted(name for name, _ in records))
    metrics = tuple(sorted((name, tuple(sorted(record))) for name, record in content.metric_records.items()))
    return fits, (arrays, metrics)
