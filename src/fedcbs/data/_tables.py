"""Tables of images and labels, as the Hugging Face hub keeps datasets: parquet files, or the arrow files of ``datasets``.

Tables are read some rows at a time: what is held is the decoded array, and the rows at hand.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcbs.data._columns import Columns, Wanted, choose_columns
from fedcbs.data._dataset import Examples
from fedcbs.data._images import ImageForm, decode, is_colour, open_image, require_pillow
from fedcbs.data._layout import Files, Layout, Parts
from fedcbs.errors import DataFileError, MissingExtraError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TableLayout"]

_AT_ONCE = 1024
_PARTS = {"train": ("train", "training"), "test": ("test", "testing", "validation", "valid", "val", "dev")}


@dataclass(frozen=True)
class TableLayout(Layout):
    """Parquet files, or arrow files, of one dataset.

    Parameters
    ----------
    wanted
        Names of columns.
    form
        What images become.
    config
        Subfolder to look in, where a dataset comes in several forms.
    train, test
        Names of the parts to use; the usual ones when None.
    places
        Subfolders to look in, and in nothing below these; everywhere below the folder when empty.
    """

    wanted: Wanted = field(default_factory=Wanted)
    form: ImageForm = field(default_factory=ImageForm)
    config: str | None = None
    train: str | None = None
    test: str | None = None
    places: tuple[str, ...] = ()
    slow: ClassVar[bool] = True

    @property
    def expects(self) -> str:
        """The files, in words."""
        return "train*.parquet, test*.parquet (also in subfolders) as on the hub, or what Dataset.save_to_disk wrote"

    def find(self, folder: Path) -> Files | None:
        """Return the tables of each part."""
        places = [folder / name for name in self.places or (self.config or ".",)]
        place, tables = next(
            ((p, found) for p in places if (found := _tables(p, not self.places))), (folder, [])
        )
        if not tables:
            return None
        groups = _forms(tables, place)
        if len(groups) > 1:
            raise DataFileError(
                f"{str(folder)!r} has {len(groups)} datasets: {', '.join(sorted(groups))}; choose one with the option"
                " config=NAME"
            )
        parts: dict[str, tuple[Path, ...]] = {}
        for part, asked in (("train", self.train), ("test", self.test)):
            for name in (asked,) if asked else _PARTS[part]:
                parts[part] = parts.get(part) or tuple(path for path in tables if _is_of(path, place, name))
        missing = tuple(
            f"tables of {asked!r}"
            for part, asked in (("train", self.train), ("test", self.test))
            if asked and not parts[part]
        )
        if not parts["train"] and not missing:  # one part of no name
            parts["train"] = tuple(path for path in tables if path not in parts["test"])
        if not parts["train"]:
            missing = missing or ("train*.parquet",)
        return Files(place, {part: paths for part, paths in parts.items() if paths}, missing)

    def read(self, files: Files, *, verify: bool) -> Parts:  # noqa: ARG002 - checked by who knows the dataset
        """Decode the tables."""
        tables = {part: [_Table(path) for path in paths] for part, paths in files.paths.items()}
        first = tables["train"][0]
        columns = choose_columns(first.schema, self.wanted, first.where)
        decoder = _Decoder(columns, self.form)
        features = {part: decoder.features(some) for part, some in tables.items()}
        values = {part: _values(some, columns.label) for part, some in tables.items()}
        labels, names = _classes(values, columns, first.where)
        owners, owner_names = _owners(tables, columns)
        parts = {
            part: Examples(features[part], labels[part], owners.get(part), owner_names) for part in tables
        }
        return Parts(parts["train"], parts.get("test"), names)


class _Table:
    """A file that holds a table, a part of it at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.where = repr(str(path))
        with _reading(self.where), self._opened() as table:
            self.schema: pa.Schema = table.schema if path.suffix == ".arrow" else table.schema_arrow
        self.rows = self._count()

    def batches(self, column: str) -> Iterator[pa.Array]:
        """Yield the values of a column, some at a time."""
        if column not in self.schema.names:
            raise DataFileError(
                f"{self.where} has no column {column!r}, which other files of the dataset have"
            )
        with _reading(self.where), self._opened() as table:
            if self.path.suffix == ".arrow":
                for batch in table:
                    for first in range(0, batch.num_rows, _AT_ONCE):
                        yield batch.column(column)[first : first + _AT_ONCE]
            else:
                for batch in table.iter_batches(_AT_ONCE, columns=[column]):
                    yield batch.column(0)

    def _count(self) -> int:
        with _reading(self.where), self._opened() as table:
            if self.path.suffix == ".arrow":
                return sum(batch.num_rows for batch in table)
            return int(table.metadata.num_rows)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Any]:
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError as error:
            raise MissingExtraError("pyarrow", extra="data", purpose="reading tables") from error
        if self.path.suffix == ".arrow":
            with pa.memory_map(str(self.path)) as source, pa.ipc.open_stream(source) as table:
                yield table
        else:
            with pq.ParquetFile(self.path) as table:
                yield table


class _Decoder:
    """Images of a column; all become like the first."""

    def __init__(self, columns: Columns, form: ImageForm) -> None:
        self._column, self._encoded, self._form = columns.image, columns.encoded, form
        self._mode, self._shape = form.mode, None if form.size is None else (0, *form.size)
        if self._encoded:
            require_pillow("a dataset of images")

    def features(self, tables: Sequence[_Table]) -> NDArray[Any]:
        """Decode all rows of some files."""
        total = sum(table.rows for table in tables)
        found: NDArray[Any] | None = None
        at = 0
        for table in tables:
            for batch in table.batches(self._column):
                for value in self._rows(batch, table.where, at):
                    if found is None:
                        found = np.empty((total, *value.shape), value.dtype)
                    if value.shape != found.shape[1:]:
                        raise DataFileError(
                            f"{table.where}, example {at}, has shape {value.shape}, the ones before {found.shape[1:]};"
                            " make images alike with the option size=SIDE"
                        )
                    found[at] = value
                    at += 1
        if found is None:
            raise DataFileError(f"{', '.join(table.where for table in tables)} has no rows; get it again")
        return found

    def _rows(self, batch: pa.Array, where: str, at: int) -> Iterator[NDArray[Any]]:
        if not self._encoded:
            yield from _numbers(batch, where)
            return
        for offset, value in enumerate(batch.to_pylist()):
            content = value.get("bytes") if isinstance(value, dict) else value
            name = f"{where}, example {at + offset},"
            if not content:
                raise DataFileError(f"{name} has no image in it, perhaps a path alone; embed the images")
            image = open_image(content, name)
            if self._mode is None:
                self._mode = "RGB" if is_colour(image) else "L"
            elif self._form.mode is None and self._mode == "L" and is_colour(image):
                raise DataFileError(f"{name} is coloured, the ones before are grey; say mode=L or mode=RGB")
            yield decode(image, self._mode, self._form.size, name)


def _numbers(batch: pa.Array, where: str) -> Iterator[NDArray[Any]]:
    """Lists of numbers: bytes where they are stored as such, else float32."""
    try:
        array = np.array(batch.to_pylist())
        if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
            raise ValueError("some are missing")
    except ValueError as error:
        raise DataFileError(
            f"{where} has rows that are no arrays of one shape ({error}); clean the data first"
        ) from error
    kind = batch.type
    while hasattr(kind, "value_type"):
        kind = kind.value_type
    array = array.astype(np.uint8 if str(kind) == "uint8" else np.float32)
    yield from array[:, None] if array.ndim == 3 else array


def _values(tables: Sequence[_Table], column: str) -> NDArray[Any]:
    """The values of a column, of which none may be missing."""
    pieces = []
    for table in tables:
        for batch in table.batches(column):
            if batch.null_count:
                raise DataFileError(f"{table.where} has rows without {column!r}; clean the data first")
            pieces.append(np.array(batch.to_pylist()))
    return np.concatenate(pieces) if pieces else np.empty(0, np.int64)


def _classes(
    values: dict[str, NDArray[Any]], columns: Columns, where: str
) -> tuple[dict[str, NDArray[np.int64]], tuple[str, ...]]:
    """Labels as whole numbers from 0, and the classes' names."""
    train = values["train"]
    if train.dtype.kind == "U":
        names = np.unique(train)
        for part, texts in values.items():
            other = np.setdiff1d(texts, names)
            if other.size:
                raise DataFileError(
                    f"{where}: the {part} part has class {str(other[0])!r}, the train part has not"
                )
        labels = {part: np.searchsorted(names, texts) for part, texts in values.items()}
        return labels, tuple(map(str, names.tolist()))
    labels = {part: numbers.astype(np.int64) for part, numbers in values.items()}
    most = len(columns.class_names) or None
    for part, numbers in labels.items():
        wrong = np.flatnonzero((numbers < 0) | (numbers >= (most or np.inf)))
        if wrong.size:
            raise DataFileError(
                f"{where}: the {part} part has label {numbers[wrong[0]]} in row {wrong[0]}, which is no class"
                " (-1 often stands for 'unknown'); use another part with the option test=PART"
            )
    return labels, columns.class_names


def _owners(
    tables: dict[str, list[_Table]], columns: Columns
) -> tuple[dict[str, NDArray[np.int64]], tuple[str, ...]]:
    if columns.owner is None:
        return {}, ()
    column = columns.owner
    values = {part: _values(some, column).astype(np.str_) for part, some in tables.items()}
    names = np.unique(np.concatenate(list(values.values())))
    return {part: np.searchsorted(names, who) for part, who in values.items()}, tuple(
        map(str, names.tolist())
    )


def _tables(folder: Path, below: bool) -> list[Path]:
    for suffix in ("parquet", "arrow"):
        pattern = f"**/*.{suffix}" if below else f"*.{suffix}"
        found = sorted(path for path in folder.glob(pattern) if path.is_file())
        kept = [path for path in found if not any(p.startswith(".") for p in path.relative_to(folder).parts)]
        if kept:
            return kept
    return []


def _forms(tables: Sequence[Path], folder: Path) -> set[str]:
    """Subfolders that hold a dataset each: those whose own name is no part's."""
    heads = {path.relative_to(folder).parts[0] for path in tables if path.parent != folder}
    return {head for head in heads if not _part_of(head)} - {"data"}


def _is_of(path: Path, folder: Path, part: str) -> bool:
    """Whether a file belongs to a part: a word of its name, or of a folder's, says so."""
    names = str(path.relative_to(folder)).lower()
    return part.lower() in re.split(r"[^a-z]+", names) or path.stem.lower().startswith(f"{part.lower()}-")


def _part_of(name: str) -> bool:
    words = re.split(r"[^a-z]+", name.lower())
    return any(word in words for usual in _PARTS.values() for word in usual)


@contextlib.contextmanager
def _reading(where: str) -> Iterator[None]:
    """Turn what pyarrow raises for damaged files into a clear refusal."""
    try:
        yield
    except (DataFileError, MissingExtraError, GeneratorExit):
        raise
    except Exception as error:  # pyarrow's own errors, and whatever a damaged file makes of it
        if isinstance(error, MemoryError) or not type(error).__module__.startswith(("pyarrow", "builtins")):
            raise
        raise DataFileError(f"{where} cannot be read as a table ({error}); get it again") from error
