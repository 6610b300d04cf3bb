"""Damaged files, loaded in a process of their own, so that a crash is noticed.

`python damage.py FORMAT FIRST COUNT FOLDER` prints the number of each file before it is loaded; what is neither a data
set nor a clear error ends the process.
"""

import gzip
import io
import resource
import sys
import warnings
from pathlib import Path

import numpy as np

from delaytron.datasets import load
from delaytron.delays import Trace
from delaytron.errors import InvalidInput

ROWS = 60
MEMORY = 6 * 2**30  # of addresses: far more than a file of a few kilobytes needs


def numbers():
    return np.random.default_rng(1).normal(size=(ROWS, 3))


def table():
    import pyarrow as pa

    rng = np.random.default_rng(2)
    words = [f"word {i}" for i in rng.integers(0, 9, ROWS)]
    return pa.table(
        {
            "a": numbers()[:, 0],
            "b": rng.integers(0, 9, ROWS),
            "city": words,
            "kind": pa.array(words).dictionary_encode(),
            "open": rng.random(ROWS) < 0.5,
            "label": rng.choice(["no", "yes"], ROWS),
        }
    )


def feather(compression):
    from pyarrow import feather

    file = io.BytesIO()
    feather.write_feather(table(), file, compression=compression)
    return file.getvalue()


def arrow_stream():
    import pyarrow as pa

    file = io.BytesIO()
    with pa.ipc.new_stream(file, table().schema) as writer:
        writer.write_table(table())
    return file.getvalue()


def parquet(content, compression):
    from pyarrow import parquet

    file = io.BytesIO()
    parquet.write_table(content, file, compression=compression)
    return file.getvalue()


def of_pandas():
    import pyarrow as pa

    return pa.Table.from_pandas(table().to_pandas().rename_axis("place"))


def npz(save):
    file = io.BytesIO()
    save(file, X=numbers(), y=np.arange(ROWS) % 3)
    return file.getvalue()


def sparse_npz():
    from scipy.sparse import random_array

    X = random_array((ROWS, 40), density=0.1, format="csr", rng=np.random.default_rng(3))
    file = io.BytesIO()
    np.savez(file, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, format="csr", y=np.arange(ROWS) % 3)
    return file.getvalue()


def npy():
    file = io.BytesIO()
    np.save(file, np.arange(1, ROWS))
    return file.getvalue()


def csv():
    rows = "".join(f"{a:.3f},{b:.3f},{c:.3f},town {i % 4},{i % 3}\n" for i, (a, b, c) in enumerate(numbers()))
    return f"a,b,c,city,label\n{rows}".encode()


def libsvm():
    return "".join(f"{i % 3} 1:{a:.3f} 4:{b:.3f} 9:{c:.3f}\n" for i, (a, b, c) in enumerate(numbers())).encode()


def times():
    return (
        "event,outcome\n" + "".join(f"2024-05-31 10:{i:02}:00,2024-06-{1 + i % 9:02}\n" for i in range(ROWS))
    ).encode()


def delays():
    return "".join(f"{1 + i * i}\n" for i in range(ROWS)).encode()


FORMATS = {
    "feather": [
        ("a.feather", lambda: feather("uncompressed"), load),
        ("a.feather", lambda: feather("lz4"), load),
        ("a.arrow", arrow_stream, load),
    ],
    "parquet": [
        ("a.parquet", lambda: parquet(table(), "none"), load),
        ("a.parquet", lambda: parquet(of_pandas(), "snappy"), load),
    ],
    "npz": [
        ("a.npz", lambda: npz(np.savez), load),
        ("a.npz", lambda: npz(np.savez_compressed), load),
        ("a.npz", sparse_npz, load),
    ],
    "text": [
        ("a.csv", csv, load),
        ("a.csv.gz", lambda: gzip.compress(csv(), mtime=0), load),
        ("a.svm", libsvm, load),
    ],
    "trace": [
        ("a.npy", npy, Trace),
        ("a.csv", times, Trace),
        ("a.txt", delays, Trace),
    ],
}


def damaged(content, number):
    """Overwrite a few bytes; now and then eight in a row, now and then cut off the end."""
    rng = np.random.default_rng(number)
    file = bytearray(content)
    for place in rng.integers(0, len(file), rng.integers(1, 5)).tolist():
        flipped = file[place] ^ (1 << rng.integers(8))
        file[place] = rng.choice([0, 1, 127, 128, 255, rng.integers(256), flipped])
    if rng.random() < 0.1:
        start = int(rng.integers(len(file)))
        file[start : start + 8] = rng.bytes(8)
    return bytes(file[: rng.integers(len(file))] if rng.random() < 0.03 else file)


def main(name, first, count, folder):
    kinds = [(Path(folder, file_name), make(), read) for file_name, make, read in FORMATS[name]]
    for path, content, read in kinds:
        path.write_bytes(content)
        read(path)  # imports, before the memory is bounded
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("error")
    for number in range(first, first + count):
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        path, content, read = kinds[number % len(kinds)]
        path.write_bytes(damaged(content, number))
        try:
            read(path)
        except InvalidInput as problem:
            check(str(problem), path)


def check(said, path):
    """Raise unless an error is one line that names the file."""
    if len(said.splitlines()) != 1 or path.name not in said:
        raise AssertionError(said)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
