"""Make docs/reproduction.md from the committed results and the commentary.

python experiments/make_page.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from fedcbs.experiments import experiment, experiment_names, verdict

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "reproduction.md"


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The whole page."""
    found = results()
    said = commentary()
    parts = [said["introduction"], "## Where it stands", standing(found), said.get("findings", "")]
    for name in order(found):
        parts += [f"## {found[name]['title']}", about(found[name]), said.get(name, "")]
        parts += [
            f"![{found[name]['title']}](../experiments/results/{path.parent.name}/{path.name})"
            for path in sorted((HERE / "results" / folder(found[name])).glob("*.png"))
        ]
        parts.append(f"All numbers: [tables](../experiments/results/{folder(found[name])}/README.md).")
    missing = [name for name in experiment_names() if name not in found]
    if missing:
        parts += ["## Not run yet", said.get("missing", ""), not_run(missing)]
    return "\n\n".join(part for part in parts if part) + "\n"


def results() -> dict[str, dict[str, Any]]:
    """The committed results by experiment; of several scales the largest."""
    found: dict[str, dict[str, Any]] = {}
    sizes = {"smoke": 0, "laptop": 1, "paper": 2}
    for file in sorted((HERE / "results").glob("*/results.json")):
        document = json.loads(file.read_text(encoding="utf-8"))
        name = document["experiment"]
        if name not in found or sizes[document["scale"]["name"]] > sizes[found[name]["scale"]["name"]]:
            found[name] = document
    return found


def folder(found: dict[str, Any]) -> str:
    return f"{found['experiment']}-{found['scale']['name']}"


def order(found: dict[str, Any]) -> list[str]:
    """Experiments of the paper first."""
    return sorted(found, key=lambda name: (found[name]["paper"].startswith("beyond"), name))


def commentary() -> dict[str, str]:
    """Sections of commentary.md by their names."""
    text = (HERE / "commentary.md").read_text(encoding="utf-8")
    parts = re.split(r"^<!-- ([a-z0-9-]+) -->\n", text, flags=re.MULTILINE)
    return {name: part.strip() for name, part in zip(parts[1::2], parts[2::2], strict=True)}


def standing(found: dict[str, dict[str, Any]]) -> str:
    lines = ["| experiment | in the paper | what was run | outcome |", "| --- | --- | --- | --- |"]
    for name in order(found):
        own = found[name]
        lines.append(f"| `{name}` | {own['paper']} | {how_much(own)} | {verdict(own)} |")
    return "\n".join(lines)


def how_much(found: dict[str, Any]) -> str:
    """How much of an experiment was run, and how much it would have been."""
    scale = found["scale"]
    rounds = sorted(set(found.get("rounds", {}).values())) or [scale["rounds"]]
    text = f"{rounds[0]:,}" if len(rounds) == 1 else f"{rounds[0]:,} to {rounds[-1]:,}"
    counts = [
        cell["runs"]
        for table in found.get("tables", [])[:1]
        for row in table["rows"]
        for cell in row["cells"]
    ]
    held = [count for count in counts if count]
    if held:
        seeds = f"{min(held)}" if min(held) == max(held) else f"{min(held)} to {max(held)}"
    else:
        seeds = str(scale["seeds"])
    text += f" rounds, {seeds} seed{'s' * (seeds != '1')}"
    if rounds[0] < scale["rounds"] or found["missing"]:
        text += f" (`{scale['name']}` is {scale['rounds']:,} and {scale['seeds']})"
    if found["missing"] and counts:
        text += f"; {found['missing']} runs not done"
    return text


def about(found: dict[str, Any]) -> str:
    return f"*In the paper: {found['paper']}. Run: {how_much(found)}. {verdict(found).capitalize()}.*\n\n{found['remark']}".strip()


def not_run(missing: list[str]) -> str:
    lines = ["| experiment | in the paper | what |", "| --- | --- | --- |"]
    for name in missing:
        own = experiment(name)
        lines.append(f"| `{name}` | {own.paper} | {own.title} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
