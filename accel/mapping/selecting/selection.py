"""Which declared instructions compute an element-wise integer operator.

The operator's record gives the expression of an element; `select` covers it with the bodies of the
machine's vector instructions (`compiler.tensorize.cover`). Nothing here knows an operator or an
instruction by name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from accel.machine.machine import Machine
from accel.mapping.lowering.nest import LoweringError
from compiler import te
from compiler.graph.graph import Graph, Node
from compiler.ops.records.operator import Kind, Numbers
from compiler.ops.registry import expression, find
from compiler.te import Cast, Const, Expr, Read, Tensor, children, rewrite, substitute, walk
from compiler.tensorize import Intrinsic
from compiler.tensorize.cover import (COMPUTED, CONSTANTS, CoverStep, Uncovered, cover, leaf,
                                      plain_text, table)

INPUTS, RESULTS = "res", "out"
"""The buffers that inputs are loaded into, and that results are stored from."""

_STORED = ("uint8", "int8", "uint16", "int16", "int32")
"""The types of constants, the narrowest first."""


@dataclass(frozen=True)
class Selection:
    """The instructions that compute an operator, and their operands.

    steps : the instructions, in order; the last one writes the result.
    inputs : for each leaf that is an activation, or a constant of the result's shape, its name in
        `steps` and the input of the node.
    constants : for each leaf that is a constant of each channel, its name in `steps` and the array.
    tables : for each table, its name in `steps` and the array.
    """

    steps: tuple[CoverStep, ...]
    inputs: Mapping[str, str]
    constants: Mapping[str, np.ndarray]
    tables: Mapping[str, np.ndarray]


def is_elementwise(node: Node) -> bool:
    """True if the operator computes each int8 element from those at its own place."""
    record = find(node.op)
    return record.kind is Kind.ELEMENTWISE and record.numbers is Numbers.INTEGER


def select(machine: Machine, graph: Graph, node: Node) -> Selection:
    """The cheapest composition of the machine's vector instructions that computes the node to the
    bit. Refuses an operator that none computes.
    """
    element, inputs, constants, tables = element_of(graph, node)
    return Selection(covered(machine, element, RESULTS), inputs, constants, tables)


def covered(machine: Machine, value: Expr, scope: str, total: str = "", lanes: bool = True
            ) -> tuple[CoverStep, ...]:
    """The cheapest vector instructions that compute an expression of leaves, as
    `compiler.tensorize.cover.cover` has it. Refuses one that none computes.
    """
    steps = _once_covered(machine, value, scope, total, lanes)
    if isinstance(steps, str):
        reduced = f"the {total} over the {'lanes' if lanes else 'elements'} of a row of "
        reduced = reduced if total else ""
        raise LoweringError(f"no vector instruction computes {reduced}{steps}")
    return steps


def takes_sums_and_more(intrinsic: Intrinsic) -> bool:
    """True if an instruction reads sums, a record of channels, and a tensor beside them."""
    reads = [operand.scopes for operand in intrinsic.operands]
    return any(COMPUTED in sums and INPUTS in tensor and CONSTANTS in record
               for sums, tensor, record in permutations(reads, 3))


def at_once(machine: Machine, value: Expr) -> CoverStep | None:
    """The instruction that by itself computes an expression of leaves in acc, res and par, and
    writes it; None where the machine has none."""
    for one in machine.of_unit("vector"):
        if not takes_sums_and_more(one):
            continue
        try:
            step, *others = cover(value, (one,), RESULTS, step_cost)
        except Uncovered:
            continue
        if not others:
            return step
    return None


def note_of(machine: Machine, graph: Graph, node: Node, selection: Selection) -> str:
    """Which instructions of the user's own compute the node, and what would without them; empty
    where none of them does.
    """
    names = dict.fromkeys(step.intrinsic.name for step in selection.steps)
    own = [name for name in names if name in machine.own]
    if not own:
        return ""
    try:
        steps = select(machine.with_shipped, graph, node).steps
        before = ", ".join(step.intrinsic.name for step in steps)
    except LoweringError:
        before = "on the host"
    return f"by {', '.join(own)} on the accelerator; without: {before}"


KEPT = 4096             # covers

_covers: dict[tuple[str, Expr, str, str, bool], tuple[CoverStep, ...] | str] = {}


def _once_covered(machine: Machine, value: Expr, scope: str, total: str, lanes: bool
                  ) -> tuple[CoverStep, ...] | str:
    """`_cover`, once for machines with the same forms."""
    key = machine.forms_hash, value, scope, total, lanes
    if key not in _covers:
        _covers[key] = _cover(machine, value, scope, total, lanes)
        while len(_covers) > KEPT:
            _covers.pop(next(iter(_covers)))
    return _covers[key]


def _cover(machine: Machine, value: Expr, scope: str, total: str, lanes: bool
           ) -> tuple[CoverStep, ...] | str:
    """The cheapest steps, or the part that has none."""
    try:
        return cover(value, machine.of_unit("vector"), scope, step_cost, total, lanes)
    except Uncovered as error:
        return plain_text(error.value)


def step_cost(step: CoverStep) -> tuple[int, ...]:
    """The cycles of an entry, then what decides between steps that take as many."""
    return (_cycles(step), any(scope == CONSTANTS for *_, scope in step.operands),
            _size(step.intrinsic.value))


def _cycles(step: CoverStep) -> int:
    """Cycles of an entry: two where one buffer is read twice (docs/machine.md, Hazards)."""
    scopes = [scope for *_, scope in step.operands if scope in (COMPUTED, INPUTS)]
    return max(1, len(scopes) - len(set(scopes)) + 1)


def _size(expr: Expr) -> int:
    return 1 + sum(map(_size, children(expr)))


def element_of(graph: Graph, node: Node) -> tuple[Expr, dict[str, str], dict[str, np.ndarray],
                                                dict[str, np.ndarray]]:
    """The expression of an element over leaves, and what these are."""
    types = [graph.values[value] for value in node.inputs]
    given = [te.placeholder(type_.shape, type_.dtype, f"x{position}")
             for position, type_ in enumerate(types)]
    result = expression(node.op, node.attrs, given, "y")
    body = _inlined(result, tuple(axis.var for axis in result.axes))
    rank = len(result.shape)
    sources = {tensor.name: value for tensor, value in zip(given, node.inputs, strict=True)}
    inputs: dict[str, str] = {}
    constants: dict[str, np.ndarray] = {}
    tables: dict[str, np.ndarray] = {}

    def rule(read: Expr) -> Expr | None:
        if not isinstance(read, Read):
            return None
        name, value = read.buffer.name, sources[read.buffer.name]
        if _is_computed(read):
            tables[name] = _table(name, graph, value)
            return table(name, tables[name].size, read.dtype, read.indices[0])
        array = graph.constants.get(value)
        if array is None or _is_tensor(array, result):
            _require_places(read, result, range(rank - len(read.indices), rank))
            inputs[name] = value
            return leaf(name, read.dtype, INPUTS)
        if array.size == 1:
            return te.const(array.item(), read.dtype)
        return leaf_of_constant(name, _among_axes(array, read, result), constants, read.dtype)

    return rewrite(body, rule), inputs, constants, tables


def _is_tensor(array: np.ndarray, result: Tensor) -> bool:
    """True if a constant has an element for each of the result's, as activations have."""
    return (array.dtype.name == result.dtype and array.shape == result.shape
            and sum(extent > 1 for extent in result.shape) > 1)


def _inlined(tensor: Tensor, indices: Sequence[Expr]) -> Expr:
    """The element of a tensor at `indices`, over what its computation began with."""
    if not isinstance(tensor.body, Expr) or tensor.reduce_axes:
        raise LoweringError("it is no expression of one element")
    body = substitute(tensor.body, dict(zip((axis.var for axis in tensor.axes), indices,
                                            strict=True)))
    return rewrite(body, _computed)


def _computed(node: Expr) -> Expr | None:
    """The tensor that a read of a computed tensor reads in the end."""
    if not isinstance(node, Read) or node.buffer.definition is None:
        return None
    definition = node.buffer.definition
    place = definition.names.index(node.buffer.name)
    inner = Tensor(node.buffer, definition.axes, definition.values[place])
    return _inlined(inner, node.indices)


def _among_axes(array: np.ndarray, read: Read, result: Tensor) -> np.ndarray:
    """A constant with all dimensions of the result: its own are the last ones, or, of a vector,
    the one along which it is read.
    """
    rank = len(result.shape)
    places = range(rank - array.ndim, rank)
    if array.ndim == 1:
        places = [place for place, axis in enumerate(result.axes)
                  if axis.var == read.indices[0]] or places
    _require_places(read, result, places)
    extents = dict(zip(places, array.shape, strict=True))
    return array.reshape([extents.get(place, 1) for place in range(rank)])


def _require_places(read: Read, result: Tensor, places: Sequence[int]) -> None:
    """Refuses a read of another place than that of the element along these axes of the result;
    dimensions of one broadcast.
    """
    for place, index, extent in zip(places, read.indices, read.buffer.shape, strict=True):
        if index != result.axes[place].var and not (extent == 1 and index == Const(0, te.INDEX)):
            raise LoweringError(f"its expression reads {read.buffer.name} at another place than "
                                f"its own")


def _is_computed(read: Read) -> bool:
    """True if values decide which element is read."""
    return any(isinstance(node, Read) for index in read.indices for node in walk(index))


def _table(name: str, graph: Graph, value: str) -> np.ndarray:
    array = graph.constants.get(value)
    if array is None or array.ndim != 1:
        raise LoweringError(f"its expression reads {name} at a place that it computes; that is no "
                            "constant of one dimension")
    return array


def leaf_of_constant(name: str, array: np.ndarray, constants: dict[str, np.ndarray], dtype: str
                     ) -> Expr:
    """A constant of each channel, noted in `constants`, as a leaf of the narrowest type that holds
    it, converted to `dtype`, which has all numbers of that type.
    """
    constants[name] = array
    ends = np.array([array.min(), array.max()])
    narrow = next((stored for stored in _STORED
                   if np.can_cast(stored, dtype) and (ends.astype(stored) == ends).all()),
                  array.dtype.name)
    return Cast(leaf(name, narrow, CONSTANTS), dtype)
