"""How much memory and time a LIBSVM file takes that is played in blocks, beside what its reading alone takes.

``python benchmarks/stream.py --gigabytes 2`` writes such a file (SynSep's documents with made-up term weights) to a
temporary folder, and measures each of these in a process of its own: going through its bytes, parsing it, opening it as
a stream, and ``simulate`` on that stream.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
from rich.console import Console

from report import Sheet, show

MB = 1e6
CHUNK = 20_000  # rows written together


def write(path, size):
    """Write SynSep's documents, every word with a weight, until the file is large enough."""
    import delaytron as dt  # noqa: PLC0415 - the parent measures nothing

    data, rng, n_rows = dt.datasets.load("synsep", n_samples=CHUNK), np.random.default_rng(0), 0
    X, ends = data.X, data.X.indptr.tolist()
    with path.open("w") as file:
        while path.stat().st_size < size:
            words = [f" {i + 1}:{w:.4f}" for i, w in zip(X.indices.tolist(), rng.random(X.nnz).tolist(), strict=True)]
            order = rng.permutation(CHUNK).tolist()
            file.writelines(f"{data.y[r]}{''.join(words[ends[r] : ends[r + 1]])}\n" for r in order)
            file.flush()
            n_rows += CHUNK
    return n_rows


def read_bytes(path):
    with path.open("rb") as file:
        while file.read(2**23):
            pass


def parse(path):
    from delaytron.datasets.libsvm import libsvm_blocks  # noqa: PLC0415 - only the measured process needs it

    for _ in libsvm_blocks(path):
        pass


def open_stream(path):
    import delaytron as dt  # noqa: PLC0415

    return dt.datasets.stream(path)


def play(path):
    import delaytron as dt  # noqa: PLC0415

    result = dt.simulate("delaytron", open_stream(path), delay=1000, gamma=0.01)
    return float(result.final_error[0])


CASES = {"read its bytes": read_bytes, "parse it": parse, "open it as a stream": open_stream, "simulate": play}


def measure(case, path):
    """Return seconds, the peak of memory in bytes, and the final error if there is one."""
    begin = perf_counter()
    outcome = CASES[case](path)
    seconds = perf_counter() - begin
    return {"seconds": seconds, "peak": peak(), "error": outcome if case == "simulate" else None}


def peak():
    """Return the most bytes that this process ever held; what getrusage says may be its parent's."""
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])


def in_own_process(case, path):
    done = subprocess.run(
        [sys.executable, __file__, "--measure", case, str(path)], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--gigabytes", type=float, default=2.0)
    options.add_argument("--measure", nargs=2, metavar=("CASE", "FILE"))
    asked = options.parse_args()
    if asked.measure:
        print(json.dumps(measure(asked.measure[0], Path(asked.measure[1]))))
        return
    with TemporaryDirectory() as folder:
        path = Path(folder, "documents.svm")
        n_rows = write(path, asked.gigabytes * 1e9)
        size = path.stat().st_size
        found = {case: in_own_process(case, path) for case in CASES}
    base = found["read its bytes"]["seconds"]
    rows = [
        [
            case,
            f"{m['seconds']:.1f}",
            f"{m['seconds'] / base:.1f}x",
            f"{size / MB / m['seconds']:.0f}",
            f"{m['peak'] / MB:.0f}",
        ]
        for case, m in found.items()
    ]
    title = f"A LIBSVM file of {size / 1e9:.2f} GB, {n_rows:,} rows"
    notes = [f"delaytron, delays Uniform(1000), one run: final error {found['simulate']['error']:.4f}"]
    show(Console(), Sheet(title, ["", "s", "to its bytes", "MB/s", "peak MB"], rows, notes))


if __name__ == "__main__":
    main()
