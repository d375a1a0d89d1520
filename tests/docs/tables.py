"""The README's tables, made from committed results; ``python -m tests.docs.tables`` writes them into it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

SETTINGS = {
    "dirichlet-0.1": "Dirichlet 0.1",
    "dirichlet-0.2": "Dirichlet 0.2",
    "dirichlet-0.5": "Dirichlet 0.5",
    "fedcor-0.1": "Dirichlet 0.1, FedCor's sizes",
    "fedcor-0.2": "Dirichlet 0.2, FedCor's sizes",
    "fedcor-0.5": "Dirichlet 0.5, FedCor's sizes",
    "case1-3to1": "Case 1, 3:1 (18 and 6)",
    "case1-16to8": "Case 1, 16 and 8",
    "case1-5to1": "Case 1, 5:1",
    "case2-3to1": "Case 2, 3:1",
    "case2-5to1": "Case 2, 5:1",
}
COLUMNS = {
    "everyone": "everyone",
    "uniform": "uniform",
    "astraea": "astraea",
    "fedcbs-paper": "fedcbs-paper",
    "fedcbs-sharp:slope=3": "fedcbs-sharp",
    "fedcbs-exact:sweeps=3": "fedcbs-exact",
}
PAPER = {  # mean QCID in units of 1e-2, from the paper's tables: everyone, uniform, Fed-CBS
    "dirichlet-0.1": (1.01, 8.20, 0.62),
    "dirichlet-0.2": (0.93, 7.54, 0.51),
    "dirichlet-0.5": (0.72, 5.87, 0.36),
    "fedcor-0.1": (1.01, 8.20, 0.62),
    "fedcor-0.2": (0.93, 7.54, 0.51),
    "fedcor-0.5": (0.72, 5.87, 0.36),
    "case1-3to1": (2.90, 9.33, 0.57),
    "case1-16to8": (2.90, 9.33, 0.57),
    "case1-5to1": (6.17, 12.36, 2.41),
    "case2-3to1": (2.50, 9.91, 0.001),
    "case2-5to1": (4.44, 11.70, 0.002),
}


def qcid_table(results: dict[str, Any]) -> str:
    lines = [f"| setting | {' | '.join(COLUMNS.values())} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for setting, title in SETTINGS.items():
        paper = dict(zip(("everyone", "uniform", "fedcbs-paper"), PAPER[setting], strict=True))
        cells = []
        for column in COLUMNS:
            cell = f"{results['populations'][setting][column]['qcid_mean']:.3g}"
            cells.append(f"{cell} ({paper[column]:g})" if column in paper else cell)
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def speed_table(results: dict[str, Any]) -> str:
    names = ["uniform", "astraea", "fedcbs-paper", "fedcbs-exact"]
    heads = ["available, picked", *names, "fedcbs-exact / streaming", "peak memory"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for case in results["cases"]:
        cells = [duration(case["selectors"][name]["seconds"]) for name in names]
        cells.append(f"{case['selectors']['fedcbs-exact']['seconds'] / case['seconds_streams']:.1f}")
        lines.append(
            f"| {case['available']:,}, {case['cohort_size']} | {' | '.join(cells)} | {case['peak_megabytes']:.0f} MB |"
        )
    return "\n".join(lines)


def engine_table(results: dict[str, Any]) -> str:
    heads = ["model", "engine", "speedup", "of a matrix product's speed", "2 threads", "10,000 images"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for case in results["speed"]:
        cells = [
            case["model"],
            case["engine"],
            f"{case['speedup']:.1f}x",
            f"{case['of_peak']:.0%}",
            f"{case['two_threads']:.2f}x",
            duration(case["seconds_evaluation"]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def duration(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1e3:.2g} ms"


def main() -> None:
    root = Path(__file__).resolve().parents[2]
    text = (root / "README.md").read_text(encoding="utf-8")
    for name, table, file in (
        ("qcid", qcid_table, "balance.json"),
        ("speed", speed_table, "selection.json"),
        ("engine", engine_table, "engine.json"),
    ):
        made = table(json.loads((root / "benchmarks" / "results" / file).read_text(encoding="utf-8")))
        text = re.sub(
            rf"(<!-- {name}: begin -->\n).*?(<!-- {name}: end -->)",
            lambda match, made=made: f"{match[1]}{made}\n{match[2]}",
            text,
            flags=re.DOTALL,
        )
    (root / "README.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
