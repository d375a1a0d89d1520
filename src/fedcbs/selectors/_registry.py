"""Selectors by name: the built-in ones, and those that installed packages offer.

A package offers a selector by an entry point of the group ``fedcbs.selectors``::

    [project.entry-points."fedcbs.selectors"]
    my-selector = "my_package:MySelector"

From then on ``my-selector`` is a name like any other, on the command line too. The object is a subclass of
:class:`Selector`, a dataclass whose fields are its options, and whose `name` is that name. Built-in selectors are made
without loading any of these, so a package that is broken cannot get in their way.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedcbs.errors import BrokenSelectorError, InvalidArgumentError, UnknownNameError
from fedcbs.selectors._base import Selector
from fedcbs.selectors._builtin import BUILTIN

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["DEFAULT_SELECTOR", "ENTRY_POINTS", "make_selector", "parse_selector", "selector_types"]

ENTRY_POINTS = "fedcbs.selectors"

DEFAULT_SELECTOR = "fedcbs-sharp"
"""The preset of Fed-CBS that needs the fewest rounds, by the experiments in docs/reproduction.md."""

SelectorType = type[Selector[Any]]


def selector_types() -> Mapping[str, SelectorType]:
    """All selectors by name: the built-in ones first, then those of installed packages.

    >>> "fedcbs-exact" in selector_types()
    True
    """
    return {**_builtin(), **_installed()}


def make_selector(name: str, **options: object) -> Selector[Any]:
    """Make a selector by its name, with options by theirs.

    >>> make_selector("fedcbs-exact", sweeps=10).sweeps
    10
    >>> make_selector("fedcbs-exact", sweep=10)
    Traceback (most recent call last):
    ...
    fedcbs.errors.UnknownNameError: option of fedcbs-exact='sweep' is not known; did you mean 'sweeps'? Known: ...
    """
    kind = _builtin().get(name) or _installed().get(name)
    if kind is None:
        raise UnknownNameError("selector", name, selector_types())
    known = [field.name for field in dataclasses.fields(kind) if field.init]
    for option in options:
        if option not in known:
            raise UnknownNameError(f"option of {name}", option, known)
    return kind(**options)


def parse_selector(text: str) -> Selector[Any]:
    """Make a selector from ``name`` or ``name:option=value:option=value``, as the command line takes it.

    >>> parse_selector("fedcbs-exact:sweeps=10:exploration=0.2").exploration
    0.2
    >>> parse_selector("fedcbs-exact:sweeps")
    Traceback (most recent call last):
    ...
    fedcbs.errors.InvalidArgumentError: selector='fedcbs-exact:sweeps': 'sweeps' must have the form option=value
    """
    name, *pairs = text.split(":")
    options: dict[str, object] = {}
    for pair in pairs:
        option, equals, value = pair.partition("=")
        if not equals:
            raise InvalidArgumentError(f"selector={text!r}: {pair!r} must have the form option=value")
        if option in options:
            raise InvalidArgumentError(f"selector={text!r} gives {option!r} twice; give it once")
        options[option] = _parse_value(value)
    return make_selector(name, **options)


def _parse_value(text: str) -> object:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


def _builtin() -> dict[str, SelectorType]:
    return {kind.name: kind for kind in BUILTIN}


@functools.cache
def _installed() -> dict[str, SelectorType]:
    import importlib.metadata  # half of the package's import time, and only names need it

    found: dict[str, SelectorType] = {}
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        if entry.name in found or entry.name in _builtin():
            taken = "another installed" if entry.name in found else "a built-in"
            raise BrokenSelectorError(
                f"entry point {entry.value!r} takes the name {entry.name!r} of {taken} selector; uninstall its package"
            )
        found[entry.name] = _load(entry)
    return found


def _load(entry: EntryPoint) -> SelectorType:
    """Load what a package offers; whatever is wrong with it, say which package and what to do."""
    where = f"entry point {entry.name!r} ({entry.value})"
    try:
        kind: object = entry.load()
    except Exception as error:
        raise BrokenSelectorError(
            f"{where} cannot be loaded: {error!r}; repair or uninstall its package"
        ) from error
    if not (isinstance(kind, type) and issubclass(kind, Selector)):
        raise BrokenSelectorError(f"{where} is not a selector; it must be a dataclass derived from Selector")
    if inspect.isabstract(kind):
        missing = ", ".join(sorted(kind.__abstractmethods__))
        raise BrokenSelectorError(f"{where} is abstract; it must define {missing}")
    for fact in ("name", "summary", "paper"):
        if not isinstance(getattr(kind, fact, None), str):
            raise BrokenSelectorError(f"{where} has no {fact}; set it to a text in the class")
    if kind.name != entry.name:
        raise BrokenSelectorError(f"{where} calls itself {kind.name!r}; register it under that name")
    return kind
