"""From a spec to a dataset."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from fedcbs._checks import real
from fedcbs.data._arrays import assemble, load_npz
from fedcbs.data._cache import cached
from fedcbs.data._columns import Wanted
from fedcbs.data._dataset import Dataset
from fedcbs.data._digest import digest
from fedcbs.data._digits import digits
from fedcbs.data._holdout import FRACTION, hold_out
from fedcbs.data._hub import Hub, check_blob, check_pinned
from fedcbs.data._image_folder import ImageFolder
from fedcbs.data._images import image_form
from fedcbs.data._known import KNOWN, Known
from fedcbs.data._layout import Files, Layout, Parts
from fedcbs.data._qmnist import with_writers
from fedcbs.data._search import complete, find_folder, find_hub, find_known, roots
from fedcbs.data._spec import DatasetSpec, parse_spec
from fedcbs.data._tables import TableLayout
from fedcbs.data._user import is_importable, user_dataset
from fedcbs.errors import DataFileError, InvalidArgumentError, UnknownNameError

__all__ = ["HUB_OPTIONS", "KINDS", "known_datasets", "load_dataset", "variant"]

HUB_OPTIONS = ("revision", "config", "image", "label", "owner", "size", "mode", "train", "test")
"""Options of a dataset of the hub."""


@dataclass(frozen=True)
class _Request:
    spec: DatasetSpec
    data_dir: str | os.PathLike[str] | None
    cache: bool

    @property
    def value(self) -> str:
        return self.spec.value or ""


_Loader = Callable[[_Request], Dataset]


def load_dataset(
    spec: str = "digits", *, data_dir: str | os.PathLike[str] | None = None, cache: bool = True
) -> Dataset:
    """Load a dataset from this machine; nothing is ever downloaded here.

    Parameters
    ----------
    spec
        A name of :func:`known_datasets`, with its value after a colon where it has one, and options after commas:
        ``mnist``, ``cifar100,labels=coarse``, ``folder:photos,size=32,test=0.1``.
    data_dir
        Folder to look in for a dataset, before those that ``FEDCBS_DATA`` names and the hub's cache.
    cache
        Whether to keep decoded arrays of what is slow to decode, in the folder that ``FEDCBS_CACHE`` names.

    Examples
    --------
    >>> dataset = load_dataset("digits")
    >>> dataset.train.shape, len(dataset.train), len(dataset.test), dataset.num_classes
    ((1, 8, 8), 1438, 359, 10)

    Raises
    ------
    UnknownNameError
        Nothing is called so.
    MissingDataError
        The dataset is in none of the folders.
    DataFileError
        A file is damaged, or not what it should be.
    """
    request = _Request(parse_spec(spec), data_dir, cache)
    kind = request.spec.kind
    if request.spec.value is None:
        if kind not in _NAMED:
            raise UnknownNameError("dataset", kind, _forms())
        return _NAMED[kind](request)
    if kind in _NAMED:
        raise InvalidArgumentError(
            f"dataset={spec!r}: nothing may follow {kind!r} but options, as in '{kind},NAME=VALUE'"
        )
    if not request.value:
        raise InvalidArgumentError(f"dataset={spec!r} has nothing after the colon; say what to load")
    if kind in KINDS:
        return KINDS[kind].load(request)
    if is_importable(kind):
        request.spec.check_options("test")
        return user_dataset(kind, request.value, request.spec.text, data_dir, _held_out(request.spec))
    raise UnknownNameError("dataset", kind, [*_NAMED, *KINDS, "MODULE:NAME"])


def known_datasets() -> dict[str, str]:
    """Return each spelling that :func:`load_dataset` knows, with one line of description.

    >>> known_datasets()["digits"]
    'small handwritten digits; they come with scikit-learn'
    """
    named = {"digits": "small handwritten digits; they come with scikit-learn"}
    named.update((name, known.summary) for name, known in KNOWN.items())
    kinds = {kind.form: kind.summary for kind in KINDS.values()}
    return {**named, **kinds, "MODULE:NAME": "your own: a function that returns torch datasets, or a Dataset"}


def variant(spec: DatasetSpec) -> tuple[Known, bool]:
    """Return the form of a published dataset that the options ask for, and whether to check its files."""
    known = KNOWN[spec.kind]
    choices = {name for name, _ in known.options}
    spec.check_options("verify", *sorted(choices), *(["owner"] if known.name in _WITH_WRITERS else []))
    if "owner" in spec.options:
        spec.choice("owner", "qmnist")
    for name in choices & set(spec.options):
        values = [value for key, value in known.options if key == name]
        known = known.options[name, spec.choice(name, *values)]
    return known, spec.choice("verify", "yes", "no") == "yes"


def _forms() -> list[str]:
    return list(known_datasets())


def _digits(request: _Request) -> Dataset:
    request.spec.check_options()
    return digits()


def _published(request: _Request) -> Dataset:
    known, verify = variant(request.spec)
    layout, files = find_known(known, request.data_dir)
    from_tables = verify and isinstance(layout, TableLayout)
    if from_tables and known.hub is not None and known.digests is None:
        for path in (path for paths in files.paths.values() for path in paths):
            check_blob(path)
            check_pinned(path, known.hub)
    parts = _read(layout, files, request, verify=verify)
    if from_tables and known.digests is not None:
        _check_digests(known, parts, files)
    if "owner" in request.spec.options:
        beside = (files.folder, files.folder.parent, files.folder.parent.parent)
        parts = with_writers(parts, (*beside, *roots(request.data_dir)))
    mean, std = (known.mean, known.std) if verify else (None, None)
    if parts.test is None and known.held_out is None:
        raise DataFileError(f"{str(files.folder)!r} has no test part of {known.name!r}; get it again")
    names = parts.class_names or known.class_names
    return _assembled(request, parts, known.held_out or 0, known.num_classes, names, mean, std)


def _hub(request: _Request) -> Dataset:
    spec = request.spec
    spec.check_options(*HUB_OPTIONS)
    test = spec.options.get("test")
    named = test if test is not None and not _is_number(test) else None
    layout = TableLayout(
        Wanted.of(spec), image_form(spec), spec.options.get("config"), spec.options.get("train"), named
    )
    folder = find_folder(request.value, request.data_dir)
    if folder is None:
        files = find_hub(layout, Hub(request.value, spec.options.get("revision")), request.data_dir)
    else:
        files = complete(layout, folder)
    if test is not None and named is None:
        files = Files(files.folder, {"train": files.paths["train"]})
    held_out = FRACTION if named is not None else _held_out(spec)
    return _assembled(request, _read(layout, files, request), held_out)


def _folder(request: _Request) -> Dataset:
    spec = request.spec
    spec.check_options("size", "mode", "test")
    folder = find_folder(request.value, request.data_dir)
    if folder is None:
        raise InvalidArgumentError(
            f"dataset={spec.text!r}: {request.value!r} is no folder; check the spelling"
        )
    layout = ImageFolder(image_form(spec))
    files = complete(layout, folder)
    if "test" in spec.options and "test" in files.paths:
        raise InvalidArgumentError(
            f"dataset={spec.text!r}: {request.value!r} has a test part; leave test= out"
        )
    return _assembled(request, _read(layout, files, request), _held_out(spec))


def _arrays(request: _Request) -> Dataset:
    request.spec.check_options("test")
    return load_npz(request.value, request.spec.text, _held_out(request.spec))


def _assembled(
    request: _Request,
    parts: Parts,
    held_out: float,
    num_classes: int | None = None,
    class_names: tuple[str, ...] | None = None,
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
) -> Dataset:
    train, test = (parts.train, parts.test) if parts.test is not None else hold_out(parts.train, held_out)
    names = parts.class_names if class_names is None else class_names
    return assemble(request.spec.text, train, test, num_classes, names, mean, std)


def _read(layout: Layout, files: Files, request: _Request, *, verify: bool = True) -> Parts:
    def read() -> Parts:
        return layout.read(files, verify=verify)

    return cached(files, repr(layout), read, use=request.cache and layout.slow)


def _check_digests(known: Known, parts: Parts, files: Files) -> None:
    for name, part, wanted in zip(
        ("train", "test"), (parts.train, parts.test), known.digests or (), strict=True
    ):
        if part is None or digest(part) != wanted:
            raise DataFileError(
                f"the {name} part in {str(files.folder)!r} is not that of {known.name!r}; get it again, or, for other"
                " data in this layout, say verify=no"
            )


def _held_out(spec: DatasetSpec) -> float:
    return real(spec.options.get("test", FRACTION), "test", minimum=0, maximum=1, open_minimum=True)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class _Kind:
    form: str
    summary: str
    load: _Loader


_WITH_WRITERS = ("mnist",)
_NAMED: dict[str, _Loader] = {"digits": _digits, **dict.fromkeys(KNOWN, _published)}
KINDS = {
    "hf": _Kind("hf:NAME", "a dataset of the Hugging Face hub, or a folder of parquet files", _hub),
    "folder": _Kind(
        "folder:PATH", "images, a subfolder for each class; or train/ and test/ above these", _folder
    ),
    "arrays": _Kind(
        "arrays:FILE", "an .npz file: train_features, train_labels, test_features, test_labels", _arrays
    ),
}
"""What a spec may name with a value after a colon."""
