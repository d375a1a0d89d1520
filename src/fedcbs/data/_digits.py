"""The digits that come with scikit-learn: 8 x 8, small enough to be always there."""

from __future__ import annotations

import numpy as np

from fedcbs.data._dataset import Dataset, Examples
from fedcbs.data._holdout import hold_out
from fedcbs.data._moments import moments
from fedcbs.errors import MissingExtraError

__all__ = ["digits"]


def digits() -> Dataset:
    """Return 1,797 images of 1 x 8 x 8 from 0 to 1, 10 classes; a fixed fifth of each class is the test part."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise MissingExtraError("scikit-learn", extra="train", purpose="the dataset 'digits'") from error
    pixels, labels = load_digits(return_X_y=True)
    images = (pixels.reshape(-1, 1, 8, 8) / 16).astype(np.float32)
    train, test = hold_out(Examples(images, labels.astype(np.int64)))
    mean, std = moments(train.features)
    return Dataset("digits", train, test, 10, mean, std, tuple("0123456789"))
