"""Resizing of images: interpolation, pixel shuffles."""

from collections.abc import Sequence

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value
from compiler.frontend.onnx.operators import movement, resize
from compiler.frontend.pytorch.aten.registry import aten


def _extents(x: Value, size: Sequence[int] | None, scales: Sequence[float] | None) -> list[int]:
    if size is not None:
        return [int(extent) for extent in size]
    assert scales is not None
    return [int(np.floor(old * scale)) for old, scale in zip(x.shape[2:], scales, strict=True)]


def _factors(x: Value, extents: Sequence[int], scales: Sequence[float | None] | None
             ) -> list[float]:
    """Scale factors along each axis: the given scales, else the ratio of the sizes."""
    told = scales or (None,) * len(extents)
    return [new / old if scale is None else scale
            for old, new, scale in zip(x.shape[2:], extents, told, strict=True)]


def _nearest(t, x, size, scales, exact=False):
    extents = _extents(x, size, scales)
    shift = 0.5 if exact else 0.0
    places = [np.minimum(np.floor((np.arange(new) + shift) / np.float32(factor)), old - 1)
              for old, new, factor in zip(x.shape[2:], extents, _factors(x, extents, scales),
                                          strict=True)]
    return resize.nearest(t, x, range(2, x.rank), [indices.astype(np.int64) for indices in places])


def _weighted(t, x, size, align_corners, scales, mode: str):
    extents = _extents(x, size, scales)
    how = "align_corners" if align_corners else "half_pixel"
    resized = resize.widened(x)
    for axis, new, factor in zip(range(2, x.rank), extents, _factors(x, extents, scales),
                                 strict=True):
        factor = new / x.shape[axis] if align_corners else factor
        at = resize.places_of(how, x.shape[axis], new, factor, (0.0, 1.0))
        at = at.clip(0, None) if mode == "linear" else at
        resized = resize.weighted(t, resized, axis, at, 1.0, mode, -0.75, False)
    return resize.rounded(t, resized, x.dtype)


for _name in ("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"):
    aten(f"{_name}.vec")(lambda t, x, size, scales: _nearest(t, x, size, scales))
    aten(_name)(lambda t, x, size, *scales: _nearest(t, x, size, scales or None))
    aten(f"_{_name.replace('nearest', 'nearest_exact')}.vec")(
        lambda t, x, size, scales: _nearest(t, x, size, scales, True))
    aten(f"_{_name.replace('nearest', 'nearest_exact')}")(
        lambda t, x, size, *scales: _nearest(t, x, size, scales or None, True))
for _name, _mode in {"upsample_linear1d": "linear", "upsample_bilinear2d": "linear",
                     "upsample_trilinear3d": "linear", "upsample_bicubic2d": "cubic"}.items():
    aten(f"{_name}.vec")(lambda t, x, size, align, scales, mode=_mode:
                         _weighted(t, x, size, align, scales, mode))
    aten(_name)(lambda t, x, size, align, *scales, mode=_mode:
                _weighted(t, x, size, align, scales or None, mode))


@aten("pixel_shuffle")
def pixel_shuffle(t, x, upscale_factor):
    return _of_images(x, lambda images: movement.depth_to_space(
        t, images, blocksize=upscale_factor, mode="CRD"))


@aten("pixel_unshuffle")
def pixel_unshuffle(t, x, downscale_factor):
    return _of_images(x, lambda images: movement.space_to_depth(
        t, images, blocksize=downscale_factor, mode="CRD"))


def _of_images(x: Value, rule) -> Value:
    """Applies a rule for images; all dimensions before the last three are a batch."""
    if x.rank < 3:
        raise NodeRefused(f"its input must have 3 dimensions at least, not {x.rank}")
    result = rule(x.reshape(int(np.prod(x.shape[:-3])), *x.shape[-3:]))
    return result.reshape(*x.shape[:-3], *result.shape[1:])
