"""Constants with a scale for each block, as int8 with one scale for each channel."""

import numpy as np


def widened(moved: np.ndarray, scales: np.ndarray, channel: int
            ) -> tuple[np.ndarray, np.ndarray] | None:
    """int8 and a scale for each slice along `channel` for exactly these multiples of scales, which
    have a shape that broadcasts to theirs: the scales of a slice must be multiples of its least.
    None where that is not so.
    """
    others = tuple(axis for axis in range(moved.ndim) if axis != channel)
    scales = np.broadcast_to(scales, moved.shape)
    least = np.abs(scales).min(axis=others, keepdims=True, initial=np.inf)
    if scales.dtype != np.float32 or not np.all((least > 0) & np.isfinite(scales)):
        return None
    times = np.rint(scales / least)
    if np.any(times * least != scales):
        return None
    wide = moved * times
    if np.any(np.rint(wide) != wide) or wide.min(initial=0) < -128 or wide.max(initial=0) > 127:
        return None
    return wide.astype(np.int8), least.reshape(-1).astype(np.float32)
