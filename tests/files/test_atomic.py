"""Files that survive a crash: whole, with their rights, through links, and nothing left beside them."""

import errno
import os
import signal
import stat
import subprocess
import sys
import time
from shutil import which
from threading import Barrier, Thread

import numpy as np
import pytest

import delaytron as dt
from delaytron.files import atomic
from delaytron.files.atomic import replace_arrays, replace_file, replacing

posix = pytest.mark.skipif(sys.platform == "win32", reason="rights, links and locks of POSIX")

HALF_WRITTEN = """
import os
import sys
from pathlib import Path
from delaytron.files.atomic import replace_file
os.replace = lambda *_: (print("written", flush=True), sys.stdin.read())
replace_file(Path(sys.argv[1]), b"new")
"""


def start_saving(path):
    """Start a process that has written its temporary and then waits."""
    process = subprocess.Popen(
        [sys.executable, "-c", HALF_WRITTEN, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "written\n"
    return process


def kill(process):
    process.kill()
    process.communicate()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask():
    old = os.umask(0o022)
    yield
    os.umask(old)


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o444])
def test_an_existing_file_keeps_its_mode(mode, umask, tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(mode)
    replace_file(path, b"new")
    assert (mode_of(path), path.read_bytes()) == (mode, b"new")


@posix
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_gets_the_mode_of_the_umask(mask, mode, umask, tmp_path):
    os.umask(mask)
    replace_file(tmp_path / "a", b"new")
    assert mode_of(tmp_path / "a") == mode


@posix
def test_a_secret_is_never_readable_by_others_on_the_way(tmp_path, umask, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(0o600)
    seen = []
    monkeypatch.setattr(os, "fsync", lambda _: seen.extend(mode_of(p) for p in tmp_path.iterdir()))
    replace_file(path, b"new")
    assert set(seen) == {0o600}


@posix
@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_what_it_points_to_is_written(there, tmp_path):
    (tmp_path / "deep").mkdir()
    target = tmp_path / "deep" / "target"
    if there:
        target.write_bytes(b"old")
    link, link_to_link = tmp_path / "link", tmp_path / "second"
    link.symlink_to("deep/target")
    link_to_link.symlink_to(link)
    replace_file(link_to_link, b"new")
    assert link_to_link.is_symlink()
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert not target.is_symlink()
    assert names(tmp_path / "deep") == ["target"]


@posix
def test_a_link_to_itself_is_an_error_and_stays(tmp_path):
    (tmp_path / "a").symlink_to("a")
    with pytest.raises(OSError, match=r"symbolic links; give the path of a file: .*a'"):
        replace_file(tmp_path / "a", b"new")
    assert (tmp_path / "a").is_symlink()


@posix
def test_a_pipe_is_not_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(dt.InvalidInput, match="is a device or a pipe"):
        replace_file(tmp_path / "pipe", b"new")
    assert names(tmp_path) == ["pipe"]


@posix
def test_what_a_killed_process_left_is_removed_by_the_next_save(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    processes = [start_saving(path), start_saving(path), start_saving(path)]
    assert len(names(tmp_path)) == 4
    for process in processes:
        kill(process)
    assert len(names(tmp_path)) == 4
    assert path.read_bytes() == b"old"
    replace_file(path, b"newer")
    assert names(tmp_path) == ["a"]
    assert path.read_bytes() == b"newer"


@posix
def test_the_file_of_a_living_process_is_left_alone(tmp_path):
    path = tmp_path / "a"
    process = start_saving(path)
    try:
        before = set(names(tmp_path))
        replace_file(path, b"newer")
        replace_file(path, b"newest")
        assert set(names(tmp_path)) == before | {"a"}
    finally:
        kill(process)
    replace_file(path, b"last")
    assert names(tmp_path) == ["a"]


@posix
def test_files_that_only_look_alike_are_left_alone(tmp_path):
    others = ["a.1234.tmp", "a.tmp", ".a.tmp", ".b.delaytron-0.tmp"]
    for name in others:
        (tmp_path / name).write_bytes(b"mine")
    (tmp_path / ".a.delaytron-0.tmp").symlink_to(tmp_path / "a.tmp")
    replace_file(tmp_path / "a", b"new")
    assert all((tmp_path / name).read_bytes() == b"mine" for name in others)
    assert (tmp_path / ".a.delaytron-0.tmp").is_symlink()


def test_threads_that_save_at_once_leave_one_whole_file(tmp_path):
    start = Barrier(6)
    contents = [bytes([i]) * 200_000 for i in range(6)]

    def save(content):
        start.wait()
        for _ in range(10):
            replace_file(tmp_path / "a", content)

    threads = [Thread(target=save, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "a").read_bytes() in contents
    replace_file(tmp_path / "a", b"last")
    assert names(tmp_path) == ["a"]


def test_the_longest_name_that_the_system_allows_can_be_written(tmp_path):
    path = tmp_path / ("é" * 127)
    replace_file(path, b"new")
    assert names(tmp_path) == [path.name]


@posix
def test_content_rights_and_name_reach_the_disk_in_this_order(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    events = []
    fsync, replace, chmod = os.fsync, os.replace, os.chmod

    def note_fsync(descriptor):
        about = os.fstat(descriptor)
        events.append("folder" if stat.S_ISDIR(about.st_mode) else f"file of {about.st_size}")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "chmod", lambda *a: (events.append("mode"), chmod(*a)))
    monkeypatch.setattr(os, "replace", lambda *a: (events.append("rename"), replace(*a)))
    replace_file(path, b"new", b"er")
    assert events == ["mode", "file of 5", "rename", "folder"]


def failing(number):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("step", ["open", "fsync", "replace", "chmod"])
def test_every_error_names_the_file_and_leaves_the_old_one(step, tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, step, failing(errno.ENOSPC))
        with pytest.raises(OSError, match=r"No space left on device; make room, then try again: '.*/a'$") as caught:
            replace_file(path, b"new")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(path))
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_a_failed_write_names_the_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No such file or directory; check the path, .*: '.*/none/a'$"):
        replace_file(tmp_path / "none" / "a", b"new")
    with pytest.raises(IsADirectoryError, match=rf"Is a directory; give the path of a file: '{tmp_path}'$"):
        replace_file(tmp_path, b"new")


FULL_DISK = """
import sys
from pathlib import Path
from delaytron.files.atomic import replace_file
path = Path(sys.argv[1])
path.write_bytes(b"old")
try:
    replace_file(path, bytes(2**20))
except OSError as problem:
    print(problem)
print([p.name for p in path.parent.iterdir()], path.read_bytes())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a small disk in a namespace of its own")
def test_a_full_disk_names_the_file(tmp_path):
    mounted = ["sh", "-c", 'mount -t tmpfs -o size=64k none "$1" && shift && exec "$@"', "sh", str(tmp_path)]
    command = ["unshare", "--mount", "--map-root-user", *mounted]
    if not which("unshare") or subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a small disk here")
    done = subprocess.run(
        [*command, sys.executable, "-c", FULL_DISK, tmp_path / "model"], capture_output=True, text=True, check=True
    )
    line = f"[Errno 28] No space left on device; make room, then try again: '{tmp_path / 'model'}'"
    assert done.stdout == f"{line}\n['model'] b'old'\n"


def test_an_interrupt_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            replace_file(path, b"new")
    assert names(tmp_path) == ["a"]
    assert path.read_bytes() == b"old"


@posix
def test_a_system_without_locks_saves_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic.fcntl, "flock", failing(errno.ENOLCK))
    (tmp_path / ".a.delaytron-0.tmp").write_bytes(b"perhaps of a living process")
    replace_file(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert names(tmp_path) == [".a.delaytron-0.tmp", "a"]


def test_arrays_are_written_with_their_folder_and_always_alike(tmp_path):
    paths = [tmp_path / "new" / "a.npz", tmp_path / "new" / "b.npz"]
    for path in paths:
        replace_arrays(path, {"x": np.arange(3), "y": np.zeros(2)})
    first, second = (path.read_bytes() for path in paths)
    assert first == second
    with np.load(paths[0]) as arrays:
        assert arrays["x"].tolist() == [0, 1, 2]


SAVING = """
import os, sys
from itertools import count
from pathlib import Path
from delaytron.files.atomic import replace_file
path = Path(sys.argv[1])
for _ in sys.stdin:
    child = os.fork()
    if not child:
        print(os.getpid(), flush=True)
        for i in count():
            replace_file(path, (b"%08d" % i) * 50_000)
    os.waitpid(child, 0)
    print("killed", flush=True)
"""  # forks for each kill, so that the package is imported once


@posix
def test_a_process_killed_at_any_moment_leaves_a_whole_file(tmp_path):
    """At least 20 kills, at moments spread over several saves."""
    path, random = tmp_path / "a", np.random.default_rng(5)
    replace_file(path, b"-" * 400_000)
    left = 0
    with subprocess.Popen(
        [sys.executable, "-c", SAVING, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        for _ in range(25):
            process.stdin.write("save\n")
            child = int(process.stdout.readline())
            time.sleep(random.uniform(0, 0.03))
            os.kill(child, signal.SIGKILL)
            assert process.stdout.readline() == "killed\n"
            content = path.read_bytes()
            assert content == content[:8] * 50_000 or content == b"-" * 400_000
            assert len(names(tmp_path)) <= 2
            left += len(names(tmp_path)) - 1
        process.stdin.close()
    assert left  # some were killed in the middle of a save
    replace_file(path, b"last")
    assert names(tmp_path) == ["a"]


def test_a_file_can_be_written_piece_by_piece(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with replacing(path) as file:
        for piece in (b"one, ", b"two"):
            file.write(piece)
            assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"one, two"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("there", [True, False])
def test_what_goes_wrong_between_the_pieces_leaves_all_as_it_was(tmp_path, there):
    path = tmp_path / "a"
    if there:
        path.write_bytes(b"old")

    def half():
        with replacing(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == ({"a": b"old"} if there else {})
