"""A real federation on the loopback interface: SuperLink, SuperExec and SuperNodes as processes of their own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.flower_e2e.credentials import make_node_key, make_tls

ROOT = Path(__file__).resolve().parents[2]
APP = ROOT / "examples" / "flower"
PATIENCE = float(os.environ.get("FEDCBS_E2E_PATIENCE", "240"))
"""Seconds for anything that is waited for; the machine may be busy."""


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def until(what: str, condition: Callable[[], Any], *, patience: float = PATIENCE, pause: float = 0.3) -> Any:
    """Wait for a condition, and return what it gave."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(pause)
    raise AssertionError(f"waited {patience:g} s in vain until {what}")


class Process:
    """A process with a group and a log of its own, ended with all that it started."""

    def __init__(self, name: str, command: Sequence[str | Path], folder: Path, env: dict[str, str]) -> None:
        self.name, self.command, self.folder, self.env = name, [str(part) for part in command], folder, env
        self.log = folder / f"{name}.log"
        self.popen: subprocess.Popen[bytes] | None = None

    def start(self) -> Process:
        with self.log.open("ab") as log:
            self.popen = subprocess.Popen(
                self.command, stdout=log, stderr=log, cwd=self.folder, env=self.env, start_new_session=True
            )
        return self

    @property
    def alive(self) -> bool:
        return self.popen is not None and self.popen.poll() is None

    def kill(self) -> None:
        """SIGKILL to the process and its children, as a crash of the machine would have it."""
        assert self.popen is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()

    def stop(self) -> None:
        if self.popen is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(10)
        self.kill()

    def said(self, text: str) -> bool:
        return self.log.is_file() and text in self.log.read_text(errors="replace")


class Cluster:
    """A SuperLink with TLS, node authentication, process isolation and SQLite state, and its SuperNodes."""

    where: tuple[str, ...] = ("deployment",)
    """How the command line is told which federation."""
    what: tuple[str, ...] = (".", "deployment")
    """And which app besides."""

    def __init__(self, folder: Path, *, num_nodes: int = 6) -> None:
        self.folder, self.num_nodes = folder, num_nodes
        self.tls, self.keys = folder / "tls", folder / "keys"
        self.bin = Path(sys.executable).parent
        self.port, self.control_port, self.runtime_port = free_ports(3)
        self.env = self._environment()
        self.link = self._process("superlink", self._link_command())
        self.exec = self._process("superexec", self._exec_command())
        self.nodes: list[Process] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def app(self) -> Path:
        return self.folder / "app"

    def start(self, node_config: Callable[[int], str] = lambda _: "") -> None:
        """Start everything, and wait until all nodes are online."""
        make_tls(self.tls)
        shutil.copytree(APP, self.app, ignore=shutil.ignore_patterns("__pycache__", "deploy"))
        self._configure()
        self.link.start()
        until("the SuperLink listens", self._listens)
        self.exec.start()
        for number in range(self.num_nodes):
            data = f"partition-id={number} num-partitions={self.num_nodes}"
            self.add_node(f"node-{number}", f"{data} {node_config(number)}".strip())
        for node in self.nodes:
            until(f"{node.name} is online", lambda node=node: node.said("Starting Flower SuperExec"))

    def add_node(self, name: str, config: str, *options: str) -> Process:
        """Register and start one more SuperNode."""
        make_node_key(self.keys, name)
        self.flwr("supernode", "register", self.keys / f"{name}.pub", *self.where, *options)
        node = self._process(name, self._node_command(name, config))
        self.nodes.append(node.start())
        return node

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def restart_link(self, *, down: float) -> None:
        """Kill the SuperLink, and start it again after some seconds."""
        self.link.kill()
        time.sleep(down)
        self.link.start()
        until("the SuperLink listens again", self._listens)

    def run(self, config: Mapping[str, Any]) -> int:
        """Start a run of the example app, and return its number."""
        pairs = " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())
        out = self.flwr("run", *self.what, "--format", "json", "--run-config", pairs)
        answer = json.loads(out[out.index("{") :])
        assert answer.get("success"), answer
        return int(answer["run-id"])

    def status(self, run: int) -> str:
        """Status of a run: ``running``, ``finished:completed``, ``finished:failed`` ..."""
        out = self.flwr("list", *self.where, "--run-id", str(run), "--format", "json")
        return str(json.loads(out[out.index("{") :])["runs"][0]["status"])

    def over(self, run: int) -> str | None:
        """Status of a run that is over."""
        status = self.status(run)
        return status if status.startswith("finished") else None

    def server_app(self) -> int | None:
        """Process id of the server app, if it runs."""
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = path.read_bytes().split(b"\0")
                if any(word.endswith(b"flwr-serverapp") for word in words[:2]) and self._ours(path.parent):
                    return int(path.parent.name)
        return None

    def kill_server_app(self) -> None:
        """SIGKILL to the server app."""
        os.kill(until("the server app runs", self.server_app), signal.SIGKILL)

    def _ours(self, process: Path) -> bool:
        return f"FLWR_HOME={self.env['FLWR_HOME']}".encode() in (process / "environ").read_bytes().split(
            b"\0"
        )

    def flwr(self, *arguments: str | Path) -> str:
        done = subprocess.run(
            [self.bin / "flwr", *map(str, arguments)],
            cwd=self.app,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, f"flwr {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def stop(self) -> None:
        for process in [*self.nodes, self.exec, self.link]:
            process.stop()

    def _process(self, name: str, command: Sequence[str | Path]) -> Process:
        return Process(name, [self.bin / command[0], *command[1:]], self.folder, self.env)

    def _configure(self) -> None:
        """Tell the command line where the SuperLink is."""
        home = Path(self.env["FLWR_HOME"])
        home.mkdir(parents=True, exist_ok=True)
        (home / "config.toml").write_text(
            '[superlink]\ndefault = "deployment"\n[superlink.deployment]\n'
            f'address = "{self.address}"\nroot-certificates = "{self.tls / "ca.pem"}"\n'
        )

    def _exec_command(self) -> list[str | Path]:
        return [
            "flower-superexec",
            *("--runtime-api-address", self.address, "--root-certificates", self.tls / "ca.pem"),
        ]

    def _link_command(self) -> list[str | Path]:
        return [
            "flower-superlink",
            *("--ssl-certfile", self.tls / "server.pem", "--ssl-keyfile", self.tls / "server.key"),
            *("--ssl-ca-certfile", self.tls / "ca.pem", "--enable-supernode-auth"),
            *("--isolation", "process", "--database", self.folder / "superlink.db"),
            *("--host", "127.0.0.1", "--port", str(self.port), "--disable-runtime-dependency-installation"),
        ]

    def _node_command(self, name: str, config: str) -> list[str | Path]:
        (port,) = free_ports(1)
        return [
            "flower-supernode",
            *("--superlink", self.address, "--root-certificates", self.tls / "ca.pem"),
            *("--auth-supernode-private-key", self.keys / name),
            *("--host", "127.0.0.1", "--port", str(port), "--node-config", config),
        ]

    def _environment(self) -> dict[str, str]:
        home = self.folder / "flwr-home"
        return {
            **os.environ,
            "FLWR_HOME": str(home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "OMP_NUM_THREADS": "1",
            "PATH": f"{self.bin}{os.pathsep}{os.environ.get('PATH', '')}",
            "PYTHONPATH": str(ROOT / "src"),
        }


class EarlierCluster(Cluster):
    """The same before Flower 1.30 or so: an address for each interface, and federations in the app's own file."""

    where = (".", "deployment")

    def _configure(self) -> None:
        with (self.app / "pyproject.toml").open("a") as file:
            file.write(
                '\n[tool.flwr.federations]\ndefault = "deployment"\n[tool.flwr.federations.deployment]\n'
                f'address = "127.0.0.1:{self.control_port}"\nroot-certificates = "{self.tls / "ca.pem"}"\n'
            )

    def _exec_command(self) -> list[str | Path]:
        address = f"127.0.0.1:{self.runtime_port}"
        return [
            "flower-superexec",
            *("--appio-api-address", address, "--plugin-type", "serverapp", "--insecure"),
        ]

    def _link_command(self) -> list[str | Path]:
        return [
            "flower-superlink",
            *("--ssl-certfile", self.tls / "server.pem", "--ssl-keyfile", self.tls / "server.key"),
            *("--ssl-ca-certfile", self.tls / "ca.pem", "--enable-supernode-auth"),
            *("--isolation", "process", "--database", self.folder / "superlink.db"),
            *("--fleet-api-address", self.address, "--control-api-address", f"127.0.0.1:{self.control_port}"),
            *("--serverappio-api-address", f"127.0.0.1:{self.runtime_port}"),
        ]

    def _node_command(self, name: str, config: str) -> list[str | Path]:
        command = super()._node_command(name, config)
        at = command.index("--host")
        command[at : at + 4] = ["--clientappio-api-address", f"127.0.0.1:{command[at + 3]}"]
        return command


def has_one_address() -> bool:
    """Whether the installed SuperLink has one HTTP address for everything."""
    done = subprocess.run(
        [Path(sys.executable).parent / "flower-superlink", "--help"],
        env={**os.environ, "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    return "--host HOST" in done.stdout


def rounds(folder: Path) -> list[dict[str, Any]]:
    """The record of a run, as far as it has come."""
    path = folder / "rounds.jsonl"
    if not path.is_file():
        return []
    found = []
    for line in path.read_text().splitlines():
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return found


@contextlib.contextmanager
def cluster(folder: Path, **options: Any) -> Iterator[Cluster]:
    made = (Cluster if has_one_address() else EarlierCluster)(folder, **options)
    try:
        yield made
    finally:
        made.stop()
