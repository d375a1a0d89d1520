"""Which column of a table is the image, which the label, and which the owner: by their types, then by their names."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedcbs.data._spec import DatasetSpec
from fedcbs.errors import DataFileError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Columns", "Wanted", "choose_columns"]

_IMAGE_NAMES = ("image", "img", "pixels", "features", "x")
_LABEL_NAMES = ("label", "labels", "fine_label", "y", "target", "class", "character")


@dataclass(frozen=True)
class Wanted:
    """Names of columns that were asked for; None to choose by type.

    Parameters
    ----------
    image, label
        Where they are.
    owner
        Where the owner is; nobody owns anything without it.
    """

    image: str | None = None
    label: str | None = None
    owner: str | None = None

    @classmethod
    def of(cls, spec: DatasetSpec) -> Wanted:
        """Read the options of a spec."""
        return cls(spec.options.get("image"), spec.options.get("label"), spec.options.get("owner"))


@dataclass(frozen=True)
class Columns:
    """The columns of a table.

    Parameters
    ----------
    image, label, owner
        Their names.
    encoded
        Whether the images are files in the table, rather than lists of numbers.
    class_names
        What the table calls the classes; may be empty.
    """

    image: str
    label: str
    owner: str | None
    encoded: bool
    class_names: tuple[str, ...]


def choose_columns(schema: pa.Schema, wanted: Wanted, where: str) -> Columns:
    """Choose the columns, or refuse with the names of all there are.

    Parameters
    ----------
    schema
        The table's; what ``datasets`` wrote of its features into it counts first.
    wanted
        What was asked for.
    where
        What messages call the table.
    """
    features = _features(schema)
    kinds = {name: _kind(schema.field(name).type, features.get(name)) for name in schema.names}
    for option, name in (("image", wanted.image), ("label", wanted.label), ("owner", wanted.owner)):
        if name is not None and name not in kinds:
            raise DataFileError(
                f"{where} has no column {name!r} for the {option}; it has {', '.join(kinds) or 'none'}"
            )
    image = (
        wanted.image
        or _first(kinds, ("Image",), _IMAGE_NAMES)
        or _first(kinds, ("binary", "list"), _IMAGE_NAMES)
    )
    if image is None or kinds[image] not in ("Image", "binary", "list"):
        raise _refusal("image", "images or lists of numbers", image, kinds, where)
    label = wanted.label or _first(kinds, ("ClassLabel",), _LABEL_NAMES)
    label = label or _named(kinds, ("whole", "text"), _LABEL_NAMES)
    if label is None or kinds[label] not in ("ClassLabel", "whole", "text"):
        raise _refusal("label", "classes, whole numbers or texts", label, kinds, where)
    names = (features.get(label) or {}).get("names") or ()
    return Columns(image, label, wanted.owner, kinds[image] != "list", tuple(map(str, names)))


def _first(kinds: dict[str, str], kind: tuple[str, ...], names: Sequence[str]) -> str | None:
    """The only column of a kind; of several, the one with the most usual name."""
    found = [name for name, found_kind in kinds.items() if found_kind in kind]
    return found[0] if len(found) == 1 else _named(kinds, kind, names)


def _named(kinds: dict[str, str], kind: tuple[str, ...], names: Sequence[str]) -> str | None:
    return next((name for name in names if kinds.get(name) in kind), None)


def _refusal(option: str, what: str, chosen: str | None, kinds: dict[str, str], where: str) -> DataFileError:
    listed = ", ".join(f"{name} ({kind})" for name, kind in kinds.items()) or "none"
    said = f"column {chosen!r} does not hold {what}" if chosen else f"no column is clearly the {option}"
    return DataFileError(
        f"{where}: {said}; its columns are {listed}. Name the right one with the option {option}=COLUMN"
    )


def _features(schema: pa.Schema) -> dict[str, dict[str, Any]]:
    """What ``datasets`` noted about the columns; empty where it noted nothing, or nothing that can be read."""
    try:
        noted = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {name: feature for name, feature in noted.items() if isinstance(feature, dict)}
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}


def _kind(of: pa.DataType, feature: dict[str, Any] | None) -> str:
    import pyarrow.types as types

    noted = (feature or {}).get("_type")
    if noted in ("Image", "ClassLabel"):
        return str(noted)
    tests: dict[str, Callable[[Any], bool]] = {
        "whole": types.is_integer,
        "number": types.is_floating,
        "text": lambda t: types.is_string(t) or types.is_large_string(t),
        "binary": lambda t: types.is_binary(t) or types.is_large_binary(t),
    }
    if types.is_struct(of) and {"bytes", "path"} >= {field.name for field in of}:
        return "Image"
    if types.is_list(of) or types.is_large_list(of) or types.is_fixed_size_list(of):
        return "list" if _kind(of.value_type, None) in ("whole", "number", "list") else "list of others"
    return next((name for name, test in tests.items() if test(of)), str(of))
