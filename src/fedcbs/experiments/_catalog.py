"""The experiments that come with the package, and the paper's numbers."""

from __future__ import annotations

import functools
import importlib.resources
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedcbs.errors import UnknownNameError
from fedcbs.experiments._definition import Experiment, read_definition

__all__ = ["experiment", "experiment_names", "paper_numbers"]

_PAPER = "paper"


def experiment_names() -> list[str]:
    """Return the names of the experiments that come with the package.

    >>> "table1-cifar10" in experiment_names()
    True
    """
    return sorted(path.stem for path in _folder().glob("*.toml") if path.stem != _PAPER)


def experiment(name: str) -> Experiment:
    """Return an experiment by its name, or from a file of one's own that ends in ``.toml``.

    >>> experiment("table1-cifar10").paper
    'Table 1 and Figure 4'
    >>> experiment("table1")
    Traceback (most recent call last):
    ...
    fedcbs.errors.UnknownNameError: experiment='table1' is not known; ...
    """
    if name.endswith(".toml"):
        return read_definition(Path(name), _names(), _folder())
    if name not in experiment_names():
        raise UnknownNameError("experiment", name, experiment_names())
    return read_definition(_folder() / f"{name}.toml", _names(), _folder())


def paper_numbers(table: str) -> dict[str, dict[str, tuple[float, float]]]:
    """Return a table of the paper: mean and standard deviation by setting and method, as printed.

    >>> paper_numbers("cifar10-rounds")["alpha-0.1"]["Fed-CBS"]
    (654.0, 96.0)
    """
    tables = {name: found for name, found in _paper().items() if name != "methods"}
    if table not in tables:
        raise UnknownNameError("table", table, tables)
    return {
        setting: {method: (float(mean), float(std)) for method, (mean, std) in row.items()}
        for setting, row in tables[table].items()
    }


def _names() -> Mapping[str, str]:
    """What the paper calls selectors."""
    names: Mapping[str, str] = _paper()["methods"]
    return names


@functools.cache
def _paper() -> dict[str, Any]:
    return tomllib.loads((_folder() / f"{_PAPER}.toml").read_text(encoding="utf-8"))


def _folder() -> Path:
    return Path(str(importlib.resources.files("fedcbs.experiments").joinpath("definitions")))
