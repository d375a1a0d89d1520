"""How long `import fedcbs` takes, beside an empty program and `import numpy`.

    python benchmarks/import_time.py [--json FILE]

Processor seconds of whole processes, so that other work on the machine counts little; the median of several.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
from pathlib import Path

PROGRAMS = {"nothing": "pass", "numpy": "import numpy", "fedcbs": "import fedcbs"}
REPEATS = 15


def processor_seconds(program: str) -> float:
    """Processor time of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the results there, and a table beside it")
    options = parser.parse_args()
    processor_seconds(PROGRAMS["fedcbs"])  # compiles what has changed
    seconds = {
        name: statistics.median(processor_seconds(program) for _ in range(REPEATS))
        for name, program in PROGRAMS.items()
    }
    lines = ["| program | processor seconds |", "|---|---|"]
    lines += [f"| `{PROGRAMS[name]}` | {value:.3f} |" for name, value in seconds.items()]
    print("\n".join(lines))
    if options.json:
        result = {"python": platform.python_version(), "seconds": seconds}
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        options.json.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
