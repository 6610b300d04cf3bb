"""Models and learners from files."""

from pathlib import Path
from typing import Any

from delaytron.checks import check_path
from delaytron.files.tensors import read_tensors
from delaytron.learners import files
from delaytron.model.model import Model
from delaytron.model.opening import load_keeper
from delaytron.model.snapshots import FAMILY


def load(path: str | Path) -> Any:
    """Read a learner or a model that `save` wrote; it goes on exactly as the saved one would have.

    A file that is damaged is refused. A learner whose numbers had overflowed before it was saved is read with a
    warning: its open decisions are there, its weights are of no use.

    Examples
    --------
    >>> import delaytron as dt, tempfile
    >>> learner = dt.Delaytron(n_classes=3, n_features=2, seed=7)
    >>> decision = learner.decide([1.0, 0.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     learner.save(f"{folder}/model.safetensors")
    ...     again = dt.load(f"{folder}/model.safetensors")
    >>> again.pending, again.feedback(decision.id, correct=True)
    (1, 'accepted')
    """
    texts, tensors = read_tensors(check_path("path", path))
    if texts.get("format", "").startswith(FAMILY):
        return Model._of(load_keeper(texts, tensors, str(path)))
    return files.learner_of(path, texts, tensors)
