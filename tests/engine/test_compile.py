"""Compiling at first use: cached, safe for two at once, and done without where it cannot be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedcbs.engine import _compile, make_engine
from fedcbs.engine._compile import CompileError, cache_folder, compile_kernel
from fedcbs.engine._kernel import KernelEngine
from fedcbs.errors import InvalidArgumentError
from tests.engine import cases
from tests.engine.test_agreement import assert_same_training, engines, sequence


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """An empty cache, and no kernel loaded."""
    monkeypatch.setenv("FEDCBS_CACHE", str(tmp_path / "cache"))
    compile_kernel.cache_clear()
    yield tmp_path
    compile_kernel.cache_clear()


def test_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDCBS_CACHE", str(tmp_path / "here"))
    assert cache_folder() == tmp_path / "here"
    monkeypatch.delenv("FEDCBS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "fedcbs"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder().is_absolute()


def test_without_a_compiler(fresh, monkeypatch):
    monkeypatch.setenv("PATH", str(fresh))
    monkeypatch.delenv("CXX", raising=False)
    notes: list[str] = []
    engine = make_engine(sequence("cnn"), cases.dataset(), note=notes.append)
    assert engine.name == "generic"
    assert len(notes) == 1
    assert "no C++ compiler found" in notes[0]
    with pytest.raises(InvalidArgumentError, match=r"no C\+\+ compiler found.*take 'auto'"):
        make_engine(sequence("cnn"), cases.dataset(), engine="kernel")


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (
            "#!/bin/sh\n[ $1 = --version ] && exit 0\necho 'kernel.cpp:1: error: no such thing' >&2\nexit 1\n",
            "no such thing",
        ),
        ("#!/bin/sh\nexit 3\n", "failed"),
        (
            "#!/bin/sh\nfor last; do :; done\n[ $1 = --version ] || echo garbage > $last\n",
            "cannot be written or loaded",
        ),
    ],
)
def test_with_a_broken_compiler(fresh, monkeypatch, script, reason):
    compiler = fresh / "broken"
    compiler.write_text(script)
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    notes: list[str] = []
    assert make_engine(sequence("mlp"), cases.dataset(), note=notes.append).name == "generic"
    assert reason in notes[0]
    assert not list(fresh.glob("cache/.*.part"))


def test_where_nothing_can_be_written(fresh, monkeypatch):
    blocked = fresh / "file"
    blocked.write_text("")
    monkeypatch.setenv("FEDCBS_CACHE", str(blocked / "cache"))
    with pytest.raises(CompileError, match="cannot be written"):
        compile_kernel()


def test_a_cache_of_another_user(fresh, monkeypatch):
    folder = fresh / "cache"
    folder.mkdir()
    if folder.stat().st_uid == 0:
        os.chown(folder, 12345, -1)
    monkeypatch.setattr(_compile.os, "getuid", lambda: 54321)
    with pytest.raises(CompileError, match="belongs to another user"):
        compile_kernel()


def test_two_processes_at_once(fresh):
    code = "from fedcbs.engine._compile import compile_kernel; compile_kernel('-O0'); print('done')"
    source = str(Path(_compile.__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": source}
    both = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    assert [process.communicate()[0] for process in both] == ["done\n", "done\n"]
    assert len(list((fresh / "cache").iterdir())) == 1


@pytest.mark.parametrize("target", ["-O1 -march=x86-64", "-O1 -march=x86-64-v3"])
@pytest.mark.skipif(_compile.platform.machine() != "x86_64", reason="names targets of x86-64")
def test_narrower_vectors(target):
    for name in ("mlp", "cnn", "leaf-cnn"):
        (loop,) = engines(sequence(name), "loop")
        kernel = KernelEngine(
            sequence(name), cases.dataset(), threads=1, otherwise=lambda own=loop: own, target=target
        )
        assert_same_training(loop, kernel, "all", tolerance=1e-3)
