"""Disks after a loss of power: reconstructed from the calls that recorder.c logged."""

import struct
import subprocess
from pathlib import Path
from typing import NamedTuple

SECTOR = 512
HEADER = struct.Struct("<cIqI")
NOT_STORED = ("-shm", "-lock", "acks", "(deleted)")  # created again at opening, or not of the journal


class Call(NamedTuple):
    kind: str
    name: str
    offset: int
    data: bytes


def build_recorder(folder):
    """Compile the library that children load."""
    library = folder / "recorder.so"
    source = Path(__file__).with_name("recorder.c")
    command = ["gcc", "-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"]
    subprocess.run(command, check=True)
    return library


def read_log(path):
    """Return the calls in their order."""
    content = path.read_bytes()
    calls, place = [], 0
    while place < len(content):
        kind, length, offset, size = HEADER.unpack_from(content, place)
        place += HEADER.size
        name = content[place : place + length].decode()
        calls.append(Call(kind.decode(), name, offset, content[place + length : place + length + size]))
        place += length + size
    return calls


class StoredFile:
    """What of a file is on the disk, and the calls since: data to write at a place, or None to cut it off there."""

    def __init__(self):
        self.stored = bytearray()
        self.waiting = []

    def sync(self):
        for offset, data in self.waiting:
            change(self.stored, offset, data)
        self.waiting.clear()

    def crashed(self, random, keep):
        """Return what may be left: each call that waits is kept, dropped, or torn."""
        content = bytearray(self.stored)
        for offset, data in self.waiting:
            if data is None:
                if random.random() < keep:
                    change(content, offset, None)
            elif random.random() < 1 / 3:
                tear(content, offset, data, random)
            elif random.random() < keep:
                change(content, offset, data)
        return bytes(content)


def change(content, offset, data):
    end = offset if data is None else offset + len(data)
    content.extend(bytes(max(0, end - len(content))))
    if data is None:
        del content[offset:]
    else:
        content[offset:end] = data


def tear(content, offset, data, random):
    """Write only some of the sectors."""
    start = offset
    while start < offset + len(data):
        end = min(start - start % SECTOR + SECTOR, offset + len(data))
        if random.random() < 0.5:
            change(content, start, data[start - offset : end - offset])
        start = end


class Disk:
    """The files of one folder. Names are on the disk when the folder was synced, contents when the file was."""

    def __init__(self):
        self.names = {}  # as the process sees them
        self.stored_names = {}
        self.waiting = []  # names that came (with their file) or went (None) since

    def apply(self, call):
        if call.name.endswith(NOT_STORED):
            return
        if call.kind == "s":
            self._sync(call.name)
        elif call.kind == "u":
            self._rename(call.name, None)
        else:
            if call.name not in self.names:
                self._rename(call.name, StoredFile())
            if call.kind != "c":
                data = call.data if call.kind == "w" else None
                self.names[call.name].waiting.append((call.offset, data))

    def _rename(self, name, file):
        self.waiting.append((name, file))
        put(self.names, name, file)

    def _sync(self, name):
        if name:
            self.names[name].sync()
        else:
            self.stored_names = dict(self.names)
            self.waiting.clear()

    def crash(self, random):
        """Return what may be left, as names and contents."""
        names = dict(self.stored_names)
        for name, file in self.waiting[: random.randint(0, len(self.waiting))]:
            put(names, name, file)
        keep = random.choice([0, 0.5, 0.9, 1])
        return {name: file.crashed(random, keep) for name, file in names.items()}


def put(names, name, file):
    if file is None:
        names.pop(name, None)
    else:
        names[name] = file


def images(calls, random, count):
    """Iterate over disks after a loss of power at random points, with what had been acknowledged by then."""
    points = sorted(random.randint(0, len(calls)) for _ in range(count))
    disk, acknowledged, done = Disk(), b"", 0
    for point in points:
        for call in calls[done:point]:
            disk.apply(call)
            if call.name == "acks" and call.kind == "w":
                acknowledged += call.data
        done = point
        yield disk.crash(random), acknowledged
