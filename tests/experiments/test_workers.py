"""Clusters: the same bytes as one process, also when a worker is killed; errors are one line."""

import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

import delaytron as dt
from delaytron import cli
from delaytron.experiments import clusters
from delaytron.experiments.execute import Watch, Workers, connect, execute
from delaytron.experiments.spec import parse_spec
from delaytron.experiments.store import RunStore

pytestmark = pytest.mark.xdist_group("clusters")

TOML = """
name = "small"
data = ["digits"]
delays = [1, 2, 3, "fixed:30", "geometric:9"]
rounds = 600
runs = 3

[[learners]]
name = "delaytron"
gamma = [0.05, 0.2]
"""
LONG = TOML.replace("600", "500_000").replace("runs = 3", "runs = 1")
PACKAGES = {"dask": "distributed", "ray": "ray"}
both = pytest.mark.parametrize("backend", PACKAGES)


def eventually(find):
    """Return what is found as soon as it is there."""
    deadline = time.monotonic() + 120
    while not (found := find()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def need(backend):
    if find_spec(PACKAGES[backend]) is None:
        reason = f"{backend} is not installed: pip install 'delaytron[{backend}]'"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


class Process(NamedTuple):
    id: int
    parent: int
    title: str
    environment: bytes


def processes():
    """Yield those of this user."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile, or is another's
            parent = re.search(r"PPid:\t(\d+)", (folder / "status").read_text())[1]
            title, environment = ((folder / name).read_bytes() for name in ("cmdline", "environ"))
            yield Process(int(folder.name), int(parent), title.decode(errors="replace"), environment)


def marked(mark):
    """Return the processes that were started with this word in their environment, but for Python's own tracker."""
    return [p for p in processes() if mark.encode() in p.environment and "resource_tracker" not in p.title]


@pytest.fixture(scope="module", autouse=True)
def ray_folder():
    """A folder of a short path, as for sockets; and a secret that Ray would write to the home folder."""
    with TemporaryDirectory(prefix="ray") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", folder)
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(16))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        yield Path(folder)


@pytest.fixture(scope="module")
def dask_cluster():
    need("dask")
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0") as cluster:
        yield cluster


class RayCluster:
    def __init__(self, log):
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--num-cpus=2"]
        command += ["--port=0", "--include-dashboard=false", "--object-store-memory=100000000"]
        self.log = log
        with log.open("w") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=file)
        self.address = eventually(self.started)[1]

    def started(self):
        assert self.process.poll() is None, self.log.read_text()
        return re.search(r"--address='(.+)'", self.log.read_text())

    def busy(self):
        """Return a worker that plays."""
        found = list(processes())
        servers = {process.id for process in found if process.parent == self.process.pid}
        return next((one.id for one in found if one.parent in servers and "ray::_call" in one.title), None)


@pytest.fixture(scope="module")
def ray_cluster(ray_folder):
    need("ray")
    cluster = RayCluster(ray_folder / "log")
    yield cluster
    cluster.process.terminate()
    cluster.process.wait(120)


@pytest.fixture
def user_cluster(request, backend):
    """The address of a cluster that runs already, and a way to find a worker that is busy."""
    cluster = request.getfixturevalue(f"{backend}_cluster")
    if backend == "ray":
        return cluster.address, cluster.busy

    def busy():
        names = [worker.name for worker in list(cluster.scheduler.workers.values()) if worker.processing]
        return cluster.workers[names[0]].pid if names else None

    return cluster.scheduler_address, busy


def play(text, folder, workers=Workers(), advance=None):  # noqa: B008 - it cannot be changed
    execute(parse_spec(text.encode()).conditions(), RunStore(folder), workers, Watch(advance))
    return {path.name: path.read_bytes() for path in (folder / "runs").iterdir()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What one process writes."""
    return play(LONG, tmp_path_factory.mktemp("here"))


@both
def test_a_worker_that_is_killed_costs_a_retry(backend, user_cluster, undisturbed, tmp_path, capfd):
    address, busy = user_cluster
    killed = []

    def kill(rounds):
        if not killed:
            killed.append(eventually(busy))
            os.kill(killed[0], signal.SIGKILL)

    found = play(LONG, tmp_path, Workers(backend, address=address), kill)
    assert capfd.readouterr().out == ""  # there the JSON document goes, and Ray says much about dead workers
    assert killed
    assert found == undisturbed
    assert {timing.side_by_side for timing in RunStore(tmp_path).timings()} == {2}


@both
def test_a_task_that_kills_every_worker_is_given_up(backend, user_cluster, request, monkeypatch):
    monkeypatch.setattr(clusters, "TRIES", 1)
    if backend == "dask":
        monkeypatch.setattr(request.getfixturevalue("dask_cluster").scheduler, "allowed_failures", 0)
    with (
        connect(Workers(backend, address=user_cluster[0])) as pool,
        pytest.raises(dt.InvalidInput, match=r"(Dask|Ray) failed: .*worker.* died .*; what was played is kept"),
    ):
        list(pool.spread(os._exit, [9]))


def test_a_connection_to_ray_that_is_there_is_used_and_left(ray_cluster):
    with connect(Workers("ray", 1, ray_cluster.address)) as outer:
        with connect(Workers("ray")) as inner:
            assert (outer.side_by_side, inner.side_by_side) == (1, 2)
            assert list(inner.spread(abs, [-1])) == [(-1, 1)]
        assert list(outer.spread(abs, [-2])) == [(-2, 2)]


@both
def test_a_local_cluster_is_started_and_stopped(backend, capfd, monkeypatch):
    need(backend)
    mark = secrets.token_hex(16)
    monkeypatch.setenv("DELAYTRON_TEST", mark)
    with connect(Workers(backend, 2)) as pool:
        assert pool.side_by_side == 2
        assert sorted(pool.spread(abs, [-3, 2, -1])) == [(-3, 3), (-1, 1), (2, 2)]
        assert len(marked(mark)) >= 2
    assert eventually(lambda: not marked(mark))
    assert capfd.readouterr().out == ""


class TestTasks:
    @pytest.fixture
    def pool(self, dask_cluster):
        with connect(Workers("dask", 1, dask_cluster.scheduler_address)) as pool:
            yield pool

    def test_all_are_done_at_most_so_many_at_a_time(self, pool):
        assert pool.side_by_side == 1
        assert sorted(pool.spread(abs, [-3, 2, -1])) == [(-3, 3), (-1, 1), (2, 2)]

    def test_what_they_raise_is_raised_here(self, pool):
        with pytest.raises(TypeError, match=r"bad operand type for abs\(\): 'str'") as caught:
            list(pool.spread(abs, [1, "x"]))
        assert "Traceback" in caught.value.__notes__[0]

    def test_a_worker_must_have_the_same_version(self, pool, dask_cluster):
        from distributed import Client

        with Client(dask_cluster.scheduler_address, set_as_default=False) as client:
            version = "from delaytron.experiments import clusters; clusters.__version__ = {!r}".format
            client.run(exec, version("0.0.7"))
            try:
                with pytest.raises(dt.InvalidInput, match=r"a worker has delaytron 0\.0\.7, here it is 0.+; install"):
                    list(pool.spread(abs, [1]))
            finally:
                client.run(exec, version(dt.__version__))

    @pytest.mark.parametrize(
        ("replaced", "by", "content"), [("digits", "{}", "a,y\n1,2\n3,4\n"), ("fixed:30", "trace:{}", "4\n3\n4\n")]
    )
    def test_a_file_must_be_the_same_on_a_worker(self, dask_cluster, tmp_path, replaced, by, content):
        file = tmp_path / "own.csv"
        file.write_text(content)
        conditions = parse_spec(TOML.replace(replaced, by.format(file)).encode()).conditions()
        file.write_text(content.replace("4", "5"))
        with pytest.raises(dt.InvalidInput, match=r"own\.csv has changed .*, or is not the same on a worker"):
            execute(conditions, RunStore(tmp_path), Workers("dask", address=dask_cluster.scheduler_address))

    def test_a_cluster_without_workers_is_not_waited_for(self, monkeypatch):
        need("dask")
        from distributed import LocalCluster

        monkeypatch.setattr(clusters, "POLL_INTERVAL", 0.1)
        monkeypatch.setattr(clusters, "NO_WORKERS_TIMEOUT", 0.3)
        with (
            LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as cluster,
            connect(Workers("dask", address=cluster.scheduler_address)) as pool,
            pytest.raises(dt.InvalidInput, match="Dask failed: no workers for 0 s; what was played is kept, run it"),
        ):
            list(pool.spread(abs, [1]))


class TestAddresses:
    @both
    @pytest.mark.parametrize(
        ("address", "problem"),
        [
            ("nonsense", "the address must be host:port"),
            ("tcp://127.0.0.1", "the address must be host:port"),
            ("127.0.0.1:66000", "the address must be host:port"),
            ("127.0.0.1:1", "Connection refused"),
            ("nowhere.invalid:8786", "(Name or service not known|Temporary failure in name resolution)"),
        ],
    )
    def test_where_there_is_no_cluster(self, backend, address, problem, tmp_path):
        need(backend)
        (tmp_path / "spec.toml").write_text(TOML)
        arguments = ["experiment", str(tmp_path / "spec.toml"), "--output", str(tmp_path / "out")]
        result = CliRunner().invoke(cli.app, [*arguments, "--backend", backend, "--address", address])
        assert (result.exit_code, result.stdout) == (2, "")
        expected = f"delaytron: there is no {backend.title()} cluster at '{re.escape(address)}': {problem}"
        assert re.fullmatch(f"{expected}; start it, or leave out (--)?address\n", result.stderr)

    def test_where_something_else_answers(self, monkeypatch):
        monkeypatch.setattr(clusters, "CONNECT_TIMEOUT", 0.1)
        end = Event()
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = f"127.0.0.1:{server.getsockname()[1]}"
            with pytest.raises(dt.InvalidInput, match=f"there is no Dask cluster at '{address}': no answer within 0 s"):
                clusters._connected("Dask", address, end.wait)
        end.set()

    def test_threads_and_processes_have_none(self):
        with pytest.raises(dt.InvalidInput, match=r"address needs backend dask or ray, got 'processes'"):
            _ = Workers("processes", 2, "127.0.0.1:8786").checked

    @both
    def test_a_package_that_is_missing_is_named(self, backend, monkeypatch, tmp_path):
        monkeypatch.setitem(sys.modules, PACKAGES[backend], None)
        with pytest.raises(dt.InvalidInput, match=rf"'{backend}' needs .*; pip install 'delaytron\[{backend}\]'"):
            play(TOML, tmp_path, Workers(backend))

    def test_what_is_played_already_needs_no_cluster(self, tmp_path):
        assert play(TOML, tmp_path) == play(TOML, tmp_path, Workers("dask", address="127.0.0.1:1"))
