"""The page's example runs, and says what is true."""

from __future__ import annotations

import re
from pathlib import Path

from fedcbs.private import known_modes
from tests.private.parties import federation

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "private.md").read_text(encoding="utf-8")


def test_the_example_gives_what_its_comment_says() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    exec(example, names)
    assert str(names["opened"].gram[0].tolist()) in example  # type: ignore[attr-defined]


def test_every_mode_is_in_the_list() -> None:
    assert all(f"| `{name}` |" in PAGE for name in known_modes())


def test_sizes_and_distances_are_those_of_the_code() -> None:
    for name, size in (("masked", "541 bytes"), ("fhe", "344 kB")):
        found = federation(name, 1, 62)
        length = len(found.encrypt([1] * 62, "client-0"))
        assert size in PAGE
        assert abs(length / (1000 if name == "fhe" else 1) - int(size.split()[0])) < 20
    fhe = federation("fhe", 1, 62).mode.sizes  # type: ignore[attr-defined]
    assert (fhe.columns, fhe.depth, fhe.columns * fhe.left * fhe.right) == (16, 4, 2048)
    assert fhe.distance(3210 * 8192) >= 42.9
    assert fhe.flood_bits == 72
