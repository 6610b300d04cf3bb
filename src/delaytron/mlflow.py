"""Learners and models in MLflow: saved, logged and served as the flavor `pyfunc`; needs the extra `mlflow`.

MLflow stores the safetensors file of `save`, and no pickle. It serves greedy predictions, without exploration and
learning. `load_model` returns the learner or the model itself, which can decide and learn.
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
from delaytron.checks import check_path
from delaytron.datasets.dataset import is_frame
from delaytron.datasets.tables import read_features
from delaytron.errors import InvalidInput
from delaytron.learners.learner import Learner
from delaytron.model.model import Model, load

with warnings.catch_warnings(action="ignore"):  # MLflow warns of its own type hints
    from mlflow import pyfunc

    pyfunc.FLAVOR_NAME  # noqa: B018 - MLflow imports it on first access

__all__ = ["load_model", "log_model", "save_model"]

FILE = "model.safetensors"
MOST_SHOWN = 1000  # features of an input example
REQUIREMENTS = (f"delaytron[mlflow]=={__version__}",)


def save_model(model: Learner | Model, path: str | Path, **options: Any) -> None:
    """Write a learner or a model as an MLflow model to a new folder.

    Parameters
    ----------
    model : Learner or Model
        It is saved with its open decisions.
    path : path
        A folder that does not exist yet, or is empty.
    **options
        Further options of `mlflow.pyfunc.save_model`: `input_example`, `signature`, `metadata`, `pip_requirements`, ...

    Raises InvalidInput if `model` is neither a learner nor a `dt.Model`.

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
        pyfunc.save_model(path=str(path), **_options(model, folder, options))


def log_model(model: Learner | Model, name: str = "model", **options: Any) -> Any:
    """Log a learner or a model to the active run of MLflow; return MLflow's `ModelInfo`, whose `model_uri` loads it.

    Parameters
    ----------
    model : Learner or Model
        It is saved with its open decisions.
    name : str
        Its name in MLflow.
    **options
        Further options of `mlflow.pyfunc.log_model`: `registered_model_name`, `input_example`, `signature`, ...

    Raises InvalidInput if `model` is neither a learner nor a `dt.Model`.
    """
    with TemporaryDirectory() as folder:
        return pyfunc.log_model(name=name, **_options(model, folder, options))


def load_model(path: str | Path) -> Any:
    """Return the learner or model from a folder, or from a URI of MLflow (`runs:/...`).

    Raises InvalidInput if another library saved it.
    """
    check_path("path", path)
    folder = Path(path) if Path(path).is_dir() else Path(download_artifacts(artifact_uri=str(path)))
    known = Described.load(str(folder)).flavors.get(pyfunc.FLAVOR_NAME, {})
    if known.get(pyfunc.MAIN) != __name__:
        raise InvalidInput(
            f"{path} is an MLflow model that delaytron.mlflow did not save", "use mlflow.pyfunc.load_model"
        )
    return load(folder / known[pyfunc.DATA])


class Predictor:
    """The predictions of `mlflow.pyfunc.load_model`: greedy labels, by their names where they have names."""

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
    """Return the predictor; MLflow calls this function by its name."""
    return Predictor(load(path))


def _options(model: Any, folder: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Write the file of a model to a folder; return the options of MLflow about it.

    Requirements and, if the number of features is fixed, the signature have defaults.
    """
    if not isinstance(model, Learner | Model):
        raise InvalidInput.of("model", "a learner or a dt.Model", model, "give the learner or the model itself")
    model.save(Path(folder, FILE))
    flavor: dict[str, Any] = {"loader_module": __name__, "data_path": str(Path(folder, FILE))}
    if "conda_env" not in given:
        flavor["pip_requirements"] = list(REQUIREMENTS)
    features = _features(model)
    example: Any
    if isinstance(features, int) and features <= MOST_SHOWN:
        inputs = Schema([TensorSpec(np.dtype(np.float64), (-1, features))])
        example = np.zeros((1, features))
    elif isinstance(features, list):
        inputs = Schema([ColSpec(DataType.double, name, required=False) for name in features])
        example = [dict.fromkeys(features, 0.0)]
    else:
        return {**flavor, **given}
    has_text = isinstance(model, Model) and any(isinstance(name, str) for name in model.classes)
    labels = Schema([ColSpec(DataType.string)] if has_text else [TensorSpec(np.dtype(np.int64), (-1,))])
    return {**flavor, "signature": ModelSignature(inputs, labels), "input_example": example, **given}


def _features(model: Any) -> Any:
    """Return the features of a model, as the parameter `features` of `dt.Model`."""
    return model.n_features if isinstance(model, Learner) else model._engine.recipe.asked["features"]


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
        if data.shape[1] != len(features):
            wanted = f"{len(features)} features"
            raise InvalidInput.of(
                "rows", wanted, got=str(data.shape[1]), verb="have", hint=f"give {', '.join(features)}"
            )
        return [dict(zip(features, row, strict=True)) for row in data.tolist()]
    return list(data)
