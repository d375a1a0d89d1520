"""Mean and standard deviation of each channel, the same on every machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["moments"]

_AT_ONCE = 2**22
_DIGITS = 6


def moments(features: NDArray[np.uint8] | NDArray[np.float32]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and std of each channel; bytes count as numbers from 0 to 1, a constant channel has std 1.

    Bytes are counted, so that sums are exact. Floats are summed in double precision. Both are rounded to six digits
    after the point, so that the order of summation does not show.

    >>> moments(np.array([[0, 255], [255, 0]], np.uint8))
    ((0.5,), (0.5,))
    """
    channels = features.shape[1] if features.ndim == 4 else 1
    found = [_of_channel(features[:, c] if features.ndim == 4 else features) for c in range(channels)]
    means = tuple(round(mean, _DIGITS) for mean, _ in found)
    return means, tuple(round(std, _DIGITS) or 1.0 for _, std in found)


def _of_channel(values: NDArray[np.uint8] | NDArray[np.float32]) -> tuple[float, float]:
    if values.size == 0:
        return 0.0, 1.0
    rows = max(1, _AT_ONCE // max(1, values[:1].size))
    blocks = [values[start : start + rows] for start in range(0, len(values), rows)]
    if values.dtype == np.uint8:
        times = np.sum([np.bincount(block.reshape(-1), minlength=256) for block in blocks], axis=0)
        levels = np.arange(256)
        total, squares = int(times @ levels), int(times @ levels**2)
        mean = total / values.size
        variance = (
            squares * values.size - total * total
        ) / values.size**2  # whole numbers up to the division
        return mean / 255, float(np.sqrt(variance)) / 255
    mean = float(sum(block.sum(dtype=np.float64) for block in blocks)) / values.size
    spread = float(sum(np.square(block - mean, dtype=np.float64).sum() for block in blocks))
    return mean, float(np.sqrt(spread / values.size))
