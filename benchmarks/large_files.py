"""Memory and speed of reading files that are larger than one would hold in memory.

    python benchmarks/large_files.py                  # 3 GB of CSV, 1 GB of svmlight, 1 GB of Parquet
    python benchmarks/large_files.py --csv 0.5 --svmlight 0 --parquet 0

Each file is made in a temporary folder, read twice in a process of its own (converted, then found in the cache), gone through in
blocks, and deleted. Anonymous memory is what the process itself holds; the highest resident size also counts pages of mapped files,
which the system takes back when it needs them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

COLUMNS = 40
GIGABYTE = 1_000_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=float, default=3.0, help="size in GB (default 3)")
    parser.add_argument("--svmlight", type=float, default=1.0, help="size in GB (default 1)")
    parser.add_argument("--parquet", type=float, default=1.0, help="size in GB (default 1)")
    parser.add_argument("--folder", help="where the files are made (default: the system's temporary folder)")
    parser.add_argument("--read", help=argparse.SUPPRESS)  # how this program calls itself
    chosen = parser.parse_args()
    if chosen.read:
        print(json.dumps(measured(Path(chosen.read))))
        return
    print(
        "| file | size, GB | rows | convert, s | MB/s | open again, s | go through, s | peak anonymous, MB | peak resident, MB |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for kind, make in (("csv", make_csv), ("svmlight", make_svmlight), ("parquet", make_parquet)):
        size = getattr(chosen, kind)
        if size > 0:
            with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
                report(Path(folder), kind, make, int(size * GIGABYTE))


def report(folder: Path, kind: str, make: Callable[[Path, int], None], size: int) -> None:
    path = folder / f"large.{kind}"
    make(path, size)
    program = [sys.executable, __file__, "--read", str(path)]
    settings = {**os.environ, "ONEBIT_CACHE": str(folder / "cache")}
    answer = json.loads(subprocess.run(program, env=settings, check=True, capture_output=True, text=True).stdout)
    again = json.loads(subprocess.run(program, env=settings, check=True, capture_output=True, text=True).stdout)
    gigabytes = path.stat().st_size / GIGABYTE
    print(
        f"| {kind} | {gigabytes:.2f} | {answer['rows']:,} | {answer['read_s']:.1f} | "
        f"{1000 * gigabytes / answer['read_s']:.0f} | {again['read_s']:.2f} | {again['through_s']:.2f} | "
        f"{answer['anonymous_mb']:.0f} (again {again['anonymous_mb']:.0f}) | {answer['resident_mb']:.0f} |"
    )


def measured(path: Path) -> dict[str, float]:
    """Read and go through a file, and watch the memory of this process meanwhile."""
    from onebit.data.files import read

    done = threading.Event()
    peak = [0]

    def watch() -> None:
        while not done.wait(0.02):
            peak[0] = max(peak[0], anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    started = time.perf_counter()
    data = read(path)
    read_s = time.perf_counter() - started
    started = time.perf_counter()
    values = data.X if isinstance(data.X, np.ndarray) else data.X.data
    for start in range(0, len(values), 1 << 16):
        np.sum(values[start : start + (1 << 16)])
    for start in range(0, data.rows, 1 << 16):
        np.bincount(data.y[start : start + (1 << 16)])
    through_s = time.perf_counter() - started
    done.set()
    watcher.join()
    peak[0] = max(peak[0], anonymous())
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    return {
        "rows": data.rows,
        "read_s": read_s,
        "through_s": through_s,
        "anonymous_mb": peak[0] / 1e6,
        "resident_mb": resident,
    }


def anonymous() -> int:
    """Bytes of anonymous memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    raise SystemExit("this system does not tell the anonymous memory of a process: Linux does")


def make_csv(path: Path, size: int) -> None:
    rows = np.random.default_rng(0).normal(size=(20_000, COLUMNS))
    lines = "".join(
        ",".join([*(f"{value:.6g}" for value in row), f"class-{index % 7}"]) + "\n" for index, row in enumerate(rows)
    )
    repeat(
        path, (",".join([*(f"x{index}" for index in range(COLUMNS)), "label"]) + "\n").encode(), lines.encode(), size
    )


def make_svmlight(path: Path, size: int) -> None:
    generator = np.random.default_rng(0)
    lines = []
    for index in range(20_000):
        columns = np.unique(generator.integers(1, 50_000, size=75))
        pairs = " ".join(f"{column}:{value:.5g}" for column, value in zip(columns, generator.random(75), strict=False))
        lines.append(f"{index % 4} {pairs}\n")
    repeat(path, b"", "".join(lines).encode(), size)


def repeat(path: Path, head: bytes, text: bytes, size: int) -> None:
    with path.open("wb") as file:
        file.write(head)
        while file.tell() < size:
            file.write(text)


def make_parquet(path: Path, size: int) -> None:
    import pyarrow as arrow
    from pyarrow import parquet

    generator = np.random.default_rng(0)
    names = [f"x{index}" for index in range(COLUMNS)]
    schema = arrow.schema([*((name, arrow.float32()) for name in names), ("label", arrow.string())])
    rows = 1_000_000
    labels = arrow.array([f"class-{index % 7}" for index in range(rows)])
    with parquet.ParquetWriter(path, schema, use_dictionary=["label"]) as writer:
        while not path.exists() or path.stat().st_size < size:
            values = generator.random((COLUMNS, rows), dtype=np.float32)
            writer.write_table(arrow.Table.from_arrays([*map(arrow.array, values), labels], schema=schema), rows)


if __name__ == "__main__":
    main()
