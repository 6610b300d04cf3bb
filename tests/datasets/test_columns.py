"""What the columns of a table become: numbers, categories, labels; all at once or in blocks."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet as pq

import delaytron as dt
from delaytron.datasets import load
from delaytron.datasets.arrow import open_parquet
from delaytron.datasets.columns import Encoder
from delaytron.datasets.encodings import Categories, Numbers


class TestColumns:
    def read(self, tmp_path, text, **options):
        path = tmp_path / "own.csv"
        path.write_text(text)
        return load(path, **options)

    def test_without_a_header_columns_are_called_by_their_position(self, tmp_path):
        data = self.read(tmp_path, "a,1,x\nb,2,y\n", label=-1)
        assert data.feature_names == ("0=a", "0=b", "1")

    def test_numbers_are_categories_where_the_user_says_so(self, tmp_path):
        data = self.read(tmp_path, "zip,y\n10,a\n9.0,b\n9,a\n", categorical=["zip"])
        assert data.feature_names == ("zip=9", "zip=10")
        assert data.X.tolist() == [[0, 1], [1, 0], [1, 0]]
        assert self.read(tmp_path, "zip,y\n10,a\nx9,b\n", categorical=0).feature_names == ("zip=10", "zip=x9")

    def test_codes_that_begin_with_0_are_not_numbers(self, tmp_path):
        data = self.read(tmp_path, "zip,y\n01234,01\n1234,1\n1234,2\n", categorical=["zip"])
        assert data.feature_names == ("zip=01234", "zip=1234")
        assert data.class_names == ("01", "1", "2")

    @pytest.mark.parametrize(
        "labels",
        [("18446744073709551615", "18446744073709551614", "-1"), ("9007199254740993", "9007199254740992", ".5")],
    )
    def test_labels_that_no_float_can_tell_apart_stay_apart(self, tmp_path, labels):
        data = self.read(tmp_path, "a,y\n" + "".join(f"1,{label}\n" for label in labels))
        assert set(data.class_names) == set(labels)

    def test_columns_of_a_frame_may_be_called_by_numbers(self):
        frame = pd.DataFrame({2: [0.5, 1.5], 1: [3.0, 4.0], 0: ["x", "z"]})
        assert load(frame, label=0).class_names == ("x", "z")

    def test_dates_are_categories_where_the_user_says_so(self, tmp_path):
        data = self.read(tmp_path, "day,y\n2020-01-02,a\n2020-01-01,b\n", categorical="day")
        assert data.feature_names == ("day=2020-01-01", "day=2020-01-02")
        days = pa.table({"day": pa.array([1, 0], pa.date32()), "y": ["a", "b"]})
        assert load(days, categorical="day").feature_names == ("day=1970-01-01", "day=1970-01-02")

    def test_whole_numbers_are_labels_without_a_point_in_the_order_of_numbers(self, tmp_path):
        data = self.read(tmp_path, "a,target\n1,10.0\n2,9.0\n3,-1\n4,9\n")
        assert (data.class_names, data.y.tolist()) == (("-1", "9", "10"), [2, 1, 0, 1])
        assert self.read(tmp_path, "a,y\n1,10\n2,9\n3,b\n").class_names == ("10", "9", "b")

    def test_spaces_around_cells_do_not_count(self, tmp_path):
        data = self.read(tmp_path, "age , city, label\n 39, rome , x\n 40,rome, y\n")
        assert (data.feature_names, data.class_names) == (("age", "city=rome"), ("x", "y"))
        assert data.X.tolist() == [[39, 1], [40, 1]]

    @pytest.mark.parametrize(
        "text", ["a;b;y\n1;2;u\n3;4;v\n", "a\tb\ty\n1\t2\tu\n3\t4\tv\n", '"a","b","y"\n1,2,u\n3,4,v\n']
    )
    def test_cells_may_be_divided_by_other_signs(self, text, tmp_path):
        assert self.read(tmp_path, text).X.tolist() == [[1, 2], [3, 4]]

    def test_numbers_with_a_plus_are_numbers(self, tmp_path):
        assert self.read(tmp_path, "a,y\n+1,u\n-2,v\n").X.tolist() == [[1], [-2]]

    def test_truth_in_words_is_a_number(self, tmp_path):
        data = self.read(tmp_path, "a,y\nTRUE,no\nfalse,yes\nTrue,no\n")
        assert (data.X.tolist(), data.feature_names) == ([[1], [0], [1]], ("a",))

    def test_many_categories_make_a_sparse_matrix(self, tmp_path):
        names = [f"user {i}" for i in range(20_000)]
        data = load(pa.table({"user": names, "age": range(20_000), "y": np.arange(20_000) % 2}), keep=["user"])
        assert (data.sparse, data.n_features, data.X.nnz) == (True, 20_001, 40_000)
        assert data.feature_names[data.X.indices[2 * 777]] == "user=user 777"
        assert data.X[[777]].toarray()[0, -1] == 777

    @pytest.mark.parametrize(
        ("n_numbers", "n_categories", "is_sparse"),
        [(0, 10, True), (0, 9, False), (9, 91, True), (9, 90, False), (4999, 5001, False), (4999, 5002, True)],
    )
    def test_a_matrix_is_sparse_where_that_saves_enough(self, n_numbers, n_categories, is_sparse):
        one_hot = Categories("c", tuple(map(str, range(n_categories))))
        assert Encoder(None, (*[Numbers("x")] * n_numbers, one_hot), None).sparse == is_sparse

    def test_a_number_too_long_for_any_float_is_missing_or_a_name(self, tmp_path):
        long = "9" * 400
        with pytest.raises(dt.InvalidInput, match="line 3, column 'a': the cell is empty or no finite number"):
            self.read(tmp_path, f"a,y\n1,u\n{long},v\n")
        assert self.read(tmp_path, f"a,y\n1,2\n2,{long}\n").class_names == ("2", long)


class TestBlocks:
    def test_blocks_of_a_parquet_file_are_the_whole_of_it(self, tmp_path, monkeypatch):
        rng = np.random.default_rng(1)
        columns = {
            "a": rng.normal(size=5000),
            "city": rng.choice(["rome", "oslo"], 5000),
            "y": rng.choice(["u", "v"], 5000),
        }
        pq.write_table(pa.table(columns), tmp_path / "own.parquet", row_group_size=1700)
        monkeypatch.setattr("delaytron.datasets.arrow.BLOCK_BYTES", 24 * 800)
        blocks, whole = list(open_parquet(tmp_path / "own.parquet")()), load(tmp_path / "own.parquet")
        assert max(len(block.labels) for block in blocks) <= 800
        assert {block.feature_names for block in blocks} == {("a", "city=oslo", "city=rome")}
        assert np.array_equal(np.vstack([block.X for block in blocks]), whole.X)
        assert np.concatenate([block.labels for block in blocks]).tolist() == [whole.class_names[k] for k in whole.y]

    def test_an_error_in_a_later_block_names_its_row(self, tmp_path, monkeypatch):
        pq.write_table(pa.table({"a": [*range(900), None], "y": [0, 1, 2] * 300 + [0]}), tmp_path / "own.parquet")
        monkeypatch.setattr("delaytron.datasets.arrow.BLOCK_BYTES", 8 * 100)
        with pytest.raises(dt.InvalidInput, match=r"own.parquet, row 900, column 'a': the cell is empty"):
            dt.datasets.stream(tmp_path / "own.parquet")
