"""Features from images: VGG-16 against plain NumPy, the four-layer network, and the files that are built."""

import gzip
import os
import sys
import tarfile
from functools import cache
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from delaytron.datasets.catalogue import CARDS
from delaytron.datasets.images import (
    INPUTS,
    N_IMAGES,
    Images,
    build,
    build_cifar10,
    build_fashion_mnist,
    four_layers,
    inputs,
    load_vgg16,
    n_images_of_training,
    prepare_colour,
    prepare_grey,
    read_cifar10,
    train_cnn,
    vgg16_convolutions,
    vgg16_features,
)
from delaytron.datasets.named import read_idx
from delaytron.errors import InvalidInput
from optional import REAL_DATA, need, needs_data

IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
PLACES = (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)  # of the convolutions in torchvision's list of layers
WIDTHS = (64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512)
POOLED = (2, 7, 14, 21, 28)  # the convolutions that a pooling follows

need("torch")


@pytest.fixture(autouse=True)
def torch():
    """PyTorch on one thread: the tests run side by side."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch
    torch.set_num_threads(threads)


@cache
def random_weights(seed=0):
    """Weights of the right shapes whose signals neither fade nor explode, each a float32 array."""
    rng = np.random.default_rng(seed)
    weights = {}
    for place, n_in, n_out in zip(PLACES, (3, *WIDTHS), WIDTHS, strict=False):
        spread = np.float32(np.sqrt(2 / (9 * n_in)))
        weights[f"features.{place}.weight"] = rng.standard_normal((n_out, n_in, 3, 3), dtype=np.float32) * spread
        weights[f"features.{place}.bias"] = rng.standard_normal(n_out, dtype=np.float32) / 10
    return weights


def write_weights(torch, path, weights, **how):
    torch.save({name: torch.from_numpy(values) for name, values in weights.items()}, path, **how)
    return path


@pytest.fixture(scope="module")
def weights_file(tmp_path_factory):
    import torch

    return write_weights(torch, tmp_path_factory.mktemp("weights") / "vgg16.pth", random_weights())


def some_images(n, seed=0):
    return np.random.default_rng(seed).integers(256, size=(n, 3, 32, 32), dtype=np.uint8)


def plain_vgg16(image, weights):
    """One image through the whole stack by the definitions, in float64."""
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    x = (image / 255 - mean[:, None, None]) / std[:, None, None]
    for place in PLACES:
        kernel, bias = weights[f"features.{place}.weight"].astype(float), weights[f"features.{place}.bias"]
        height, width = x.shape[1:]
        around = np.pad(x, ((0, 0), (1, 1), (1, 1)))
        x = np.zeros((len(bias), height, width)) + bias[:, None, None]
        for i in range(3):
            for j in range(3):
                x += np.tensordot(kernel[:, :, i, j], around[:, i : i + height, j : j + width], 1)
        x = np.maximum(x, 0)
        if place in POOLED:
            x = np.maximum(np.maximum(x[:, ::2, ::2], x[:, 1::2, ::2]), np.maximum(x[:, ::2, 1::2], x[:, 1::2, 1::2]))
    return x


def test_vgg16_has_the_names_shapes_and_size_that_torchvision_published(torch):
    with torch.device("meta"):  # shapes without numbers
        network = vgg16_convolutions()
    shapes = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    assert shapes == {name: values.shape for name, values in random_weights().items()}
    assert sum(tensor.numel() for tensor in network.parameters()) == 14_714_688


def test_pixels_are_scaled_as_the_weights_were_trained():
    image = np.zeros((1, 3, 32, 32), np.uint8)
    image[0, :, 0, 1], image[0, :, 5, 0] = 255, (128, 64, 32)
    scaled = prepare_colour(image).numpy()[0]
    assert_allclose(scaled[:, 0, 0], [-2.117904, -2.035714, -1.804444], atol=1e-5)  # (0 - 0.485) / 0.229, ...
    assert_allclose(scaled[:, 0, 1], [2.248908, 2.428571, 2.640000], atol=1e-5)
    assert_allclose(scaled[:, 5, 0], [0.074065, -0.915266, -1.246710], atol=1e-5)  # (128 / 255 - 0.485) / 0.229, ...


def test_vgg16_agrees_with_plain_numpy(weights_file):
    images = some_images(3)
    network = load_vgg16(weights_file)
    features = vgg16_features(images, network)
    assert network(prepare_colour(images)).shape == (3, 512, 1, 1)
    assert features.shape == (3, 512)
    assert features.dtype == np.float16
    expected = np.stack([plain_vgg16(image, random_weights()).ravel() for image in images])
    assert expected.std() > 0.1
    assert_allclose(features, expected, rtol=1e-3, atol=1e-3)  # 16 bits have 11 of precision


def test_features_do_not_depend_on_threads_or_on_other_images(torch, monkeypatch, weights_file):
    monkeypatch.setattr("delaytron.datasets.images.BATCH", 8)
    images, network = some_images(10), load_vgg16(weights_file)
    together = vgg16_features(images, network)
    torch.set_num_threads(2)
    assert_array_equal(vgg16_features(images, network), together)
    assert_allclose(vgg16_features(images[7:], network), together[7:], rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "the form of 2017"])
def test_a_published_file_loads_without_its_classifier(torch, tmp_path, zipped):
    weights = random_weights(1)
    whole = weights | {"classifier.0.weight": np.ones((4096, 8), np.float32)}
    path = write_weights(torch, tmp_path / "w.pth", whole, _use_new_zipfile_serialization=zipped)
    before = torch.get_rng_state()
    loaded = load_vgg16(path).state_dict()
    assert torch.equal(torch.get_rng_state(), before)  # the caller's random numbers are left alone
    assert loaded.keys() == weights.keys()
    assert all(np.array_equal(loaded[name].numpy(), weights[name]) for name in weights)


def test_weights_that_do_not_fit_are_refused_by_name(torch, tmp_path):
    weights = random_weights()
    short = {name: values for name, values in weights.items() if name != "features.24.bias"}
    with pytest.raises(InvalidInput, match=r"features\.24\.bias must be numbers of shape \(512,\), got nothing"):
        load_vgg16(write_weights(torch, tmp_path / "short.pth", short))
    other = weights | {"features.0.weight": np.ones((64, 1, 3, 3), np.float32)}
    with pytest.raises(InvalidInput, match=r"features\.0\.weight .* \(64, 3, 3, 3\), got \(64, 1, 3, 3\)"):
        load_vgg16(write_weights(torch, tmp_path / "grey.pth", other))


class Harmful:
    def __reduce__(self):
        return os.mkdir, ("harm",)


def test_other_files_than_weights_are_refused_in_one_line_and_never_run(torch, tmp_path, monkeypatch, weights_file):
    monkeypatch.chdir(tmp_path)
    torch.save({"features.0.weight": Harmful()}, "harmful.pth")
    torch.save([1, 2], "list.pth")
    Path("text.pth").write_text("not weights")
    Path("empty.pth").touch()
    Path("cut.pth").write_bytes(weights_file.read_bytes()[:100_000])
    for name in ("harmful", "list", "text", "empty", "cut", "absent"):
        with pytest.raises(InvalidInput, match=f"{name}.pth") as refusal:
            load_vgg16(Path(f"{name}.pth"))
        assert "\n" not in str(refusal.value)
    assert not Path("harm").exists()


def write_archive(path, contents):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in contents.items():
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            entry.size = len(content)
            archive.addfile(entry, BytesIO(content))
    return path


def cifar_files(n=3):
    """Six files of n records, the images and classes in them, and the other files of the archive."""
    images, labels = some_images(6 * n), np.arange(6 * n, dtype=np.uint8) % 10
    records = [bytes([label]) + image.tobytes() for image, label in zip(images, labels, strict=True)]
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    files = {name: b"".join(records[n * i : n * i + n]) for i, name in enumerate(names)}
    backwards = dict(reversed(files.items()))  # the order in the archive must not matter
    return {"readme.html": b"hello", **backwards}, images, labels


def test_the_binary_archive_of_cifar10_is_read_in_the_publishers_order(tmp_path):
    files, images, labels = cifar_files()
    read = read_cifar10(write_archive(tmp_path / "cifar.tar.gz", files))
    assert_array_equal(read.train, images[:15])
    assert_array_equal(read.test, images[15:])
    assert_array_equal(read.y_train, labels[:15])
    assert_array_equal(read.y_test, labels[15:])


def test_a_broken_archive_is_refused_in_one_line(tmp_path):
    files, _, _ = cifar_files()
    whole = write_archive(tmp_path / "whole.tar.gz", files).read_bytes()
    cut, text = tmp_path / "cut.tar.gz", tmp_path / "text.tar.gz"
    text.write_text("not an archive")
    cases = [
        (text, "cannot be read to its end"),
        (tmp_path / "absent.tar.gz", "cannot read"),
        (write_archive(tmp_path / "a.tar.gz", files | {"data_batch_2.bin": files["data_batch_2.bin"][:-1]}), "9218 b"),
        (write_archive(tmp_path / "b.tar.gz", files | {"test_batch.bin": b"\x0a" * 3073}), "record 1: .* got 10"),
        (write_archive(tmp_path / "c.tar.gz", {"data_batch_1": b"pickled"}), "no file data_batch_1.bin; it must be"),
    ]
    for path, words in cases:
        with pytest.raises(InvalidInput, match=f"{path.name}.*{words}|{words}.*{path.name}"):
            read_cifar10(path)
    for share in (0.05, 0.5, 0.95):
        cut.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(InvalidInput, match=r"cut\.tar\.gz"):
            read_cifar10(cut)


def kinds(path):
    with np.load(path, allow_pickle=False) as file:
        return {name: (file[name].dtype, file[name].shape[1:]) for name in file}


@needs_data
def test_built_cifar10_features_look_like_the_copy_everybody_uses(tmp_path, weights_file):
    files, images, labels = cifar_files()
    archive, target, done = write_archive(tmp_path / "c.tar.gz", files), tmp_path / "cifar10" / "features.npz", []
    build_cifar10(archive, weights_file, target, done.append)
    assert kinds(target) == kinds(REAL_DATA / "cifar10" / "vgg16_features.npz")
    assert sum(done) == len(images)
    assert list(target.parent.iterdir()) == [target]
    built, network = np.load(target), load_vgg16(weights_file)
    assert_array_equal(built["X_train"], vgg16_features(images[:15], network))
    assert_array_equal(np.append(built["y_train"], built["y_test"]), labels)


@pytest.mark.parametrize("bad", [np.nan, 1e5], ids=["nan", "too large for 16 bits"])
def test_features_that_are_not_finite_leave_the_old_file_alone(torch, tmp_path, bad):
    broken = random_weights() | {"features.28.bias": np.full(512, bad, np.float32)}
    weights, target = write_weights(torch, tmp_path / "w.pth", broken), tmp_path / "old.npz"
    target.write_text("old")
    archive = write_archive(tmp_path / "c.tar.gz", cifar_files(n=1)[0])
    with pytest.raises(InvalidInput, match=r"X_train of .*old\.npz would not be finite"):
        build_cifar10(archive, weights, target)
    assert target.read_text() == "old"


@pytest.fixture(scope="module")
def few():
    """A few of the real images."""
    pixels, y, test, y_test = (read_idx(REAL_DATA / "fashion_mnist" / f"{name}.gz") for name in IDX)
    return Images(pixels[:2000], y[:2000], test[:500], y_test[:500])


@needs_data
def test_training_repeats_to_the_bit_and_learns(torch, few):
    first = train_cnn(few, seed=3, epochs=1)
    assert first.accuracy(few.y_test) > 0.6  # chance is 0.1
    assert (first.X_train.shape, first.X_test.shape, first.W_head.shape) == ((2000, 128), (500, 128), (10, 128))
    torch.set_num_threads(2)  # whatever the caller has set
    assert same_bits(first, train_cnn(few, seed=3, epochs=1))


def test_another_seed_gives_another_network():
    assert not same_bits(train_cnn(made_up(), seed=3, epochs=1), train_cnn(made_up(), seed=4, epochs=1))


def same_bits(a, b):
    return all(x.tobytes() == y.tobytes() for x, y in zip(a, b, strict=True))


def made_up(n_train=40, n_test=10, seed=0):
    rng = np.random.default_rng(seed)
    parts = [(rng.integers(256, size=(n, 28, 28)), rng.integers(10, size=n)) for n in (n_train, n_test)]
    return Images(*(values.astype(np.uint8) for part in parts for values in part))


def test_training_leaves_pytorch_as_it_was(torch):
    torch.manual_seed(5)
    before = torch.get_rng_state(), torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    train_cnn(made_up(), epochs=1)
    after = torch.get_rng_state(), torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]


def test_the_features_are_what_the_last_layer_of_the_network_sees(torch):
    network, pixels = four_layers().eval(), made_up().train
    shapes = [tuple(tensor.shape) for tensor in network.parameters()]
    assert shapes == [(32, 1, 3, 3), (32,), (64, 32, 3, 3), (64,), (128, 1600), (128,), (10, 128), (10,)]
    with torch.inference_mode():
        features, scores = network.body(prepare_grey(pixels)), network(prepare_grey(pixels))
    assert features.min() == 0
    W, b = (tensor.detach().numpy() for tensor in network.head[-1].parameters())
    assert_allclose(features.numpy() @ W.T + b, scores.numpy(), atol=1e-5)


def write_idx(folder, images):
    paths = [folder / f"{name}.gz" for name in IDX]
    for path, values in zip(paths, images, strict=True):
        sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
        path.write_bytes(gzip.compress(bytes([0, 0, 8, values.ndim]) + sizes + values.tobytes()))
    return paths


@needs_data
def test_built_fashion_mnist_features_look_like_the_copy_everybody_uses(tmp_path):
    images, target, done = made_up(150, 20), tmp_path / "new" / "cnn_features.npz", []
    accuracy = build_fashion_mnist(write_idx(tmp_path, images), target, seed=1, epochs=2, progress=done.append)
    assert kinds(target) == kinds(REAL_DATA / "fashion_mnist" / "cnn_features.npz")
    assert sum(done) == n_images_of_training(150, 20, epochs=2) == 470
    assert N_IMAGES["fashion_mnist"] == n_images_of_training(60_000, 10_000)
    built = np.load(target)
    assert_array_equal(built["y_train"], images.y_train)
    scores = built["X_test"].astype(float) @ built["W_head"].T + built["b_head"]
    assert np.mean(scores.argmax(axis=1) == images.y_test) == accuracy
    first = target.read_bytes()
    build_fashion_mnist(write_idx(tmp_path, images), target, seed=1, epochs=2)
    assert target.read_bytes() == first


def test_a_build_finds_its_images_and_puts_the_features_where_load_looks(monkeypatch, tmp_path, weights_file):
    monkeypatch.setenv("DELAYTRON_DATA", str(tmp_path))
    for name in INPUTS:
        (tmp_path / name).mkdir()
    write_archive(tmp_path / "cifar10" / "cifar-10-binary.tar.gz", cifar_files(n=1)[0])
    (tmp_path / "cifar10" / "vgg16-397923af.pth").symlink_to(weights_file)
    files = write_idx(tmp_path / "fashion_mnist", made_up())
    assert inputs("fashion_mnist") == files
    for name, card in ((name, CARDS[name]) for name in INPUTS):
        target = build(name, tmp_path / "new", seed=2)
        assert target == tmp_path / "new" / card.files["train"][0].path
        assert np.load(target)["X_test"].shape[1] == card.n_features
        assert card.files["test"] == card.files["train"]
    with pytest.raises(InvalidInput, match="data set to build must be one of cifar10, fashion_mnist, got 'usps'"):
        build("usps", tmp_path)


def test_images_and_labels_that_do_not_match_are_refused(tmp_path):
    good = made_up()
    cases = [
        (good._replace(train=good.train[:, 1:]), r"train-images.* 28 x 28 pixels, got shape \(40, 27, 28\)"),
        (good._replace(y_train=good.y_train[1:]), r"train-labels.* each of 40 images, got shape \(39,\)"),
        (good._replace(y_test=good.y_test + np.uint8(7)), "t10k-labels.* classes from 0 to 9, got 1"),
    ]
    for images, words in cases:
        with pytest.raises(InvalidInput, match=words):
            build_fashion_mnist(write_idx(tmp_path, images), tmp_path / "x.npz")
    with pytest.raises(InvalidInput, match="epochs must be an integer of at least 1, got 0"):
        build_fashion_mnist(write_idx(tmp_path, good), tmp_path / "x.npz", epochs=0)
    assert not (tmp_path / "x.npz").exists()


def test_without_pytorch_one_line_says_what_to_install(monkeypatch, tmp_path, weights_file):
    monkeypatch.setitem(sys.modules, "torch", None)
    for attempt in (
        lambda: build_cifar10(tmp_path / "none.tar.gz", weights_file, tmp_path / "x.npz"),
        lambda: build_fashion_mnist([tmp_path / name for name in IDX], tmp_path / "x.npz"),
        lambda: inputs("cifar10"),
    ):
        with pytest.raises(
            InvalidInput, match=r"^building features needs PyTorch; pip install 'delaytron\[features\]'$"
        ):
            attempt()
