"""The README's examples run, and its numbers are those of the committed results."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path

from tests.docs.tables import engine_table, qcid_table, speed_table

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def between(name: str) -> str:
    return README.split(f"<!-- {name}: begin -->")[1].split(f"<!-- {name}: end -->")[0].strip()


def results(name: str) -> dict:
    return json.loads((ROOT / "benchmarks" / "results" / name).read_text(encoding="utf-8"))


def test_the_examples_run_and_print_what_is_shown() -> None:
    examples = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    shown = re.search(r"```text\n(\[.*?)```", README, re.DOTALL)
    assert shown is not None
    names: dict[str, object] = {}
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        for example in examples:
            exec(example, names)
    assert out.getvalue() == shown.group(1)


def test_the_examples_of_the_page_on_selectors_run() -> None:
    page = (ROOT / "docs" / "selectors.md").read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": "__main__"}
    for example in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(example, "docs/selectors.md", "exec", dont_inherit=True), names)
    assert len(names["cohort"]) == 10  # type: ignore[arg-type]


def test_the_table_of_imbalance_is_the_committed_result() -> None:
    assert between("qcid") == qcid_table(results("balance.json"))


def test_the_table_of_speed_is_the_committed_result() -> None:
    assert between("speed") == speed_table(results("selection.json"))


def test_the_table_of_training_is_the_committed_result() -> None:
    assert between("engine") == engine_table(results("engine.json"))


def test_every_page_that_is_linked_exists() -> None:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
