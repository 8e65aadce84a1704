"""Resizing: along each axis every new element is a weighted sum of a few old ones.

Integers are resized along all axes in float64, then rounded half to even and saturated.
"""

from collections.abc import Callable, Sequence

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value, axes_of
from compiler.frontend.onnx.nodes.registry import operator
from compiler.te import is_integer

ROUNDINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "floor": np.floor, "ceil": np.ceil, "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5)}
PLACES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
          "asymmetric", "tf_crop_and_resize")


@operator("Upsample", since=1)
def upsample_images(t, x, *, height_scale, mode, width_scale):
    factors = np.array([1, 1, height_scale, width_scale], np.float32)
    return upsample(t, x, t.constant(factors), mode=mode)


@operator("Upsample", since=7)
def upsample(t, x, scales, *, mode):
    return resize(t, x, None, scales, mode=mode, coordinate_transformation_mode="asymmetric",
                  nearest_mode="floor")


@operator("Resize", since=10)
def resize_10(t, x, scales, *, mode):
    return upsample(t, x, scales, mode=mode)


@operator("Resize", since=11)
def resize(t, x, roi=None, scales=None, sizes=None, *, antialias=0, axes=None,
           coordinate_transformation_mode="half_pixel", cubic_coeff_a=-0.75, exclude_outside=0,
           extrapolation_value=0.0, keep_aspect_ratio_policy="stretch", mode="nearest",
           nearest_mode="round_prefer_floor"):
    places = tuple(range(x.rank)) if axes is None else axes_of(axes, x.rank)
    factors, extents = _factors(t, x, places, scales, sizes, keep_aspect_ratio_policy)
    if mode not in ("nearest", "linear", "cubic"):
        raise NodeRefused(f"mode must be nearest, linear or cubic, not {mode}")
    if coordinate_transformation_mode not in PLACES:
        raise NodeRefused(f"coordinate_transformation_mode must be one of {', '.join(PLACES)}, "
                          f"not {coordinate_transformation_mode}")
    crops = [(0.0, 1.0)] * len(places)
    if coordinate_transformation_mode == "tf_crop_and_resize":
        region = t.demand(roi, "roi").reshape(2, -1).tolist()
        crops = list(zip(*region, strict=True))
    for extent in extents:
        t.check_size((extent,), "float64")
    sources = [places_of(coordinate_transformation_mode, x.shape[axis], extent, factor, crop)
               for axis, factor, extent, crop in zip(places, factors, extents, crops, strict=True)]
    if mode == "nearest":
        resized = nearest(t, x, places, [_rounded(nearest_mode, at, x.shape[axis])
                                         for axis, at in zip(places, sources, strict=True)])
    else:
        resized = widened(x)
        for axis, factor, at in zip(places, factors, sources, strict=True):
            resized = weighted(t, resized, axis, at, factor if antialias else 1.0, mode,
                               cubic_coeff_a, bool(exclude_outside))
    if coordinate_transformation_mode == "tf_crop_and_resize":
        resized = _extrapolated(t, resized, places, sources, x.shape, extrapolation_value)
    return rounded(t, resized, x.dtype)


def widened(x: Value) -> Value:
    """The image in the type in which its weighted sums are."""
    return x.astype("float64" if x.dtype == "float64" or is_integer(x.dtype) else "float32")


def rounded(t, x: Value, dtype: str) -> Value:
    """Weighted sums in the type of the image."""
    if is_integer(dtype) and not is_integer(x.dtype):
        info = np.iinfo(dtype)
        x = t.emit("rint", x).maximum(float(info.min)).minimum(float(info.max))
    return x.astype(dtype)


def _factors(t, x: Value, places: Sequence[int], scales: Value | None, sizes: Value | None,
             policy: str) -> tuple[list[float], list[int]]:
    """Returns the factor and the new extent of each axis."""
    if scales is not None and scales.size:
        factors = [float(factor) for factor in t.demand(scales, "scales").reshape(-1)]
        _check_count("scales", factors, places)
        if not all(np.isfinite(factor) and factor > 0 for factor in factors):
            raise NodeRefused("scales must be positive numbers, not "
                              + ", ".join(f"{factor:g}" for factor in factors))
        return factors, [int(np.floor(x.shape[axis] * factor))
                         for axis, factor in zip(places, factors, strict=True)]
    if sizes is None:
        raise NodeRefused("scales or sizes must be given")
    declared = t.declared(sizes, "sizes") if policy == "stretch" else None
    extents = [declared[axis] for axis in places] if declared else t.integers(sizes, "sizes")
    _check_count("sizes", extents, places)
    factors = [extent / x.shape[axis] for axis, extent in zip(places, extents, strict=True)]
    if policy == "stretch":
        return factors, extents
    factor = min(factors) if policy == "not_larger" else max(factors)
    return [factor] * len(places), [int(np.floor(x.shape[axis] * factor + 0.5)) for axis in places]


def _check_count(role: str, numbers: Sequence, places: Sequence[int]) -> None:
    if len(numbers) != len(places):
        raise NodeRefused(f"{role} must have {len(places)} numbers, not {len(numbers)}")


def places_of(how: str, old: int, new: int, factor: float,
              crop: tuple[float, float]) -> np.ndarray:
    """The places of new elements among the old ones."""
    at, last = np.arange(new, dtype=np.float64), old * factor - 1
    match how:
        case "asymmetric": return at / factor
        case "align_corners": return at * (old - 1) / last if last > 0 else at * 0
        case "pytorch_half_pixel" if new == 1: return at * 0
        case "tf_crop_and_resize":
            start, end = crop
            if new == 1:
                return at + 0.5 * (start + end) * (old - 1)
            return start * (old - 1) + at * (end - start) * (old - 1) / last
        case "half_pixel_symmetric":
            shift = old / 2 * (1 - new / (factor * old))
            return shift + (at + 0.5) / factor - 0.5
    return (at + 0.5) / factor - 0.5


def _rounded(how: str, at: np.ndarray, extent: int) -> np.ndarray:
    if how not in ROUNDINGS:
        raise NodeRefused(f"nearest_mode must be one of {', '.join(ROUNDINGS)}, not {how}")
    return ROUNDINGS[how](at).clip(0, extent - 1).astype(np.int64)


def nearest(t, x: Value, places: Sequence[int], indices: Sequence[np.ndarray]) -> Value:
    """Gathers the nearest elements; integral upscaling of images has an operator of its own."""
    moved = {axis: at for axis, at in zip(places, indices, strict=True)
             if not np.array_equal(at, np.arange(x.shape[axis]))}
    factors = [len(at) // x.shape[axis] for axis, at in moved.items()]
    if moved and x.rank == 4 and min(moved) >= 2 and all(
            factor and np.array_equal(at, np.arange(x.shape[axis] * factor) // factor)
            for (axis, at), factor in zip(moved.items(), factors, strict=True)):
        each = dict(zip(moved, factors, strict=True))
        return t.emit("upsample", x, factors=(each.get(2, 1), each.get(3, 1)))
    for axis, at in moved.items():
        x = t.emit("gather", x, t.constant(at), axis=axis)
    return x


def weighted(t, x: Value, axis: int, at: np.ndarray, factor: float, mode: str, cubic: float,
             exclude_outside: bool) -> Value:
    """Weighted sums along one axis of an image of float32 or float64."""
    extent = x.shape[axis]
    if np.array_equal(at, np.arange(extent)) and factor >= 1:
        return x
    squeeze = min(factor, 1.0)
    reach = 1 if mode == "linear" else 2
    first = int(np.floor(-reach / squeeze)) + 1
    taps = np.arange(first, 2 - first)
    whole = np.floor(at)
    distance = np.abs((taps - (at - whole)[:, None]) * squeeze)
    weights = np.clip(1 - distance, 0, 1) if mode == "linear" else _cubic(distance, cubic)
    numbers = whole[:, None].astype(np.int64) + taps
    if exclude_outside:
        weights = np.where((numbers < 0) | (numbers >= extent), 0, weights)
    weights = weights / weights.sum(1, keepdims=True)
    return t.emit("resample", x, t.constant(numbers.clip(0, extent - 1)),
                  t.constant(weights.astype(x.dtype)), axis=axis)


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    """Keys' kernel."""
    d = distance
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def _extrapolated(t, result: Value, places: Sequence[int], indices: Sequence[np.ndarray],
                  old: Sequence[int], value: float) -> Value:
    """Replaces elements that lie outside the input by `value`."""
    inside = np.ones((1,) * result.rank, bool)
    for axis, at in zip(places, indices, strict=True):
        within = (at >= 0) & (at <= old[axis] - 1)
        inside = inside & within.reshape(
            [-1 if place == axis else 1 for place in range(result.rank)])
    return result if inside.all() else t.constant(inside).where(result, value)
