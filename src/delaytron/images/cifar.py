"""The images of CIFAR-10 as their publisher packs them: six files of records, a class and 3 x 32 x 32 bytes each."""

import tarfile
from pathlib import Path, PurePosixPath

import numpy as np

from delaytron.errors import InvalidInput
from delaytron.files.advice import with_advice
from delaytron.files.compressed import BROKEN
from delaytron.images.network import Images, Pixels

TRAIN = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
TEST = "test_batch.bin"
SHAPE = (3, 32, 32)  # red, green and blue, each row by row
RECORD = 1 + 3 * 32 * 32
N_CLASSES = 10


def read_archive(path: Path) -> Images:
    """Return the images of the binary archive, `cifar-10-binary.tar.gz`, in the publisher's order."""
    contents = _members(path)
    for name in (*TRAIN, TEST):
        if name not in contents:
            raise InvalidInput(f"{path} has no file {name}; it must be the binary version, cifar-10-binary.tar.gz")
    tables = {name: _records(f"{path}, {name}", contents[name]) for name in (*TRAIN, TEST)}
    train = np.concatenate([tables[name] for name in TRAIN])
    test = tables[TEST]
    return Images(_pixels(train), train[:, 0], _pixels(test), test[:, 0])


def _members(path: Path) -> dict[str, bytes]:
    """Return what is in the files we want, by their names without the folder."""
    try:
        with tarfile.open(path, "r:gz") as archive:
            entries = {PurePosixPath(entry.name).name: entry for entry in archive if entry.isfile()}
            wanted = {name: archive.extractfile(entries[name]) for name in (*TRAIN, TEST) if name in entries}
            return {name: file.read() for name, file in wanted.items() if file is not None}
    except (FileNotFoundError, IsADirectoryError, PermissionError) as problem:
        raise InvalidInput(f"cannot read {str(path)!r}: {with_advice(problem)}") from None
    except (tarfile.TarError, *BROKEN) as problem:
        raise InvalidInput(f"{path} cannot be read to its end: {problem}; get a new copy") from None


def _records(place: str, content: bytes) -> Pixels:
    if not content or len(content) % RECORD:
        raise InvalidInput(f"{place} must hold whole records of {RECORD} bytes, got {len(content)} bytes")
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
    wrong = np.flatnonzero(records[:, 0] >= N_CLASSES)
    if wrong.size:
        raise InvalidInput(f"{place}, record {wrong[0] + 1}: a class must be below 10, got {records[wrong[0], 0]}")
    return records


def _pixels(records: Pixels) -> Pixels:
    return records[:, 1:].reshape(-1, *SHAPE)
