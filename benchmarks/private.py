"""What the private protocol costs each party, and beside it what a dot product per pair costs with a general library.

    python benchmarks/private.py [--json FILE] [--only CASE[,CASE...]]

Each case runs the three parties one after another, the server in a process of its own, over files. Seconds are those of processors
(of a process and its children), so that they hold on a busy machine. Memory is the peak of all of the server's processes
together. Every result is compared with NumPy's.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import contextlib
import json
import math
import multiprocessing
import platform
import resource
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedcbs
from fedcbs.private import PublicKeys, UploadFolder, Work, make_mode, mode_of
from fedcbs.selectors import Round, make_selector

CASES: dict[str, dict[str, int]] = {
    "fhe-200": {"clients": 200, "classes": 10},
    "fhe-3500": {"clients": 3500, "classes": 62},
    "rows-200": {"clients": 200, "classes": 10},
    "rows-3500": {"clients": 3500, "classes": 62},
    "masked-200": {"clients": 200, "classes": 10},
    "masked-3500": {"clients": 3500, "classes": 62},
    "sealed-1000000": {"clients": 1_000_000, "classes": 10},
}
ROWS = 10
PAIRS = 40


def label_counts(num_clients: int, num_classes: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(1)
    found = np.empty((num_clients, num_classes), np.int64)
    for start in range(0, num_clients, 50_000):
        size = min(50_000, num_clients - start)
        shares = rng.dirichlet(np.full(num_classes, 0.1), size)
        found[start : start + size] = rng.multinomial(rng.integers(50, 500, size), shares)
    return found


def cpu() -> float:
    """Seconds of this process and of the children that it has waited for."""
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(who)
        total += used.ru_utime + used.ru_stime
    return total


def family(root: int) -> list[int]:
    """A process and all that come from it."""
    found = [root]
    for process in found:
        for task in Path(f"/proc/{process}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += [int(child) for child in task.read_text().split()]
    return found


def resident(process: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0


@contextlib.contextmanager
def watched(peak: list[int]) -> Iterator[None]:
    """Keep the largest memory of this process and its children."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.3):
            peak[0] = max(peak[0], sum(map(resident, family(os.getpid()))))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def serve(folder: Path, what: str, pipe: Any) -> None:
    """The server, in its own process: it is given a folder and nothing else."""
    public = PublicKeys.load(folder / "public")
    mode, uploads = mode_of(public), UploadFolder(folder / "uploads")
    masks = (folder / "masks.enc").read_bytes() if (folder / "masks.enc").exists() else None
    # A small federation is done in this process: starting others would cost more than they save.
    processes = os.cpu_count() or 1 if len(uploads) > 256 else 0
    work = Work(processes=processes, state=folder / "state" if mode.keeps_blocks else None)
    peak, start, wall = [0], cpu(), time.perf_counter()
    with watched(peak):
        if what == "rows":
            measured = serve_rows(mode, public, uploads, folder)
        else:
            with (folder / "gram.enc").open("wb") as file:
                for piece in mode.gram_pieces(public, uploads, masks, work=work):
                    file.write(piece)
            measured = {}
    measured |= {
        "seconds": cpu() - start,
        "wall_seconds": time.perf_counter() - wall,
        "megabytes": peak[0] / 1e6,
    }
    pipe.send(measured)


def serve_rows(mode: Any, public: PublicKeys, uploads: UploadFolder, folder: Path) -> dict[str, float]:
    """Sizes and diagonal once, and then some rows."""
    start = cpu()
    with mode.rows(public, uploads) as server:
        (folder / "setup.enc").write_bytes(server.setup())
        setup, start = cpu() - start, cpu()
        for n in range(ROWS):
            (folder / f"row-{n}.enc").write_bytes(server.row(f"c{n:07d}"))
        row = (cpu() - start) / ROWS
    return {"setup_seconds": setup, "row_seconds": row}


def in_a_process(function: Callable[..., None], *arguments: Any) -> dict[str, float]:
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=function, args=(*arguments, send))
    process.start()
    send.close()
    found: dict[str, float] = receive.recv()
    process.join()
    return found


def run(case: str) -> dict[str, Any]:
    """One case, all parties."""
    kind, size = case.split("-")[0], CASES[case]
    counts = label_counts(size["clients"], size["classes"])
    mode = make_mode("fhe" if kind == "rows" else kind, num_classes=size["classes"])
    keys = mode.keygen()
    found: dict[str, Any] = {"case": case, **size, "mode": mode.name}
    with tempfile.TemporaryDirectory(prefix="fedcbs-bench-") as name:
        folder = Path(name)
        keys.public.save(folder / "public")
        (folder / "uploads").mkdir()
        start, seeds = cpu(), {}
        for n, row in enumerate(counts):
            upload = mode.encrypt(keys.public, row, f"c{n:07d}")
            (folder / "uploads" / f"c{n:07d}.upload").write_bytes(upload)
            if mode.exchanges_masks:
                seeds[f"c{n:07d}"] = mode.seed(upload)  # type: ignore[attr-defined]
        found["client"] = {"seconds": (cpu() - start) / len(counts), "bytes": len(upload)}
        start = cpu()
        if mode.exchanges_masks:
            (folder / "masks.enc").write_bytes(mode.masks(keys.secret, seeds))
        found["selector"] = {"masks_seconds": cpu() - start}
        found["server"] = in_a_process(serve, folder, "rows" if kind == "rows" else "gram")
        start = cpu()
        if kind == "rows":
            found["exact"] = open_rows(mode, keys, folder, counts, found)
        else:
            content = (folder / "gram.enc").read_bytes()
            opened = mode.open(keys.secret, content)
            found["selector"] |= {"seconds": cpu() - start, "bytes": len(content)}
            found["exact"] = bool(np.array_equal(opened.gram, counts @ counts.T))
    if hasattr(mode, "sizes"):
        found["hidden_to_bits"] = mode.sizes.distance(len(counts) ** 2 / 2 * max(size["classes"] / 16, 1) * 4)
    return found


def open_rows(mode: Any, keys: Any, folder: Path, counts: NDArray[np.int64], found: dict[str, Any]) -> bool:
    start = cpu()
    opened = mode.open_rows(keys.secret, (folder / "setup.enc").read_bytes())
    setup, start = cpu() - start, cpu()
    exact = np.array_equal(opened.diagonal, (counts**2).sum(axis=1))
    for n in range(ROWS):
        row = opened.row(f"c{n:07d}", (folder / f"row-{n}.enc").read_bytes())
        exact &= np.array_equal(row, counts @ counts[n])
    size = (folder / "row-0.enc").stat().st_size
    found["selector"] |= {"setup_seconds": setup, "row_seconds": (cpu() - start) / ROWS, "bytes": size}
    return bool(exact)


def seal_some(keys: Any, counts: NDArray[np.int64], first: int) -> dict[str, bytes]:
    mode = mode_of(keys.public)
    return {
        f"c{first + n:07d}": mode.encrypt(keys.public, row, f"c{first + n:07d}")
        for n, row in enumerate(counts)
    }


def run_sealed(case: str) -> dict[str, Any]:
    """A million clients: uploads in memory, since a million files measure the disk; and one selection at the end."""
    size = CASES[case]
    counts = label_counts(size["clients"], size["classes"])
    mode = make_mode("sealed", num_classes=size["classes"])
    keys = mode.keygen()
    start = cpu()
    parts = range(0, len(counts), 50_000)
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        jobs = [pool.submit(seal_some, keys, counts[first : first + 50_000], first) for first in parts]
        uploads = {name: upload for job in jobs for name, upload in job.result().items()}
    client = {"seconds": (cpu() - start) / len(counts), "bytes": len(uploads["c0000000"])}
    start, wall = cpu(), time.perf_counter()
    content = mode.gram(keys.public, uploads)
    server = {"seconds": cpu() - start, "wall_seconds": time.perf_counter() - wall, "megabytes": None}
    start, wall = cpu(), time.perf_counter()
    opened = mode.open(keys.secret, content)
    information = opened.information()
    selector = make_selector("fedcbs-exact")
    available = np.flatnonzero(np.random.default_rng(0).random(len(counts)) < 0.3)
    round_ = Round(information, cohort_size=100, available=available)
    selector.select(selector.init(len(counts)), round_)
    opening = {"masks_seconds": 0.0, "seconds": cpu() - start, "wall_seconds": time.perf_counter() - wall}
    exact = bool(np.array_equal(opened.label_counts, counts))
    return {
        "case": case,
        **size,
        "mode": "sealed",
        "client": client,
        "server": server,
        "selector": opening | {"bytes": len(content)},
        "exact": exact,
        "total_wall_seconds": server["wall_seconds"] + opening["wall_seconds"],
    }


def dot_per_pair(num_classes: int) -> dict[str, float]:
    """Seconds of one encrypted dot product, as general libraries do it: multiply, relinearise, rotate and add."""
    found = {"seal": dot_with_seal(num_classes)}
    with contextlib.suppress(ImportError):
        found["tenseal"] = dot_with_tenseal(num_classes)
    return found


def dot_with_seal(num_classes: int) -> float:
    import seal

    parameters = seal.EncryptionParameters(seal.scheme_type.bfv)
    parameters.set_poly_modulus_degree(8192)
    parameters.set_coeff_modulus(seal.CoeffModulus.BFVDefault(8192, seal.sec_level_type.tc128))
    parameters.set_plain_modulus(1032193)
    context = seal.SEALContext(parameters, True, seal.sec_level_type.tc128)
    generator = seal.KeyGenerator(context)
    relinearisation, rotation = generator.create_relin_keys(), seal.GaloisKeys()
    generator.create_galois_keys([0, *(1 << n for n in range(12))], rotation)
    encryptor, evaluator = seal.Encryptor(context, generator.create_public_key()), seal.Evaluator(context)
    encoder = seal.BatchEncoder(context)
    one, two = (encryptor.encrypt(encoder.encode(list(range(num_classes)))) for _ in range(2))
    start = time.process_time()
    for _ in range(PAIRS):
        product = evaluator.relinearize(evaluator.multiply(one, two), relinearisation)
        for step in range(math.ceil(math.log2(num_classes))):
            product = evaluator.add(product, evaluator.rotate_rows(product, 1 << step, rotation))
    return (time.process_time() - start) / PAIRS


def dot_with_tenseal(num_classes: int) -> float:
    import tenseal

    context = tenseal.context(tenseal.SCHEME_TYPE.BFV, poly_modulus_degree=8192, plain_modulus=1032193)
    context.generate_galois_keys()
    one, two = (tenseal.bfv_vector(context, list(range(num_classes))) for _ in range(2))
    one.dot(two)
    start = time.process_time()
    for _ in range(PAIRS):
        one.dot(two)
    return (time.process_time() - start) / PAIRS


def table(results: list[dict[str, Any]], dots: dict[str, dict[str, float]]) -> str:
    """The results as a table to read."""
    lines = [
        "| mode | clients | classes | client ms | upload bytes | server s | server MB | selector s | to selector MB | exact |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in results:
        server, selector, client = one["server"], one["selector"], one["client"]
        rows = one["case"].startswith("rows")
        name = f"{one['mode']}, {ROWS} rows" if rows else one["mode"]
        memory = "" if server["megabytes"] is None else f"{server['megabytes']:.0f}"
        seconds = selector.get("seconds", selector.get("setup_seconds", 0.0)) + selector["masks_seconds"]
        lines.append(
            f"| {name} | {one['clients']:,} | {one['classes']} | {client['seconds'] * 1e3:.2f} | {client['bytes']:,} "
            f"| {server['seconds']:.2f} | {memory} | {seconds:.2f} | {selector['bytes'] / 1e6:.2f} | {'yes' if one['exact'] else 'NO'} |"
        )
    lines.append("")
    for one in results:
        if one["case"].startswith("rows"):
            server = one["server"]
            lines.append(
                f"Rows on demand, {one['clients']:,} clients: {server['setup_seconds']:.2f} s once, {server['row_seconds'] * 1e3:.0f} ms a row."
            )
        if "total_wall_seconds" in one:
            lines.append(
                f"Sealed, {one['clients']:,} clients: {one['total_wall_seconds']:.1f} s by the clock for server, opening and one selection of 100."
            )
        dot = dots.get(f"{one['clients']} x {one['classes']}", {})
        pairs = one["clients"] * (one["clients"] + 1) // 2
        lines.extend(
            f"A dot per pair with {library}, {one['clients']:,} clients: {seconds * 1e3:.1f} ms each, {seconds * pairs:,.0f} s "
            f"in all: {seconds * pairs / one['server']['seconds']:,.0f} times the server's work in mode fhe."
            for library, seconds in dot.items()
            if one["case"].startswith("fhe")
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the results there, and a table beside it")
    parser.add_argument("--only", help="some cases, with commas between them")
    options = parser.parse_args()
    cases = options.only.split(",") if options.only else list(CASES)
    results, dots = [], {}
    for case in cases:
        results.append(run_sealed(case) if case.startswith("sealed") else run(case))
        if case.startswith("fhe"):
            size = CASES[case]
            dots[f"{size['clients']} x {size['classes']}"] = dot_per_pair(size["classes"])
        print(json.dumps(results[-1]), flush=True)
    print(table(results, dots))
    if options.json:
        versions = {
            "fedcbs": fedcbs.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        }
        document = {"versions": versions, "cores": os.cpu_count(), "cases": results, "seconds_of_a_dot": dots}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(document, indent=1) + "\n")
        options.json.with_suffix(".md").write_text(table(results, dots))


if __name__ == "__main__":
    main()
