"""Files of images as tensors. What is in them decides about shapes, so they must be known."""

import io
from typing import Any

import numpy as np

from compiler.frontend.building.values import NodeRefused
from compiler.frontend.onnx.nodes.registry import operator

FORMATS = ("BMP", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
CHANNELS = {"RGB": 3, "BGR": 3, "Grayscale": 1}


@operator("ImageDecoder")
def image_decoder(t, encoded, *, pixel_format):
    """Height, width, channels; no elements where the bytes are no image."""
    if pixel_format not in CHANNELS:
        raise NodeRefused(f"pixel_format must be {', '.join(CHANNELS)}, not {pixel_format}")
    return t.computed(lambda data: _decoded(t, data.tobytes(), pixel_format), encoded)


def _decoded(t, data: bytes, pixel_format: str) -> np.ndarray:
    pillow = _pillow()
    try:
        image = pillow.open(io.BytesIO(data), formats=FORMATS)
        t.check_size((*image.size, CHANNELS[pixel_format]), "uint8")
        pixels = np.asarray(image.convert("L" if pixel_format == "Grayscale" else "RGB"))
    # What Pillow raises for bytes that are no image, or too large a one.
    except (OSError, ValueError, SyntaxError, pillow.DecompressionBombError):
        return np.zeros((0, 0, CHANNELS[pixel_format]), np.uint8)
    rows = pixels.reshape(*pixels.shape[:2], CHANNELS[pixel_format])
    return rows[:, :, ::-1] if pixel_format == "BGR" else rows


def _pillow() -> Any:
    try:
        from PIL import Image  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise NodeRefused("it needs Pillow, which is not installed; install lockstep-hw[images]"
                          ) from None
    return Image
