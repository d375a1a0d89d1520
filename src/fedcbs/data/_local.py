"""What of the known datasets is on this machine, and how the rest gets there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from fedcbs.data._hub import Hub, download
from fedcbs.data._known import KNOWN, Known
from fedcbs.data._load import HUB_OPTIONS, known_datasets
from fedcbs.data._search import find_known
from fedcbs.data._spec import DatasetSpec, parse_spec
from fedcbs.errors import FedCBSError, InvalidArgumentError, MissingDataError, UnknownNameError

__all__ = ["find_dataset", "get_dataset", "published_datasets"]


def published_datasets() -> dict[str, Known]:
    """Return what is known of each published dataset: its sizes, its classes, and where the hub has it.

    >>> published_datasets()["mnist"].num_examples
    70000
    """
    return dict(KNOWN)


def find_dataset(name: str, *, data_dir: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the folder of a published dataset on this machine; None if it is not there.

    Its files are looked for, not into.

    Parameters
    ----------
    name
        What the dataset is called, such as ``mnist``.
    data_dir
        Folder to look in first.
    """
    if name not in KNOWN:
        raise UnknownNameError("dataset", name, KNOWN)
    try:
        return find_known(KNOWN[name], data_dir)[1].folder
    except MissingDataError:
        return None


def get_dataset(
    spec: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Path:
    """Download a dataset from the Hugging Face hub, and return its folder.

    This is the only function that contacts a server. Each file is held to the hub's checksum.

    Parameters
    ----------
    spec
        A published dataset, such as ``mnist``, or ``hf:NAME`` with an optional ``,revision=COMMIT``.
    data_dir
        Folder to put it in, under its name; the hub's own cache when left out.
    note
        Told of each file.
    """
    parsed = parse_spec(spec)
    hub, name = _hub_of(parsed)
    folder = None
    if data_dir is not None:
        folder = Path(data_dir).expanduser() / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidArgumentError(
                f"data_dir={str(data_dir)!r} cannot be made a folder ({error})"
            ) from error
    return download(hub, folder=folder, note=note)


def _hub_of(spec: DatasetSpec) -> tuple[Hub, str]:
    """The dataset on the hub, and the folder in which a local copy is looked for."""
    if spec.kind == "hf" and spec.value:
        spec.check_options(*HUB_OPTIONS)
        return Hub(spec.value, spec.options.get("revision")), spec.value.replace("/", "__")
    if spec.kind in KNOWN and spec.value is None:
        known = KNOWN[spec.kind]
        if known.hub is None:
            raise FedCBSError(f"dataset={spec.kind!r} is not on the hub; copy its files into a folder")
        return known.hub, known.folders[0]
    if spec.kind in known_datasets() or spec.value is not None:
        raise InvalidArgumentError(
            f"dataset={spec.text!r} is nothing to download; those are {', '.join(KNOWN)} and hf:NAME"
        )
    raise UnknownNameError("dataset", spec.kind, [*KNOWN, "hf:NAME"])
