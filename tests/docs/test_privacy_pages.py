"""The pages on privacy and on the service say what was measured, and what the program does."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest

from fedcbs.cli._main import _parser
from fedcbs.private import known_modes

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("threat-model.md", "service.md")
}


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["attacks", "noise"])
def test_tables_are_the_committed_measurement(name: str) -> None:
    benchmark = script("audit")
    result = json.loads((benchmark.RESULTS / "audit.json").read_text())
    shown = PAGES["threat-model.md"].split(f"<!-- {name}: begin -->")[1].split(f"<!-- {name}: end -->")[0]
    assert shown.strip() == benchmark.TABLES[name](result)


def test_the_table_of_noise_is_the_committed_measurement() -> None:
    benchmark = script("noise")
    result = json.loads((benchmark.RESULTS / "noise.json").read_text())
    setting = result["setting"]
    made = benchmark.table(result["rows"], setting["seeds"], setting["rounds"])
    assert (benchmark.RESULTS / "noise.md").read_text().strip() == made


def test_every_mode_is_in_the_table() -> None:
    for mode in known_modes():
        assert f"| `{mode}` |" in PAGES["threat-model.md"]


@pytest.mark.parametrize("page", PAGES)
def test_commands_on_the_page_exist(page: str) -> None:
    text = re.sub(r"\$\(.*?\)", "DATE", PAGES[page])
    lines = [
        line for block in re.findall(r"```(?:ini)?\n(.*?)```", text, re.DOTALL) for line in block.splitlines()
    ]
    commands = [line.split("fedcbs ", 1)[1] for line in lines if re.search(r"(^|/)fedcbs ", line)]
    commands += re.findall(r"`fedcbs (selector (?:backup|rotate) [^`]*)`", text)
    assert commands
    for command in commands:
        _parser().parse_args(shlex.split(command, comments=True))


@pytest.mark.parametrize("page", PAGES)
def test_options_on_the_page_exist(page: str) -> None:
    with pytest.raises(SystemExit):
        _parser().parse_args(["selector", "serve", "--no-such-option"])
    for option in re.findall(r"`--([a-z-]+)", PAGES[page]):
        sources = [(ROOT / "src" / "fedcbs" / "cli" / name).read_text() for name in SOURCES]
        assert any(f'"--{option}"' in source for source in sources), option


SOURCES = ("_selector.py", "_audit.py", "_private.py", "_private_noise.py")
