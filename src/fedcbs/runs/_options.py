"""Values from files, command lines and keywords, turned into sections of a configuration; unknown names get a suggestion."""

from __future__ import annotations

import dataclasses
import json
import os
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from fedcbs._files import existing_file
from fedcbs.errors import InvalidArgumentError, UnknownNameError

__all__ = ["SHORT", "overridden", "parse_assignment", "read_toml", "section_from"]

ConfigT = TypeVar("ConfigT")

SHORT = {
    "model": "model.name",
    "selector": "selector.name",
    "partition": "partition.scheme",
    "availability": "availability.rule",
    "server": "server.rule",
    "clients": "partition.clients",
    "data_dir": "data.directory",
    "privacy": "privacy.mode",
}
"""Names of options that stand for a key whose own name is not clear alone, or is that of a section."""

NOTHING = ("none", "auto")


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a TOML file, or the ``config.json`` of a run."""
    file = existing_file(path, "config")
    if file.suffix == ".json":
        return _config_of_run(file)
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InvalidArgumentError(
            f"config={str(file)!r} is no TOML file that can be read: {error}"
        ) from error


def _config_of_run(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))["config"]
        if isinstance(found, dict) and all(isinstance(section, dict) for section in found.values()):
            return found
    except (ValueError, KeyError, TypeError, RecursionError, OSError):
        pass
    raise InvalidArgumentError(f"config={str(file)!r} is no config.json of a run; name one, or a TOML file")


def parse_assignment(text: str) -> tuple[str, object]:
    """Return key and value of a text such as ``training.learning_rate=0.01``; the value is TOML, or plain text.

    >>> parse_assignment("evaluation.targets=[0.8, 0.9]"), parse_assignment("selector=pow-d")
    (('evaluation.targets', [0.8, 0.9]), ('selector', 'pow-d'))
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InvalidArgumentError(
            f"option {text!r} must have the form key=value, such as training.learning_rate=0.01"
        )
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()


def overridden(config: ConfigT, options: Mapping[str, object]) -> ConfigT:
    """Return a configuration with options changed, by dotted key or by a name that is clear alone."""
    changes: dict[str, dict[str, Any]] = {}
    keys = _keys(config)
    for name, value in options.items():
        for key, part in _spread(config, name, value, keys):
            section, _, field = key.partition(".")
            changes.setdefault(section, {})[field] = part
    parts = {name: _changed(getattr(config, name), name, values) for name, values in changes.items()}
    return dataclasses.replace(config, **parts)  # type: ignore[type-var]  # it is a dataclass


def section_from(config: object, name: str, table: object, sections: Mapping[str, Any]) -> Any:
    """Return a section from a mapping of its keys."""
    if name not in sections:
        raise UnknownNameError("section", name, sections)
    if not isinstance(table, Mapping):
        raise InvalidArgumentError(f"{name}={table!r} must be a section: write it under [{name}]")
    for key in table:
        _dotted(config, f"{name}.{key}")
    return _changed(getattr(config, name), name, table)


def _keys(config: object) -> dict[str, str]:
    """All names of options: dotted keys, short ones where they are clear alone, and those of `SHORT`."""
    dotted: dict[str, str] = {}
    single: dict[str, list[str]] = {}
    for section in dataclasses.fields(config):  # type: ignore[arg-type]  # it is a dataclass
        for field in dataclasses.fields(getattr(config, section.name)):
            dotted[f"{section.name}.{field.name}"] = f"{section.name}.{field.name}"
            single.setdefault(field.name, []).append(f"{section.name}.{field.name}")
    clear = {name: keys[0] for name, keys in single.items() if len(keys) == 1}
    return {**clear, **dotted, **SHORT}


def _spread(
    config: object, name: str, value: object, keys: Mapping[str, str]
) -> Iterator[tuple[str, object]]:
    """Yield the dotted keys and values that an option stands for."""
    if isinstance(value, Mapping) and hasattr(config, name):  # a whole section
        for key, part in value.items():
            yield _dotted(config, f"{name}.{key}"), part
    elif name == "algorithm":
        yield from _algorithm(value)
    elif "." in name:
        yield _dotted(config, name), value
    elif name in keys:
        yield keys[name], value
    else:
        raise UnknownNameError("option", name, [*(key for key in keys if "." not in key), "algorithm"])


def _dotted(config: object, name: str) -> str:
    """Return a dotted key that there is."""
    section, _, key = name.partition(".")
    sections = [field.name for field in dataclasses.fields(config)]  # type: ignore[arg-type]  # it is a dataclass
    if section not in sections:
        raise UnknownNameError("section", section, sections)
    known = [field.name for field in dataclasses.fields(getattr(config, section))]
    if key not in known:
        raise UnknownNameError(f"key of [{section}]", key, known)
    return name


def _algorithm(value: object) -> Iterator[tuple[str, object]]:
    from fedcbs.algorithms import split_algorithm

    if not isinstance(value, str):
        raise InvalidArgumentError(f"algorithm={value!r} must be a text such as 'fedprox:mu=0.1+fedadam'")
    local, server = split_algorithm(value)
    yield "training.local", local or "plain"
    yield "server.rule", server or "fedavg"


def _changed(section: Any, name: str, values: Mapping[str, Any]) -> Any:
    hints = typing.get_type_hints(type(section))
    checked = {key: _coerced(value, hints[key], f"{name}.{key}") for key, value in values.items()}
    return dataclasses.replace(section, **checked)


def _coerced(value: object, hint: Any, name: str) -> object:
    """Return a value as the type that a key has."""
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if types.NoneType in kinds and (value is None or value in NOTHING):
        return None
    kind = next(kind for kind in kinds if kind is not types.NoneType)
    origin = typing.get_origin(kind) or kind
    if origin is tuple:
        values = value if isinstance(value, list | tuple) else [value]
        return tuple(_coerced(part, float, name) for part in values)
    if origin is Mapping:
        if isinstance(value, Mapping):
            return dict(value)
    elif kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    elif type(value) is kind:
        return value
    elif kind is str and isinstance(value, os.PathLike):
        return os.fspath(cast("os.PathLike[str]", value))
    wanted = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    raise InvalidArgumentError(f"{name}={value!r} must be {wanted.get(kind, 'a table of options')}")
