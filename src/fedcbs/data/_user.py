"""A user's own datasets, by import path: ``package.module:callable``."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from pathlib import Path
from typing import Any

from fedcbs.data._arrays import assemble
from fedcbs.data._dataset import Dataset, Examples
from fedcbs.data._holdout import hold_out
from fedcbs.data._torch import from_torch
from fedcbs.errors import InvalidArgumentError

__all__ = ["import_user", "is_importable", "user_dataset"]


def is_importable(module: str) -> bool:
    """Whether a module of this name could be looked for.

    >>> is_importable("my_data.birds"), is_importable("hf")
    (True, False)
    """
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts):
        return False
    return len(parts) > 1 or (Path.cwd() / f"{module}.py").is_file() or (Path.cwd() / module).is_dir()


def import_user(module: str, name: str, argument: str) -> Any:
    """Import an object; modules of the working directory count, as they do for ``python -m``."""
    here = str(Path.cwd())
    added = here not in sys.path and "" not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except ImportError as error:
        raise InvalidArgumentError(f"{argument}='{module}:{name}' cannot be imported: {error}") from error
    except AttributeError as error:
        raise InvalidArgumentError(f"{argument}='{module}:{name}': {error}; check the spelling") from error
    finally:
        if added:
            sys.path.remove(here)
    return found


def user_dataset(
    module: str, name: str, text: str, data_dir: str | os.PathLike[str] | None, held_out: float
) -> Dataset:
    """Call what a spec names, and make a dataset of what it returns.

    Parameters
    ----------
    module, name
        Where it is.
    text
        What the dataset is called.
    data_dir
        Handed on, if it takes that.
    held_out
        Share to hold out where it returns no test part.
    """
    found = import_user(module, name, "dataset")
    if callable(found):
        found = found(data_dir=data_dir) if "data_dir" in _parameters(found) else found()
    if isinstance(found, Dataset):
        return found
    parts = found if isinstance(found, tuple) else (found, None)
    if len(parts) != 2 or parts[0] is None:
        raise InvalidArgumentError(
            f"dataset={text!r} returned {type(found).__name__}; it must return a Dataset, a pair (train, test) of"
            " torch datasets, or one of these alone"
        )
    train, test = parts
    if isinstance(train, Examples):
        if test is None:
            train, test = hold_out(train, held_out)
        return assemble(text, train, test)
    return from_torch(train, test, name=text, held_out=held_out)


def _parameters(function: Any) -> set[str]:
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # written in C, without a signature
        return set()
