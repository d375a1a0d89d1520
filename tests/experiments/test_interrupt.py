"""Ctrl-C ends all experiments that were asked for, not the one that happens to run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest


def test_ctrl_c_ends_all_of_them(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    command = ["experiment", "all", "--scale", "smoke", "--jobs", "1", "--out", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, "-m", "fedcbs", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("1 of ")
        os.killpg(process.pid, signal.SIGINT)
        told = process.stderr.read()
        assert process.wait(timeout=60) == 130
    assert "the same command goes on where this one stopped" in told
    assert len(list((tmp_path / "results").iterdir())) == 1
