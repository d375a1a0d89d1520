"""Which selectors label statistics are enough for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fedcbs.errors import InvalidArgumentError, NeedsTrainingError
from fedcbs.selectors import Need, Selector, parse_selector, selector_types
from fedcbs.selectors._information import NEEDS_TRAINING

__all__ = ["named_selectors", "suitable_names", "training_needs"]


def training_needs(selector: Selector[Any] | type[Selector[Any]]) -> list[Need]:
    """What a selector asks or learns that only a federation with a model can tell, in alphabetical order.

    >>> from fedcbs.selectors import Uniform
    >>> training_needs(Uniform)
    []
    """
    return sorted((selector.needs | selector.learns) & NEEDS_TRAINING)


def suitable_names() -> list[str]:
    """Names of all selectors that can be compared without training.

    >>> "fedcbs-exact" in suitable_names()
    True
    """
    return [name for name, kind in selector_types().items() if not training_needs(kind)]


def named_selectors(given: Iterable[str] | Mapping[str, Selector[Any]]) -> dict[str, Selector[Any]]:
    """Return selectors by the names they were given by; refuses those that need training, all at once.

    >>> list(named_selectors(["uniform", "fedcbs-exact:sweeps=5"]))
    ['uniform', 'fedcbs-exact:sweeps=5']
    >>> named_selectors(["uniform", "uniform"])
    Traceback (most recent call last):
    ...
    fedcbs.errors.InvalidArgumentError: selectors names 'uniform' twice; name each once
    """
    selectors = dict(given) if isinstance(given, Mapping) else _parsed(given)
    if not selectors:
        raise InvalidArgumentError("selectors is empty; name at least one")
    wanting = {name: training_needs(selector) for name, selector in selectors.items()}
    refused = [f"{name} ({', '.join(needs)})" for name, needs in wanting.items() if needs]
    if refused:
        raise NeedsTrainingError(
            f"{', '.join(refused)}: such things are known only where a model is trained, and here none is;"
            " leave them out, or run a simulation with `fedcbs run`"
        )
    return selectors


def _parsed(texts: Iterable[str]) -> dict[str, Selector[Any]]:
    selectors: dict[str, Selector[Any]] = {}
    for text in texts:
        if text in selectors:
            raise InvalidArgumentError(f"selectors names {text!r} twice; name each once")
        selectors[text] = parse_selector(text)
    return selectors
