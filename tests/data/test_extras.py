"""Without an optional package the error names the extra that brings it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fedcbs.data import get_dataset, load_dataset
from fedcbs.errors import MissingExtraError
from tests.data.writers import images, write_image_folder, write_table


@pytest.fixture
def data(tmp_path: Path) -> Path:
    pytest.importorskip("PIL")
    pytest.importorskip("pyarrow")
    write_image_folder(tmp_path / "photos")
    write_table(tmp_path / "tables" / "train.parquet", images(4, 8, 8), [0, 1, 0, 1])
    return tmp_path


@pytest.mark.parametrize(
    ("package", "spec", "extra"),
    [
        ("PIL", "folder:photos", "data"),
        ("PIL", "hf:tables", "data"),
        ("pyarrow", "hf:tables", "data"),
        ("sklearn", "digits", "train"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    data: Path, monkeypatch: pytest.MonkeyPatch, package: str, spec: str, extra: str
) -> None:
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"fedcbs\[{extra}\]"):
        load_dataset(spec, data_dir=data)


def test_a_download_needs_the_hubs_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"fedcbs\[data\]"):
        get_dataset("mnist")
