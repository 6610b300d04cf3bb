"""Data sets: the synthetic recipe, and pairs (X, y)."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from delaytron.datasets import Dataset, as_dataset, load
from delaytron.datasets import stream as open_stream
from delaytron.datasets.dataset import check_matrix, encode_labels
from delaytron.datasets.synthetic import BLOCK, LARGEST, draw_class_words, margin, synnonsep, synsep
from delaytron.errors import InvalidInput
from delaytron.rng import stream

N = 10_000  # more than two blocks


def class_words(data):
    return data.certificate > 0


def hinge_losses(data, y):
    scores = data.X @ data.certificate.T
    own = scores[np.arange(len(y)), y]
    scores[np.arange(len(y)), y] = -np.inf
    return np.maximum(0, 1 - (own - scores.max(axis=1)))


def same_bits(a, b):
    return all((getattr(a.X, part) == getattr(b.X, part)).all() for part in ("data", "indices", "indptr"))


@pytest.mark.parametrize("seed", range(5))
def test_every_class_owns_20_to_40_topic_words(seed):
    words = class_words(synsep(1, seed=seed))
    assert words.shape == (9, 400)
    assert not words[:, 120:].any()
    assert ((words.sum(axis=1) >= 20) & (words.sum(axis=1) <= 40)).all()


def test_class_sizes_and_words_are_uniform():
    many = np.stack([draw_class_words(stream(seed, "test")) for seed in range(1000)])
    sizes = np.bincount(many.sum(axis=2).ravel(), minlength=41)[20:41] / 9000
    np.testing.assert_allclose(sizes, 1 / 21, atol=0.01)
    np.testing.assert_allclose(many[:, :, :120].mean(axis=(0, 1)), 30 / 120, atol=0.02)


def test_class_words_are_drawn_again_until_they_are_separable():
    class Stubborn:
        """All classes alike at first, then like the real generator."""

        def __init__(self):
            self.tries, self.rng = 0, np.random.default_rng(0)

        def integers(self, *args, **options):
            return self.rng.integers(*args, **options)

        def random(self, shape):
            self.tries += 1
            u = self.rng.random(shape)
            return np.sort(u, axis=1) if self.tries == 1 else u

    generator = Stubborn()
    assert margin(draw_class_words(generator)) >= 1
    assert generator.tries == 2


def test_a_document_has_its_class_words_but_five_and_twenty_common_ones():
    data = synsep(N)
    documents, own = data.X.toarray() > 0, class_words(data)[data.y]
    assert ((documents & own).sum(axis=1) == own.sum(axis=1) - 5).all()
    assert (documents[:, 120:].sum(axis=1) == 20).all()
    assert not (documents[:, :120] & ~own[:, :120]).any()


def test_the_length_of_a_document_follows_from_its_class():
    data = synsep(N)
    lengths = np.diff(data.X.indptr)
    assert (lengths == class_words(data).sum(axis=1)[data.y] + 15).all()
    assert lengths.min() >= 35
    assert lengths.max() <= 55


def test_every_word_is_left_out_or_put_in_equally_often():
    data = synsep(90_000)
    common = (data.X[:, 120:] > 0).mean(axis=0)
    np.testing.assert_allclose(common, 20 / 280, atol=0.005)
    for k, words in enumerate(class_words(data)):
        kept = (data.X[data.y == k][:, words] > 0).mean(axis=0)
        np.testing.assert_allclose(kept, 1 - 5 / words.sum(), atol=0.025)


def test_classes_are_equally_frequent():
    np.testing.assert_allclose(np.bincount(synsep(90_000).y) / 90_000, 1 / 9, atol=0.005)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_the_certificate_has_no_hinge_loss_on_any_clean_document(seed, normalize):
    data = synsep(N, seed=seed, normalize=normalize)
    assert hinge_losses(data, data.y).max() < 1e-12
    noisy = synnonsep(N, seed=seed, normalize=normalize)
    assert hinge_losses(noisy, data.y).max() < 1e-12


def test_the_certificate_has_the_norm_of_the_recipe():
    data = synsep(1)
    words = class_words(data)
    assert (data.certificate**2).sum() == pytest.approx(words.sum() / margin(words) ** 2)


def test_the_margin_is_the_least_lead_over_all_pairs():
    words = class_words(synsep(1))
    sets = [set(np.flatnonzero(row)) for row in words]
    leads = [len(b) - 5 - len(a & b) for i, a in enumerate(sets) for j, b in enumerate(sets) if i != j]
    assert margin(words) == min(leads)


def test_documents_hold_ones_or_have_norm_one():
    assert (synsep(100).X.data == 1).all()
    np.testing.assert_allclose(sparse.linalg.norm(synsep(100, normalize=True).X, axis=1), 1)


def test_synthetic_data_are_canonical_csr():
    X = synsep(100).X
    fresh = sparse.csr_array((X.data, X.indices, X.indptr), shape=X.shape)
    assert fresh.has_canonical_format
    assert (X.dtype, X.indices.dtype, X.indptr.dtype) == (np.float64, np.int32, np.int32)


def test_the_same_seed_gives_the_same_bits_and_another_seed_others():
    assert same_bits(synsep(1000, seed=3), synsep(1000, seed=3))
    assert (synnonsep(1000, seed=3).y == synnonsep(1000, seed=3).y).all()
    assert (synsep(1000, seed=3).y != synsep(1000, seed=4).y).any()
    assert (synsep(1, seed=3).certificate != synsep(1, seed=4).certificate).any()


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 2 * BLOCK), st.integers(0, 5))
def test_a_longer_data_set_starts_with_the_shorter_one(n_samples, seed):
    long, short = synnonsep(2 * BLOCK + 1, seed=seed), synnonsep(n_samples, seed=seed)
    assert (long.y[:n_samples] == short.y).all()
    assert (long.X[:n_samples] != short.X).nnz == 0


def test_the_noisy_data_set_has_the_documents_of_the_clean_one():
    clean, noisy = synsep(N, seed=2), synnonsep(N, seed=2)
    assert same_bits(clean, noisy)
    assert (clean.certificate == noisy.certificate).all()
    assert noisy.name == "synnonsep"


def test_noise_replaces_its_share_of_the_labels_by_the_eight_others():
    clean, noisy = synsep(90_000), synnonsep(90_000)
    flipped = clean.y != noisy.y
    assert flipped.mean() == pytest.approx(0.05, abs=0.003)
    steps = np.bincount((noisy.y - clean.y)[flipped] % 9, minlength=9)[1:] / flipped.sum()
    np.testing.assert_allclose(steps, 1 / 8, atol=0.02)


def test_full_noise_of_kind_other_leaves_no_label_and_no_noise_leaves_all():
    assert (synsep(N).y != synnonsep(N, noise=1).y).all()
    assert (synsep(N).y == synnonsep(N, noise=0).y).all()


def test_full_noise_of_kind_any_leaves_a_ninth_of_the_labels():
    kept = synsep(90_000).y == synnonsep(90_000, noise=1, flip="any").y
    assert kept.mean() == pytest.approx(1 / 9, abs=0.005)


def test_digits_are_the_1797_images():
    data = load("digits")
    assert (data.n_rows, data.n_features, data.n_classes, data.sparse) == (1797, 64, 10, False)
    assert (data.X.min(), data.X.max()) == (0, 16)
    assert np.bincount(data.y).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


@pytest.mark.parametrize("name", ["synsep", "synnonsep", "digits"])
def test_a_data_set_that_needs_no_file_loads_by_name(name):
    options = {} if name == "digits" else {"n_samples": 10}
    data = load(name, **options)
    assert data.name == name
    assert data.citation


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: load("iris"), "data set must be one of cifar10, .*, incidents, or the path of a file, got 'iris'"),
        (lambda: load("a" * 5000), "or the path of a file, got 'a{56}\\.\\.\\.$"),
        (lambda: load(""), "or the path of a file, got ''$"),
        (lambda: load("no.csv"), "there is no file no.csv; check the name"),
        (lambda: load(None), r"source must be a name, a file or a frame, got NoneType; as_dataset takes a pair"),
        (lambda: load((np.eye(2), [0, 1])), "source must be a name, a file or a frame, got tuple"),
        (lambda: open_stream(None), "path must be a str or a Path that is not empty, got None"),
        (lambda: open_stream(""), "path must be a str or a Path that is not empty, got ''"),
        (
            lambda: open_stream("a" * 5000 + ".csv"),
            "cannot read 'a{56}\\.\\.\\.: File name too long; give a shorter name",
        ),
        (lambda: Dataset(np.eye(2), [0, 1], "a", None), "class_names must be one name for each class, got NoneType"),
        (lambda: Dataset(np.eye(2), [0, 1], "a", ("a", "b"), feature_names=None), "must be 2 or none, got NoneType"),
        (lambda: Dataset(np.eye(2), [0, 1], "a", ("a", "b"), np.eye(3)), r"certificate must have shape \(2, 2\), got"),
        (lambda: Dataset(np.eye(2), [0, 7], "a", ("a", "b")), "class numbers from 0 to 1, got from 0 to 7"),
        (lambda: load("digits", seed=1), "data set digits takes no options; got seed"),
        (
            lambda: load("synsep", size=1),
            "data set synsep has no option size; take one of n_samples, seed, normalize",
        ),
        (lambda: synsep(0), "n_samples must be an integer of at least 1, got 0"),
        (lambda: synsep(LARGEST + 1), f"n_samples must be at most {LARGEST}, got"),
        (lambda: synsep(1, seed=-1), "seed must be an integer of at least 0, got -1"),
        (lambda: synsep(1, normalize="no"), "normalize must be True or False, got 'no'"),
        (lambda: synnonsep(1, noise=1.5), r"noise must be in \[0, 1\], got 1.5"),
        (lambda: synnonsep(1, flip="all"), "flip must be one of other, any, got 'all'"),
    ],
)
def test_a_wrong_name_or_option_is_refused_with_what_is_allowed(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


X23 = [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("X", [X23, np.array(X23, "int8"), np.array(X23, "float32"), np.array(X23, dtype=object)])
def test_numbers_of_any_kind_become_rows_of_floats(X):
    data = as_dataset((X, [0, 1]), name="mine")
    assert data.X.dtype == np.float64
    assert data.X.flags.c_contiguous
    assert data.X.tolist() == X23
    assert data.y.dtype == np.int64
    assert repr(data) == "Dataset('mine', 2 rows, 3 features, 2 classes, dense)"


def test_truth_values_and_columns_in_fortran_order_become_rows_of_floats():
    assert check_matrix([[True, False]]).tolist() == [[1, 0]]
    fortran = np.asfortranarray(np.array(X23, float))
    assert check_matrix(fortran).flags.c_contiguous
    assert check_matrix(np.array([[True, 0.5]], dtype=object)).tolist() == [[1, 0.5]]


FORMATS = ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("make", [sparse.coo_array, sparse.coo_matrix])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16])
def test_every_sparse_format_becomes_canonical_csr(form, make, dtype):
    data = as_dataset((make(np.array(X23, dtype)).asformat(form), [0, 1]))
    assert data.sparse
    assert data.X.format == "csr"
    assert (data.X.dtype, data.X.indices.dtype, data.X.indptr.dtype) == (np.float64, np.int32, np.int32)
    assert data.X.toarray().tolist() == X23
    assert repr(data) == "Dataset('data', 2 rows, 3 features, 2 classes, sparse)"


def unsorted_csr(index_type=np.int32):
    parts = (np.array([1.0, 2.0, 3.0]), np.array([1, 0, 1], index_type), np.array([0, 3], index_type))
    return sparse.csr_array(parts, shape=(1, 2))


def test_unsorted_and_repeated_entries_are_put_in_order_in_a_copy():
    given = unsorted_csr()
    X = check_matrix(given)
    assert X.has_canonical_format
    assert X.toarray().tolist() == [[2, 4]]
    assert given.indices.tolist() == [1, 0, 1]
    assert given.data.tolist() == [1, 2, 3]


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array, sparse.csr_matrix])
def test_a_matrix_in_the_right_form_is_not_copied(kind):
    X = kind(np.array(X23, float))
    y = np.array([0, 1])
    assert check_matrix(X) is X
    assert Dataset(X, y, "mine", ("a", "b")).X is X
    assert not Dataset(X, y, "mine", ("a", "b")).y.flags.writeable  # a read-only copy


def test_a_dataset_passes_through():
    data = as_dataset((X23, [0, 1]))
    assert as_dataset(data) is data


def test_one_row_may_come_without_its_second_dimension():
    for row in (
        [1, 0, 2],
        np.array([1, 0, 2.0]),
        sparse.csr_array([[1, 0, 2.0]])[0],
        sparse.coo_array([1, 0, 2]),
    ):
        X = check_matrix(row, n_features=3, one_row_ok=True)
        assert X.shape == (1, 3)
        assert (X.toarray() if sparse.issparse(X) else X).tolist() == [[1, 0, 2]]
        with pytest.raises(InvalidInput, match=r"X must be 2-D, one row per example, got 1-D of shape \(3,\)"):
            check_matrix(row)


@pytest.mark.parametrize(
    ("labels", "y", "names"),
    [
        ([0, 2], [0, 2], ("0", "1", "2")),
        ([1.0, 0.0], [1, 0], ("0", "1")),
        (np.array([1, 0], np.uint8), [1, 0], ("0", "1")),
        (np.array([1, 0], dtype=object), [1, 0], ("0", "1")),
        ([1, -1], [1, 0], ("-1", "1")),
        ([0.5, 1.0], [0, 1], ("0.5", "1.0")),
        ([True, False], [1, 0], ("False", "True")),
        (["dog", "cat"], [1, 0], ("cat", "dog")),
        (np.array(["dog", "cat"]), [1, 0], ("cat", "dog")),
        (np.array(["dog", "cat"], dtype=object), [1, 0], ("cat", "dog")),
    ],
)
def test_labels_are_class_numbers_or_get_them_in_sorted_order(labels, y, names):
    data = as_dataset((X23, labels))
    assert data.y.tolist() == y
    assert data.class_names == names
    assert data.n_classes == len(names)


@given(st.lists(st.text(max_size=3), min_size=1) | st.lists(st.integers(-9, 9), min_size=1))
def test_names_lead_back_to_the_labels(labels):
    y, names = encode_labels(np.array(labels, dtype=object))
    assert [names[k] for k in y] == [str(label) for label in labels]


def with_entry(value, form=np.array):
    X = np.ones((3, 4))
    X[1, 2] = value
    return form(X)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([1, 2], r"X must be 2-D, one row per example, got 1-D of shape \(2,\)"),
        (3, r"X must be 2-D, one row per example, got 0-D of shape \(\)"),
        (np.ones((2, 2, 2)), r"got 3-D of shape \(2, 2, 2\)"),
        ([[1], [1, 2]], "X must be 2-D, one row per example, got rows of different lengths"),
        (np.ones((0, 3)), r"X must have at least one row and one column, got shape \(0, 3\)"),
        (np.ones((3, 0)), r"got shape \(3, 0\)"),
        (sparse.csr_array((0, 3)), r"got shape \(0, 3\)"),
        (with_entry(np.nan), "X must be finite, got nan in row 1, column 2"),
        (with_entry(-np.inf), "X must be finite, got -inf in row 1, column 2"),
        (with_entry(np.nan, sparse.csr_array), "X must be finite, got nan in row 1, column 2"),
        (with_entry(np.inf, sparse.csc_matrix), "X must be finite, got inf in row 1, column 2"),
        ([[1.0, "2"]], "X must hold numbers only, got '2' in row 0, column 1"),
        (np.array([["a"]]), "X must hold numbers only, got 'a' in row 0, column 0"),
        ([[1, None]], "X must hold numbers only, got None in row 0, column 1"),
        ([[1, 2j]], "X must hold numbers only, got .*2j.* in row 0, column 1"),
        ("text", "X must hold numbers only, got 'text'$"),
        ([[10**400]], "X must hold numbers that fit into 64-bit floats"),
        (sparse.csr_array([[1j]]), "fewer than 2.31 real numbers, got 1 of type complex128"),
    ],
)
def test_a_bad_matrix_is_refused_with_the_place(X, message):
    with pytest.raises(InvalidInput, match=message):
        as_dataset((X, [0, 1]))


@pytest.mark.skipif(np.finfo(np.longdouble).max <= np.finfo(float).max, reason="no wider float here")
def test_a_wider_float_that_does_not_fit_is_refused():
    with pytest.raises(InvalidInput, match="got inf in row 0, column 0"):
        check_matrix(np.array([[np.finfo(np.longdouble).max]]))


def test_an_index_outside_the_matrix_is_refused():
    X = unsorted_csr()
    X.indices[0] = 7
    with pytest.raises(InvalidInput, match="X must be a valid CSR matrix, but "):
        check_matrix(X)


def test_wide_indices_are_narrowed():
    assert check_matrix(unsorted_csr(np.int64)).indices.dtype == np.int32


def test_another_number_of_features_is_refused():
    with pytest.raises(InvalidInput, match="X must have 4 features, got 3"):
        check_matrix(X23, n_features=4)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1, 1], r"y must have one label for each of the 2 rows of X, got shape \(3,\)"),
        ([[0], [1]], r"y must be 1-D with at least one label, got shape \(2, 1\)"),
        ([], r"y must be 1-D with at least one label, got shape \(0,\)"),
        ([[0], [1, 2]], "y must be 1-D, got rows of different lengths"),
        ([0, 0], "y must name at least two classes, got 1"),
        (["a", "a"], "y must name at least two classes, got 1"),
        ([0, np.nan], "y must hold finite numbers or text, got nan in row 1"),
        ([0, "a"], "y must be all text or all numbers, got 'a' in row 1"),
        (["a", None], "y must be all text or all numbers, got None in row 1"),
        ([None, 1], "y must be all text or all numbers, got None in row 0"),
        ([0, 10**9], "a class number must be below 1000000, got 1000000000; pass the labels as text"),
    ],
)
def test_bad_labels_are_refused(y, message):
    with pytest.raises(InvalidInput, match=message):
        as_dataset((X23, y))


@pytest.mark.parametrize("y", [[0, 2], [-1, 0], [0.0, 1.0]])
def test_a_dataset_cannot_be_made_with_classes_without_a_name(y):
    with pytest.raises(InvalidInput, match="y must hold integer class numbers from 0 to 1"):
        Dataset(np.eye(2), np.array(y), "mine", ("a", "b"))


@pytest.mark.parametrize("data", [np.eye(2), "synsep", (np.eye(2),), None])
def test_anything_but_a_pair_is_no_data_set(data):
    with pytest.raises(InvalidInput, match=r"data must be a Dataset or a pair \(X, y\), got "):
        as_dataset(data)


def test_plain_arrays_do_not_need_scipy():
    code = (
        "import sys, numpy; from delaytron.datasets import as_dataset; as_dataset((numpy.eye(2), [0, 1])); "
        "sys.exit('scipy.sparse' in sys.modules or 'sklearn' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
