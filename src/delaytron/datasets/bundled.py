"""Data sets that come with scikit-learn: real, small, and there without a download."""

import numpy as np

from delaytron.datasets.base import Dataset
from delaytron.datasets.catalogue import CARDS
from delaytron.extras import needs


def digits() -> Dataset:
    """Handwritten digits: 1797 images of 8 x 8 pixels from 0 to 16, 10 classes.

    Examples
    --------
    >>> digits()
    Dataset('digits', 1797 rows, 64 features, 10 classes, dense)
    """
    needs("sklearn")
    from sklearn.datasets import load_digits  # noqa: PLC0415 - `import delaytron` does not pay for scikit-learn

    X, y = load_digits(return_X_y=True)
    card = CARDS["digits"]
    return Dataset(X, np.asarray(y), "digits", card.class_names, feature_names=card.feature_names, **card.provenance)
