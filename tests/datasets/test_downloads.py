"""Downloads, from a server on loopback with the real files to a loaded data set."""

import hashlib
import io
import re
import sys
import tarfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest
from typer.testing import CliRunner

from delaytron.cli import app
from delaytron.datasets import load, named
from delaytron.datasets.catalogue import CARDS, FASHION_PIXELS, File
from delaytron.datasets.named import availability, fetch
from delaytron.errors import InvalidInput
from optional import REAL_DATA, needs_data

pytestmark = needs_data


class Handler(SimpleHTTPRequestHandler):
    """Serves files; the server's `plan` lists the faults of its first replies."""

    def do_GET(self):
        self.server.asked.append(self.path)
        trouble = self.server.plan.pop(0) if self.server.plan else "none"
        if trouble == "404":
            self.send_error(404)
        elif trouble == "none":
            super().do_GET()
        elif trouble == "silent":
            Event().wait(0.3)
        else:
            self.answer(Path(self.translate_path(self.path)).read_bytes(), trouble)

    def answer(self, content, trouble):
        sent = {"breaks off": content[:1000], "too short": content[:1000], "altered": content[::-1]}[trouble]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content if trouble == "breaks off" else sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=REAL_DATA)) as server:
        server.asked, server.plan = [], []
        server.address = f"http://127.0.0.1:{server.server_port}"
        Thread(target=server.serve_forever, args=(0.01,)).start()
        yield server
        server.shutdown()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A machine without any local copy, and with a cache of its own; retries do not wait."""
    monkeypatch.delenv("DELAYTRON_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)
    return tmp_path / "delaytron"


@pytest.fixture
def upstream(server, cache, monkeypatch):
    """Let the files of all cards come from the server."""

    def moved(file):
        return file._replace(address=f"{server.address}/{file.path}") if file.address else file

    def with_moved_files(card):
        return card._replace(files={part: tuple(map(moved, files)) for part, files in card.files.items()})

    for name, card in CARDS.items():
        monkeypatch.setitem(CARDS, name, with_moved_files(card))
    monkeypatch.setattr(named, "FASHION_PIXELS", with_moved_files(FASHION_PIXELS))
    return server


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def refused(name, **options):
    with pytest.raises(InvalidInput) as caught:
        load(name, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "options", "paths"),
    [
        ("usps", {"part": "test"}, ["usps/zip.test.gz"]),
        ("optdigits", {}, ["optdigits/optdigits.tes", "optdigits/optdigits.tra"]),
        ("abalone", {}, ["abalone/abalone.data"]),
        ("ecoli", {}, ["ecoli/ecoli.data"]),
    ],
)
def test_a_download_equals_a_local_copy(upstream, cache, monkeypatch, name, options, paths):
    downloaded = load(name, **options)
    assert files_in(cache) == paths
    assert sorted(upstream.asked) == [f"/{path}" for path in paths]
    monkeypatch.setenv("DELAYTRON_DATA", str(REAL_DATA))
    local = load(name, **options)
    assert (downloaded.X == local.X).all()
    assert (downloaded.y == local.y).all()
    assert downloaded.feature_names == local.feature_names


def test_a_second_load_requests_nothing(upstream, cache):
    first, second = load("ecoli"), load("ecoli")
    assert (first.X == second.X).all()
    assert upstream.asked == ["/ecoli/ecoli.data"]


def test_a_local_copy_comes_before_the_cache_and_the_network(upstream, cache, monkeypatch):
    monkeypatch.setenv("DELAYTRON_DATA", str(REAL_DATA))
    assert fetch(CARDS["ecoli"].files["all"][0]) == REAL_DATA / "ecoli" / "ecoli.data"
    assert availability(CARDS["ecoli"]) == "yes"
    monkeypatch.delenv("DELAYTRON_DATA")
    assert availability(CARDS["ecoli"]) == "download"
    assert availability(CARDS["cifar10"]) == "build"
    assert availability(CARDS["digits"]) == "yes"
    assert upstream.asked == []
    assert fetch(CARDS["ecoli"].files["all"][0]) == cache / "ecoli" / "ecoli.data"
    assert availability(CARDS["ecoli"]) == "cached"


def test_only_the_parts_that_are_wanted_are_downloaded(upstream, cache):
    load("optdigits", part="test")
    assert upstream.asked == ["/optdigits/optdigits.tes"]
    load("optdigits", part="all")
    assert upstream.asked == ["/optdigits/optdigits.tes", "/optdigits/optdigits.tra"]


TROUBLES = {  # of a file with a published checksum, and of one without
    "404": ("the server says 404 Not Found", "the server says 404 Not Found"),
    "breaks off": ("the connection was lost during the download", "the connection was lost during the download"),
    "too short": ("SHA256 hash of downloaded file .* does not match", "Compressed file ended before the end-of-stream"),
    "altered": ("SHA256 hash of downloaded file .* does not match", "Not a gzipped file"),
}


KINDS = [("ecoli", "all"), ("usps", "test")]


def options_of(part):
    return {} if part == "all" else {"part": part}


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize(("name", "part"), KINDS)
def test_a_broken_file_never_enters_the_cache(upstream, cache, trouble, name, part):
    upstream.plan = [trouble] * 9
    line = refused(name, **options_of(part))
    file = CARDS[name].files[part][0]
    assert line.startswith(f"cannot download {file.address}: ")
    assert re.search(TROUBLES[trouble][KINDS.index((name, part))], line)
    assert line.endswith(f"; put it at {cache / file.path}")
    assert files_in(cache) == []
    assert upstream.asked == [f"/{file.path}"] * 2


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize(("name", "part"), KINDS)
def test_a_retry_recovers_from_a_failed_download(upstream, cache, trouble, name, part):
    upstream.plan = [trouble]
    assert load(name, **options_of(part)).n_rows == sum(CARDS[name].counts[part])
    path = CARDS[name].files[part][0].path
    assert upstream.asked == [f"/{path}"] * 2
    assert files_in(cache) == [path]


def test_a_server_that_does_not_answer_is_reported(upstream, cache, monkeypatch):
    monkeypatch.setattr("pooch.downloaders.DEFAULT_TIMEOUT", 0.1)
    upstream.plan = ["silent", "silent"]
    assert "ecoli.data: the server does not answer; put it at " in refused("ecoli")
    assert files_in(cache) == []


def test_wrong_content_without_a_checksum_is_refused(upstream, cache, monkeypatch):
    card = CARDS["usps"]
    monkeypatch.setitem(CARDS, "usps", card._replace(files=dict.fromkeys(("train", "test"), card.files["test"])))
    line = refused("usps", part="train")
    assert "got 2007 x 256 features and 2007 labels, expected 7291 x 256 features" in line
    assert files_in(cache) == []


def test_the_clothes_before_their_clean_up_are_not_those_published_today(upstream, cache):
    line = refused("fashion_mnist", features="pixels", part="test")
    assert "MD5 hash of downloaded file (t10k-images-idx3-ubyte.gz) does not match the known hash" in line
    assert files_in(cache) == []


def test_clothes_are_downloaded_image_and_label(upstream, cache, monkeypatch):
    def with_true_sum(file):
        return file._replace(checksum=f"md5:{hashlib.md5((REAL_DATA / file.path).read_bytes()).hexdigest()}")  # noqa: S324

    files = {part: tuple(map(with_true_sum, files)) for part, files in named.FASHION_PIXELS.files.items()}
    monkeypatch.setattr(named, "FASHION_PIXELS", named.FASHION_PIXELS._replace(files=files))
    assert load("fashion_mnist", features="pixels", part="test").n_rows == 10_000
    assert files_in(cache) == ["fashion_mnist/t10k-images-idx3-ubyte.gz", "fashion_mnist/t10k-labels-idx1-ubyte.gz"]


def test_without_a_server_the_error_has_the_address_and_the_place(upstream, cache, monkeypatch):
    upstream.shutdown()
    upstream.server_close()
    file = CARDS["abalone"].files["all"][0]
    reason = f"cannot download {file.address}: there is no connection; put it at "
    assert refused("abalone") == f"{reason}{cache / file.path}"
    monkeypatch.setenv("DELAYTRON_DATA", str(cache.parent))
    assert refused("abalone") == f"{reason}{cache.parent / file.path}"
    (cache.parent / "abalone").mkdir()
    (cache.parent / file.path).write_bytes((REAL_DATA / file.path).read_bytes())
    assert load("abalone").n_rows == 4177


def test_the_command_line_downloads_and_says_what_went_wrong(upstream, cache):
    command = ["datasets", "show", "ecoli"]
    upstream.plan = ["404", "404"]
    result = CliRunner().invoke(app, command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert re.fullmatch(
        r"delaytron: cannot download http\S+: the server says 404 Not Found; put it at \S+\n", result.stderr
    )
    assert CliRunner().invoke(app, command).exit_code == 0
    assert files_in(cache) == ["ecoli/ecoli.data"]


def test_a_terminal_shows_a_bar(upstream, cache, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    upstream.plan = ["too short"]
    load("usps", part="test")
    shown = sys.stderr.getvalue()
    assert "usps/zip.test.gz" in shown
    assert "467.4/467.4 kB" in shown


def test_a_cache_that_cannot_be_written_is_reported(upstream, cache):
    cache.write_text("not a folder")
    assert refused("ecoli").startswith("cannot download http")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("cifar10", "make it by `delaytron datasets build cifar10`, which needs pip install 'delaytron[features]'"),
        ("fashion_mnist", 'take features="pixels", or make it by `delaytron datasets build fashion_mnist`, which'),
    ],
)
def test_features_without_a_publisher_are_built(cache, name, advice):
    file = CARDS[name].files["train"][0]
    line = refused(name)
    assert line.startswith(f"{file.path} is not on this machine; {advice}")
    assert line.endswith(f", or put it at {cache / file.path}")


def test_an_address_is_never_asked_for_a_file_without_one(cache):
    with pytest.raises(InvalidInput, match="some/file is not on this machine; bake it, or put it at "):
        fetch(File("some/file", recipe="bake it"))


MESSAGES = {
    "20news-bydate-train/sci.med/1": "From: a\nSubject: old header\n\nThe Fever, the fever of fever_x, x-ray2\n\nold",
    "20news-bydate-train/sci.med/10": "From: b\n\nfever THE old \xffdose",
    "20news-bydate-train/sci.med/2": "From: c\n\nthe fever, old news",
    "20news-bydate-train/rec.autos/7": "From: d\n\nthe old car car car",
    "20news-bydate-test/rec.autos/8": "From: e\n\nold fever, the new new new",
    "20news-bydate-test/sci.med/3": "From: f\n\n",
}


def pack(target, messages):
    path = target / "20news-bydate.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in messages.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content.encode("latin-1"))
            archive.addfile(entry, io.BytesIO(content.encode("latin-1")))
        folder = tarfile.TarInfo("20news-bydate-train/sci.med")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
    return path


@pytest.fixture
def archive(cache, monkeypatch):
    """A small archive of newsgroups at its place in the cache, and the card to match."""
    small = {
        "class_names": ("rec.autos", "sci.med"),
        "counts": {"train": (1, 3), "test": (1, 1)},
        "n_features": 3,
    }
    monkeypatch.setitem(CARDS, "news20", CARDS["news20"]._replace(**small))
    (cache / "news20").mkdir(parents=True)
    return pack(cache / "news20", MESSAGES)


def test_news20_is_counted_from_the_publishers_archive(archive, cache):
    data = load("news20")
    assert data.feature_names == ("fever", "old", "the")  # `dose`, `car`, `news`: too rare; `of`: in one message
    assert data.X.toarray().tolist() == [[0, 1, 1], [2, 1, 2], [1, 1, 1], [1, 1, 1], [1, 1, 1], [0, 0, 0]]
    assert [data.class_names[k] for k in data.y] == ["rec.autos", *["sci.med"] * 3, "rec.autos", "sci.med"]
    archive.unlink()
    again = load("news20")
    assert (again.X != data.X).nnz == 0
    assert files_in(cache) == ["news20/news20_counts_csr.npz"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:100]), "Compressed file ended before"),
        (lambda path: path.write_bytes(b"something else"), "not a gzip file"),
        (lambda path: pack(path.parent, dict(list(MESSAGES.items())[1:])), "got 3 x 2 features"),
        (
            lambda path: pack(path.parent, {**MESSAGES, "20news-bydate-test/sci.art/1": "\n\nold"}),
            "got a class 'sci.art'",
        ),
        (lambda path: pack(path.parent, {**MESSAGES, "20news-bydate-test/sci.med/9": "\n\nold"}), "got 3 x 3 features"),
    ],
)
def test_a_wrong_archive_leaves_no_counts(archive, cache, damage, message):
    damage(archive)
    line = refused("news20")
    assert line.startswith(f"{archive}: ")
    assert message in line
    assert line.endswith("; replace it by the file from http://qwone.com/~jason/20Newsgroups/20news-bydate.tar.gz")
    assert files_in(cache) == ["news20/20news-bydate.tar.gz"]


def test_the_archive_itself_is_downloaded(upstream, archive, cache, monkeypatch, tmp_path):
    served = tmp_path / "served"
    served.mkdir()
    archive.rename(served / "news.tar.gz")
    digest = hashlib.sha256((served / "news.tar.gz").read_bytes()).hexdigest()
    file = named.NEWS20_ARCHIVE._replace(address=f"{upstream.address}/news.tar.gz", checksum=f"sha256:{digest}")
    monkeypatch.setattr(named, "NEWS20_ARCHIVE", file)
    upstream.RequestHandlerClass = partial(Handler, directory=served)
    assert np.bincount(load("news20").y).tolist() == [2, 4]
    assert upstream.asked == ["/news.tar.gz"]
