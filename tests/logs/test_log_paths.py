"""The files of logs: compressed by their endings, and one line where there is none."""

import gzip

import pandas as pd
import pytest

import delaytron as dt

LOG = dt.logs.from_arrays(
    features=[{"mood": "tired"}, {"mood": "awake"}], labels=[1, 0], probs=[0.5, 0.25], rewards=[1, 0], n_classes=3
)


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz"])
def test_a_compressed_log_is_read_again(tmp_path, ending):
    dsjson, table = tmp_path / f"log.dsjson.{ending}", tmp_path / f"log.csv.{ending}"
    dt.logs.write_dsjson(LOG, dsjson)
    dt.logs.write_open_bandit(LOG, table)
    for again in (dt.logs.read_dsjson(dsjson), dt.logs.read_open_bandit(table)):
        assert again.labels.tolist() == [1, 0]
        assert again.probs.tolist() == [0.5, 0.25]


def test_what_is_compressed_is_what_is_written_plainly(tmp_path):
    dt.logs.write_dsjson(LOG, tmp_path / "log.dsjson")
    dt.logs.write_dsjson(LOG, tmp_path / "log.dsjson.gz")
    assert gzip.decompress((tmp_path / "log.dsjson.gz").read_bytes()) == (tmp_path / "log.dsjson").read_bytes()


def test_a_log_that_is_not_there(tmp_path):
    with pytest.raises(dt.InvalidInput, match=r"there is no file '.*none\.parquet'"):
        dt.logs.read_parquet(tmp_path / "none.parquet")


@pytest.mark.parametrize("wrong", [pd.DataFrame({"item_id": [0]}), None, 3])
def test_open_bandit_is_a_file_or_a_dict(wrong):
    with pytest.raises(dt.InvalidInput, match="source must be the path of a CSV file, or a dict; got"):
        dt.logs.read_open_bandit(wrong)


@pytest.mark.parametrize("write", [dt.logs.write_parquet, dt.logs.write_dsjson, dt.logs.write_open_bandit])
def test_only_a_log_is_written(write, tmp_path):
    with pytest.raises(dt.InvalidInput, match=r"log must be a dt\.logs\.Log, got NoneType; read one by "):
        write(None, tmp_path / "log")
    assert not list(tmp_path.iterdir())


def test_a_log_is_made_of_a_table():
    with pytest.raises(dt.InvalidInput, match=r"table must be a pyarrow\.Table, got NoneType"):
        dt.logs.Log(None)
