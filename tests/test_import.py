"""What `import fedcbs` brings along. How long it takes is measured by ``benchmarks/import_time.py``."""

import subprocess
import sys
from pathlib import Path

import pytest

import fedcbs

SOURCE = str(Path(fedcbs.__file__).parents[1])


def loaded_by(program: str) -> set[str]:
    """Top-level modules that a program loads beyond those of Python itself."""
    code = f"{program}\nimport sys\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    names = {name for name in done.stdout.split() if name not in sys.stdlib_module_names}
    return {name for name in names if not name.startswith(("_", "sitecustomize", "usercustomize"))}


@pytest.mark.parametrize("name", ["fedcbs", "fedcbs.selectors", "fedcbs.partition", "fedcbs.availability"])
def test_importing_needs_numpy_and_nothing_else(name: str) -> None:
    assert loaded_by(f"import sys; sys.path.insert(0, {SOURCE!r}); import {name}") == loaded_by(
        "import numpy"
    ) | {"fedcbs"}


def test_importing_does_not_load_what_only_some_calls_need() -> None:
    code = (
        f"import sys; sys.path.insert(0, {SOURCE!r}); import fedcbs; "
        "print(sorted({'importlib.metadata', 'rich', 'scipy', 'fedcbs.cli', 'fedcbs.laboratory'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "[]\n")
