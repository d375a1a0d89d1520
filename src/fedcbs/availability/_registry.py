"""Names of rules of availability, as a command line spells them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedcbs._files import existing_file
from fedcbs._specs import spec_integers, spec_numbers, split_spec
from fedcbs.availability._always import Always
from fedcbs.availability._base import Availability
from fedcbs.availability._bernoulli import Bernoulli, BernoulliBeta
from fedcbs.availability._markov import Markov
from fedcbs.availability._quota import ClassQuota
from fedcbs.availability._trace import Trace
from fedcbs.availability._uniform import UniformFraction
from fedcbs.errors import InvalidArgumentError, UnknownNameError

__all__ = ["list_availabilities", "parse_availability"]


@dataclass(frozen=True)
class _Entry:
    """How a name becomes a rule: `form` is the full spelling."""

    form: str
    summary: str
    build: Callable[[str], Availability]


def parse_availability(text: str) -> Availability:
    """Return the rule that `text` names, such as ``uniform:0.3``.

    >>> parse_availability("uniform:0.3")
    UniformFraction(fraction=0.3)
    >>> parse_availability("class-quota:9,3")
    ClassQuota(quotas=(9, 3))
    >>> parse_availability("unifrom:0.3")
    Traceback (most recent call last):
    ...
    fedcbs.errors.UnknownNameError: availability='unifrom' is not known; did you mean 'uniform'? Known: always, ...
    """
    name, values = split_spec(text, "availability")
    if name not in _ENTRIES:
        raise UnknownNameError("availability", name, _ENTRIES)
    entry = _ENTRIES[name]
    if ":" not in entry.form:
        if values is not None:
            raise InvalidArgumentError(
                f"availability={text!r}: nothing may follow {name!r}; write {name!r} alone"
            )
    elif not values:
        raise InvalidArgumentError(f"availability={text!r} lacks its value; write {entry.form!r}")
    return entry.build(values or "")


def list_availabilities() -> dict[str, str]:
    """Return each spelling that :func:`parse_availability` knows, with one line of description.

    >>> list_availabilities()["always"]
    'every client, every round'
    """
    return {entry.form: entry.summary for entry in _ENTRIES.values()}


def _numbers(rule: Callable[..., Availability], form: str, count: int) -> Callable[[str], Availability]:
    return lambda values: rule(*spec_numbers(values, "availability", form, count=count))


def _quota(values: str) -> Availability:
    return ClassQuota(tuple(spec_integers(values, "availability", "class-quota:Q,Q[,...]")))


def _bernoulli_file(values: str) -> Availability:
    return Bernoulli(_load_probabilities(values))


def _load_probabilities(path: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Read one probability per line, or a one-dimensional ``.npy`` array."""
    file = existing_file(path, "path")
    try:
        if file.suffix.lower() == ".npy":
            array = np.load(file, mmap_mode="r", allow_pickle=False)
            return np.array(array).astype(np.float64, casting="same_kind")
        lines = file.read_text(encoding="utf-8").split()
        return np.array([float(line) for line in lines])
    except (OSError, ValueError, TypeError, EOFError, MemoryError, OverflowError) as error:
        raise InvalidArgumentError(
            f"path={str(file)!r} holds no probabilities ({error}); write one number per line, or a .npy array"
        ) from error


_ENTRIES = {
    "always": _Entry("always", "every client, every round", lambda _: Always()),
    "uniform": _Entry(
        "uniform:FRACTION",
        "that share of all clients, drawn anew each round",
        _numbers(UniformFraction, "uniform:FRACTION", 1),
    ),
    "class-quota": _Entry(
        "class-quota:Q,Q[,...]",
        "so many clients of each class: first half, second half; or one number a class (Fed-CBS Case 2)",
        _quota,
    ),
    "bernoulli": _Entry(
        "bernoulli:P",
        "each client with that probability, independently",
        _numbers(Bernoulli, "bernoulli:P", 1),
    ),
    "bernoulli-file": _Entry(
        "bernoulli-file:FILE",
        "each client with its own probability: one number per line, or a .npy array",
        _bernoulli_file,
    ),
    "bernoulli-beta": _Entry(
        "bernoulli-beta:A,B",
        "each client with its own probability, drawn once from Beta(A, B)",
        _numbers(BernoulliBeta, "bernoulli-beta:A,B", 2),
    ),
    "markov": _Entry(
        "markov:P_ON,P_OFF",
        "clients come with probability P_ON and go with P_OFF between rounds",
        _numbers(Markov, "markov:P_ON,P_OFF", 2),
    ),
    "trace": _Entry(
        "trace:FILE", 'as recorded, over and over: lines such as {"round": 1, "clients": [0, 4]}', Trace.load
    ),
    "trace-once": _Entry(
        "trace-once:FILE",
        "as recorded; a round outside of the recording is an error",
        lambda values: Trace.load(values, repeat=False),
    ),
}
