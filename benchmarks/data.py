"""Memory and time that loading takes: LEAF's JSON, the hub's parquet files, idx files, and the cache of what was decoded.

    python benchmarks/data.py [--images 800000] [--folder DIR]

Writes results/data.json and results/data.md, and the table into docs/data.md. The files are made first, of random images
as white as handwriting is; the JSON of 800,000 images takes 5 GB of disk for the time of the run. "parse" is what
Python's json module takes for the same file, a part of it at a time, and without making arrays: the yardstick.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import platform
import resource
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results" / "data.json"
PAGE = Path(__file__).parents[1] / "docs" / "data.md"
BEGIN, END = "<!-- data: begin -->", "<!-- data: end -->"
PER_USER, DIFFERENT = 200, 50
TITLES = {
    "json": "LEAF's JSON",
    "json-cached": "the same, from the cache",
    "parquet": "the hub's parquet files",
    "parquet-cached": "the same, from the cache",
    "idx": "idx files, gzipped",
    "parse": "`json.loads` alone, of the JSON",
}

LOAD = """
import json, resource, sys, time
import numpy as np
from fedcbs.data import from_arrays, load_dataset
from_arrays(np.zeros((10, 2)), np.arange(10) % 2)
def peak():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
before, start = peak(), time.process_time()
dataset = load_dataset(sys.argv[1], data_dir=sys.argv[2])
print(json.dumps({
    "cpu_seconds": time.process_time() - start,
    "peak_bytes": peak() - before,
    "array_bytes": dataset.train.nbytes + dataset.test.nbytes,
    "images": len(dataset.train) + len(dataset.test),
}))
"""


def images() -> np.ndarray:
    """A few images: four of five pixels white, the others of any grey."""
    rng = np.random.default_rng(0)
    grey = rng.integers(0, 256, (DIFFERENT, 28, 28), dtype=np.uint8)
    return np.where(rng.random(grey.shape) < 0.8, np.uint8(255), grey)


def write_json(folder: Path, total: int) -> None:
    rows = [json.dumps((image.reshape(-1) / 255).tolist()) for image in images()]
    for part, count in (("train", total - total // 10), ("test", total // 10)):
        (folder / part).mkdir(parents=True)
        users = {f"u{start}": min(PER_USER, count - start) for start in range(0, count, PER_USER)}
        with (folder / part / "all_data.json").open("w") as file:
            head = {"users": list(users), "num_samples": list(users.values())}
            file.write(json.dumps(head)[:-1] + ', "user_data": {')
            for number, (user, size) in enumerate(users.items()):
                x = ", ".join(rows[k % DIFFERENT] for k in range(size))
                y = json.dumps([k % 62 for k in range(size)])
                file.write(f'{", " * bool(number)}"{user}": {{"x": [{x}], "y": {y}}}')
            file.write("}}")


def write_parquet(folder: Path, total: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from PIL import Image

    files = []
    for image in images():
        buffer = io.BytesIO()
        Image.fromarray(image).save(buffer, "PNG")
        files.append(buffer.getvalue())
    folder.mkdir(parents=True)
    for part, count in (("train", total - total // 10), ("test", total // 10)):
        # A number after the end of each PNG file keeps them from being stored once.
        column = [{"bytes": files[k % DIFFERENT] + k.to_bytes(4, "big"), "path": None} for k in range(count)]
        pq.write_table(
            pa.table({"image": column, "label": [k % 62 for k in range(count)]}), folder / f"{part}.parquet"
        )


def write_idx(folder: Path, total: int) -> None:
    folder.mkdir(parents=True)
    for part, count in (("train", total - total // 10), ("t10k", total // 10)):
        for kind, array in (
            ("images-idx3", np.resize(images(), (count, 28, 28))),
            ("labels-idx1", (np.arange(count) % 10).astype(np.uint8)),
        ):
            head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
            with gzip.open(folder / f"{part}-{kind}-ubyte.gz", "wb", compresslevel=1) as file:
                file.write(head)
                file.write(array.data)


def parse_seconds(path: Path) -> float:
    """CPU seconds of ``json.loads`` for a file of LEAF's, some of it at a time, scaled to the whole of it."""
    with path.open() as file:
        text = file.read(2**26)
    start = text.index('"x": [[') + 6
    text = text[start : text.rindex("], [", 0, text.index("]]", start)) + 1]
    repeat = max(1, 2**26 // len(text))
    began = time.process_time()
    for _ in range(repeat):
        json.loads(f"[{text}]")
    return (time.process_time() - began) * path.stat().st_size / (repeat * len(text))


def load(spec: str, folder: Path, cache: Path) -> dict[str, float]:
    """Measure one load, in a process of its own."""
    environment = {**os.environ, "FEDCBS_CACHE": str(cache), "FEDCBS_DATA": ""}
    run = subprocess.run(
        [sys.executable, "-c", LOAD, spec, str(folder)],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(run.stdout)


def measure(total: int, folder: Path) -> dict[str, dict[str, float]]:
    rows: dict[str, dict[str, float]] = {}
    for name, spec, write in (
        ("json", "femnist", write_json),
        ("parquet", f"hf:{folder / 'parquet'}", write_parquet),
        ("idx", "mnist,verify=no", write_idx),
    ):
        write(folder / name, total)
        rows[name] = load(spec, folder / name, folder / "cache")
        if name != "idx":
            rows[f"{name}-cached"] = load(spec, folder / name, folder / "cache")
        if name == "json":
            parts = [parse_seconds(path) for path in sorted(folder.glob("json/*/*.json"))]
            rows["parse"] = {"cpu_seconds": sum(parts)}
        for path in sorted(folder.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        print(name, rows[name], flush=True)
    return rows


def table(rows: dict[str, dict[str, float]]) -> str:
    sizes = rows["json"]
    lines = [
        f"{sizes['images']:,} images of 28 x 28, {sizes['array_bytes'] / 1e6:.0f} MB as arrays; one core.",
        "",
        "| from | peak of memory over that of an idle Python | of the arrays | CPU seconds |",
        "|---|---|---|---|",
    ]
    for name, title in TITLES.items():
        row = rows[name]
        peak = f"{row['peak_bytes'] / 1e6:.0f} MB" if "peak_bytes" in row else ""
        share = f"{row['peak_bytes'] / row['array_bytes']:.2f}x" if peak else ""
        lines.append(f"| {title} | {peak} | {share} | {row['cpu_seconds']:.1f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--images", type=int, default=800_000)
    parser.add_argument(
        "--folder", type=Path, help="where to make the files (default: the system's folder for such)"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        rows = measure(options.images, Path(folder))
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    RESULTS.write_text(
        json.dumps({"images": options.images, "versions": versions, "rows": rows}, indent=2) + "\n"
    )
    text = table(rows)
    RESULTS.with_suffix(".md").write_text(text + "\n")
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")
    print(text)
    print(f"peak of this script: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
