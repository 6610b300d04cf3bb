"""Learners and models in MLflow: saved, logged and loaded by the real one, without pickle."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_matrix

import delaytron as dt
from optional import need

need("mlflow")

import mlflow  # noqa: E402

from delaytron import mlflow as door  # noqa: E402

pytestmark = [  # what MLflow itself uses
    pytest.mark.filterwarnings("ignore:Operation with range:DeprecationWarning"),  # of pandas 3
    pytest.mark.filterwarnings("ignore:codecs.open:DeprecationWarning"),  # of Python 3.14
]
NAMES = ["age", "income"]
ROWS = np.random.default_rng(0).normal(size=(40, 2))


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    """Keep runs in a temporary folder."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    yield
    mlflow.set_tracking_uri(before)


def learner_of(name="banditron", **settings):
    learner = dt.LEARNERS[name](3, 2, seed=1, **settings)
    for t, row in enumerate(ROWS):
        decision = learner.decide(row)
        if t % 4:
            learner.feedback(decision.id, correct=decision.label == int(row[0] > 0))
    return learner


def model_of(features, classes=("small", "größer")):
    model = dt.Model(list(classes), features=features, seed=1)
    for t, row in enumerate(ROWS):
        decision = model.decide(row if isinstance(features, int) else as_dict(row), id=f"r{t}")
        if t % 4:
            model.feedback(decision.id, correct=decision.label == classes[int(row[0] > 0)])
    return model


def as_dict(row):
    return dict(zip(NAMES, row.tolist(), strict=True))


def saved(model, path, **options):
    door.save_model(model, path, **options)
    return mlflow.pyfunc.load_model(str(path))


@pytest.mark.parametrize("name", ["banditron", "bandit_logit"])
def test_a_learner_predicts_as_before(name, tmp_path):
    learner = learner_of(name)
    loaded = saved(learner, tmp_path / "saved")
    assert len(set(learner.predict(ROWS).tolist())) > 1
    for rows in (ROWS, pd.DataFrame(ROWS, columns=NAMES), csr_matrix(ROWS)):
        assert_array_equal(loaded.predict(rows), learner.predict(ROWS))


def test_the_learner_itself_comes_back_with_its_open_decisions(tmp_path):
    learner = learner_of()
    door.save_model(learner, tmp_path / "saved")
    again = door.load_model(tmp_path / "saved")
    assert again.pending == learner.pending == 10
    for row in ROWS:
        assert again.decide(row) == learner.decide(row)


@pytest.mark.parametrize("features", ["hashed", NAMES], ids=["hashed", "named"])
def test_a_model_predicts_names_from_dicts_and_frames(features, tmp_path):
    model = model_of(features)
    loaded = saved(model, tmp_path / "saved")
    dicts = [as_dict(row) for row in ROWS]
    wanted = [model.predict(row) for row in dicts]
    assert set(wanted) == {"small", "größer"}
    assert loaded.predict(dicts).tolist() == wanted
    assert loaded.predict(pd.DataFrame(dicts)).tolist() == wanted
    predictor = door.Predictor(model)
    assert predictor.predict(pl.DataFrame(dicts)).tolist() == wanted
    assert predictor.predict(dicts[0]).tolist() == wanted[:1]


def test_columns_of_a_matrix_are_the_listed_features():
    model = model_of(NAMES)
    wanted = [model.predict(as_dict(row)) for row in ROWS]
    assert door.Predictor(model).predict(ROWS).tolist() == wanted
    with pytest.raises(dt.InvalidInput, match="rows must have 2 features, got 3"):
        door.Predictor(model).predict(np.ones((2, 3)))


def test_missing_cells_of_a_frame_are_0(tmp_path):
    model = model_of(NAMES)
    loaded = saved(model, tmp_path / "saved")
    frame = pd.DataFrame({"age": [0.5, np.nan], "income": [np.nan, -2.0]})
    assert loaded.predict(frame).tolist() == [model.predict({"age": 0.5}), model.predict({"income": -2.0})]


def test_a_model_of_vectors_predicts_integers(tmp_path):
    model = model_of(2, classes=(30, 70))
    predicted = saved(model, tmp_path / "saved").predict(ROWS)
    assert predicted.dtype == np.int64
    assert predicted.tolist() == [model.predict(row) for row in ROWS]


def test_a_model_comes_back_and_learns_on(tmp_path):
    model = model_of("hashed")
    door.save_model(model, tmp_path / "saved")
    again = door.load_model(tmp_path / "saved")
    assert again.digest() == model.digest()
    assert again.feedback("r0", correct=True) == model.feedback("r0", correct=True) == "accepted"
    assert again.digest() == model.digest()


def test_no_pickle_is_written(tmp_path):
    saved(learner_of(), tmp_path / "saved")
    files = {str(path.relative_to(tmp_path / "saved")) for path in (tmp_path / "saved").rglob("*") if path.is_file()}
    assert "data/model.safetensors" in files
    assert not [name for name in files if name.endswith((".pkl", ".pickle", ".cloudpickle", ".joblib", ".pt"))]


def test_the_signature_describes_inputs_and_outputs(tmp_path):
    signature = saved(learner_of(), tmp_path / "learner").metadata.signature
    assert signature.inputs.to_dict() == [{"type": "tensor", "tensor-spec": {"dtype": "float64", "shape": (-1, 2)}}]
    named = saved(model_of(NAMES), tmp_path / "model").metadata.signature
    assert [(column.name, column.type.name, column.required) for column in named.inputs.inputs] == [
        ("age", "double", False),
        ("income", "double", False),
    ]
    assert named.outputs.input_types()[0].name == "string"
    assert saved(model_of("hashed"), tmp_path / "hashed").metadata.signature is None


def test_options_reach_mlflow(tmp_path):
    example = pd.DataFrame([as_dict(ROWS[0])])
    loaded = saved(model_of(NAMES), tmp_path / "saved", input_example=example, metadata={"team": "ads"})
    assert loaded.metadata.metadata["team"] == "ads"
    assert_array_equal(loaded.input_example.to_numpy(), example.to_numpy())
    needed = (tmp_path / "saved" / "requirements.txt").read_text().split()
    assert f"delaytron[mlflow]=={dt.__version__}" in needed


def test_a_logged_model_is_found_by_its_address():
    learner = learner_of()
    with mlflow.start_run() as run:
        info = door.log_model(learner, name="router")
        mlflow.log_metric("error", 0.25)
    assert_array_equal(mlflow.pyfunc.load_model(info.model_uri).predict(ROWS), learner.predict(ROWS))
    assert_array_equal(door.load_model(info.model_uri).weights, learner.weights)
    assert door.load_model(f"runs:/{run.info.run_id}/router").pending == learner.pending


def test_other_objects_are_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(dt.InvalidInput, match=r"model must be a learner or a dt\.Model, got"):
        door.save_model("banditron", tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_models_of_other_packages_are_refused(tmp_path):
    mlflow.pyfunc.save_model(
        path=str(tmp_path / "other"), loader_module="json", data_path=__file__, pip_requirements=[]
    )
    with pytest.raises(dt.InvalidInput, match=r"that delaytron\.mlflow did not save") as caught:
        door.load_model(tmp_path / "other")
    assert "\n" not in str(caught.value)
