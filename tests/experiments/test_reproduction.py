"""The page on what reproduces is made of the committed results, and says of each how much was run."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from fedcbs.experiments import experiment, experiment_names

ROOT = Path(__file__).resolve().parents[2]
RESULTS = sorted((ROOT / "experiments" / "results").glob("*/results.json"))


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_page", ROOT / "experiments" / "make_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_made_of_the_committed_results() -> None:
    assert (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8") == maker().page()


def test_the_page_names_every_experiment_run_or_not() -> None:
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in experiment_names())


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.parent.name)
def test_results_are_small_complete_and_of_experiments_that_there_are(file: Path) -> None:
    found = json.loads(file.read_text(encoding="utf-8"))
    assert file.parent.name == f"{found['experiment']}-{found['scale']['name']}"
    own = experiment(found["experiment"])
    assert found["title"] == own.title
    assert found["scale"]["rounds"] == own.scale(found["scale"]["name"]).rounds
    assert found["versions"]["fedcbs"]
    assert sum(path.stat().st_size for path in file.parent.iterdir()) < 2e6
    for table in found.get("tables", ()):
        for row in table["rows"]:
            for cell in row["cells"]:
                assert cell["runs"] == len(cell["values"])
                assert (cell["ours"] is None) == (cell["held"] == 0)
    text = "".join(
        path.read_text(encoding="utf-8") for path in file.parent.iterdir() if path.suffix != ".png"
    )
    assert '"/' not in text  # no path of the machine that ran it
    assert ":/" not in text
