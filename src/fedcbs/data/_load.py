"""From a spec to a dataset."""

from __future__ import annotations

import os
from collections.abc import Callable

from fedcbs.data._arrays import assemble, load_npz
from fedcbs.data._dataset import Dataset
from fedcbs.data._digits import digits
from fedcbs.data._holdout import FRACTION, hold_out
from fedcbs.data._known import KNOWN, Known
from fedcbs.data._search import find_known
from fedcbs.data._spec import DatasetSpec, parse_spec
from fedcbs.errors import InvalidArgumentError, UnknownNameError

__all__ = ["known_datasets", "load_dataset"]

_Loader = Callable[[DatasetSpec, "str | os.PathLike[str] | None"], Dataset]


def load_dataset(spec: str = "digits", *, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """Load a dataset from this machine; nothing is ever downloaded here.

    Parameters
    ----------
    spec
        A name of :func:`known_datasets`, with its value after a colon where it has one, and options after commas:
        ``mnist``, ``cifar100,labels=coarse``, ``folder:photos,size=32,test=0.1``.
    data_dir
        Folder to look in for a published dataset, before those that ``FEDCBS_DATA`` names and the hub's cache.

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
    parsed = parse_spec(spec)
    if parsed.value is None:
        if parsed.kind not in _NAMED:
            raise UnknownNameError("dataset", parsed.kind, _forms())
        return _NAMED[parsed.kind](parsed, data_dir)
    if parsed.kind not in _KINDS:
        raise UnknownNameError("dataset", parsed.kind, _forms())
    if not parsed.value:
        raise InvalidArgumentError(
            f"dataset={spec!r} says nothing after the colon; write {_KINDS[parsed.kind][0]!r}"
        )
    return _KINDS[parsed.kind][2](parsed, data_dir)


def known_datasets() -> dict[str, str]:
    """Return each spelling that :func:`load_dataset` knows, with one line of description.

    >>> known_datasets()["digits"]
    '1,797 handwritten digits, 1 x 8 x 8; comes with scikit-learn'
    """
    named = {"digits": "1,797 handwritten digits, 1 x 8 x 8; comes with scikit-learn"}
    named.update((name, known.summary) for name, known in KNOWN.items())
    return named | {form: summary for form, summary, _ in _KINDS.values()}


def _forms() -> list[str]:
    return [*_NAMED, *(form for form, _, _ in _KINDS.values())]


def _digits(spec: DatasetSpec, _: object) -> Dataset:
    spec.check_options()
    return digits()


def _published(spec: DatasetSpec, data_dir: str | os.PathLike[str] | None) -> Dataset:
    known, verify = _variant(spec)
    layout, files = find_known(known, data_dir)
    parts = layout.read(files, verify=verify)
    train, test = (parts.train, parts.test) if parts.test is not None else hold_out(parts.train, 0.1)
    names = parts.class_names or known.class_names
    mean, std = (known.mean, known.std) if verify else (None, None)
    return assemble(spec.text, train, test, known.num_classes, names, mean, std)


def _variant(spec: DatasetSpec) -> tuple[Known, bool]:
    """The form of a published dataset that the options ask for, and whether to check its files."""
    known = KNOWN[spec.kind]
    choices = {name for name, _ in known.options}
    spec.check_options("verify", *sorted(choices))
    for name in choices & set(spec.options):
        known = known.options[
            name, spec.choice(name, *(value for key, value in known.options if key == name))
        ]
    return known, spec.choice("verify", "yes", "no") == "yes"


def _arrays(spec: DatasetSpec, _: object) -> Dataset:
    spec.check_options("test")
    return load_npz(spec.value or "", spec.text, spec.number("test", FRACTION))


_NAMED: dict[str, _Loader] = {"digits": _digits, **dict.fromkeys(KNOWN, _published)}
_KINDS: dict[str, tuple[str, str, _Loader]] = {
    "arrays": (
        "arrays:FILE.npz",
        "arrays of your own: train_features, train_labels, test_features ...",
        _arrays,
    ),
}
