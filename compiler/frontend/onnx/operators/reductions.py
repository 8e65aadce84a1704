"""Reductions, places of extrema, running sums."""

from collections.abc import Callable

from compiler.frontend.building.branches import by_computed_axes
from compiler.frontend.building.values import Value, axes_of
from compiler.frontend.onnx.nodes.registry import operator
from compiler.te import is_float


def reduced_axes(t, x: Value, axes: Value | None, noop: int = 0) -> tuple[int, ...]:
    """The axes to reduce: those given; without any, all, or none where `noop_with_empty_axes` is
    set.
    """
    if axes is None or axes.size == 0:
        return () if noop else tuple(range(x.rank))
    told = t.integers(axes, "axes")
    return tuple(sorted(set(axes_of(told, x.rank))))


def _register(name: str, reduce: Callable[..., Value]) -> None:
    def reduction(t, x, axes=None, *, keepdims, noop_with_empty_axes=0):
        if axes is None or axes.size == 0 or axes.array is not None or t.run is not None:
            return reduce(x, reduced_axes(t, x, axes, noop_with_empty_axes), keepdims)
        return by_computed_axes(t, axes, x.rank, lambda each: _shape(x, each, keepdims),
                                lambda each: reduce(x, each, keepdims))
    operator(name)(reduction)


def _shape(x: Value, axes: tuple[int, ...], keepdims: int) -> tuple[int, ...]:
    return tuple(1 if axis in axes else extent for axis, extent in enumerate(x.shape)
                 if keepdims or axis not in axes)


def _wide(rule: Callable[..., Value]) -> Callable[..., Value]:
    """Wraps a rule: float16 and bfloat16 are computed in float32 and rounded once."""
    def widened(x: Value, axes: tuple[int, ...], keepdims: int) -> Value:
        if not is_float(x.dtype) or x.dtype in ("float32", "float64"):
            return rule(x, axes, keepdims)
        return rule(x.astype("float32"), axes, keepdims).astype(x.dtype)
    return widened


def _floats(x: Value) -> Value:
    return x if is_float(x.dtype) else x.astype("float64")


def _root(x: Value, axes: tuple[int, ...], keepdims: int) -> Value:
    return _floats((x * x).sum(*axes, keepdims=keepdims)).sqrt().astype(x.dtype)


def _log_sum(x: Value, axes: tuple[int, ...], keepdims: int) -> Value:
    return _floats(x.sum(*axes, keepdims=keepdims)).log().astype(x.dtype)


def log_sum_exp(x: Value, axes: tuple[int, ...], keepdims: int) -> Value:
    """Log of the sum of exponentials; subtracts the greatest element first, so that none overflows.
    """
    wide = _floats(x)
    if 0 in x.shape:
        return wide.exp().sum(*axes, keepdims=keepdims).log().astype(x.dtype)
    most = wide.max(*axes, keepdims=1)
    base = (most.abs().equal(float("inf"))).where(0, most)
    total = (wide - base).exp().sum(*axes, keepdims=keepdims).log()
    return (total + base.reshape(*total.shape)).astype(x.dtype)


def _extreme(op: str) -> Callable[..., Value]:
    return lambda x, axes, keepdims: x.tracer.emit(op, x, axes=axes, keepdims=keepdims)


for _name, _rule in {
    "ReduceSum": lambda x, axes, keepdims: x.sum(*axes, keepdims=keepdims),
    "ReduceMean": lambda x, axes, keepdims: x.mean(*axes, keepdims=keepdims),
    "ReduceMax": _extreme("reduce_max"), "ReduceMin": _extreme("reduce_min"),
    "ReduceProd": _extreme("reduce_prod"),
    "ReduceL1": lambda x, axes, keepdims: x.abs().sum(*axes, keepdims=keepdims),
    "ReduceSumSquare": _wide(lambda x, axes, keepdims: (x * x).sum(*axes, keepdims=keepdims)),
    "ReduceL2": _wide(_root), "ReduceLogSum": _wide(_log_sum),
    "ReduceLogSumExp": _wide(log_sum_exp),
}.items():
    _register(_name, _rule)


def _place(op: str):
    def place(t, x, *, axis, keepdims, select_last_index=0):
        axis, = axes_of((axis,), x.rank)
        return t.emit(op, x, axis=axis, keepdims=keepdims, last=select_last_index)
    return place


operator("ArgMax")(_place("argmax"))
operator("ArgMin")(_place("argmin"))


def _running(op: str):
    def running(t, x, axis, *, exclusive, reverse):
        def along(axes: tuple[int, ...]) -> Value:
            return t.emit(op, x, axis=axes[0], exclusive=exclusive, reverse=reverse)

        if axis.array is None and t.run is None:
            return by_computed_axes(t, axis, x.rank, lambda axes: x.shape, along)
        return along(axes_of((t.integer(axis, "axis"),), x.rank))
    return running


operator("CumSum")(_running("cumsum"))
operator("CumProd")(_running("cumprod"))
