"""How a dataset is spelled: ``name``, or ``kind:value``, and options after commas."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fedcbs._checks import real
from fedcbs.errors import InvalidArgumentError, UnknownNameError

__all__ = ["DatasetSpec", "parse_spec"]

_OPTIONS = re.compile(r"(?:,[a-z_]+=[^,=]*)+$")
"""Commas before anything else belong to the name of a file."""


@dataclass(frozen=True)
class DatasetSpec:
    """A parsed spec.

    Parameters
    ----------
    text
        As it was given.
    kind
        What stands before the colon; the whole name without one.
    value
        What follows the colon; None without one.
    options
        Options by name, as texts.
    """

    text: str
    kind: str
    value: str | None
    options: Mapping[str, str]

    def check_options(self, *known: str) -> None:
        """Refuse options that this kind of dataset does not have."""
        for name in self.options:
            if name not in known:
                if not known:
                    raise InvalidArgumentError(
                        f"dataset={self.text!r}: {self.kind!r} takes no options; leave {name!r} out"
                    )
                raise UnknownNameError("option of the dataset", name, known)

    def number(self, name: str, default: float) -> float:
        """Return the number of an option."""
        return real(self.options.get(name, default), name)

    def choice(self, name: str, *values: str) -> str:
        """Return the value of an option that has few; the first is the default."""
        value = self.options.get(name, values[0])
        if value not in values:
            raise InvalidArgumentError(
                f"dataset={self.text!r}: {name}={value!r} must be one of {', '.join(values)}"
            )
        return value


def parse_spec(text: object) -> DatasetSpec:
    """Take a spec apart.

    >>> spec = parse_spec("hf:user/birds,label=species,test=0.1")
    >>> spec.kind, spec.value, dict(spec.options)
    ('hf', 'user/birds', {'label': 'species', 'test': '0.1'})
    >>> parse_spec("folder:a,b/c=d").value
    'a,b/c=d'
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidArgumentError(f"dataset={text!r} must be a name, such as 'digits' or 'folder:PATH'")
    stripped = text.strip()
    found = _OPTIONS.search(stripped)
    name = stripped[: found.start()] if found else stripped
    options: dict[str, str] = {}
    for pair in found.group()[1:].split(",") if found else ():
        key, _, value = pair.partition("=")
        if key in options:
            raise InvalidArgumentError(f"dataset={stripped!r} says {key!r} twice; say it once")
        options[key] = value
    kind, colon, value = name.partition(":")
    return DatasetSpec(stripped, kind.strip(), value.strip() if colon else None, options)
