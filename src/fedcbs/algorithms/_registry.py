"""Algorithms by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TypeVar

from fedcbs.algorithms._algorithm import Algorithm
from fedcbs.algorithms._base import LocalMethod, ServerRule
from fedcbs.algorithms._fedadagrad import FedAdagrad
from fedcbs.algorithms._fedadam import FedAdam
from fedcbs.algorithms._fedavg import FedAvg, Plain
from fedcbs.algorithms._fedavgm import FedAvgM
from fedcbs.algorithms._fedmax import FedMax
from fedcbs.algorithms._fednova import FedNova
from fedcbs.algorithms._fedprox import FedProx
from fedcbs.algorithms._fedyogi import FedYogi
from fedcbs.algorithms._ratio_loss import RatioLoss
from fedcbs.algorithms._scaffold import Scaffold
from fedcbs.errors import InvalidArgumentError, UnknownNameError

__all__ = [
    "local_methods",
    "parse_algorithm",
    "parse_local",
    "parse_server",
    "server_rules",
    "split_algorithm",
]

LOCAL: tuple[type[LocalMethod], ...] = (Plain, FedProx, Scaffold, FedMax, RatioLoss)
SERVER: tuple[type[ServerRule], ...] = (FedAvg, FedNova, FedAvgM, FedAdam, FedYogi, FedAdagrad)

PartT = TypeVar("PartT", LocalMethod, ServerRule)


def local_methods() -> Mapping[str, type[LocalMethod]]:
    """All local methods by name.

    >>> list(local_methods())
    ['plain', 'fedprox', 'scaffold', 'fedmax', 'ratio-loss']
    """
    return {kind.name: kind for kind in LOCAL}


def server_rules() -> Mapping[str, type[ServerRule]]:
    """All server rules by name.

    >>> list(server_rules())
    ['fedavg', 'fednova', 'fedavgm', 'fedadam', 'fedyogi', 'fedadagrad']
    """
    return {kind.name: kind for kind in SERVER}


def parse_local(text: str) -> LocalMethod:
    """Make a local method from ``name`` or ``name:option=value:option=value``.

    >>> parse_local("fedprox:mu=0.1")
    FedProx(mu=0.1)
    >>> parse_local("fedprox:m=0.1")
    Traceback (most recent call last):
    ...
    fedcbs.errors.UnknownNameError: option of fedprox='m' is not known; did you mean 'mu'? Known: mu
    """
    return _parse(text, "training.local", local_methods())


def parse_server(text: str) -> ServerRule:
    """Make a server rule from ``name`` or ``name:option=value:option=value``.

    >>> parse_server("fedavgm:momentum=0.5")
    FedAvgM(learning_rate=1.0, momentum=0.5)
    """
    return _parse(text, "server.rule", server_rules())


def split_algorithm(text: str) -> tuple[str | None, str | None]:
    """Return the parts of a text such as ``fedprox:mu=0.1+fedadam``: of a local method, and of a server rule.

    >>> split_algorithm("fedadam+fedprox:mu=0.1"), split_algorithm("fednova")
    (('fedprox:mu=0.1', 'fedadam'), (None, 'fednova'))
    >>> split_algorithm("fednova+fedadam")
    Traceback (most recent call last):
    ...
    fedcbs.errors.InvalidArgumentError: algorithm='fednova+fedadam': fednova and fedadam both say how the server moves; name one of them
    """
    found: dict[str, str] = {}
    for part in text.split("+"):
        name = part.partition(":")[0].strip()
        if name not in local_methods() and name not in server_rules():
            raise UnknownNameError("algorithm", name, [*local_methods(), *server_rules()])
        half = "how clients train" if name in local_methods() else "how the server moves"
        if half in found:
            other = found[half].partition(":")[0]
            raise InvalidArgumentError(
                f"algorithm={text!r}: {other} and {name} both say {half}; name one of them"
            )
        found[half] = part.strip()
    return found.get("how clients train"), found.get("how the server moves")


def parse_algorithm(text: str) -> Algorithm:
    """Make an algorithm from a local method, a server rule, or both with a plus between; the rest is FedAvg's.

    >>> parse_algorithm("scaffold")
    Algorithm(local=Scaffold(precision='float32', on_disk=False), server=FedAvg(learning_rate=1.0))
    """
    local, server = split_algorithm(text)
    return Algorithm(parse_local(local or "plain"), parse_server(server or "fedavg"))


def _parse(text: str, argument: str, kinds: Mapping[str, type[PartT]]) -> PartT:
    name, *pairs = text.split(":")
    if name not in kinds:
        raise UnknownNameError(argument, name, kinds)
    fields = {field.name: field for field in dataclasses.fields(kinds[name])}
    options: dict[str, object] = {}
    for pair in pairs:
        option, equals, value = pair.partition("=")
        if not equals:
            raise InvalidArgumentError(f"{argument}={text!r}: {pair!r} must have the form option=value")
        if option not in fields:
            raise UnknownNameError(f"option of {name}", option, fields)
        options[option] = _value(value)
    return kinds[name](**options)


def _value(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return {"true": True, "false": False}.get(text.lower(), text)
