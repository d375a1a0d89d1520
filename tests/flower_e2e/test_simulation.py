"""The example in Flower's simulation engine, which needs Ray.

Ray's helpers listen on all addresses, so it is started in a network namespace of its own, where there is no other network.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fedcbs import LabelInformation, Round, make_selector
from tests.flower_e2e.cluster import APP, PATIENCE, ROOT, free_ports, has_one_address, rounds
from tests.flower_e2e.example import label_counts

NODES, COHORT, ROUNDS = 6, 3, 4

NEW = """
set -e
ip link set lo up
mkdir -p "$FLWR_HOME"
printf '[superlink]\\ndefault = "here"\\n[superlink.here]\\naddress = "127.0.0.1:%s"\\ninsecure = true\\noptions.num-supernodes = %s\\n' \\
    "$PORT" "$NODES" > "$FLWR_HOME/config.toml"
flower-superlink --insecure --simulation --host 127.0.0.1 --port "$PORT" --disable-runtime-dependency-installation > superlink.log 2>&1 &
link=$!
trap 'kill $link; wait' EXIT
for _ in $(seq 240); do (exec 3<>/dev/tcp/127.0.0.1/$PORT) 2>/dev/null && break; sleep 0.5; done
flwr run app here --stream --run-config "$CONFIG"
"""
OLD = """
set -e
ip link set lo up
printf '\\n[tool.flwr.federations]\\ndefault = "here"\\n[tool.flwr.federations.here]\\noptions.num-supernodes = %s\\n' "$NODES" \\
    >> app/pyproject.toml
flwr run app here --run-config "$CONFIG"
"""


def namespaces() -> bool:
    """Whether this machine can make a network namespace."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("mode", ["", "sealed"])
def test_cohorts_are_those_of_one_process(tmp_path: Path, mode: str) -> None:
    pytest.importorskip("ray", reason="Flower's simulation engine needs ray, which is not installed")
    if not namespaces():
        pytest.skip("this machine makes no network namespace, and Ray would listen on all addresses")
    shutil.copytree(APP, tmp_path / "app", ignore=shutil.ignore_patterns("__pycache__", "deploy"))
    settings = {
        "num-server-rounds": ROUNDS,
        "cohort-size": COHORT,
        "min-clients": NODES,
        "private-mode": mode,
    }
    settings["out"] = str(tmp_path / "out")
    (port,) = free_ports(1)
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    env = {
        **os.environ,
        "CONFIG": " ".join(f"{key}={json.dumps(value)}" for key, value in settings.items()),
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_HOME": str(tmp_path / "home"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "NODES": str(NODES),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PORT": str(port),
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    done = subprocess.run(
        ["unshare", "-n", "bash", "-c", NEW if has_one_address() else OLD],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * PATIENCE,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    records = rounds(tmp_path / "out")
    assert [record["cohort"] for record in records] == expected(), done.stdout[-4000:]


def expected() -> list[list[int]]:
    selector = make_selector("fedcbs-exact")
    information = LabelInformation(label_counts(NODES))
    state, cohorts = selector.init(NODES), []
    for number in range(1, ROUNDS + 1):
        selection = selector.select(state, Round(information, cohort_size=COHORT, round_index=number, seed=0))
        state = selection.state
        cohorts.append(selection.cohort.tolist())
    return cohorts
