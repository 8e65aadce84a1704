"""The values that an importer sees of a network: tensors that are known or computed, with NumPy's
manner.

A `Value` is a name in the graph that is being built, or an array, or both. Arithmetic on values
adds nodes to the graph; constants alone are computed at once.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from compiler.frontend.building import small_types
from compiler.frontend.building.refusal import NodeRefused
from compiler.graph.fusion import MOST_INPUTS
from compiler.graph.graph import DTYPES, Graph, Node, TensorType
from compiler.ops.registry import infer
from compiler.graph.reference import evaluate_node
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.graph.room import VARIABLE, most_bytes
from compiler.te import SMALL, is_float, is_integer, numpy_dtype


def dtype_name(dtype: np.dtype) -> str:
    return "string" if dtype.kind in "OUS" else dtype.name


def frozen(array: np.ndarray) -> np.ndarray:
    """The array, dense and read-only from now on: graphs then share it."""
    array = np.ascontiguousarray(array) if array.ndim else array
    if array.flags.writeable and array.flags.owndata:
        array.flags.writeable = False
    return array


class Value:
    """A tensor of a network.

    `name` is its name in the graph, if it stands there already; `array` its elements, if they are
    known: always, or (`given`) for this run alone. `role` is what a refusal calls it. One of a type
    of `SMALL` has the name of what carries it (`compiler.frontend.building.small_types`); `numbers`
    gives its numbers where they are there already.
    """

    __slots__ = ("array", "dtype", "given", "name", "numbers", "role", "shape", "tracer")

    def __init__(self, tracer: "Tracer", shape: Sequence[int], dtype: str, name: str | None = None,
                 array: np.ndarray | None = None, given: bool = False, role: str = ""):
        self.tracer, self.shape, self.dtype = tracer, tuple(shape), dtype
        self.name, self.array, self.given, self.role = name, array, given, role or name or ""
        self.numbers: Callable[[], Value] | None = None

    def __repr__(self) -> str:
        return f"{self.role or 'a constant'}: {self.dtype}{list(self.shape)}"

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def constant(self) -> bool:
        """True if the elements are known, whatever the inputs of the network are."""
        return self.array is not None and not self.given

    def _emit(self, op: str, *others: Any, **attrs: Any) -> "Value":
        return self.tracer.emit(op, self, *others, **attrs)

    def __add__(self, other: Any) -> "Value": return self._emit("add", other)
    def __radd__(self, other: Any) -> "Value": return self._emit("add", other)
    def __sub__(self, other: Any) -> "Value": return self._emit("sub", other)
    def __rsub__(self, other: Any) -> "Value": return self.like(other)._emit("sub", self)
    def __mul__(self, other: Any) -> "Value": return self._emit("mul", other)
    def __rmul__(self, other: Any) -> "Value": return self._emit("mul", other)
    def __truediv__(self, other: Any) -> "Value": return self._emit("div", other)
    def __rtruediv__(self, other: Any) -> "Value": return self.like(other)._emit("div", self)
    def __neg__(self) -> "Value": return self._emit("neg")
    def __invert__(self) -> "Value": return self._emit("not")
    def __and__(self, other: Any) -> "Value": return self._emit("and", other)
    def __or__(self, other: Any) -> "Value": return self._emit("or", other)
    def __lt__(self, other: Any) -> "Value": return self._emit("less", other)
    def __le__(self, other: Any) -> "Value": return self._emit("less_equal", other)
    def __gt__(self, other: Any) -> "Value": return self.like(other)._emit("less", self)
    def __ge__(self, other: Any) -> "Value": return self.like(other)._emit("less_equal", self)
    def __pow__(self, other: Any) -> "Value": return self._emit("pow", other)
    def equal(self, other: Any) -> "Value": return self._emit("equal", other)
    def maximum(self, other: Any) -> "Value": return self._emit("maximum", other)
    def minimum(self, other: Any) -> "Value": return self._emit("minimum", other)
    def abs(self) -> "Value": return self._emit("abs")
    def exp(self) -> "Value": return self._emit("exp")
    def log(self) -> "Value": return self._emit("log")
    def sqrt(self) -> "Value": return self._emit("sqrt")
    def tanh(self) -> "Value": return self._emit("tanh")

    def like(self, other: Any) -> "Value":
        """`other` as a value: a number adopts the type of this one."""
        return other if isinstance(other, Value) else self.tracer.constant(
            np.asarray(other).astype(numpy_dtype(self.dtype)))

    def where(self, yes: Any, no: Any) -> "Value":
        """`yes` where this holds, else `no`; one of them at least is a value."""
        first = yes if isinstance(yes, Value) else no
        return self._emit("where", first.like(yes), first.like(no))

    def retyped(self, dtype: str) -> "Value":
        """The value of the same name as a small type that it carries, or as the carrier."""
        return Value(self.tracer, self.shape, dtype, self.name, None, self.given, self.role)

    def astype(self, dtype: str) -> "Value":
        return self if dtype == self.dtype else self._emit("cast", to=dtype)

    def reshape(self, *shape: int) -> "Value":
        return self if shape == self.shape else self._emit("reshape", shape=shape)

    def transpose(self, *perm: int) -> "Value":
        return self if perm == tuple(range(self.rank)) else self._emit("transpose", perm=perm)

    def expand(self, *shape: int) -> "Value":
        return self if shape == self.shape else self._emit("expand", shape=shape)

    def unsqueeze(self, *axes: int) -> "Value":
        """Inserts axes of extent 1, which stand at these places afterwards."""
        rank = self.rank + len(axes)
        places, rest = axes_of(axes, rank), iter(self.shape)
        return self.reshape(*(1 if axis in places else next(rest) for axis in range(rank)))

    def sum(self, *axes: int, keepdims: int = 0) -> "Value":
        return self._emit("reduce_sum", axes=sorted(axes), keepdims=keepdims)

    def max(self, *axes: int, keepdims: int = 0) -> "Value":
        return self._emit("reduce_max", axes=sorted(axes), keepdims=keepdims)

    def mean(self, *axes: int, keepdims: int = 0) -> "Value":
        count = prod(self.shape[axis] for axis in axes)
        if is_float(self.dtype) and self.dtype not in ("float32", "float64"):
            wide = self.astype("float32").mean(*axes, keepdims=keepdims)
            return wide.astype(self.dtype)
        return self.sum(*axes, keepdims=keepdims) / count

    def cut(self, axis: int, begin: int, end: int, step: int = 1) -> "Value":
        """Elements `begin` to before `end` along one axis; `step` may be negative."""
        first = range(begin, end, step)
        extent = len(first)
        if step < 0 and extent:
            return self.cut(axis, first[-1], first[0] + 1, -step)._emit("reverse", axes=(axis,))
        if extent == 0:
            shape = (*self.shape[:axis], 0, *self.shape[axis + 1:])
            return self.tracer.constant(np.empty(shape, numpy_dtype(self.dtype)))
        if (begin, first[-1] + 1, step) == (0, self.shape[axis], 1):
            return self
        sides = [[0] * self.rank, list(self.shape), [1] * self.rank]
        for side, number in zip(sides, (begin, first[-1] + 1, step), strict=True):
            side[axis] = number
        return self._emit("slice", **dict(zip(("begin", "end", "step"), sides, strict=True)))


def axes_of(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """The axes counted from the front, in their order; each must be within the rank."""
    for axis in axes:
        if not -rank <= axis < rank:
            raise NodeRefused(f"axis must be -{rank} to {rank - 1}, not {axis}")
    return tuple(int(axis) % rank for axis in axes)


def require_parts(count: int) -> None:
    """Refuses to divide a value into more parts than a graph may have nodes."""
    if count > MOST_NODES:
        raise NodeRefused(f"it must make {MOST_NODES:,} parts at most, not {count:,}")


MOST_NODES = 50_000
"""The most nodes of a graph: loops and sequences are unrolled, and a few bytes in a file say their
lengths.
"""

SHARE, GROWTH = 8, 16
"""Constants that an importer computes may take one part in `SHARE` of what a network may take, and
`GROWTH` times what the model's own take.
"""

MOST_STEPS = 60_000
"""Nodes of a model that an importer looks at and constants that it computes, loops unrolled and
functions put in.
"""

Run = Callable[[Graph, Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]
"""Computes the outputs of a graph for its inputs."""


class Tracer:
    """A graph that is built value by value.

    Without `feeds` values are known only when they are constants. With them, an array for each
    input of the graph, everything can be known: `demand` runs what has been built so far.

    `bound` are the inputs whose elements decided about the graph, `staged` says whether computed
    elements did.
    """

    def __init__(self, builder: Builder, run: Run | None = None):
        self.builder, self.run = builder, run
        self.feeds: dict[str, np.ndarray] = {}
        self.bound: dict[str, np.ndarray] = {}
        self.staged = False
        self.own_bytes = self.computed_bytes = 0
        self.steps, self.most_nodes = 0, MOST_NODES
        self.names_of_constants: set[str] = set()
        self.training: Any = None       # an InTraining of compiler.frontend.building.training
        self.current = "node"

    def input(self, name: str, type_: TensorType, array: np.ndarray | None = None) -> Value:
        self.builder.add_input(name, type_)
        if array is not None:
            self.feeds[name] = array
        value = Value(self, type_.shape, type_.dtype, name)
        return self._unpacked(value) if type_.dtype in SMALL else value

    def _unpacked(self, value: Value) -> Value:
        """An input of a small type, by what carries it."""
        name = value.name or ""
        codes = self.builder.fresh(f"{name}.codes")
        self.builder.emit("bitcast", self.builder.fresh_node(codes), [name], codes, to="uint8")
        around, self.current = self.current, name
        try:
            return small_types.from_bytes(Value(self, value.shape, "uint8", codes), value.dtype)
        finally:
            self.current = around

    def constant(self, array: Any, role: str = "", given: bool = False) -> Value:
        """Elements that are known; those of the model itself have a name as their role."""
        array = np.asarray(array)
        if role:
            self.own_bytes += array.nbytes
        return Value(self, array.shape, dtype_name(array.dtype), None, array, given, role)

    def emit(self, op: str, *operands: Any, **attrs: Any) -> Value:
        """The result of a graph operator. Constants alone are computed at once, and so is what has
        an operand without elements, or of a type that processors lack; but quantized weights stay
        as they are.
        """
        if op == "concat" and len(operands) > MOST_INPUTS:
            operands = tuple(self.emit(op, *operands[first:first + MOST_INPUTS], **attrs)
                             for first in range(0, len(operands), MOST_INPUTS))
            return self.emit(op, *operands, **attrs)
        like = next(operand for operand in operands if isinstance(operand, Value))
        values = [like.like(operand) for operand in operands]
        if self.run is None and any(value.dtype in SMALL for value in values) and any(
                value.array is None for value in values):
            return small_types.answered(self, op, values, attrs)
        empty = any(0 in value.shape or value.dtype not in DTYPES for value in values)
        if empty or all(value.constant for value in values) and op not in (
                "dequantizelinear", "decodefloat"):
            return self._folded(op, values, attrs, empty)
        if len(self.builder.nodes) >= self.most_nodes:
            raise NodeRefused(f"the network must have {self.most_nodes:,} operators at most, loops "
                              "and sequences unrolled")
        inputs = tuple(self.enter(value) for value in values)
        name = self.builder.fresh_node(f"{self.current}.{op}")
        output = self.builder.fresh(f"{self.current}.{op}")
        self.builder.add(Node(op, name, inputs, (output,), attrs))
        kind = self.builder.values[output]
        return Value(self, kind.shape, kind.dtype, output)

    def count(self) -> None:
        """Counts a step, and refuses it when there are too many."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise NodeRefused(f"the model must take {MOST_STEPS:,} steps at most, loops unrolled "
                              "and functions put in")

    def _folded(self, op: str, values: list[Value], attrs: dict, empty: bool) -> Value:
        self.count()
        arrays = [self.demand(value, "operand") for value in values]
        node = Node(op, self.current, tuple(f"x{place}" for place in range(len(values))), ("y",),
                    attrs)
        if not empty:
            result = infer(node, [TensorType.of(array) for array in arrays])
            self.check_size(result.shape, result.dtype)
        else:
            self._check_unusual(node, values)
        with np.errstate(all="ignore"):
            result = evaluate_node(node, arrays)
        return self.constant(frozen(np.asarray(result)), given=any(value.given for value in values))

    def _check_unusual(self, node: Node, values: list[Value]) -> None:
        """`check_size` for tensors without elements, or of a type that processors lack: as if they
        had one element, of a type as wide. Where no rule tells, the result is as large as what it
        is made of.
        """
        widths = [_itemsize(value.dtype) for value in values]
        types = [TensorType(tuple(max(extent, 1) for extent in value.shape),
                            value.dtype if value.dtype in DTYPES else STAND_INS[width])
                 for value, width in zip(values, widths, strict=True)]
        try:
            inferred = infer(node, types)
        except ValueError:              # TypeRefused, and extents of 0 that are told
            return
        self.check_size((*inferred.shape, max(widths)), "int8")

    def check_size(self, shape: Sequence[int], dtype: str) -> None:
        """Counts a constant that is computed while a model is read, and refuses it when that would
        be too much.
        """
        left = most_bytes() // SHARE + GROWTH * self.own_bytes - self.computed_bytes
        size = prod(shape) * _itemsize(dtype)
        if size > left or min(shape, default=1) < 0:
            raise NodeRefused(f"its result must have {left:,} bytes at most and no extent below 0, "
                              f"not the shape {tuple(shape)}; {VARIABLE}, in GiB, sets how much")
        self.computed_bytes += size

    def computed(self, rule: Callable[..., Any], *values: Value) -> Any:
        """The result of a function of NumPy of the elements, one array or a tuple of them."""
        self.settle(values)
        arrays = [self.demand(value, "data") for value in values]
        with np.errstate(all="ignore"):
            results = rule(*arrays)
        given = any(value.given for value in values)
        if isinstance(results, tuple):
            return tuple(self.constant(result, given=given) for result in results)
        return self.constant(results, given=given)

    def enter(self, value: Value) -> str:
        """The name of the value in the graph; it comes there with its first reader."""
        if value.name is None:
            assert value.array is not None
            if value.dtype not in DTYPES:
                raise NodeRefused(f"{value.role or 'a constant'} must be of one of the types "
                                  f"{', '.join(DTYPES)}, not {value.dtype}")
            type_ = TensorType.of(value.array)
            own = value.role in self.names_of_constants and value.role not in self.builder.values
            name = value.role if own else self.builder.fresh(
                value.role or f"{self.current}.constant")
            if value.given:
                self.builder.add_input(name, type_)
                self.feeds[name] = value.array
            else:
                self.builder.add_constant(name, value.array)
            value.name = name
        return value.name

    def demand(self, value: Value, role: str) -> np.ndarray:
        """The elements, which must be constants unless the graph can be run."""
        if value.array is None:
            if self.run is None:
                raise NodeRefused(f"its {role} {value.role!r} must be a constant")
            self.settle([value])
        assert value.array is not None
        return value.array

    def integers(self, value: Value, role: str) -> list[int]:
        """The elements of a constant tensor of integers; refuses other types."""
        array = self.demand(value, role)
        if array.dtype.kind not in "iu":
            raise NodeRefused(f"its {role} {value.role!r} must hold integers, not "
                              f"{dtype_name(array.dtype)}")
        return array.reshape(-1).tolist()

    def integer(self, value: Value, role: str) -> int:
        """The one element of a constant tensor of integers; refuses other types and sizes."""
        elements = self.integers(value, role)
        if len(elements) != 1:
            raise NodeRefused(f"its {role} {value.role!r} must have 1 element, not "
                              f"{len(elements)}")
        return elements[0]

    def greatest(self, value: Value) -> int | None:
        """The limit of an integer without known elements; None where nothing says it."""
        if self.run is not None or value.array is not None or not is_integer(value.dtype):
            return None
        makers = {node.outputs[0]: node for node in self.builder.nodes}
        return _greatest(value.name or "", makers, self.builder.constants)

    def told(self, place: int = 0) -> tuple[int, ...] | None:
        """The shape that the network declares for a result of the current node, if it does."""
        return None

    def declared(self, value: Value, role: str, place: int = 0) -> tuple[int, ...] | None:
        """The declared shape of a result, where the elements that decide about it are computed.
        None where these are known, or nothing is declared.
        """
        if value.array is not None or self.run is not None:
            return None
        shape = self.told(place)
        if shape is not None:
            note = (f"{self.current}: its result has the declared shape {list(shape)}, whatever "
                    f"{value.role!r} ({role}) holds")
            self.builder.notes.extend({note}.difference(self.builder.notes))
        return shape

    def settle(self, values: Sequence[Value]) -> None:
        """Makes the elements of all the values known, in one run."""
        for value in values:
            if value.array is None and value.name in self.feeds:
                value.array, value.given = self.feeds[value.name], True
                self.bound[value.name] = value.array
        waiting = [value for value in values if value.array is None]
        if waiting and self.run is not None:
            self.staged = True
            graph = without_idle_inputs(eliminate_dead_code(
                self.builder.finish(dict.fromkeys(value.name or "" for value in waiting))))
            computed = self.run(graph, {name: self.feeds[name] for name in graph.inputs})
            for value in waiting:
                assert value.name is not None
                value.array, value.given, value.name = computed[value.name], True, None


def _greatest(name: str, makers: Mapping[str, Node], constants: Mapping[str, np.ndarray]
              ) -> int | None:
    if name in constants:
        return int(constants[name].max())
    node = makers.get(name)
    if node is None or node.op not in ("minimum", "reshape", "identity"):
        return None
    known = [most for operand in node.inputs
             if (most := _greatest(operand, makers, constants)) is not None]
    return min(known, default=None)


STAND_INS = {1: "int8", 2: "int16", 4: "float32", 8: "float64"}


def _itemsize(dtype: str) -> int:
    return np.dtype(object if dtype == "string" else dtype).itemsize


def without_idle_inputs(graph: Graph) -> Graph:
    read = {value for node in graph.nodes for value in node.inputs} | set(graph.outputs)
    inputs = tuple(name for name in graph.inputs if name in read)
    values = {name: type_ for name, type_ in graph.values.items()
              if name in read or name not in graph.inputs}
    return Graph(graph.name, inputs, graph.outputs, graph.nodes, values, graph.constants,
                 graph.notes)

