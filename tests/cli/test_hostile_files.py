"""Files that nobody should have written: what the commands make of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fedcbs.cli import main

ALL = ("--rounds", "3", "--seeds", "1", "--cohort-size", "3", "--selectors", "all", "--json")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def balance_of(counts: str, *options: str) -> int:
    Path("counts.csv").write_text(counts)
    return main(
        ["balance", "--partition", "counts:counts.csv", *ALL, *(options or ("--availability", "always"))]
    )


def printed(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    out, err = capsys.readouterr()
    assert err == ""
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ("3,4\n-1,2\n", "line 2, column 1: '-1' is no whole number from 0 to 2**53"),
        ("3,4\nnan,2\n", "line 2, column 1: 'nan'"),
        ("3,4\ninf,2\n", "line 2, column 1: 'inf'"),
        ("3,4\n1.5,2\n", "line 2, column 1: '1.5'"),
        ("3,4\n,2\n", "line 2, column 1: ''"),
        ("9007199254740993,0\n1,2\n", "9007199254740993 must be a whole number from 0 to 9007199254740992"),
        ("9007199254740992,1\n1,2\n", "adds up to more than 2**53 examples"),
        ("1" * 400 + ",1\n1,2\n", "line 1, column 1: '1111111111111111111111111111111111111111' is no whole"),
        ("3,4\n5\n", "line 2 has 1 cells"),
        ("", "has no clients"),
        ("0,0\n0,0\n0,0\n", "no client of the population has an example"),
        ("1,2\n3,4\n", "cohort_size=3 but the population has 2 clients"),
    ],
)
def test_counts_that_cannot_be_are_refused_in_one_line(
    counts: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert balance_of(counts) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("fedcbs: error: ")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(
    "counts",
    [
        "1000000000000000,0\n0,1000000000000000\n5,5\n900000000000000,1\n",
        "9007199254740992,0\n0,9007199254740992\n9007199254740991,1\n1,1\n",
        "4\n9\n1\n1\n",
        "4,0\n9,0\n1,0\n1,0\n",
        "3,4\n5,6\n7,8\n",
    ],
    ids=["huge", "hugest", "one class", "one class of two", "as many as there are"],
)
def test_counts_that_are_merely_odd_give_every_selector_its_cohorts(
    counts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert balance_of(counts) == 0
    found = printed(capsys)
    for numbers in found["selectors"].values():
        assert 0 <= numbers["qcid_mean"] <= 1
        assert numbers["cohort_size_mean"] > 0
    assert found["rounds"]["short"] == 0


def test_clients_without_examples_make_rounds_short_which_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert balance_of("0,0\n4,5\n6,1\n0,0\n") == 0
    found = printed(capsys)
    assert found["population"]["empty_clients"] == [2]
    assert found["rounds"]["short"] == 3


@pytest.mark.parametrize(
    ("clients", "message"),
    [
        ([2, 0, 2], "clients holds client 2 twice"),
        ([2, 9], "the trace names client 9"),
        ([-1, 2], "clients[0]=-1 must be a whole number"),
        ([1.5], "clients"),
        ([], "lets no client with examples be available in any of 3 rounds"),
    ],
)
def test_traces_that_cannot_be_are_refused_in_one_line(
    clients: list[float], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("trace.jsonl").write_text(json.dumps({"round": 1, "clients": clients}) + "\n")
    assert balance_of("1,2\n3,4\n5,6\n7,8\n", "--availability", "trace:trace.jsonl") == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err


def test_unsorted_empty_and_thin_rounds_of_a_trace_are_run_and_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = [[3, 0, 2, 1], [], [1]]
    Path("trace.jsonl").write_text(
        "".join(json.dumps({"round": k, "clients": ids}) + "\n" for k, ids in enumerate(lines, start=1))
    )
    assert balance_of("1,2\n3,4\n5,6\n7,8\n", "--availability", "trace:trace.jsonl") == 0
    found = printed(capsys)
    assert (found["rounds"]["short"], found["rounds"]["skipped"], found["rounds"]["selected_in"]) == (1, 1, 2)
