"""Ten thousand mutated files: each is read correctly or refused in one line, in bounded time and memory.

`python mutations.py KIND FIRST COUNT FOLDER` prints the number of each file before it is loaded, whole and in blocks.
A file that is neither read alike by both nor refused by both in one line ends the process, as does too much time or
memory. Where a file is still well-formed, the answer is compared with what the modules csv and json read.
"""

import csv
import faulthandler
import gzip
import io
import json
import re
import sys
import warnings
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
from mutators import BYTES, JSON, LINES, damaged_table, table_bytes

from delaytron.datasets import load, stream
from delaytron.errors import DelaytronError

ROWS = 120
SECONDS = 60  # for one file on a busy machine
ROOM = 64 * 2**20  # bytes allowed besides four times the file
MISSING = ("error", "drop", "impute")


@cache
def columns():
    rng = np.random.default_rng(1)
    return {
        "a": rng.normal(size=ROWS).round(3).tolist(),
        "b": rng.integers(-9, 9, ROWS).tolist(),
        "city": [f"town {i}" for i in rng.integers(0, 5, ROWS)],
        "label": rng.choice(["no", "yes", "may be"], ROWS).tolist(),
    }


def good_csv(delimiter=","):
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter)
    writer.writerow(columns())
    writer.writerows(zip(*columns().values(), strict=True))
    return file.getvalue().encode()


def good_json():
    return "".join(
        json.dumps(dict(zip(columns(), row, strict=True))) + "\n" for row in zip(*columns().values(), strict=True)
    ).encode()


def good_libsvm():
    numbers = np.random.default_rng(2).normal(size=(ROWS, 3)).round(3)
    return "".join(f"{i % 3} {i % 2}:{a} 4:{b} 9:{c}\n" for i, (a, b, c) in enumerate(numbers)).encode()


def read_csv(content, delimiter=","):
    """Return the columns as text, or None if this is no table."""
    try:
        text = content.decode("utf-8-sig")
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True) if row]
    except (UnicodeDecodeError, csv.Error):
        return None
    if not rows or rows[0] != list(columns()) or {len(row) for row in rows} != {4}:
        return None
    return dict(zip(rows[0], zip(*rows[1:], strict=True), strict=True)) if len(rows) > 1 else None


def read_json(content):
    try:
        rows = [json.loads(line) for line in content.decode("utf-8-sig").split("\n") if line.strip()]
    except (ValueError, RecursionError):
        return None
    if not rows or any(not isinstance(row, dict) or list(row) != list(columns()) for row in rows):
        return None
    return {name: [as_cell(row[name]) for row in rows] for name in rows[0]}


def as_cell(value):
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def read_libsvm(content):
    """Return labels and numbers by row, or None if a token is not as it should be."""
    rows = []
    for line in re.split(rb"\r\n|\n", content):
        tokens = line.partition(b"#")[0].split()
        try:
            if tokens:
                pairs = [token.split(b":") for token in tokens[1:]]
                rows.append((float(tokens[0]), {int(index): float(value) for index, value in pairs}))
        except ValueError:
            return None
    return rows


KINDS = {
    "csv": [("a.csv", good_csv, read_csv, LINES + BYTES), ("a.csv.gz", good_csv, read_csv, LINES + BYTES)],
    "tsv": [("a.tsv", lambda: good_csv("\t"), lambda content: read_csv(content, "\t"), LINES + BYTES)],
    "jsonl": [("a.jsonl", good_json, read_json, JSON + LINES + BYTES)],
    "libsvm": [("a.svm", good_libsvm, read_libsvm, LINES + BYTES), ("a.svm.gz", good_libsvm, read_libsvm, BYTES)],
    "parquet": [("a.parquet", None, None, BYTES)],
}


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def compare_table(data, table):
    """Raise unless a data set without a missing cell is what was read independently."""
    n_rows = len(table["label"])
    if data.n_rows != n_rows:
        raise AssertionError(f"{data.n_rows} rows, read {n_rows}")
    X = data.X.toarray() if data.sparse else np.asarray(data.X)
    places = {name: i for i, name in enumerate(data.feature_names)}
    for row in range(n_rows):
        for name in ("a", "b", "city"):
            cell = table[name][row].strip()
            place = places[name] if name in places else places.get(f"{name}={cell}")
            expected = number(cell) if name in places else 1.0
            if expected is None:
                expected = {"true": 1.0, "false": 0.0}.get(cell.lower())
            if place is None or X[row, place] != expected:
                raise AssertionError(f"row {row}, column {name}: {cell!r} became {X[row].tolist()}")
        label, found = table["label"][row].strip(), data.class_names[data.y[row]]
        if label != found and number(label) != number(found):
            raise AssertionError(f"row {row}: label {label!r} became {found!r}")


def compare_rows(data, rows):
    X = data.X.toarray()
    base = 0 if any(0 in pairs for _, pairs in rows) else 1
    if len(rows) != data.n_rows:
        raise AssertionError(f"{data.n_rows} rows, read {len(rows)}")
    for row, (label, pairs) in enumerate(rows):
        expected = np.zeros(X.shape[1])
        for index, value in pairs.items():
            expected[index - base] = value
        if not np.array_equal(X[row], expected) or float(data.class_names[data.y[row]]) != label:
            raise AssertionError(f"row {row}: {pairs} became {X[row].tolist()}")


def compare_streams(data, blocks, path):
    """Raise unless a file in blocks is the file as a whole, to the bit."""
    pieces = list(blocks.blocks())
    X = np.vstack([x.toarray() if blocks.sparse else x for x, _ in pieces])
    whole = data.X.toarray() if data.sparse else np.asarray(data.X)
    y = np.concatenate([y for _, y in pieces])
    same = data.feature_names == blocks.feature_names and data.class_names == blocks.class_names
    if not (same and data.sparse == blocks.sparse and data.notes == blocks.notes):
        raise AssertionError(f"{path}: {data!r} {data.notes} as a whole, {blocks!r} {blocks.notes} in blocks")
    if X.tobytes() != whole.tobytes() or not np.array_equal(y, data.y):
        raise AssertionError(f"{path}: other numbers in blocks")


def attempt(read, path, missing):
    """Return what was read, or the line with which it was refused."""
    try:
        return read(path, **({} if ".svm" in path.name else {"missing": missing}))
    except DelaytronError as problem:
        said = str(problem)
        if len(said.splitlines()) != 1 or path.name not in said:
            raise AssertionError(f"not one line that names the file: {said!r}") from problem
        return said


def peak():
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) * 1024


def resident():
    return int(re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())[1]) * 1024


def examine(path, content, size, read, missing):
    """Load one file in both ways and judge the answers: "refused", "read", or "right" where there is another reading.

    `size` is what the file has unpacked.
    """
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    before = resident()
    data = attempt(load, path, missing)
    blocks = attempt(stream, path, missing)
    if isinstance(data, str) != isinstance(blocks, str):
        raise AssertionError(f"{path}: as a whole {data}; in blocks {blocks}")
    if peak() - before > 4 * size + ROOM:
        raise AssertionError(f"{path}: took {(peak() - before) / 2**20:.0f} MB for {size} bytes")
    if isinstance(data, str):
        faulthandler.cancel_dump_traceback_later()
        return "refused"
    compare_streams(data, blocks, path)
    faulthandler.cancel_dump_traceback_later()
    return compare(data, read and read(content))


def compare(data, known):
    if isinstance(known, dict) and not any("missing" in name for name in (*data.feature_names, *data.notes)):
        compare_table(data, known)
    elif isinstance(known, list):
        compare_rows(data, known)
    else:
        return "read"
    return "right"


def make(rng, kind):
    """Return a mutated file: its name, its bytes, their number unpacked, and how to read them."""
    name, good, read, mutators = kind
    unpacked = 0
    if good is None:
        table = damaged_table(rng)
        unpacked = table.nbytes
        content = table_bytes(table, rng)
        count = int(rng.integers(0, 2))
    else:
        content = good()
        count = int(rng.choice([1, 1, 1, 2, 3]))
    for _ in range(count):
        content = mutators[rng.integers(len(mutators))](content, rng)
    return name, content, max(unpacked, len(content)), read


def main(kind, first, count, folder):
    warnings.simplefilter("error")
    outcomes = Counter()
    for path, good, *_ in KINDS[kind]:
        place = Path(folder, path)
        content = table_bytes(damaged_table(None), None) if good is None else good()
        place.write_bytes(gzip.compress(content) if path.endswith(".gz") else content)
        assert not isinstance(attempt(load, place, "error"), str), attempt(load, place, "error")
        stream(place)  # imports
    for number_ in range(first, first + count):
        sys.stdout.write(f"{number_}\n")
        sys.stdout.flush()
        rng = np.random.default_rng(number_)
        name, content, size, read = make(rng, KINDS[kind][number_ % len(KINDS[kind])])
        path = Path(folder, name)
        path.write_bytes(packed(content, rng) if name.endswith(".gz") else content)
        outcomes[examine(path, content, size, read, MISSING[rng.integers(3)])] += 1
    sys.stdout.write(json.dumps(outcomes) + "\n")


def packed(content, rng):
    """Return a compressed file, of which some are mutated again."""
    whole = gzip.compress(content, mtime=0)
    if rng.random() < 0.7:
        return whole
    return BYTES[rng.integers(len(BYTES))](whole, rng)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
