"""The lines of a log, one at a time: whatever is in the file, no more than one line is in memory."""

from collections.abc import Iterator
from pathlib import Path

from delaytron.files.compressed import open_binary, reading

LONGEST = 2**24  # bytes of a line; longer ones are passed over
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_lines(path: Path, longest: int = LONGEST) -> Iterator[tuple[int, bytes | None]]:
    r"""Iterate over the lines of a file, plain or compressed, with their numbers; one that is too long is None.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "log.dsjson")
    ...     path.write_bytes(b'{"a": 1}\n' + 90 * b"x" + b"\n\n{}")
    ...     list(read_lines(path, longest=20))
    103
    [(1, b'{"a": 1}'), (2, None), (3, b''), (4, b'{}')]
    """
    number = 0
    with reading(path), open_binary(path) as file:
        while line := file.readline(longest + 1):
            number += 1
            whole = len(line) <= longest
            while len(line) > longest and not line.endswith(b"\n"):
                line = file.readline(longest + 1)
            plain = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
            yield number, plain.strip() if whole else None
