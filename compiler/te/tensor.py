"""Tensors: what is computed. `placeholder` names an input, `compute` defines every element.

>>> from compiler import te
>>> x = te.placeholder((4, 8), "int8", name="x")
>>> k = te.reduce_axis(8, name="k")
>>> y = te.compute((4,), lambda i: te.sum(x[i, k].astype("int32"), axis=k), name="y")
>>> y.shape, y.dtype
((4,), 'int32')
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from .definition import Axis, Computed, Scan
from .expr import (Binary, Buffer, Call, Const, Expr, Extent, Read, Reduce, Select, Symbol, Var,
                   as_expr, is_extent, substitute, walk)
from .lanes import LaneSum
from .reducer import Reduction

__all__ = ["Axis", "Tensor", "abs", "all_of", "any_of", "cast", "clamp", "compute", "const", "erf",
           "exp", "max", "maximum", "min", "minimum", "placeholder", "reduce_axis", "rint",
           "rshift_rne", "scan", "select", "sqrt", "sum", "symbol", "tanh", "tf32"]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A buffer and, unless it is a placeholder, the expression of each element over `axes`."""

    buffer: Buffer
    axes: tuple[Axis, ...] = ()
    body: Expr | Reduction | None = None

    @property
    def name(self) -> str: return self.buffer.name
    @property
    def shape(self) -> tuple[Extent, ...]: return self.buffer.shape
    @property
    def dtype(self) -> str: return self.buffer.dtype

    def __getitem__(self, indices) -> Read:
        return self.buffer[indices]

    @property
    def reduce_axes(self) -> tuple[Axis, ...]:
        if not isinstance(self.body, Reduce | Reduction):
            return ()
        return tuple(Axis(var, extent, "reduce") for var, extent in self.body.axes)


def symbol(name: str) -> Symbol:
    """An extent that is known when the program runs: for shapes and reduction axes, and in index
    arithmetic. Primitives must hold for every value from 1."""
    return Symbol(name)


def placeholder(shape: tuple[Extent, ...], dtype: str, name: str, scope: str = "global") -> Tensor:
    """An input of the computation."""
    return Tensor(Buffer(name, tuple(shape), dtype, scope))


def reduce_axis(extent: Extent, name: str) -> Axis:
    """An index to reduce over, for `sum`, `max` and `min`."""
    if not is_extent(extent):
        raise ValueError(f"Extent of {name} must be a positive integer, not {extent!r}")
    return Axis(Var(name), extent, "reduce")


def compute(shape: tuple[Extent, ...], fn: Callable[..., Any], name: str | tuple[str, ...]) -> Any:
    """Define ``name[i, j, ...] = fn(i, j, ...)``; the axes take the parameter names of `fn`.

    A function of ``*indices`` serves any number of dimensions; its axes are called i0, i1, ...

    A reduction must be the outermost operation of the body: put what follows it into a compute
    of its own, and inline that if you like. Of a sum in lanes, the partial sums are a tensor
    ``<name>_lanes`` of one dimension more, the lane.

    A function that gives several values, or a reduction of several, defines as many tensors in one
    nest of loops: `name` is then a tuple of their names, and so is what is returned. The axes are
    named after the first.
    """
    names = name if isinstance(name, tuple) else (name,)
    axes = _axes(shape, fn, names[0])
    body = fn(*(axis.var for axis in axes))
    if isinstance(body, LaneSum):
        body = _of_lanes(names[0], tuple(shape), axes, body)
    definition = _definition(names, tuple(shape), axes, body)
    if isinstance(name, tuple) != isinstance(body, tuple | Reduction):
        raise ValueError(f"Names of {names[0]} must be a tuple exactly if its body has several "
                         f"values, not {name!r}")
    tensors = tuple(Tensor(Buffer(part, tuple(shape), value.dtype, definition=definition), axes,
                           body[place] if isinstance(body, tuple) else body)
                    for place, (part, value) in enumerate(zip(names, definition.values)))
    return tensors if isinstance(name, tuple) else tensors[0]


def _axes(shape: tuple[Extent, ...], fn: Callable, name: str) -> tuple[Axis, ...]:
    parameters = inspect.signature(fn).parameters.values()
    names = [p.name for p in parameters]
    if [p.kind for p in parameters] == [inspect.Parameter.VAR_POSITIONAL]:
        names = [f"i{dimension}" for dimension in range(len(shape))]
    if len(names) != len(shape):
        raise ValueError(f"Body of {name} must take {len(shape)} indices, not {len(names)}")
    return tuple(Axis(Var(f"{name}_{n}"), extent) for n, extent in zip(names, shape, strict=True))


def _of_lanes(name: str, shape: tuple[Extent, ...], axes: tuple[Axis, ...],
              body: LaneSum) -> Expr:
    """The sum of the partial sums, which are a tensor of their own."""
    label = f"{name}_lanes"
    own = [Axis(Var(f"{label}_{axis.name.removeprefix(f'{name}_')}"), axis.extent) for axis in axes]
    lane = Axis(Var(f"{label}_lane"), body.lanes)
    names: dict[Var, Expr] = {axis.var: new.var for axis, new in zip(axes, own)}
    partial = substitute(body.partial(lane.var), names)
    definition = _definition((label,), (*shape, body.lanes), (*own, lane), partial)
    parts = Buffer(label, (*shape, body.lanes), partial.dtype, definition=definition)
    return body.total([parts[*(axis.var for axis in axes), place] for place in range(body.lanes)])


def _definition(names: tuple[str, ...], shape: tuple[Extent, ...], axes: tuple[Axis, ...],
                body: Any) -> Computed:
    values, reducer, reduced = (body if isinstance(body, tuple) else (body,)), None, ()
    if isinstance(body, Reduce):
        values, reducer, reduced = (body.value,), body.op, body.axes
    if isinstance(body, Reduction):
        values, reducer, reduced = body.values, body.reducer, body.axes
    for value in values:
        if isinstance(value, LaneSum):
            raise ValueError(f"Sum in lanes in {names[0]} must be all that a compute defines")
        if isinstance(value, Reduction) or any(isinstance(n, Reduce) for n in walk(value)):
            raise ValueError(f"Reduction in {names[0]} must be the outermost operation of its body")
    if len(values) != len(names):
        raise ValueError(f"Body of {names[0]} must have {len(names)} values, one for each name, "
                         f"not {len(values)}")
    return Computed(names, shape, axes, values, reducer, reduced)


def scan(shape: tuple[Extent, ...], init: Any, step: Callable[[Any, Expr], Any],
         name: str | tuple[str, ...]) -> Any:
    """Define the states of a recurrence; the first dimension of `shape` is time.

    At time 0, ``name[0, i, ...] = init(i, ...)``. At every later time `t` the elements are those of
    the tensor ``step(name, t)``, whose shape is that of one time; it and whatever it is computed
    from may read ``name[t - 1, ...]`` and earlier. For several states, `name` is a tuple, `init`
    a tuple of functions, and `step` takes and gives tuples.

    >>> x = placeholder((8,), "int32", name="x")
    >>> total = scan((8,), lambda: x[0], lambda s, t: compute(
    ...     (), lambda: s[t - 1] + x[t], name="next"), name="total")
    >>> total.shape
    (8,)
    """
    names = name if isinstance(name, tuple) else (name,)
    first = init if isinstance(init, tuple) else (init,)
    if len(first) != len(names):
        raise ValueError(f"Beginnings of {names[0]} must be {len(names)}, one for each state, "
                         f"not {len(first)}")
    if not shape or isinstance(shape[0], int) and shape[0] < 2:
        raise ValueError(f"Scan {names[0]} must have two times or more, not shape {shape}")
    inner = tuple(shape[1:])
    beginnings = []
    for state, fn in zip(names, first):
        axes = _axes(inner, fn, state)
        value = fn(*(axis.var for axis in axes))
        beginnings.append(_definition((state,), inner, axes, value))
    states = tuple(Tensor(Buffer(state, tuple(shape), begin.values[0].dtype))
                   for state, begin in zip(names, beginnings))
    time = Var(f"{names[0]}_t")
    stepped = step(states if isinstance(name, tuple) else states[0], time + 1)
    steps = stepped if isinstance(stepped, tuple) else (stepped,)
    _check_steps(states, steps, inner)
    definition = Scan(names, tuple(shape), time, tuple(beginnings), steps)
    tensors = tuple(Tensor(replace(state.buffer, definition=definition)) for state in states)
    return tensors if isinstance(name, tuple) else tensors[0]


def _check_steps(states: tuple[Tensor, ...], steps: tuple[Tensor, ...], inner: tuple[Extent, ...]):
    if len(steps) != len(states):
        raise ValueError(f"Steps of {states[0].name} must be {len(states)} tensors, one for each "
                         f"state, not {len(steps)}")
    for state, step in zip(states, steps):
        definition = step.buffer.definition
        if not isinstance(definition, Computed) or len(definition.names) > 1:
            raise ValueError(f"Step of {state.name} must be computed by itself, not {step.name!r}")
        if (step.shape, step.dtype) != (inner, state.dtype):
            raise ValueError(f"Step of {state.name} must be {state.dtype}{list(inner)}, "
                             f"not {step.dtype}{list(step.shape)}")


def _reducer(op: str):
    def reduce(value: Expr, axis: Axis | tuple[Axis, ...]) -> Reduce:
        return Reduce(op, value, _reduced(op, axis))
    reduce.__name__, reduce.__doc__ = op, f"{op.capitalize()} of `value` over `axis`."
    return reduce


def _reduced(op: str, axis: Axis | tuple[Axis, ...]) -> tuple[tuple[Var, Extent], ...]:
    """The axes of a reduction, which must be such."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    for reduced in axes:
        if reduced.kind != "reduce":
            raise ValueError(f"Axis of {op} must be a reduce_axis, not {reduced.name!r}")
    return tuple((reduced.var, reduced.extent) for reduced in axes)


def sum(value: Expr, axis: Axis | tuple[Axis, ...], lanes: int = 1) -> Any:     # noqa: A001
    """Sum of `value` over `axis`: one term after the other, or in `lanes` (see `LaneSum`)."""
    axes = _reduced("sum", axis)
    return Reduce("sum", value, axes) if lanes == 1 else LaneSum(value, axes, lanes)


max = _reducer("max")               # noqa: A001 - the field's own name, always used as te.max
min = _reducer("min")               # noqa: A001


def const(value, dtype: str) -> Const:
    expr = as_expr(value, dtype)
    assert isinstance(expr, Const)
    return expr


def cast(value: Expr, dtype: str) -> Expr:
    return value.astype(dtype)


def select(condition: Expr, a, b) -> Select:
    """`a` where `condition` holds, else `b`; Python numbers adopt the other side's type.

    Only the chosen side is computed: what the other one would read, outside a tensor perhaps, is
    never read, by any back end.
    """
    a = a if isinstance(a, Expr) else as_expr(a, b.dtype)
    return Select(condition, a, as_expr(b, a.dtype))


def all_of(*conditions: Expr) -> Expr:
    """Conjunction of conditions."""
    result = conditions[0]
    for condition in conditions[1:]:
        result = Binary("and", result, condition)
    return result


def any_of(*conditions: Expr) -> Expr:
    """Disjunction of conditions."""
    result = conditions[0]
    for condition in conditions[1:]:
        result = Binary("or", result, condition)
    return result


def maximum(a: Expr, b) -> Expr:
    return Binary("max", a, as_expr(b, a.dtype))


def minimum(a: Expr, b) -> Expr:
    return Binary("min", a, as_expr(b, a.dtype))


def clamp(value: Expr, low, high) -> Expr:
    """``min(max(value, low), high)``."""
    return minimum(maximum(value, low), high)


def rshift_rne(value: Expr, amount) -> Expr:
    """``value / 2**amount``, rounded half to even, once; `amount` from 0 to its width - 1."""
    return Binary("rshift_rne", value, as_expr(amount, value.dtype))


def abs(value: Expr) -> Call: return Call("abs", (value,))         # noqa: A001
def erf(value: Expr) -> Call: return Call("erf", (value,))
def exp(value: Expr) -> Call: return Call("exp", (value,))
def rint(value: Expr) -> Call: return Call("rint", (value,))
def sqrt(value: Expr) -> Call: return Call("sqrt", (value,))
def tanh(value: Expr) -> Call: return Call("tanh", (value,))


def tf32(value: Expr) -> Call:
    """A float32 rounded to the 10 bits of mantissa that tensor cores take, ties away from zero."""
    return Call("tf32", (value,))
