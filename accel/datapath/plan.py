"""The datapath of a unit, decided once: hardware emits this plan, simulators read its timing.

All bodies of a unit (`Machine.of_unit`) become one pipeline::

    operands --> stage 0 --> | stage 1 --> | ... --> | value --> update --> destination
                 stage_depth levels between registers

`accel.datapath.dataflow` gives the operations and their widths, `accel.datapath.sharing` lets
bodies share multipliers and shifters, `accel.datapath.placement` places them into stages; here the
bodies are padded to one latency, so that results leave in order.

An update (sum, max, min of the bits of acc) fits one stage and is bypassed: a unit starts an
element every cycle, whatever the order of destinations. With `AccelConfig.vector_beats` an element
of vector is a part of an entry, and parts follow each other. An accumulating element reads its
destination `old_cycles` before its value arrives.

Floats take longer to meet. Where acc holds floats, gemm has a second datapath behind the first
(`DatapathPlan.meeting`), in which value and destination are combined; nothing is bypassed, and an
iteration waits while its destination is on the way: `hazard_cycles` after the one before.

Where the geometry's `dataflow` says so, gemm's products and sums are a systolic array in place of
these stages (`DatapathPlan.array`), which has a latency of its own.

Timing, from the cycle in which an element is issued (its buffer addresses are presented)::

    gemm     operands at 2, value at 2 + latency, written at 3 + latency
             of floats: written at 2 + latency + meeting.latency
    vector   operands at 3, value at 3 + latency, written at 4 + latency
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import prod

import numpy as np

from accel.datapath.array import SystolicArray
from accel.datapath.dataflow import (Dataflow, DataflowNode, Interval, PlanError, meaning,
                                     topological)
from accel.datapath.lowering import lower, shapes_of
from accel.datapath.placement import CONSTANTS, Operation, StagePlacement, merged
from accel.datapath.sharing import share
from accel.machine.config import ADDER_TREE, WEIGHT_STATIONARY
from accel.machine.intrinsics import TABLE, operand_field
from accel.machine.machine import Machine
from accel.machine.structure import UnitKind
from accel.machine.timing import TIMING, CoreTiming
from compiler import te
from compiler.lazy import cached_property
from compiler.te import Expr, Read, Reduce, Var, children, walk
from compiler.tensorize import Intrinsic, Operand

__all__ = ["SELECT_CYCLES", "DatapathPlan", "PlanError", "arranged", "open_instructions", "plan"]

SELECT_CYCLES = {UnitKind.GEMM.value: 0, UnitKind.VECTOR.value: 1}
"""Cycles from the data of the buffers to operands at stage 0: in vector sources are selected into a
register."""


@dataclass(frozen=True, eq=False)
class DatapathPlan:
    """The datapath of a unit; the module's docstring describes it.

    Parameters
    ----------
    unit : its kind, ``gemm`` or ``vector``.
    bodies : the unit's intrinsics, in order of opcodes; `opcodes` are theirs.
    shape : extents of the destination that it computes at once: a tile, or in vector the part of
        a tile that it takes in a cycle.
    interval : cycles between tiles.
    operations : in topological order. `value` is the last, of every body and of acc's type.
    latency : the number of stages.
    meeting : the datapath in which a value of floats meets its destination, with buses `old` and
        `new` and the bodies ``assign`` and every update that occurs; None where there is none.
    timing : the machine's.
    array : the systolic array that computes this instead, stage for element; None where none does.
    """

    unit: str
    bodies: tuple[Intrinsic, ...]
    opcodes: tuple[int, ...]
    shape: tuple[int, ...]
    interval: int
    stage_depth: int
    operations: tuple[Operation, ...]
    value: Operation
    latency: int
    meeting: "DatapathPlan | None" = None
    timing: CoreTiming = TIMING
    array: SystolicArray | None = None

    @property
    def compute_cycles(self) -> int:
        """Cycles from operands to value."""
        return self.array.latency if self.array else self.latency

    @property
    def operand_cycles(self) -> int:
        """Cycles from an element's issue, which reads the buffers, to its operands at stage 0."""
        return self.timing.read_cycles + SELECT_CYCLES[self.unit]

    @property
    def value_cycles(self) -> int:
        """Cycles from an element's issue to its value, which then meets the destination."""
        return self.operand_cycles + self.compute_cycles

    @property
    def fold_cycles(self) -> int:
        """Cycles from an element's issue to the read of its destination, if it accumulates."""
        return self.value_cycles - (
            self.timing.read_cycles if self.meeting else self.timing.old_cycles)

    @property
    def write_cycles(self) -> int:
        """Cycles from an element's issue to the write of its result."""
        return self.value_cycles + (self.meeting.latency if self.meeting else 1)

    @property
    def hazard_cycles(self) -> int:
        """The cycles after its issue in which an element keeps others from accumulating into the
        same destination: up to its write, as seen from their reads. 0: it does not."""
        return self.write_cycles - self.fold_cycles if self.meeting else 0

    @property
    def first_cycles(self) -> int:
        """Cycles from an instruction of gemm that is taken to the issue of its first iteration, if
        nothing comes before it."""
        if not self.waits:
            return self.timing.address_cycles
        loads = self.array.load_cycles - 1 if self.array else 0
        return self.timing.waiting_cycles + loads

    @property
    def waits(self) -> bool:
        """True if iterations of gemm may wait before they are issued: for a sum of floats, or for
        weights that stay."""
        return bool(self.hazard_cycles or self.array and self.array.weights_stay)

    @property
    def retire_depth(self) -> int:
        """The most started and not retired instructions: enough never to wait for room unless a
        signal waits. A power of two."""
        return 1 << (self.write_cycles + 3).bit_length()

    @property
    def value_bits(self) -> int:
        """The bits of the value of a destination element: those of a lane of acc."""
        return te.bits(self.bodies[0].dst.dtype)

    @property
    def reduce_shape(self) -> tuple[int, ...]:
        return tuple(extent for _, extent in self.bodies[0].reduce_axes)

    @cached_property
    def placed(self) -> dict[DataflowNode, Operation]:
        return {operation.node: operation for operation in self.operations}

    @cached_property
    def buses(self) -> dict[str, tuple[int, ...]]:
        """The operands of the datapath, with the shape of what it takes of each at once."""
        shapes = {bus: self.shape[len(self.shape) - len(shape):] if self.interval > 1 else shape
                  for bus, shape in shapes_of(self.bodies).items()}
        read = {operation.node.attr[0] for operation in self.operations
                if operation.node.kind == "read"}
        return {bus: shape for bus, shape in shapes.items() if bus in read}

    @cached_property
    def immediates(self) -> dict[str, Interval]:
        """The intervals of the datapath's immediates, by name."""
        return {operation.node.attr[0]: operation.node.interval for operation in self.operations
                if operation.node.kind == "imm"}

    @cached_property
    def third(self) -> tuple[str, ...]:
        """The buffers that the field c of a word addresses, for bodies of three operands."""
        return tuple(dict.fromkeys(
            operand.scopes[0] for body in self.bodies if body.unit == UnitKind.VECTOR
            for operand in body.operands if operand_field(body, operand.name) == "c"))

    @cached_property
    def table_bits(self) -> int:
        """The bits of the number of a table, 0 where no body reads a table."""
        return max((operation.node.interval.width for operation in self.operations
                    if operation.node.kind == "read" and operation.node.attr[0] == TABLE.name),
                   default=0)

    def copies(self, operation: Operation) -> int:
        """The number of copies of an operation in the hardware."""
        return prod(self.shape[k] for k in operation.node.axes) * operation.node.terms

    def count(self, kind: str) -> int:
        """The number of operators of a kind in the hardware."""
        return sum(self.copies(operation) for operation in self.operations
                   if operation.node.kind == kind)

    def registers(self, nodes: Collection[DataflowNode] | None = None) -> list[int]:
        """The bits of data registers between each stage and the next, without those that are part
        of the memories of lookups. With `nodes`, of these alone: what else takes their values does
        not count, so that they must hold all that `value` is made of. An array is one stage.
        """
        if self.array:
            return [self.array.register_bits]
        operations = [operation for operation in self.operations
                      if nodes is None or operation.node in nodes]
        last = {operation: operation.available for operation in operations}
        first = {operation: operation.available if operation.node.kind == "lookup"
                 else operation.stage for operation in operations}
        for operation in operations:
            taken = operation.stage - (operation.node.kind == "lookup")
            for arg in map(self.placed.__getitem__, operation.node.args):
                if arg in last:
                    last[arg] = max(last[arg], taken)
        last[self.value] = self.latency
        return [sum(self.copies(operation) * operation.node.interval.width
                    for operation in operations if operation.node.kind not in CONSTANTS
                    and first[operation] <= stage < last[operation])
                for stage in range(self.latency)]

    def evaluate(self, opcode: int, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        """Compute what the datapath does: the value of every destination element, as int64.

        `operands` maps buses to arrays of their shape in `buses`, immediates to numbers, and
        ``tab`` to all tables, one a row. Every intermediate value is checked to lie in its
        interval.
        """
        return _Evaluation(self, self.opcodes.index(opcode), operands).result()

    def __str__(self) -> str:
        return _text(self)


class _Evaluation:
    """Values of one opcode as arrays of Python integers over (destination axes, term)."""

    def __init__(self, plan: DatapathPlan, body: int, operands: Mapping[str, np.ndarray]):
        self.plan, self.body, self.operands = plan, body, operands
        self.values: dict[DataflowNode, np.ndarray] = {}

    def result(self) -> np.ndarray:
        value = self.value(self.plan.value.node)[..., 0]
        return np.broadcast_to(value, self.plan.shape).astype(np.int64)

    def value(self, node: DataflowNode) -> np.ndarray:
        if node not in self.values:
            value = self.compute(node)
            assert ((value >= node.interval.low) & (value <= node.interval.high)).all(), node
            self.values[node] = value
        return self.values[node]

    def compute(self, node: DataflowNode) -> np.ndarray:
        rank = len(self.plan.shape) + 1
        match node.kind:
            case "const": return np.full((1,) * rank, node.attr[0], object)
            case "imm": return np.full((1,) * rank, int(self.operands[node.attr[0]]), object)
            case "read":
                array = np.asarray(self.operands[node.attr[0]]).astype(object)
                if node.attr[1] and node.attr[1][0][0] == "each":
                    return array.reshape(-1)[self.each(*node.attr[1][0][1:])]
                grids = tuple(self.grid(index, rank) for index in node.attr[1])
                return array[grids] if grids else np.full((1,) * rank, array[()], object)
            case "mux":
                for arg, bodies in zip(node.args, node.attr, strict=True):
                    if self.body in bodies:
                        return self.value(arg)
                raise AssertionError("a multiplexer that this body does not use")
            case "lookup":
                index, table = (self.value(arg).astype(np.int64) for arg in node.args)
                return np.asarray(self.operands["tab"])[table, index].astype(object)
            case "pick": return self.pick(node)
            case "across":
                axis, count = node.attr
                terms = np.swapaxes(self.value(node.args[0]), axis, -1)
                assert terms.shape[-1] == count, node
                return terms
            case "lane": return self.each(*node.attr[0][1:]).astype(object)
            case "take": return self.value(node.args[0])[..., :node.attr[0]]
            case "pad":
                count, terms = node.attr
                x = self.value(node.args[0])
                x = np.broadcast_to(x, (*x.shape[:-1], count))
                return np.concatenate((x, np.zeros((*x.shape[:-1], terms - count), object)), -1)
            case "fold": return self.fold(node)
            case "every": return self.every(node)
            case _: return meaning(node.kind, node.attr, *map(self.value, node.args))

    def pick(self, node: DataflowNode) -> np.ndarray:
        count, rows = node.attr
        values, tests = node.args[:count], node.args[count:]
        result = None
        for value, row in zip(values, rows, strict=True):
            for bodies, test, true in row:
                if self.body in bodies and test is None:
                    return self.value(value)
                if self.body in bodies:
                    here = (self.value(tests[test]) == true) * self.value(value)
                    result = here if result is None else result + here
        assert result is not None, "a multiplexer that this body does not use"
        return result

    def each(self, axes: tuple[int, ...], numbers: tuple[int, ...]) -> np.ndarray:
        extents = [extent if k in axes else 1 for k, extent in enumerate(self.plan.shape)]
        return np.array(numbers).reshape(*extents, -1)

    def every(self, node: DataflowNode) -> np.ndarray:
        first, count, fill = node.attr
        x = self.value(node.args[0])
        terms = np.broadcast_to(x, (*x.shape[:-1], count))[..., first::2]
        last = np.full((*x.shape[:-1], (count + 1) // 2 - terms.shape[-1]), fill, object)
        return np.concatenate((terms, last), axis=-1)

    def grid(self, index: tuple[str, int], rank: int) -> np.ndarray:
        match index:
            case ("axis", k):
                return np.arange(self.plan.shape[k]).reshape(
                    [-1 if axis == k else 1 for axis in range(rank)])
            case ("reduce", k):
                extents = self.plan.reduce_shape
                numbers = np.unravel_index(np.arange(prod(extents)), extents)[k]
                return numbers.reshape([1] * (rank - 1) + [-1])
            case (_, number):
                return np.full((1,) * rank, number)

    def fold(self, node: DataflowNode) -> np.ndarray:
        op, count = node.attr
        x = self.value(node.args[0])
        pairs = meaning("add" if op == "sum" else op, (), x[..., 0:count - 1:2], x[..., 1:count:2])
        return np.concatenate((pairs, x[..., count - 1:]), axis=-1) if count % 2 else pairs


@cache
def plan(machine: Machine, unit: str) -> DatapathPlan:
    """Plan the datapath of a unit that computes, by its name, or of the first unit of a kind, by
    that; refuses bodies with `PlanError`."""
    bodies = machine.of_unit(unit)
    first = bodies[0]
    kind, tables = first.unit, machine.structure.roles.tab
    for body in bodies:
        if body.dst.shape != first.dst.shape:
            raise PlanError(f"Bodies of {unit} must have one tile, but {body.name} differs from "
                            f"{first.name}")
    config = machine.config
    interval = config.vector_beats if kind == UnitKind.VECTOR else 1
    if interval > 1:
        _check_elementwise(bodies, interval)
    soft = kind == UnitKind.GEMM and config.dsp_multipliers < config.macs_per_cycle
    opcodes = tuple(machine.opcodes[body.name] for body in bodies)
    shape = config.vector_tile if kind == UnitKind.VECTOR else first.dst.shape
    made = arranged(kind, bodies, opcodes, shape, interval, config.stage_depth, soft,
                    config.buffers[tables].depth, config.timing)
    return replace(made, meeting=_meeting(bodies, config.stage_depth, config.timing),
                   array=_array(machine, made, soft) if kind == UnitKind.GEMM else None)


def _array(machine: Machine, made: DatapathPlan, soft: bool) -> SystolicArray | None:
    """The array of a unit whose bodies sum products, as `accel.machine.rules` demand."""
    config, timing, body = machine.config, machine.config.timing, made.bodies[0]
    if config.dataflow == ADDER_TREE:
        return None
    a, b = (Interval.of_type(operand.dtype) for operand in body.operands)
    needed = config.block_out + timing.nest_cycles + timing.queue_cycles + 2
    dot = None if config.dataflow == WEIGHT_STATIONARY else arranged(
        made.unit, (_dot(body),), made.opcodes[:1], (1, 1), 1, config.stage_depth, soft,
        timing=timing)
    return SystolicArray(config.dataflow, config.batch, config.block_in, config.block_out, a, b,
                         made.value_bits, soft,
                         max(timing.ahead, 1 << (needed - 1).bit_length()), dot)


def _dot(body: Intrinsic) -> Intrinsic:
    """The sum of products of one row of each operand."""
    dtype, (lane, extent) = body.dst.dtype, body.reduce_axes[0]
    row, column = (replace(axis, extent=1) for axis in body.axes)
    x, w = (te.placeholder((1, extent), operand.dtype, operand.name) for operand in body.operands)
    value = x[row.var, lane].astype(dtype) * w[column.var, lane].astype(dtype)
    return Intrinsic(body.name, body.unit, replace(body.dst, shape=(1, 1)), tuple(
        replace(operand, shape=(1, extent)) for operand in body.operands), (row, column),
        te.sum(value, te.reduce_axis(extent, lane.name)), "assign", (), loops=0)


def _meeting(bodies: tuple[Intrinsic, ...], stage_depth: int, timing: CoreTiming
             ) -> DatapathPlan | None:
    """The datapath in which values of floats meet their destinations."""
    updates = tuple(dict.fromkeys(body.update for body in bodies if body.update != "assign"))
    first = bodies[0]
    if not updates or not te.is_float(first.dst.dtype):
        return None
    for body in bodies if first.unit == UnitKind.VECTOR else ():
        if body.update != "assign":
            raise PlanError(f"Update of {body.name} must be assign, not {body.update}, where acc "
                            f"holds {body.dst.dtype}: only gemm waits for sums of floats")
    dst, indices = first.dst, tuple(axis.var for axis in first.axes)
    old, new = (te.placeholder(dst.shape, dst.dtype, name)[indices] for name in ("old", "new"))
    results = {"assign": new, "sum": old + new, "max": te.maximum(old, new),
               "min": te.minimum(old, new)}
    operands = tuple(Operand(name, dst.shape, dst.dtype, dst.storage) for name in ("old", "new"))
    forms = tuple(Intrinsic(update, UnitKind.GEMM.value, dst, operands, first.axes, results[update],
                            "assign", (), loops=0) for update in ("assign", *updates))
    return arranged(UnitKind.GEMM.value, forms, tuple(range(len(forms))), dst.shape,
                    stage_depth=stage_depth, timing=timing)


def arranged(unit: str, bodies: tuple[Intrinsic, ...], opcodes: tuple[int, ...],
             shape: tuple[int, ...], interval: int = 1, stage_depth: int = 2, soft: bool = False,
             tables: int = 1, timing: CoreTiming = TIMING) -> DatapathPlan:
    """Plan a datapath for bodies of one tile.

    Parameters
    ----------
    unit, bodies, opcodes, shape, interval, stage_depth : those of the plan.
    soft : some multipliers are made of adders.
    tables : the tables that the machine holds.
    timing : the machine's.
    """
    source, shapes = Dataflow(), shapes_of(bodies)
    reduced = tuple(extent for _, extent in bodies[0].reduce_axes)
    graph, values = share([lower(source, body, tables, shapes, reduced) for body in bodies])
    # Synthesis turns sums of sums within a stage into compressors, of twice the area.
    placement = StagePlacement(1 if soft else stage_depth, soft, timing.read_cycles)
    value = merged(graph, values, placement, te.bits(bodies[0].dst.dtype))
    operations = tuple(placement.place(node) for node in topological((value,)))
    last = operations[-1]
    latency = last.available + (last.level > 0)
    return DatapathPlan(unit, bodies, opcodes, shape, interval, stage_depth, operations, last,
                        latency, timing=timing)


def open_instructions(machine: Machine, unit: str) -> int:
    """The most started and not retired instructions of a unit."""
    kind = machine.structure.unit(machine.structure.meant(unit)).kind
    computes = kind in (UnitKind.GEMM, UnitKind.VECTOR)
    return plan(machine, unit).retire_depth if computes else machine.config.timing.in_flight


def _check_elementwise(bodies: tuple[Intrinsic, ...], beats: int):
    """Refuses bodies that cannot be computed part by part."""
    for body in bodies:
        axes = [axis.var for axis in body.axes]
        axes[-1:] = [var for var, _ in body.reduce_axes] or axes[-1:]
        inside = body.value.value if isinstance(body.value, Reduce) else body.value
        if _values(inside) & set(axes) or any(
                list(read.indices) != axes[len(axes) - len(read.indices):]
                for read in walk(inside)
                if isinstance(read, Read) and read.buffer.name != TABLE.name):
            raise PlanError(f"Body of {body.name} must compute each element from its own operands, "
                            f"as vector_beats is {beats}")


def _values(expr: Expr) -> set[Expr]:
    """The indices that are values, not places of operands alone."""
    if isinstance(expr, Read) and all(isinstance(index, Var) for index in expr.indices):
        return set()
    return ({expr} if isinstance(expr, Var) else set()).union(*map(_values, children(expr)))


def _text(plan: DatapathPlan) -> str:
    """Print a plan stage by stage: type, expression, copies."""
    if plan.array:
        return f"{plan.unit}: {len(plan.bodies)} bodies, {plan.array}"
    names = {operation.node: f"%{number}" for number, operation in enumerate(
        o for o in plan.operations if o.node.kind not in ("read", "imm", "const", "lane"))}
    for operation in plan.operations:
        match operation.node.kind:
            case "const": names[operation.node] = str(operation.node.attr[0])
            case "imm": names[operation.node] = operation.node.attr[0]
            case "lane": names[operation.node] = f"lane {_numbers(operation.node.attr[0][2])}"
            case "read": names[operation.node] = _access(plan, operation.node)
    lines = [f"{plan.unit}: {len(plan.bodies)} bodies, latency {plan.latency}, "
             f"interval {plan.interval}, stage depth {plan.stage_depth}"]
    registers = plan.registers()
    for stage in range(plan.latency):
        lines.append(f"stage {stage}" + " " * 4 + f"{registers[stage]} bits on")
        lines += [f"  {names[operation.node]} {operation.node.interval} = "
                  f"{_expression(plan, operation.node, names)}"
                  f"  x{plan.copies(operation)}" for operation in plan.operations
                  if operation.stage == stage and names[operation.node].startswith("%")]
    return "\n".join([*lines, f"value {names[plan.value.node]}"])


def _access(plan: DatapathPlan, node: DataflowNode) -> str:
    bus, indices = node.attr
    if indices and indices[0][0] == "each":
        _, axes, numbers = indices[0]
        return f"{bus}[{''.join('xyzw'[k] for k in axes)}: {_numbers(numbers)}]"
    letters = [{"axis": "xyzw"[k], "reduce": "ijkl"[k], "at": str(k)}[kind]
               for kind, k in [(w, min(k, 3) if w != "at" else k) for w, k in indices]]
    return f"{bus}[{', '.join(letters)}]" if letters else bus


def _numbers(numbers: tuple[int, ...]) -> str:
    """Print the first few of the numbers of lanes."""
    return ", ".join(map(str, numbers[:4])) + (", ..." if len(numbers) > 4 else "")


def _tests(plan: DatapathPlan, row: tuple, tests: list[str]) -> str:
    """Print when a choice takes a value: ``max if %3|copy``; ``not %3`` is a comparison that fails.
    """
    return "|".join(plan.bodies[body].name + (
        "" if test is None else f" if {'' if true else 'not '}{tests[test]}")
        for bodies, test, true in row for body in bodies)


def _expression(plan: DatapathPlan, node: DataflowNode, names: dict[DataflowNode, str]) -> str:
    args = [names[arg] for arg in node.args]
    if node.kind == "mux":
        cases = (f"{'|'.join(plan.bodies[b].name for b in bodies)}: {arg}"
                 for arg, bodies in zip(args, node.attr, strict=True))
        return f"mux({', '.join(cases)})"
    if node.kind == "pick":
        count, rows = node.attr
        cases = (f"{_tests(plan, row, args[count:])}: {arg}"
                 for arg, row in zip(args, rows, strict=False))
        return f"pick({', '.join(cases)})"
    attr = f"[{', '.join(map(str, node.attr))}]" if node.attr else ""
    return f"{node.kind}{attr}({', '.join(args)})"
