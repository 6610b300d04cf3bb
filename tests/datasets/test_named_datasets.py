"""The named data sets: each agrees with its card and with the manifest of the real copies, and damage is reported."""

import gzip
import re
import shutil

import numpy as np
import pytest
from scipy.sparse import issparse
from typer.testing import CliRunner

import delaytron as dt
from delaytron.cli import app
from delaytron.datasets import DATASETS, load
from delaytron.datasets.catalogue import CARDS, FASHION_PIXELS, HOTEL_NUMBERS
from delaytron.datasets.named import read_idx
from delaytron.errors import InvalidInput
from optional import REAL_DATA, needs_data

pytestmark = needs_data

VARIANTS = [(name, {}, card) for name, card in CARDS.items()]
VARIANTS.append(("fashion_mnist", {"features": "pixels"}, FASHION_PIXELS))
VARIANTS.append(("hotel_resort", {"features": "numbers"}, HOTEL_NUMBERS))


def test_every_data_set_has_a_card():
    assert DATASETS.keys() == CARDS.keys()


@pytest.mark.parametrize(
    ("name", "options", "card"), VARIANTS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_loaded_data_set_agrees_with_its_card(name, options, card):
    data = load(name, **options)
    assert (data.name, data.X.shape) == (name, (card.n_rows, card.n_features))
    assert data.class_names == card.class_names
    assert tuple(np.bincount(data.y)) == card.class_counts
    values = data.X.data if data.sparse else data.X
    assert np.isfinite(values).all()
    assert np.count_nonzero(values) / np.prod(data.X.shape) == pytest.approx(card.nonzeros, rel=0.01)
    assert data.sparse == card.sparse
    assert not data.y.flags.writeable
    assert (data.source, data.licence, data.citation) == (card.source, card.licence, card.citation)
    assert data.source
    assert data.citation
    assert len(data.feature_names) in (0, data.n_features)
    assert len(set(data.feature_names)) == len(data.feature_names)
    assert (data.delays is not None) == card.recorded


def manifest():
    """Yield (path, rows of the parts, columns, classes) of every line of the manifest that has the three."""
    for line in (REAL_DATA / "MANIFEST.md").read_text().splitlines():
        cells = line.split("|")
        found = re.search(r"([\d,]+(?: \+ [\d,]+)?) x ([\d,]+), (\d+)", cells[3]) if len(cells) > 4 else None
        if found:
            rows, columns, classes = (text.replace(",", "") for text in found.groups())
            yield re.findall(r"`(.+?)`", cells[1])[0], [int(n) for n in rows.split(" + ")], int(columns), int(classes)


def test_the_cards_agree_with_the_manifest():
    cards = {card.files[part][0].path: card for _, _, card in VARIANTS for part in card.files}
    cards["fashion_mnist/*.gz"] = FASHION_PIXELS
    seen = set()
    for path, rows, columns, classes in manifest():
        card = cards[path]
        parts = [sum(counts) for counts in card.counts.values()]
        assert rows in (parts, [sum(parts)]), path
        assert columns == card.n_features - 2 * (path == "abalone/abalone.data"), path  # one column of three sexes
        assert classes == len(card.class_names), path
        seen.add(card.title)
    assert seen == {card.title for _, _, card in VARIANTS if card.files and not card.recorded}


def test_the_logs_have_the_rows_of_the_manifest():
    text = (REAL_DATA / "MANIFEST.md").read_text()
    for name in ("hotel_resort", "incidents"):
        line = next(line for line in text.splitlines() if f"logs/{name}.csv.gz" in line)
        assert f" {CARDS[name].n_rows:,}, " in line


def test_digits_are_the_test_part_of_optdigits():
    test, digits = load("optdigits", part="test"), load("digits")
    assert (test.X == digits.X).all()
    assert (test.y == digits.y).all()
    assert test.feature_names == digits.feature_names
    assert digits.feature_names[9] == "pixel 1,1"


@pytest.mark.parametrize("name", ["usps", "optdigits", "news20"])
def test_the_training_rows_come_first(name):
    train, test, both = (load(name, part=part) for part in ("train", "test", "all"))
    for part, data in (("train", train), ("test", test)):
        assert tuple(np.bincount(data.y)) == CARDS[name].counts[part]
    assert (both.y == np.concatenate([train.y, test.y])).all()
    assert abs(both.X[: train.n_rows] - train.X).max() == abs(both.X[train.n_rows :] - test.X).max() == 0
    assert train.feature_names == both.feature_names


def test_features_and_pixels_of_fashion_mnist_belong_to_the_same_clothes():
    features, pixels = (load("fashion_mnist", part="test", features=kind) for kind in ("cnn", "pixels"))
    assert (features.y == pixels.y).all()
    assert (pixels.X.min(), pixels.X.max()) == (0, 255)
    assert (features.X >= 0).all()
    boots = [pixels.X[pixels.y == k].mean() for k in (5, 4)]
    assert boots[0] < boots[1]  # a sandal is mostly background, a coat is not
    assert pixels.class_names[5] == "Sandal"


def test_24_units_of_the_network_are_always_0():
    assert (load("fashion_mnist").X == 0).all(axis=0).sum() == 24


def test_cifar10_keeps_its_numbers_exactly():
    with np.load(REAL_DATA / "cifar10" / "vgg16_features.npz") as arrays:
        stored = arrays["X_test"]
    X = load("cifar10", part="test").X
    assert issparse(X)  # one number in seven differs from 0
    assert X.dtype == np.float64
    assert (X.toarray().astype(np.float16) == stored).all()


def test_usps_is_grey_from_minus_1_to_1():
    data = load("usps", part="train")
    assert (data.X.min(), data.X.max()) == (-1, 1)
    assert data.y[:3].tolist() == [6, 5, 4]
    assert data.X[0, 6:9].tolist() == [-1, -0.631, 0.862]


def test_abalone_has_a_column_for_each_sex():
    data = load("abalone")
    first = (REAL_DATA / "abalone" / "abalone.data").read_text().split()[0].split(",")
    assert data.feature_names[:4] == ("sex=F", "sex=I", "sex=M", "length")
    assert (data.X[:, :3].sum(axis=1) == 1).all()
    assert data.X[0].tolist() == [0, 0, 1, *map(float, first[1:-1])]
    assert data.class_names[data.y[0]] == first[-1] == "15"
    assert data.class_names[-2:] == ("27", "29")


def test_ecoli_has_seven_measures_and_no_names_of_proteins():
    data = load("ecoli")
    assert data.X[0].tolist() == [0.49, 0.29, 0.48, 0.50, 0.56, 0.24, 0.35]
    assert data.class_names[data.y[0]] == "cp"
    assert data.feature_names == ("mcg", "gvh", "lip", "chg", "aac", "alm1", "alm2")


def test_news20_counts_words_that_three_training_messages_have():
    data = load("news20")
    words = data.feature_names
    assert list(words) == sorted(words)
    assert all(re.fullmatch("[a-z]{2,}", word) for word in words)
    assert (data.X.data >= 1).all()
    assert (data.X.data == np.floor(data.X.data)).all()
    train = load("news20", part="train").X
    assert np.bincount(train.indices, minlength=train.shape[1]).min() == 3
    hockey = data.X[data.y == data.class_names.index("rec.sport.hockey")].sum(axis=0)
    assert hockey[words.index("nhl")] > 0.9 * data.X[:, [words.index("nhl")]].sum()


@pytest.mark.parametrize("name", ["usps", "optdigits", "abalone", "ecoli", "news20"])
def test_learners_play_on_every_kind(name):
    flags = ["--data", name, "--rounds", "300", "--runs", "1", "--delay", "10", "--json"]
    result = CliRunner().invoke(app, ["run", "perceptron", *flags])
    assert result.exit_code == 0
    assert f'"dataset": "{name}"' in result.stdout


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("usps", {"part": "valid"}, "part must be one of all, train, test, got 'valid'"),
        ("fashion_mnist", {"features": "raw"}, "features must be one of cnn, pixels, got 'raw'"),
        ("abalone", {"part": "train"}, "data set abalone takes no options; got part"),
        ("digits", {"part": "test"}, "data set digits takes no options; got part"),
        ("news20", {"features": "cnn"}, "data set news20 has no option features; take one of part"),
        ("ecolli", {}, "data set must be one of cifar10, fashion_mnist, .*, got 'ecolli'; did you mean ecoli?"),
    ],
)
def test_a_wrong_option_gets_one_line(name, options, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        load(name, **options)
    assert "\n" not in str(caught.value)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of local copies that a test may damage, and no cache."""
    monkeypatch.setenv("DELAYTRON_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def place(folder, path, content):
    (folder / path).parent.mkdir(exist_ok=True)
    (folder / path).write_bytes(content)


def text_of(path):
    content = (REAL_DATA / path).read_bytes()
    return (gzip.decompress(content) if path.endswith(".gz") else content).decode()


DAMAGES = {
    "a row too few": ("ecoli", lambda t: t[: t.rindex("\n", 0, -1) + 1], "got 335 x 7 features and 335 labels, expec"),
    "a class for another": (
        "ecoli",
        lambda t: t.replace("  imL\n", "  imS\n", 1),
        "got 1 rows of class imL, expected 2",
    ),
    "a class that is none": ("ecoli", lambda t: t.replace("  imL\n", "  imX\n", 1), "got a class 'imX'"),
    "a ring that is none": ("abalone", lambda t: t.replace(",29\n", ",30\n"), "got a class '30'"),
    "a sex that is none": ("abalone", lambda t: "X" + t[1:], "got a sex 'X', expected F, I, M"),
    "text for a number": ("abalone", lambda t: t.replace("0.455", "half", 1), "could not convert string to float: "),
    "a number that is none": ("abalone", lambda t: t.replace("0.455", "nan", 1), "got a number that is not finite"),
    "a ragged row": (
        "abalone",
        lambda t: t.replace("0.455,", "", 1),
        "the number of columns changed from 8 to 9 at row",
    ),
    "nothing at all": ("ecoli", lambda t: "", "input contained no data"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_table_is_refused_in_one_line(folder, damage):
    name, change, message = DAMAGES[damage]
    file = CARDS[name].files["all"][0]
    place(folder, file.path, change(text_of(file.path)).encode())
    with pytest.raises(InvalidInput, match=re.escape(message)) as caught:
        load(name)
    line = str(caught.value)
    assert line.startswith(str(folder / file.path))
    assert line.endswith(f"replace it by the file from {file.address}")
    assert "\n" not in line


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[:1000], "Compressed file ended before the end-of-stream marker was reached"),
        (lambda content: b"plain text", "Not a gzipped file"),
        (lambda content: gzip.compress(gzip.decompress(content)[:-2000], 1), "the number of columns changed"),
        (
            lambda content: gzip.compress(gzip.decompress(content).replace(b"9.0", b"9.5", 1), 1),
            "got a class number 9.5",
        ),
    ],
)
def test_a_damaged_archive_is_refused_in_one_line(folder, change, message):
    place(folder, "usps/zip.test.gz", change((REAL_DATA / "usps" / "zip.test.gz").read_bytes()))
    with pytest.raises(InvalidInput, match=re.escape(message)) as caught:
        load("usps", part="test")
    assert str(caught.value).startswith(str(folder / "usps" / "zip.test.gz"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"X_test": np.zeros((9, 512)), "y_test": np.zeros(9)},
            "got 9 x 512 features and 9 labels, expected 10000 x 512",
        ),
        (
            {"X_test": np.zeros((10_000, 512)), "y_test": np.zeros(10_000)},
            "10000 rows of class airplane, expected 1000",
        ),
        ({"y_test": np.zeros(9)}, "X_test is not a file in the archive"),
        ({"X_test": np.array([{}], dtype=object), "y_test": np.zeros(9)}, "Object arrays cannot be loaded"),
    ],
)
def test_features_that_are_not_those_of_the_card_are_refused(folder, arrays, message):
    path = folder / "cifar10" / "vgg16_features.npz"
    path.parent.mkdir()
    np.savez(path, **arrays)
    with pytest.raises(InvalidInput, match=re.escape(message)) as caught:
        load("cifar10", part="test")
    assert str(caught.value).startswith(f"{path}: ")
    assert str(caught.value).endswith("; replace it by another copy")


@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        ("test_indices", lambda indices: indices + 1, "ind(ex|ices)"),
        ("test_indptr", lambda indptr: indptr[::-1], "ind(ex|ptr)"),
        ("vocab", lambda words: words[1:], "got 31120 names of features, expected 31121"),
        ("test_shape", lambda shape: shape[:1], "ind(ex|ptr)"),
    ],
)
def test_counts_that_are_not_those_of_the_card_are_refused(folder, key, change, message):
    path = folder / "news20" / "news20_counts_csr.npz"
    path.parent.mkdir()
    with np.load(REAL_DATA / "news20" / "news20_counts_csr.npz") as arrays:
        wanted = ("test_data", "test_indices", "test_indptr", "test_shape", "y_test", "vocab")
        np.savez(path, **{name: change(arrays[name]) if name == key else arrays[name] for name in wanted})
    with pytest.raises(InvalidInput, match=f"^{re.escape(str(path))}: .*{message}") as caught:
        load("news20", part="test")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must be an idx file of bytes, but it starts with nothing"),
        (b"\0\0\x0d\x01", "must be an idx file of bytes, but it starts with 00 00 0d 01"),
        (b"\0\0\x08\x02\0\0\0\x02\0\0\0\x03" + b"12345", "must hold 2 x 3 bytes, but has 5"),
    ],
)
def test_an_idx_file_is_read_or_refused(tmp_path, content, message):
    path = tmp_path / "some.gz"
    path.write_bytes(gzip.compress(content))
    with pytest.raises(InvalidInput, match=f"^{re.escape(f'{path} {message}')}; get a new copy$"):
        read_idx(path)
    path.write_bytes(gzip.compress(b"\0\0\x08\x02\0\0\0\x02\0\0\0\x03" + b"\1\2\3\4\5\6"))
    assert read_idx(path).tolist() == [[1, 2, 3], [4, 5, 6]]


def test_damaged_pixels_name_both_files(folder):
    for part, file in zip(("images", "labels"), FASHION_PIXELS.files["test"], strict=True):
        place(folder, file.path, (REAL_DATA / file.path).read_bytes())
        assert part in file.path
    shutil.copy(
        REAL_DATA / "fashion_mnist" / "train-labels-idx1-ubyte.gz", folder / FASHION_PIXELS.files["test"][1].path
    )
    with pytest.raises(
        InvalidInput, match=r"t10k-images.* and .*t10k-labels.*: got 10000 x 784 features and 60000 labels"
    ):
        load("fashion_mnist", features="pixels", part="test")


def test_a_missing_folder_is_reported(monkeypatch):
    monkeypatch.setenv("DELAYTRON_DATA", "/no/such/folder")
    with pytest.raises(InvalidInput, match="DELAYTRON_DATA must name a folder, got '/no/such/folder'; unset it"):
        load("ecoli")
    assert dt.datasets.load("digits").n_rows == 1797
