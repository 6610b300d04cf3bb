"""How long the named data sets take to load, beside the plain reading of the bytes of their files.

``DELAYTRON_DATA=... python benchmarks/loading.py`` measures each in a process of its own, the import of the package
left out; data sets that are not on this machine are left out, too.
"""

import json
import subprocess
import sys
from time import perf_counter

from rich.console import Console

from report import Sheet, show


def measure(name):
    """Return the seconds that reading the files takes, and then loading them as a data set."""
    from delaytron import datasets  # noqa: PLC0415 - only the measured process needs it
    from delaytron.datasets.catalogue import CARDS  # noqa: PLC0415
    from delaytron.datasets.named import find  # noqa: PLC0415

    paths = {find(file) for files in CARDS[name].files.values() for file in files}
    if None in paths:
        return None
    begin = perf_counter()
    size = sum(len(path.read_bytes()) for path in paths)
    middle = perf_counter()
    data = datasets.load(name)
    end = perf_counter()
    return {"data": repr(data), "size": size, "reading": middle - begin, "loading": end - middle}


def main():
    if len(sys.argv) == 2:
        print(json.dumps(measure(sys.argv[1])))
        return
    from delaytron.datasets import DATASETS  # noqa: PLC0415

    rows = []
    for name in DATASETS:
        done = subprocess.run([sys.executable, __file__, name], check=True, capture_output=True, text=True)
        if (found := json.loads(done.stdout)) is not None:
            ratio = f"{found['loading'] / found['reading']:.0f}x" if found["size"] else "-"
            rows.append(
                [name, f"{found['size'] / 1e6:.1f}", f"{found['reading']:.3f}", f"{found['loading']:.2f}", ratio]
            )
    header = ["data set", "MB on disk", "bytes, s", "load, s", "ratio"]
    show(Console(), Sheet("Loading data sets", header, rows, ["first load in a new process"]))


if __name__ == "__main__":
    main()
