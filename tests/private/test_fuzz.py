"""A short run of what ``make fuzz`` does at length."""

from __future__ import annotations

from tests.private.fuzz import TARGETS, run


def test_damaged_bytes_are_refused_or_mean_what_they_say() -> None:
    counted = run(1500, seed=7)
    assert sum(counted.values()) == 1500
    assert {name.rsplit(":", 1)[0] for name in counted} <= set(TARGETS)
    refused = sum(count for name, count in counted.items() if name.endswith("refused"))
    assert refused > 1000
