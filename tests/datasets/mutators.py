"""Mutations of files: of bytes, lines, cells, JSON and tables."""

import io

import numpy as np

ODD_CELLS = [
    b"",
    b" ",
    b"nan",
    b"NaN",
    b"inf",
    b"-Infinity",
    b"1e999",
    b"?",
    b"-",
    b"NULL",
    b"abc",
    b"2024-05-31",
    b"2024-05-31T10:00:00Z",
    b"1,5",
    b'"1"',
    b'"x\ny"',
    b'"',
    b"'",
    b"0x10",
    b"1_000",
    b"+7",
    b" 7 ",
    b"007",
    b"9" * 400,
    b"true",
    b"\xff",
    b"\x00",
    "ä".encode(),
    "ä".encode("latin-1"),
    "\uff15".encode(),
    b"nan(x)",
    b"1e-320",
    b"label",
]


def place_in(content, rng):
    return int(rng.integers(0, max(1, len(content))))


def flip_bytes(content, rng):
    file = bytearray(content)
    for _ in range(rng.integers(1, 5) if file else 0):
        file[place_in(file, rng)] = rng.integers(256)
    return bytes(file)


def truncate(content, rng):
    return content[: place_in(content, rng)]


def insert_bytes(content, rng):
    place = place_in(content, rng)
    return content[:place] + rng.bytes(int(rng.integers(1, 20))) + content[place:]


def insert_nuls(content, rng):
    place = place_in(content, rng)
    return content[:place] + bytes(int(rng.integers(1, 9))) + content[place:]


def swap_ends(content, rng):
    middle = place_in(content, rng)
    return content[middle:] + content[:middle]


def on_lines(change):
    def mutate(content, rng):
        lines = content.split(b"\n")
        change(lines, rng)
        return b"\n".join(lines)

    return mutate


def duplicate_lines(lines, rng):
    for _ in range(rng.integers(1, 4)):
        lines.insert(place_in(lines, rng), lines[place_in(lines, rng)])


def delete_lines(lines, rng):
    del lines[place_in(lines, rng) : place_in(lines, rng)]


def shuffle_lines(lines, rng):
    first = lines[:1]
    rest = lines[1:]
    lines[:] = first + [rest[i] for i in rng.permutation(len(rest))]


def mix_ends(lines, rng):
    for _ in range(rng.integers(1, 9)):
        place = place_in(lines, rng)
        lines[place] += [b"\r", b"\r\r", b"\n", b" "][rng.integers(4)]


def cut_line(lines, rng):
    place = place_in(lines, rng)
    lines[place] = lines[place][: place_in(lines[place], rng)]


def lengthen_line(lines, rng):
    lines[place_in(lines, rng)] += [b",1", b",", b"\t5", b" 5:1", b" 12:1", b", "][rng.integers(6)]


def huge_field(lines, rng):
    place = place_in(lines, rng)
    lines[place] = [b"7", b"x", b'"', b"1,"][rng.integers(4)] * int(rng.integers(1000, 300_000)) + lines[place]


def odd_cells(lines, rng):
    for _ in range(rng.integers(1, 9)):
        place = place_in(lines, rng)
        mark = next((mark for mark in (b"\t", b",", b" ") if mark in lines[place]), b",")
        cells = lines[place].split(mark)
        cells[place_in(cells, rng)] = ODD_CELLS[rng.integers(len(ODD_CELLS))]
        lines[place] = mark.join(cells)


def quote_cells(lines, rng):
    place = place_in(lines, rng)
    lines[place] = b",".join(b'"' + cell + b'"' for cell in lines[place].split(b","))


def repeat_all(lines, rng):
    lines[1:] = lines[1:-1] * int(rng.integers(2, 40)) + lines[-1:]


def recode(content, rng):
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return content
    return text.encode(["utf-16", "utf-8-sig", "utf-32", "utf-16-le"][rng.integers(4)])


def other_ends(content, rng):
    return content.replace(b"\n", [b"\r\n", b"\r", b"\n\n"][rng.integers(3)])


BYTES = [flip_bytes, truncate, insert_bytes, insert_nuls, swap_ends]
LINES = [
    *map(on_lines, (duplicate_lines, delete_lines, shuffle_lines, mix_ends, cut_line, lengthen_line)),
    *map(on_lines, (huge_field, odd_cells, odd_cells, odd_cells, quote_cells, repeat_all)),
    recode,
    other_ends,
]


def deep(lines, rng):
    depth = int(rng.integers(10, 100_000))
    left, right = [(b"[", b"]"), (b'{"a":', b"}")][rng.integers(2)]
    lines[place_in(lines, rng)] = b'{"a": ' + left * depth + b"1" + right * depth + b"}"


def odd_values(lines, rng):
    values = [b"null", b"NaN", b"-Infinity", b"1e999", b'"x"', b"[]", b"{}", b"true", b'"\\ud800"', b"1" * 5000, b"01"]
    for _ in range(rng.integers(1, 6)):
        place = place_in(lines, rng)
        before, colon, after = lines[place].partition(b": ")
        _, comma, rest = after.partition(b",")
        lines[place] = before + colon + values[rng.integers(len(values))] + comma + rest


def odd_keys(lines, rng):
    place = place_in(lines, rng)
    lines[place] = lines[place].replace(b'"b"', [b'"a"', b'"new"', b'""', b"b", b'"\\u0000"'][rng.integers(5)])


JSON = [*map(on_lines, (deep, odd_values, odd_values, odd_keys))]


def damaged_table(rng):
    """Return a table of Arrow, with odd columns where there is a generator."""
    import pyarrow as pa

    fixed = np.random.default_rng(3)
    n_rows = 120
    columns = {
        "a": fixed.normal(size=n_rows),
        "b": fixed.integers(0, 9, n_rows),
        "city": [f"town {i}" for i in fixed.integers(0, 5, n_rows)],
        "label": fixed.choice(["no", "yes"], n_rows),
    }
    table = pa.table(columns)
    if rng is None:
        return table
    holes = pa.array([None if rng.random() < 0.1 else float(i % 7) for i in range(n_rows)])
    odd = {
        "holes": holes,
        "nan": pa.array(np.where(rng.random(n_rows) < 0.1, np.nan, 1.0)),
        "when": pa.array(rng.integers(0, 10**9, n_rows), pa.timestamp("s")),
        "kind": pa.array(columns["city"]).dictionary_encode(),
        "id": pa.array(np.arange(n_rows)),
        "list": pa.array([[1]] * n_rows),
        "null": pa.nulls(n_rows),
        "blob": pa.array([b"x"] * n_rows),
        "a": pa.array(columns["a"]),
        "huge": pa.array(["x" * 50_000] * n_rows),
        "empty": pa.array([""] * n_rows),
    }
    names = list(odd)
    for _ in range(rng.integers(0, 3)):
        name = names[rng.integers(len(names))]
        table = table.append_column(name, odd[name])
    if rng.random() < 0.05:  # a million rows in a few bytes
        bits = pa.repeat(pa.scalar(1.0), 2_000_000)
        table = pa.table({"a": bits, "b": bits, "label": bits})
    return table.slice(0, int(rng.choice([n_rows, n_rows, 1, 0])) if table.num_rows == n_rows else None)


def table_bytes(table, rng):
    from pyarrow import parquet

    file = io.BytesIO()
    kinds = ["none", "snappy", "zstd", "gzip"]
    parquet.write_table(
        table,
        file,
        compression="none" if rng is None else kinds[rng.integers(4)],
        row_group_size=None if rng is None else int(rng.choice([7, 50, 10**6])) if table.num_rows < 1000 else 10**6,
        use_dictionary=rng is None or bool(rng.random() < 0.5),
    )
    return file.getvalue()
