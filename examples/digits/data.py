"""The digits data: scikit-learn's 1,797 real 8x8 handwritten digits, split once.

The last 360 images in dataset order are held out: nothing is trained or calibrated on them.
Images are float32 [N, 1, 8, 8] with pixels 0..16 divided by 16, so 0..1; labels are int64 [N],
0..9.

``python -m examples.digits.data FILE.npz`` writes the held-out part as a network's input: arrays
``image`` and ``labels``.

`held_out` needs NumPy alone: it reads held_out.npz (uint8 pixels 0..16 and uint8 labels), which
train.py writes. `training` and `write_held_out` need scikit-learn.
"""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
HELD_OUT_COUNT = 360
HELD_OUT_FILE = HERE / "held_out.npz"
PIXEL_MAX = 16


def held_out() -> tuple[np.ndarray, np.ndarray]:
    """The 360 held-out images and their labels, from the file beside this module."""
    with np.load(HELD_OUT_FILE) as stored:
        return scaled(stored["pixels"]), stored["labels"].astype(np.int64)


def training() -> tuple[np.ndarray, np.ndarray]:
    """The first 1,437 images and their labels, from scikit-learn."""
    pixels, labels = sklearn_digits()
    return scaled(pixels[:-HELD_OUT_COUNT]), labels[:-HELD_OUT_COUNT].astype(np.int64)


def write_held_out(path: Path = HELD_OUT_FILE) -> None:
    """Store the held-out part, so that a demonstration runs without scikit-learn."""
    pixels, labels = sklearn_digits()
    np.savez_compressed(path, pixels=pixels[-HELD_OUT_COUNT:], labels=labels[-HELD_OUT_COUNT:])


def scaled(pixels: np.ndarray) -> np.ndarray:
    """Pixels 0..16 [N, 8, 8] as the network's input, float32 [N, 1, 8, 8] in 0..1."""
    return (pixels[:, None] / np.float32(PIXEL_MAX)).astype(np.float32)


def sklearn_digits() -> tuple[np.ndarray, np.ndarray]:
    """All 1,797 images as uint8 pixels [N, 8, 8] and uint8 labels [N], in dataset order."""
    try:
        from sklearn.datasets import load_digits  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "the training digits need scikit-learn: pip install scikit-learn", name=error.name
        ) from error
    pixels, labels = load_digits(return_X_y=True)
    return np.reshape(pixels, (-1, 8, 8)).astype(np.uint8), np.asarray(labels, np.uint8)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m examples.digits.data FILE.npz")
    images, classes = held_out()
    np.savez(sys.argv[1], image=images, labels=classes)
