"""Modes by name."""

from __future__ import annotations

from fedcbs.errors import UnknownNameError
from fedcbs.private._fhe import Fhe
from fedcbs.private._keys import PublicKeys, SecretKeys
from fedcbs.private._masked import Masked
from fedcbs.private._mode import DEFAULT_MAX_EXAMPLES, Mode
from fedcbs.private._plain import Plain
from fedcbs.private._sealed import Sealed

__all__ = ["MODES", "known_modes", "make_mode", "mode_of"]

MODES: tuple[type[Mode], ...] = (Plain, Sealed, Masked, Fhe)


def known_modes() -> dict[str, str]:
    """All modes by name, each with the sentence on who learns what.

    >>> known_modes()["plain"]
    "the server and the selector see every client's counts"
    """
    return {mode.name: mode.learns for mode in MODES}


def make_mode(name: str, *, num_classes: int, max_examples: int = DEFAULT_MAX_EXAMPLES) -> Mode:
    """Make a mode by its name.

    >>> make_mode("sealed", num_classes=10).name
    'sealed'
    """
    for mode in MODES:
        if mode.name == name:
            return mode(num_classes=num_classes, max_examples=max_examples)
    raise UnknownNameError("mode", name, known_modes())


def mode_of(keys: PublicKeys | SecretKeys) -> Mode:
    """Return the mode that keys are of; their parameters are checked, for they may come from anywhere."""
    found = keys.parameters
    mode = make_mode(
        keys.mode, num_classes=found.get("num_classes", 0), max_examples=found.get("max_examples", 0)
    )
    mode._expect(keys.mode, found)
    return mode
