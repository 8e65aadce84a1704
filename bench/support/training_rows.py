"""Batches of digits to train with, the same ones each time."""

from collections.abc import Iterator

import numpy as np

from examples.digits.data import held_out
from runtime.driver.training import batches as drawn


def batches() -> Iterator[dict[str, np.ndarray]]:
    """The held-out images in batches of 40, once."""
    images, labels = held_out()
    return drawn({"image": images, "labels": labels}, 40)
