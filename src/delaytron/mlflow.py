"""Learners and models in MLflow: saved, logged and served as the flavor `pyfunc`; it needs the extra `mlflow`.

What MLflow keeps is the safetensors file of `save`, and no pickle. It predicts greedily: it explores nothing, and
learns nothing. `load_model` gives the learner or the model itself, which decides and learns on.
"""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from delaytron.extras import needs

needs("mlflow")
from mlflow.artifacts import download_artifacts
from mlflow.models import Model as Described
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, DataType, Schema, TensorSpec

from delaytron._version import __version__
from delaytron.checks import check_path, shown
from delaytron.datasets.arrow import read_features
from delaytron.datasets.base import is_frame
from delaytron.errors import InvalidInput
from delaytron.learners.base import Learner
from delaytron.model.files import load
from delaytron.model.model import Model

with warnings.catch_warnings(action="ignore"):  # it warns of its own type hints
    from mlflow import pyfunc

    pyfunc.FLAVOR_NAME  # noqa: B018 - MLflow imports it when it is first used

__all__ = ["load_model", "log_model", "save_model"]

FILE = "model.safetensors"
MOST_SHOWN = 1000  # features of a row that is kept as an example
REQUIREMENTS = (f"delaytron[mlflow]=={__version__}",)


def save_model(model: Learner | Model, path: str | Path, **options: Any) -> None:
    """Write a learner or a model as an MLflow model to a new folder.

    Parameters
    ----------
    model : Learner or Model
        With its open decisions and all that it knows.
    path : path
        A folder that is not there yet, or is empty.
    **options
        What `mlflow.pyfunc.save_model` takes besides: `input_example`, `signature`, `metadata`, `pip_requirements`, ...

    Examples
    --------
    >>> import delaytron as dt, tempfile
    >>> learner = dt.Banditron(n_classes=3, n_features=2, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(learner, f"{folder}/banditron")
    ...     load_model(f"{folder}/banditron")
    Banditron(n_classes=3, n_features=2, gamma=0.015625, seed=0)
    """
    check_path("path", path)
    with TemporaryDirectory() as folder:
        pyfunc.save_model(path=str(path), **_flavor(model, folder), **_defaults(model, options))


def log_model(model: Learner | Model, name: str = "model", **options: Any) -> Any:
    """Log a learner or a model to the active run of MLflow; return MLflow's `ModelInfo`, whose `model_uri` loads it.

    Parameters
    ----------
    model : Learner or Model
        With its open decisions and all that it knows.
    name : str
        What MLflow calls it.
    **options
        What `mlflow.pyfunc.log_model` takes besides: `registered_model_name`, `input_example`, `signature`, ...
    """
    with TemporaryDirectory() as folder:
        return pyfunc.log_model(name=name, **_flavor(model, folder), **_defaults(model, options))


def load_model(path: str | Path) -> Any:
    """Return the learner or the model itself, from a folder or from any address that MLflow knows (`runs:/...`)."""
    check_path("path", path)
    folder = Path(path) if Path(path).is_dir() else Path(download_artifacts(artifact_uri=str(path)))
    known = Described.load(str(folder)).flavors.get(pyfunc.FLAVOR_NAME, {})
    if known.get(pyfunc.MAIN) != __name__:
        raise InvalidInput(
            f"{path} is an MLflow model, but not one that delaytron.mlflow saved; use mlflow.pyfunc.load_model"
        )
    return load(folder / known[pyfunc.DATA])


class Predictor:
    """What `mlflow.pyfunc.load_model` predicts with: the greedy labels of rows, by their names where they have some."""

    def __init__(self, model: Learner | Model) -> None:
        self.model = model

    def predict(self, data: Any, params: Mapping[str, Any] | None = None) -> Any:  # noqa: ARG002 - MLflow's way
        """Return a label for each row of a frame, a matrix or a list of dicts."""
        if isinstance(self.model, Learner):
            return self.model.predict(_matrix(data))
        features = _features(self.model)
        rows = _matrix(data) if isinstance(features, int) else _dicts(data, features)
        labels = [self.model.predict(row) for row in rows]
        return np.array(labels, None if all(isinstance(label, int) for label in labels) else object)


def _load_pyfunc(path: str) -> Predictor:
    """Return what predicts; MLflow calls this by its name."""
    return Predictor(load(path))


def _flavor(model: Any, folder: str) -> dict[str, Any]:
    """Write the file of a model to a folder; return where it is, and what reads it."""
    if not isinstance(model, Learner | Model):
        raise InvalidInput(f"model must be a learner or a dt.Model, got {shown(model)}")
    model.save(Path(folder, FILE))
    return {"loader_module": __name__, "data_path": str(Path(folder, FILE))}


def _defaults(model: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options, with what MLflow would else guess or ask for: requirements, and the form of the rows."""
    needed = {} if "conda_env" in options else {"pip_requirements": list(REQUIREMENTS)}
    return {**needed, **_form_of(model), **options}


def _form_of(model: Any) -> dict[str, Any]:
    """Return the signature and a row as an example, of features whose form is fixed."""
    features = _features(model)
    example: Any
    if isinstance(features, int) and features <= MOST_SHOWN:
        inputs = Schema([TensorSpec(np.dtype(np.float64), (-1, features))])
        example = np.zeros((1, features))
    elif isinstance(features, list):
        inputs = Schema([ColSpec(DataType.double, name, required=False) for name in features])
        example = [dict.fromkeys(features, 0.0)]
    else:
        return {}
    return {"signature": ModelSignature(inputs, _labels(model)), "input_example": example}


def _features(model: Any) -> Any:
    """Return what features a model takes, as `dt.Model` is told it."""
    return model.n_features if isinstance(model, Learner) else model._keeper.recipe.asked["features"]


def _labels(model: Any) -> Any:
    """Return what a model predicts."""
    has_text = isinstance(model, Model) and any(isinstance(name, str) for name in model.classes)
    return Schema([ColSpec(DataType.string)] if has_text else [TensorSpec(np.dtype(np.int64), (-1,))])


def _matrix(data: Any) -> Any:
    """Return rows of numbers."""
    return read_features(data).X if is_frame(data) else data


def _dicts(data: Any, features: Any) -> Sequence[Any]:
    """Return rows as dicts; the columns of a matrix are the listed features."""
    if hasattr(data, "to_dicts"):  # polars
        return list(data.to_dicts())
    if hasattr(data, "to_dict"):  # pandas
        return list(data.to_dict(orient="records"))
    if isinstance(data, Mapping):
        return [data]
    if isinstance(data, np.ndarray) and data.ndim == 2 and isinstance(features, list):
        return [dict(zip(features, row, strict=True)) for row in _as_wide(data, len(features)).tolist()]
    return list(data)


def _as_wide(data: Any, n_features: int) -> Any:
    if data.shape[1] != n_features:
        raise InvalidInput(f"rows must have {n_features} features, got {data.shape[1]}")
    return data
