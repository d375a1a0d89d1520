"""Compiling the kernel at first use, once per machine, compiler and source.

The library lies in the user's cache under the hash of everything that it depends on: the sources, the flags, the
compiler's version and the CPU (``-march=native`` means another thing on another one). Processes that compile at the same
moment each write a file of their own and put it in place in one step; which of them wins does not matter.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import secrets
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from fedcbs.errors import FedCBSError

__all__ = ["CompileError", "cache_folder", "compile_kernel"]

SOURCES = Path(__file__).parent / "_native"
FLAGS = ("-O3", "-std=c++17", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math", "-pthread")
"""No -ffast-math: sums keep their order, and NaN stays NaN."""
NATIVE = "-mcpu=native" if platform.machine() in ("aarch64", "arm64") else "-march=native"
TIMEOUT_SECONDS = 300


class CompileError(FedCBSError, RuntimeError):
    """The kernel cannot be compiled or loaded here; the torch engines can do without it."""


@cache
def compile_kernel(target: str = NATIVE) -> ctypes.CDLL:
    """Load the kernel, compiled with further flags (for which CPU, above all), or say why there is none."""
    compiler = _compiler()
    if compiler is None:
        raise CompileError("no C++ compiler found (c++, g++ or clang++, or the one that CXX names)")
    library = cache_folder() / f"kernel-{_fingerprint(compiler, target)}.so"
    try:
        library.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_owner(library.parent)
        if not library.is_file():
            _compile(compiler, target, library)
        return ctypes.CDLL(str(library))
    except OSError as error:
        raise CompileError(f"{library} cannot be written or loaded: {error}") from error


def cache_folder() -> Path:
    """Where compiled kernels are kept: FEDCBS_CACHE, else `fedcbs` in the user's cache folder."""
    named = os.environ.get("FEDCBS_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    if base and Path(base).is_absolute():
        return Path(base) / "fedcbs"
    try:
        home = Path.home()
    except RuntimeError:  # a user without a home, as in some containers
        return Path(tempfile.gettempdir()) / f"fedcbs-{os.getuid() if hasattr(os, 'getuid') else 'cache'}"
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "fedcbs"


def _check_owner(folder: Path) -> None:
    """Load no code that another user could have put there."""
    if hasattr(os, "getuid") and folder.stat().st_uid not in (os.getuid(), 0):
        raise CompileError(f"{folder} belongs to another user; name a folder of your own in FEDCBS_CACHE")


def _compiler() -> str | None:
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and (found := shutil.which(name)):
            return found
    return None


def _fingerprint(compiler: str, target: str) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for source in sorted(SOURCES.iterdir()):
        if source.suffix in (".cpp", ".hpp"):
            digest.update(source.name.encode() + b"\0" + source.read_bytes())
    for part in (*FLAGS, target, compiler, _output([compiler, "--version"]), _cpu()):
        digest.update(b"\0" + part.encode())
    return digest.hexdigest()


def _cpu() -> str:
    """What tells one kind of CPU from another: its name and what it can do."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join(dict.fromkeys(line for line in lines if line.startswith(wanted)))


def _compile(compiler: str, target: str, library: Path) -> None:
    part = library.with_name(f".{library.stem}.{secrets.token_hex(6)}.part")
    try:
        _output([compiler, *FLAGS, *target.split(), str(SOURCES / "kernel.cpp"), "-o", str(part)])
        part.replace(library)
    finally:
        part.unlink(missing_ok=True)


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompileError(f"{command[0]} does not run: {error}") from error
    if done.returncode:
        reason = next(
            (line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[:200]
        )
        raise CompileError(f"{command[0]} failed: {reason}")
    return done.stdout
