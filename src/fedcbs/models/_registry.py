"""Models by name or import path, with weights that are a function of a seed."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from fedcbs import _checks
from fedcbs.errors import InvalidArgumentError, UnknownNameError
from fedcbs.models._builtin import BUILTIN, SUMMARIES

__all__ = ["default_model", "known_models", "make_model"]


def known_models() -> dict[str, str]:
    """Names of the built-in models, each with a line on what it is.

    >>> known_models()["linear"]
    'softmax regression'
    """
    return dict(SUMMARIES)


def default_model(shape: tuple[int, ...]) -> str:
    """Name of the model that suits examples of a shape: `cnn` for colour images, else `mlp`.

    >>> default_model((3, 32, 32)), default_model((1, 28, 28))
    ('cnn', 'mlp')
    """
    return "cnn" if len(shape) == 3 and shape[0] == 3 and min(shape[1:]) >= 16 else "mlp"


def make_model(
    name: str, *, shape: tuple[int, ...], num_classes: int, seed: int, **options: object
) -> nn.Module:
    """Make a model by its name, or by the import path ``package.module:Callable`` of a class or function.

    Weights are a function of the seed alone, and PyTorch's global generator stays as it was.

    Parameters
    ----------
    name
        One of :func:`known_models`, or an import path. What it names is called with `shape` and `num_classes`, where
        it takes arguments of these names, and with `options`; it returns a module.
    shape
        Shape of one example.
    num_classes
        Number of outputs.
    seed
        Of the initial weights.
    **options
        Of the model, such as ``hidden=128``.

    Examples
    --------
    >>> model = make_model("mlp", shape=(1, 28, 28), num_classes=10, seed=3)
    >>> sum(parameter.numel() for parameter in model.parameters())
    50890
    """
    shape = tuple(_checks.integer(side, "shape", minimum=1) for side in shape)
    num_classes = _checks.integer(num_classes, "num_classes", minimum=1)
    seed = _checks.integer(seed, "seed", minimum=0, maximum=2**63 - 1)
    build, arguments = _builder(name, shape, num_classes)
    _check_options(name, build, arguments, options)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = build(**arguments, **options)
    if not isinstance(model, nn.Module):
        raise InvalidArgumentError(
            f"model={name!r} returned {type(model).__name__}; it must return a torch.nn.Module"
        )
    return model


def _builder(
    name: str, shape: tuple[int, ...], num_classes: int
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """What to call, and with which of the two facts on the data."""
    facts = {"shape": shape, "num_classes": num_classes}
    if name in BUILTIN:
        return BUILTIN[name], facts
    if not isinstance(name, str) or ":" not in name:
        raise UnknownNameError("model", name, [*BUILTIN, "package.module:Callable"])
    build = _imported(name)
    taken = _parameters(build)
    return build, {key: value for key, value in facts.items() if key in taken}


def _imported(name: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidArgumentError(
            f"model={name!r} cannot be imported ({error}); check the spelling, and that Python finds {module!r}"
        ) from error
    if not callable(found):
        raise InvalidArgumentError(f"model={name!r} is a {type(found).__name__}; name a class or a function")
    return found  # type: ignore[no-any-return]  # whatever it returns is checked when it is called


def _parameters(build: Callable[..., Any]) -> set[str]:
    """Names that it takes; a function of **keywords takes neither fact."""
    try:
        found = inspect.signature(build).parameters.values()
    except (TypeError, ValueError):  # built in C
        return set()
    return {each.name for each in found if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}


def _check_options(
    name: str, build: Callable[..., Any], arguments: dict[str, Any], options: dict[str, object]
) -> None:
    """Refuse an option that the model does not take, and say so where it lacks one."""
    try:
        signature = inspect.signature(build)
    except (TypeError, ValueError):
        return
    takes_any = any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())
    known = _parameters(build) - {"shape", "num_classes"}
    for option in options:
        if option not in known and not takes_any:
            raise UnknownNameError(f"option of {name}", option, known)
    try:
        signature.bind(**arguments, **options)
    except TypeError as error:
        raise InvalidArgumentError(f"model={name!r}: {error}; give it as an option") from error
