"""What a selector learns from a round, gathered from replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from flwr.app import Message
from numpy.typing import NDArray

from fedcbs.flower._chooser import Chooser, Learnt
from fedcbs.flower._durations import Durations
from fedcbs.flower._errors import FederationError, WrongAnswerError
from fedcbs.flower._log import LOG
from fedcbs.flower._open_round import OpenRound
from fedcbs.flower._replies import Replies
from fedcbs.flower._settings import Settings
from fedcbs.flower._vectors import difference
from fedcbs.flower._wire import first_arrays, values
from fedcbs.selectors import Need

__all__ = ["learn"]

Lesson = Callable[[str, Message], Any]
REMEDIES = {
    Need.LOSSES: "give losses= to with_answers",
    Need.RMS_LOSSES: "give losses= to with_answers, a function that returns the loss of each example",
    Need.UPDATES: "the replies must hold the arrays that were sent, trained",
    Need.CLASS_GRADIENTS: "class_gradients= must return one finite number a class",
}


def learn(
    chooser: Chooser,
    settings: Settings,
    now: OpenRound,
    replies: Replies,
    durations: Durations,
) -> Learnt:
    """Return what the selector declares to learn, of every client whose reply tells it.

    A reply that does not tell it still counts for the model; only the selector takes that client as failed.
    """
    waited = now.waited
    seconds = {
        name: durations.add(name, now.sent[name], reply, waited) for name, reply in replies.usable.items()
    }
    lessons = {
        need: lesson for need, lesson in _lessons(settings, now, seconds).items() if need in chooser.learns
    }
    known = {name: _one(lessons, name, reply) for name, reply in replies.usable.items()}
    taught = [name for name in replies.usable if len(known[name]) == len(lessons)]
    if replies.usable and not taught:
        raise _nothing_learnt(chooser, known)
    answered = taught
    failed = [name for name in now.sent if name not in set(taught)]
    arrays = {
        need.value.replace("-", "_"): np.array([known[name][need] for name in answered], dtype=np.float64)
        for need in lessons
        if answered
    }
    return Learnt(answered=answered, failed=failed, **arrays)


def _lessons(settings: Settings, now: OpenRound, seconds: Mapping[str, float]) -> dict[Need, Lesson]:
    def gradients(_: str, reply: Message) -> NDArray[np.float64]:
        if settings.class_gradients is None:
            raise WrongAnswerError("no class_gradients= was given")
        told = np.asarray(settings.class_gradients(first_arrays(reply.content)), dtype=np.float64)
        if told.ndim != 1 or not np.isfinite(told).all() or (told < 0).any():
            raise WrongAnswerError(f"class_gradients returned {told}")
        return told

    return {
        Need.DURATIONS: lambda name, _: seconds[name],
        Need.LOSSES: lambda _, reply: _number(values(reply.content)["loss"]),
        Need.RMS_LOSSES: lambda _, reply: abs(_number(values(reply.content)["rms-loss"])),
        Need.UPDATES: lambda name, reply: difference(
            first_arrays(reply.content), first_arrays(now.sent[name].content)
        ),
        Need.CLASS_GRADIENTS: gradients,
    }


def _one(lessons: Mapping[Need, Lesson], name: str, reply: Message) -> dict[Need, Any]:
    found = {}
    for need, lesson in lessons.items():
        try:
            found[need] = lesson(name, reply)
        except (WrongAnswerError, KeyError, TypeError, ValueError) as error:
            LOG.warning("client %s: nothing learnt about %s (%s)", name, need, error)
    return found


def _nothing_learnt(chooser: Chooser, known: Mapping[str, Mapping[Need, Any]]) -> FederationError:
    missing = [need for need in sorted(chooser.learns) if all(need not in one for one in known.values())]
    return FederationError(
        f"{chooser.name} learns {', '.join(missing)}, but no reply told it; "
        + "; ".join(sorted({REMEDIES[need] for need in missing if need in REMEDIES}))
    )


def _number(value: object) -> float:
    number = float(value)  # type: ignore[arg-type]  # what is no number raises, and is caught where it is read
    if not np.isfinite(number):
        raise WrongAnswerError(f"{number} is not finite")
    return number
