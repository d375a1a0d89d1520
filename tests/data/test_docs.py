"""The page on data says what the code does."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from fedcbs.cli import main
from fedcbs.data import known_datasets, load_dataset
from fedcbs.data._load import HUB_OPTIONS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
FIRST, OWN = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_first_example_runs() -> None:
    names: dict[str, object] = {}
    exec(FIRST, names)
    assert len(names["partition"]) == 12  # type: ignore[arg-type]


def test_the_example_of_your_own_code_is_a_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_data.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    dataset = load_dataset("my_data:birds")
    assert (len(dataset.train), len(dataset.test), dataset.train.features.dtype) == (10, 4, np.uint8)


def test_the_commands_are_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    lines = re.findall(r"^fedcbs (data (?:list|describe digits).*?)(?:#.*)?$", PAGE, flags=re.MULTILINE)
    assert len(lines) == 2
    for line in lines:
        assert main(shlex.split(line)) == 0


@pytest.mark.parametrize("form", known_datasets())
def test_every_dataset_is_on_the_page(form: str) -> None:
    assert f"`{form.split(':')[0].replace('MODULE', 'package.module')}" in PAGE


@pytest.mark.parametrize("option", HUB_OPTIONS)
def test_every_option_is_on_the_page(option: str) -> None:
    assert f"`{option}=" in PAGE


def test_the_table_is_the_committed_measurement() -> None:
    spec = importlib.util.spec_from_file_location("data_benchmark", ROOT / "benchmarks" / "data.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    rows = json.loads(script.RESULTS.read_text())["rows"]
    shown = PAGE.split(script.BEGIN)[1].split(script.END)[0]
    assert shown.strip() == script.table(rows)
    assert all(row.get("peak_bytes", 0) < 2e9 for row in rows.values())
