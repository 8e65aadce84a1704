"""Rules of algebra that hold for every element to the bit: what a node is the same as.

A rule of `SAME` gives the value that the node's result is; one of `SHORTER` a node that makes the
same result from a value further up. Neither looks at readers.

What holds for one operator alone, its record says (`compiler.ops.records.operator.Algebra`).

Floats have fewer rules than numbers. Kept, because they change results:

- ``x * 0`` and ``x - x``: NaN and infinities stay NaN, and a zero has a sign;
- ``x + 0``: gives 0 for -0. So -0 may be added, 0 subtracted, and either to what is never -0;
- sums and products in another order: they round otherwise;
- ``cast`` through a type that cannot hold every element, and of floats to integers through another
  float type: what is out of range is not defined.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import copysign, inf

import numpy as np

from compiler import te
from compiler.graph.graph import Graph, Node, TensorType
from compiler.ops.registry import find

Rule = Callable[["GraphView", Node], str | Node | None]


@dataclass(frozen=True, slots=True)
class GraphView:
    """The graph as rules see it: types and constants of the graph, and the nodes before the one in
    hand."""

    graph: Graph
    producers: Mapping[str, Node]

    def type(self, value: str) -> TensorType:
        return self.graph.values[value]

    def keeps(self, node: Node, place: int = 0) -> bool:
        """True if the result has the type of this input."""
        return self.type(node.outputs[0]) == self.type(node.inputs[place])

    def before(self, node: Node, *ops: str, place: int = 0) -> Node | None:
        """The node that makes this input, if it is one of these operators."""
        producer = self.producers.get(node.inputs[place])
        return producer if producer is not None and producer.op in ops else None


# What gives back its input


def _unchanged(view: GraphView, node: Node) -> str | None:
    """reshape(x) to its own shape, concat(x), clip(x) to all numbers, ..."""
    unchanged = find(node.op).algebra.unchanged
    if unchanged is None:
        return None
    types = [view.type(value) for value in node.inputs]
    return node.inputs[0] if unchanged(node.attrs, types, view.type(node.outputs[0])) else None


def _neutral(view: GraphView, node: Node) -> str | None:
    """x + 0, 1 * x, x / 1, ...: where the constant does not widen the shape."""
    algebra = find(node.op).algebra
    if algebra.neutral is None:
        return None
    for place in (0, 1) if algebra.commutes else (0,):
        constant = view.graph.constants.get(node.inputs[1 - place])
        if constant is not None and view.keeps(node, place) and _is_neutral(view, node, place,
                                                                            constant):
            return node.inputs[place]
    return None


def _is_neutral(view: GraphView, node: Node, place: int, constant: np.ndarray) -> bool:
    if node.op == "and":
        return not np.invert(constant).any()
    if not (constant == find(node.op).algebra.neutral).all():
        return False
    if node.op not in ("add", "sub") or not te.is_float(constant.dtype.name):
        return True
    negative = np.signbit(constant.astype(np.float64))
    return bool((negative == (node.op == "add")).all()) or _never_minus_zero(view, node, place)


def _never_minus_zero(view: GraphView, node: Node, place: int) -> bool:
    producer = view.producers.get(node.inputs[place])
    if producer is None:
        return False
    if producer.op == "cast":
        return not te.is_float(view.type(producer.inputs[0]).dtype)
    return find(producer.op).algebra.never_minus_zero


def _undone(view: GraphView, node: Node) -> str | None:
    """The operator before is undone: -(-x), a transpose put back, a cast there and back."""
    inverse = find(node.op).algebra.inverse
    inner = view.before(node, inverse or node.op)
    if inner is None:
        return None
    match node.op:
        case "transpose":
            undone = _composed(inner, node) == tuple(range(len(inner.attrs["perm"])))
        case "reverse":
            undone = sorted(inner.attrs["axes"]) == sorted(node.attrs["axes"])
        case "cast":
            first, second, third = _dtypes(view, inner, node)
            undone = first == third and _holds(second, first)
        case "reshape":
            undone = view.type(inner.inputs[0]) == view.type(node.outputs[0])
        case _:
            undone = bool(inverse)
    return inner.inputs[0] if undone else None


def _again(view: GraphView, node: Node) -> str | None:
    """The operator before already did this: abs(abs(x)), max(max(x, a), a), clip within bounds."""
    idempotent, count = find(node.op).algebra.idempotent, len(node.inputs)
    if idempotent and count == 1 and view.before(node, node.op):
        return node.inputs[0]
    for place in (0, 1) if idempotent and count == 2 else ():
        inner = view.before(node, node.op, place=place)
        other = 1 - place
        if inner and inner.inputs[other] == node.inputs[other] and view.keeps(node, place):
            return node.inputs[place]
    clamped = _clamps(view, node)
    if clamped and clamped[0].outputs == (node.inputs[clamped[2]],) and (
            clamped[1] == _bounds(view, clamped[0])):
        return node.inputs[clamped[2]]
    return None


def _no_choice(view: GraphView, node: Node) -> str | None:
    """max(x, x), where(c, x, x)."""
    if find(node.op).algebra.idempotent and len(node.inputs) > 1:
        *_, first, second = node.inputs
        if first == second and view.keeps(node, len(node.inputs) - 1):
            return first
    return None


# What can be had from further up


def _reached(view: GraphView, node: Node) -> Node | None:
    """reshape(reshape(x)), expand(expand(x)), abs(-x): the inner one does not matter."""
    absorbed = find(node.op).algebra.absorbs
    inner = view.before(node, absorbed) if absorbed else None
    return replace(node, inputs=inner.inputs) if inner else None


def _transposed(view: GraphView, node: Node) -> Node | None:
    inner = view.before(node, "transpose") if node.op == "transpose" else None
    return inner and replace(node, inputs=inner.inputs, attrs={"perm": _composed(inner, node)})


def _composed(inner: Node, outer: Node) -> tuple[int, ...]:
    return tuple(inner.attrs["perm"][axis] for axis in outer.attrs["perm"])


def _cast(view: GraphView, node: Node) -> Node | None:
    inner = view.before(node, "cast") if node.op == "cast" else None
    if inner is None:
        return None
    first, second, third = _dtypes(view, inner, node)
    defined = te.is_float(third) or third == "bool" or not te.is_float(first) and (
        not te.is_float(second) or _holds(third, first))
    return replace(node, inputs=inner.inputs) if defined and _holds(second, first) else None


def _dtypes(view: GraphView, inner: Node, outer: Node) -> tuple[str, str, str]:
    return (view.type(inner.inputs[0]).dtype, view.type(inner.outputs[0]).dtype,
            view.type(outer.outputs[0]).dtype)


PRECISION = {"float16": (11, 16), "bfloat16": (8, 128), "float32": (24, 128),
             "float64": (53, 1024)}
"""Bits of the significand and the greatest exponent."""


def _holds(wide: str, narrow: str) -> bool:
    """True if the first type has every value of the second."""
    if narrow == "bool" or wide == narrow:
        return True
    if wide in PRECISION and narrow in PRECISION:
        return all(a >= b for a, b in zip(PRECISION[wide], PRECISION[narrow], strict=True))
    if wide in PRECISION:
        return te.bits(narrow) - te.is_signed(narrow) <= PRECISION[wide][0]
    return wide != "bool" and narrow not in PRECISION and np.can_cast(narrow, wide, "safe")


def _clamped(view: GraphView, node: Node) -> Node | None:
    """clip(relu(x)), min(max(x, a), b), ...: one relu or clip, of float32."""
    clamped = _clamps(view, node)
    if clamped is None:
        return None
    inner, (lo, hi), _ = clamped
    source = inner.inputs[_clamped_place(view, inner)]
    if (lo, hi) == (0, inf):
        return Node("relu", node.name, (source,), node.outputs)
    return Node("clip", node.name, (source,), node.outputs, {"lo": lo, "hi": hi})


Bounds = tuple[float, float]


def _clamps(view: GraphView, node: Node) -> tuple[Node, Bounds, int] | None:
    """The clamp before a clamp, the bounds of both together, and which input it is."""
    outer = _bounds(view, node)
    if outer is None:
        return None
    place = _clamped_place(view, node)
    inner = view.before(node, "relu", "clip", "minimum", "maximum", place=place)
    first = _bounds(view, inner) if inner else None
    if inner is None or first is None:
        return None
    lo, hi = (min(max(bound, outer[0]), outer[1]) for bound in first)
    return inner, (lo, hi), place


def _bounds(view: GraphView, node: Node) -> Bounds | None:
    """The range that a node leaves of all numbers, as `clip` says it; None where it is no such
    node. -0 is no bound: which of two zeros is the greater is not defined.
    """
    if view.type(node.outputs[0]).dtype != "float32":
        return None
    bounds = find(node.op).bounds
    if bounds is not None:
        lo, hi = (float(np.float32(bound)) for bound in bounds(node.attrs))
    elif node.op in ("minimum", "maximum"):
        bound = _number(view, node)
        lo, hi = (-inf, bound) if node.op == "minimum" else (bound, inf)
    else:
        return None
    if any(b != b or b == 0 and copysign(1, b) < 0 for b in (lo, hi)):
        return None
    return lo, hi


def _number(view: GraphView, node: Node) -> float:
    """The constant that all elements of the other input are compared with, NaN where there is
    none. A zero must be the second: which one is taken of two zeros depends on the order.
    """
    place = _clamped_place(view, node)
    constant = view.graph.constants.get(node.inputs[1 - place])
    if constant is None or constant.size != 1 or not view.keeps(node, place):
        return np.nan
    number = float(constant.item())
    return np.nan if place == 1 and number == 0 else number


def _clamped_place(view: GraphView, node: Node) -> int:
    return int(len(node.inputs) == 2 and node.inputs[0] in view.graph.constants)


SAME: tuple[Rule, ...] = (_unchanged, _neutral, _undone, _again, _no_choice)
SHORTER: tuple[Rule, ...] = (_reached, _transposed, _cast, _clamped)
