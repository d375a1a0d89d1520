"""The real commands in processes of their own: exit codes, what goes to which output, and files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

import fedcbs

SMALL = (
    "--clients", "30", "--classes", "4", "--examples-per-client", "20",
    "--cohort-size", "4", "--rounds", "5", "--seeds", "2",
)  # fmt: skip


def fedcbs_command(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run ``python -m fedcbs`` as somebody would."""
    return subprocess.run(
        [sys.executable, "-m", "fedcbs", *arguments], capture_output=True, text=True, timeout=120, **options
    )


def document(*arguments: str) -> dict[str, Any]:
    """The JSON that a command prints, which must be all that it prints there."""
    done = fedcbs_command(*arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    loaded: dict[str, Any] = json.loads(done.stdout)
    return loaded


def without_times(node: Any) -> Any:
    if isinstance(node, dict):
        return {k: without_times(v) for k, v in node.items() if not k.startswith("seconds")}
    return node


def test_the_installed_command_and_the_module_are_one() -> None:
    script = Path(sysconfig.get_path("scripts")) / "fedcbs"
    if not script.exists():
        pytest.skip("the package is not installed with its command")
    for command in ([str(script)], [sys.executable, "-m", "fedcbs"]):
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, f"fedcbs {fedcbs.__version__}\n")


def test_the_fixed_command_line_gives_the_fixed_json() -> None:
    names = [
        "everyone",
        "uniform",
        "astraea",
        "fedcbs-paper",
        "fedcbs-sharp",
        "fedcbs-exact",
        "fedcbs-exact:sweeps=1",
    ]
    found = document(
        "balance", "--partition", "dirichlet-hsu", "--alpha", "0.1", "--clients", "200", "--classes", "10",
        "--examples-per-client", "250", "--availability", "uniform:0.3", "--cohort-size", "10", "--rounds", "4",
        "--seeds", "2", "--selectors", ",".join(names),
    )  # fmt: skip
    assert list(found["selectors"]) == names
    for numbers in found["selectors"].values():
        for key in ("qcid_mean", "qcid_std", "coverage", "seconds_per_selection"):
            assert isinstance(numbers[key], float), key
            assert numbers[key] >= 0
        assert len(numbers["label_shares_of_last_cohort"]) == 2
        assert sum(numbers["times_selected_histogram"]) == 2 * 200
    settings = found["settings"]
    assert {key: settings[key] for key in ("partition", "alpha", "clients", "classes", "examples_per_client")} == {
        "partition": "dirichlet-hsu", "alpha": 0.1, "clients": 200, "classes": 10, "examples_per_client": 250,
    }  # fmt: skip
    assert settings["seeds"] == [0, 1]
    assert settings["selectors"]["fedcbs-exact:sweeps=1"]["sweeps"] == 1
    assert found["versions"]["fedcbs"] == fedcbs.__version__
    assert found["selectors"]["fedcbs-exact"]["qcid_mean"] < found["selectors"]["uniform"]["qcid_mean"]


def test_the_same_seed_gives_the_same_json_but_for_the_times() -> None:
    first, second, other = (document("balance", *SMALL, "--seed", seed) for seed in ("3", "3", "4"))
    assert without_times(first) == without_times(second)
    assert without_times(first)["selectors"] != without_times(other)["selectors"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["balance", "--selectors", "fedcbs-exat"], "did you mean 'fedcbs-exact'"),
        (["balance", "--selectors", "uniform,pow-d"], "pow-d (losses)"),
        (["balance", "--selectors", "fedcbs-exact:sweep=1"], "did you mean 'sweeps'"),
        (["balance", "--selectors", ""], "selectors is empty"),
        (["balance", "--partition", "dirichlet-shu"], "did you mean 'dirichlet-hsu'"),
        (["balance", "--partition", "dirichlet-hsu"], "alpha=None"),
        (["balance", "--partition", "iid", "--alpha", "0.1"], "alpha=0.1 is no option of 'iid'"),
        (["balance", "--partition", "counts:nowhere.csv"], "is no file"),
        (["balance", "--alpha", "-1"], "--alpha: '-1' must be a finite number above 0"),
        (["balance", "--alpha", "nan"], "--alpha: 'nan'"),
        (["balance", "--clients", "0"], "--clients: '0' must be a whole number of at least 1"),
        (["balance", "--rounds", "many"], "--rounds: 'many'"),
        (["balance", "--cohort-size", "201"], "cohort_size=201 but the population has 200 clients"),
        (["balance", "--availability", "uniform:2"], "fraction=2.0"),
        (["balance", "--durations", "slow"], "durations='slow'"),
        (["balance", "--plot", "figure.jpeg"], "must end in .png, .pdf or .svg"),
        (["balance", "--plot", "nowhere/figure.png"], "nowhere/figure.png"),
        (["balance", "--out", "nowhere/numbers.json"], "there is no folder 'nowhere'"),
        (["partition", "--out", "counts.txt"], "must end in .csv or .npy"),
        (["selectors", "unifrom"], "did you mean 'uniform'"),
        (["balanc"], "'balanc' is no COMMAND; did you mean 'balance'"),
        (["rum"], "did you mean 'run'"),
        (["weather"], "'weather' is no COMMAND; known: run, "),
        (["balance", "--selector", "uniform"], "did you mean --selectors? (see 'fedcbs balance --help')"),
        (["data", "describ", "digits"], "did you mean 'describe'"),
        ([], "COMMAND"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_on_the_standard_error(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from fedcbs.cli import main

    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("fedcbs: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_ends_the_process_with_code_2() -> None:
    done = fedcbs_command("balance", "--selectors", "nobody")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_leaves_early_is_no_accident() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "fedcbs", "balance", *SMALL, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=60), error) == (141, b"")


def test_on_a_terminal_a_bar_shows_the_progress_and_an_interrupt_ends_it_leaving_no_file(
    tmp_path: Path,
) -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    out = tmp_path / "numbers.json"
    process = subprocess.Popen(
        [sys.executable, "-m", "fedcbs", "balance", "--rounds", "1000000", "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    shown = b""
    while b"/4000000" not in shown:  # a counter: the comparison has begun
        shown += os.read(ours, 4096)
    process.send_signal(signal.SIGINT)
    while rest := _read_terminal(ours):
        shown += rest
    os.close(ours)
    printed, _ = process.communicate(timeout=60)
    assert (process.returncode, printed) == (130, b"")
    assert b"Traceback" not in shown
    assert list(tmp_path.iterdir()) == []


def _read_terminal(handle: int) -> bytes:
    """What is written to a terminal; nothing once its last writer has gone, which Linux tells as an error."""
    try:
        return os.read(handle, 4096)
    except OSError:
        return b""


def test_files_are_written_and_named(tmp_path: Path) -> None:
    done = fedcbs_command("balance", *SMALL, "--out", "numbers.json", "--plot", "figure.png", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "numbers: numbers.json\nfigure: figure.png\n")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    saved = json.loads((tmp_path / "numbers.json").read_text())
    for numbers in saved["selectors"].values():
        assert [len(row) for row in numbers["qcid_by_round"]] == [5, 5]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figure.png", "numbers.json"]


def test_quiet_prints_nothing(tmp_path: Path) -> None:
    done = fedcbs_command("balance", *SMALL, "--quiet", "--out", str(tmp_path / "numbers.json"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_overview_loads_neither_tables_nor_figures_nor_the_laboratory() -> None:
    code = (
        "import sys; from fedcbs.cli import main; code = main(['--help']); "
        "print(sorted({'rich', 'matplotlib', 'fedcbs.laboratory'} & set(sys.modules))); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("\n[]\n")
