"""The page on partitions says what the code does and what was measured."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from fedcbs.availability import Trace, list_availabilities
from fedcbs.partition import list_partitions

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "partitions.md").read_text(encoding="utf-8")


@pytest.fixture
def benchmark_script() -> ModuleType:
    path = ROOT / "benchmarks" / "partition_qcid.py"
    spec = importlib.util.spec_from_file_location("partition_qcid", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_the_committed_measurement(benchmark_script: ModuleType) -> None:
    result = json.loads(benchmark_script.RESULTS.read_text())
    table = benchmark_script.table(result["rows"], result["seeds"], result["rounds"])
    shown = PAGE.split(benchmark_script.BEGIN)[1].split(benchmark_script.END)[0]
    assert shown.strip() == table


def test_the_committed_measurement_is_what_the_code_gives(benchmark_script: ModuleType) -> None:
    row = json.loads(benchmark_script.RESULTS.read_text())["rows"][0]
    again = benchmark_script.measure(row["partition"], row["availability"], seeds=1, rounds=300)
    # Another version of NumPy may draw other populations; of the same law.
    assert again["random"][0] == pytest.approx(np.mean(row["random"]), rel=0.12)


def test_the_first_example_runs() -> None:
    code = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[0]
    names: dict[str, object] = {"labels": np.arange(50_000) % 10}
    exec(code, names)
    assert len(names["partition"]) == 200  # type: ignore[arg-type]


def test_the_trace_shown_can_be_read(tmp_path: Path) -> None:
    shown = re.findall(r"```\n(\{.*?)```", PAGE, flags=re.DOTALL)[0]
    (tmp_path / "t.jsonl").write_text(shown)
    assert len(Trace.load(tmp_path / "t.jsonl")) == 3


@pytest.mark.parametrize("form", [*list_partitions(), *list_availabilities()])
def test_every_name_is_on_the_page(form: str) -> None:
    assert re.split(r"[:\[]", form)[0] in PAGE
