"""Operators that choose elements by their values, or put them where others say. Those whose shapes
depend on data are computed once the data is known.
"""

import numpy as np

from compiler.frontend.building.scattering import replaced_rows, scattered_along
from compiler.frontend.building.values import NodeRefused, axes_of
from compiler.frontend.onnx.nodes.registry import operator


@operator("NonZero")
def non_zero(t, x):
    return t.computed(lambda array: np.array(np.nonzero(np.atleast_1d(array)), np.int64), x)


@operator("Compress")
def compress(t, x, condition, *, axis=None):
    return t.computed(lambda array, kept: np.compress(
        kept.reshape(-1)[:array.shape[axis] if axis is not None else array.size], array, axis),
        x, condition)


@operator("Unique")
def unique(t, x, *, axis=None, sorted):
    def parts(array: np.ndarray) -> tuple[np.ndarray, ...]:
        elements, first, inverse, counts = np.unique(
            array, return_index=True, return_inverse=True, return_counts=True, axis=axis)
        inverse = inverse.reshape(-1)
        if not sorted:
            order = np.argsort(first)
            rank = np.empty_like(order)
            rank[order] = np.arange(len(order))
            elements = np.take(elements, order, axis=0 if axis is None else axis)
            first, inverse, counts = first[order], rank[inverse], counts[order]
        return elements, *(indices.astype(np.int64) for indices in (first, inverse, counts))
    return t.computed(parts, x)


@operator("TopK")
def top_k(t, x, k, *, axis=-1, largest=1, sorted=1):
    """The first k elements and their places; always sorted, also where that is not requested."""
    place, = axes_of((axis,), x.rank)
    declared = t.declared(k, "k")
    count = declared[place] if declared else t.integer(k, "k")
    order = t.emit("sorted_places", x, axis=place, count=count, largest=largest)
    return t.emit("gather_elements", x, order, axis=place), order


@operator("ScatterElements", "Scatter")
def scatter_elements(t, x, indices, updates, *, axis, reduction="none"):
    place, = axes_of((axis,), x.rank)
    return scattered_along(x, place, indices, updates, reduction)


@operator("ScatterND")
def scatter_nd(t, x, indices, updates, *, reduction="none"):
    return replaced_rows(x, indices, updates, reduction)


@operator("TensorScatter")
def tensor_scatter(t, cache, update, write_indices=None, *, axis, mode):
    """The cache with an update of each batch from its own place on, around the end if circular."""
    place, = axes_of((axis,), cache.rank)
    extent, batch = cache.shape[place], cache.shape[0]
    if mode not in ("linear", "circular"):
        raise NodeRefused(f"mode must be linear or circular, not {mode}")
    start = t.constant(np.zeros(batch, np.int64)) if write_indices is None else write_indices
    steps = t.constant(np.arange(update.shape[place]))
    at = start.astype("int64").reshape(batch, 1) + steps
    at = t.emit("mod", at, at.like(extent)) if mode == "circular" else at
    apart = (batch if axis == 0 else at.shape[1] if axis == place else 1
             for axis in range(cache.rank))
    return scattered_along(cache, place, at.reshape(*apart).expand(*update.shape), update)


@operator("NonMaxSuppression")
def non_max_suppression(t, boxes, scores, max_output_boxes_per_class=None, iou_threshold=None,
                        score_threshold=None, *, center_point_box):
    most, overlap, least = (
        default if value is None else t.demand(value, role).reshape(()).item()
        for value, role, default in (
            (max_output_boxes_per_class, "number of boxes", 0),
            (iou_threshold, "threshold", 0.0), (score_threshold, "threshold", -np.inf)))

    def suppress(places: np.ndarray, grades: np.ndarray) -> np.ndarray:
        corners = _corners(places, bool(center_point_box))
        kept = [(batch, group, box) for batch in range(grades.shape[0])
                for group in range(grades.shape[1])
                for box in _kept(corners[batch], grades[batch, group], int(most), overlap, least)]
        return np.array(kept, np.int64).reshape(-1, 3)

    return t.computed(suppress, boxes, scores)


def _corners(boxes: np.ndarray, centered: bool) -> np.ndarray:
    """Lower and upper corners, [..., 2, 2]."""
    if centered:
        x, y, width, height = np.moveaxis(boxes, -1, 0)
        pairs = [[y - height / 2, x - width / 2], [y + height / 2, x + width / 2]]
    else:
        y1, x1, y2, x2 = np.moveaxis(boxes, -1, 0)
        pairs = [[np.minimum(y1, y2), np.minimum(x1, x2)],
                 [np.maximum(y1, y2), np.maximum(x1, x2)]]
    return np.moveaxis(np.array(pairs), (0, 1), (-2, -1))


def _kept(corners: np.ndarray, grades: np.ndarray, most: int, overlap: float,
          least: float) -> list[int]:
    kept: list[int] = []
    for box in np.argsort(-grades, kind="stable"):
        if len(kept) >= most or grades[box] <= least:
            break
        if all(_overlap(corners[box], corners[other]) <= overlap for other in kept):
            kept.append(int(box))
    return kept


def _overlap(a: np.ndarray, b: np.ndarray) -> float:
    """The area of the intersection divided by the area of the union."""
    sides = np.minimum(a[1], b[1]) - np.maximum(a[0], b[0])
    both = float(np.prod(np.maximum(sides, 0)))
    either = float(np.prod(a[1] - a[0]) + np.prod(b[1] - b[0])) - both
    return both / either if either > 0 else 0.0


