"""Files of keys when several processes make or change them at once, or are killed on the way."""

import subprocess
import sys
from contextlib import contextmanager

import pytest

from delaytron.service.token_files import make_token_keys, read_token_keys

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="locks of POSIX")

AT_ONCE = """
import sys
from pathlib import Path
from delaytron.service.token_files import make_token_keys, read_token_keys, rotate
path = Path(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
"""
MAKING = AT_ONCE + "print(make_token_keys(path).ids)"
ROTATING = AT_ONCE + "print([rotate(path) for _ in range(5)])"
HALF_MADE = (
    "from delaytron.files import atomic\n"
    + AT_ONCE
    + """
atomic._put_into_place = lambda *files, put=atomic._put_into_place: (
    print("written", flush=True), sys.stdin.readline(), put(*files)
)
print(make_token_keys(path).ids)
"""
)
WAITING = (
    "import fcntl\n"
    + AT_ONCE
    + """
def flock(descriptor, how, lock=fcntl.flock):
    try:
        lock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        print("waits", flush=True)
        lock(descriptor, how)
fcntl.flock = flock
print(make_token_keys(path).ids)
"""
)


@contextmanager
def started(*programs, path):
    """Start processes and wait until all have loaded; none is left at the end."""
    processes = []
    try:
        for program in programs:
            command = [sys.executable, "-c", program, path]
            processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def tell(process):
    """Let a process go on."""
    process.stdin.write("\n")
    process.stdin.flush()


def said(process):
    return process.stdout.readline()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tokens.keys"


def names(folder):
    return sorted(found.name for found in folder.iterdir())


def test_processes_that_start_at_once_have_the_same_keys(path):
    with started(*[MAKING] * 6, path=path) as processes:
        for process in processes:
            tell(process)
        assert {said(process) for process in processes} == {f"{read_token_keys(path).ids}\n"}
    assert names(path.parent) == ["tokens.keys"]


def test_who_comes_second_waits_for_the_first(path):
    with started(HALF_MADE, WAITING, path=path) as (first, second):
        tell(first)
        assert said(first) == "written\n"
        tell(second)
        assert said(second) == "waits\n"
        tell(first)
        assert said(first) == said(second) == f"{read_token_keys(path).ids}\n"
    assert names(path.parent) == ["tokens.keys"]


def test_who_waits_goes_on_when_the_first_is_killed(path):
    with started(HALF_MADE, WAITING, path=path) as (first, second):
        tell(first)
        assert said(first) == "written\n"
        tell(second)
        assert said(second) == "waits\n"
        first.kill()
        assert said(second) == f"{read_token_keys(path).ids}\n"
    assert names(path.parent) == ["tokens.keys"]


def test_no_key_is_lost_when_several_rotate(path):
    first = make_token_keys(path).ids
    with started(*[ROTATING] * 4, path=path) as processes:
        for process in processes:
            tell(process)
        new = [key for process in processes for key in eval(said(process))]
    assert len(new) == 20
    assert sorted(read_token_keys(path).ids) == sorted(first + new)
    assert names(path.parent) == ["tokens.keys"]
