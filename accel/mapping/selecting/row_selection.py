"""Which declared instructions compute a function of rows.

The operator's record gives its stages: *totals*, reductions of an expression of the elements along
the last axis; *numbers*, one a row, computed from totals and numbers; and the result, from the
elements and numbers. Each is covered with bodies of the machine's vector instructions, a total with
one that reduces over lanes and accumulates. Nothing here knows an operator or an instruction by
name.

Every machine has instructions that accumulate lane by lane. So rows may lie *across* lanes, each in
a lane of its own: a total is then such a reduction, and a number is one of as many rows as an entry
has lanes. What there is no instruction for in numbers is spelled (`spelled`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import add

import numpy as np

from accel.machine.config import padded_channels
from accel.machine.machine import Machine
from accel.mapping.lowering.nest import LoweringError
from accel.mapping.selecting.selection import INPUTS, RESULTS, covered, leaf_of_constant
from accel.mapping.selecting.spelled import spelled
from compiler import te
from compiler.graph.graph import Graph, Node
from compiler.ops.registry import expression, find
from compiler.te import Computed, Const, Expr, Read, Scan, Tensor, rewrite, walk
from compiler.tensorize.cover import COMPUTED, CoverStep, leaf, leaf_of, table
from compiler.tensorize.normal import normal

ROW = "x"
"""The leaf that is an element of the row."""

LEAST, GREATEST = -128, 127

FOLDED = {"sum": add, "max": te.maximum, "min": te.minimum}
"""What a total and another element make."""


@dataclass(frozen=True, slots=True)
class RowStage:
    """A total, a number, or the result.

    name : of the leaf that later stages read it by; "" for the result.
    steps : the instructions, in order; of a total the last one reduces, or across lanes folds.
    total : ``sum``, ``max`` or ``min``; "" for what is no total.
    """

    name: str
    steps: tuple[CoverStep, ...]
    total: str = ""


@dataclass(frozen=True)
class RowSelection:
    """The selected stages of a function of rows, in order, the result last.

    pad : what elements of the last block that are beyond the row are loaded as; totals of sums are
        corrected for them.
    constants : for each leaf that is a constant of each channel, its name and the array.
    tables : for each table, its name and the array.
    across : whether each row lies in a lane of its own.
    """

    stages: tuple[RowStage, ...]
    pad: int
    constants: Mapping[str, np.ndarray]
    tables: Mapping[str, np.ndarray]
    across: bool = False

    @property
    def steps(self) -> list[CoverStep]:
        """The instructions of all stages."""
        return [step for stage in self.stages for step in stage.steps]


def is_row_function(node: Node) -> bool:
    return find(node.op).by_rows


def select_rows(machine: Machine, graph: Graph, node: Node) -> RowSelection:
    """The cheapest instructions for each stage; rows are cut into blocks of channels, or lie
    across lanes where the machine does not compute all stages of them so. Refuses an operator
    with a stage that none computes.
    """
    try:
        return _Selecting(machine, graph, node).run()
    except LoweringError:
        return _Selecting(machine, graph, node, across=True).run()


@dataclass
class _Selecting:
    machine: Machine
    graph: Graph
    node: Node
    across: bool = False
    numbers: dict[str, Expr] = field(default_factory=dict)      # what reads of a stage mean
    parts: list[RowStage] = field(default_factory=list)         # spelled parts of the next stage
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    tables: dict[str, np.ndarray] = field(default_factory=dict)

    def run(self) -> RowSelection:
        given = [te.placeholder(self.graph.values[value].shape, self.graph.values[value].dtype,
                                f"x{place}" if place else ROW)
                 for place, value in enumerate(self.node.inputs)]
        self.sources = {tensor.name: value
                        for tensor, value in zip(given, self.node.inputs, strict=True)}
        result = expression(self.node.op, self.node.attrs, given, "y")
        stages = _stages(result)
        for dtype in (value.dtype for stage in stages[:-1] for value in stage.values):
            if dtype != "int32":
                raise LoweringError(f"it computes {dtype} on the way; instructions compute int32")
        ops = {stage.reducer for stage in stages}
        if {"max", "min"} <= ops:
            raise LoweringError("it takes both the greatest and the least element of a row")
        self.pad = LEAST if "max" in ops else GREATEST if "min" in ops else 0
        width, config = result.shape[-1], self.machine.config
        self.beyond = padded_channels(width, config.block_in, config.block_out) - width
        found = list[RowStage]()
        for stage in stages:
            self.parts = []
            whole = self._stage(stage, stage is stages[-1])
            found += (*self.parts, whole)
        return RowSelection(tuple(found), self.pad, self.constants, self.tables, self.across)

    def _stage(self, stage: Computed, last: bool) -> RowStage:
        (name,), (body,) = stage.names, stage.values
        value = self._over_leaves(body, stage)
        if last:
            return RowStage("", covered(self.machine, value, RESULTS))
        read: Expr = leaf(name, "int32", COMPUTED)
        total = stage.reducer or ""
        if not isinstance(total, str):
            raise LoweringError("it reduces rows by a function of its own")
        if total == "sum" and not self.across and (
                extra := self._of_padding(value) * self.beyond):
            read = read - extra
        self.numbers[name] = read
        if self.across and not total:
            value = spelled(value, lambda part: self._part(name, part))
        if self.across and total:
            return RowStage(name, self._folded(name, value, total), total)
        return RowStage(name, covered(self.machine, value, COMPUTED, total), total)

    def _folded(self, name: str, value: Expr, total: str) -> tuple[CoverStep, ...]:
        """The steps of a total lane by lane: the last accumulates, or assigns what it makes of the
        total and an element."""
        try:
            return covered(self.machine, value, COMPUTED, total, lanes=False)
        except LoweringError:
            return covered(self.machine, FOLDED[total](leaf(name, "int32", COMPUTED), value),
                           COMPUTED)

    def _part(self, name: str, value: Expr) -> Expr:
        """A part of a number, which is a number itself."""
        if leaf_of(value) is not None:
            return value
        known = next((stage for stage in self.parts if stage.steps[-1].value == value), None)
        if known is None:
            known = RowStage(f"{name}_{len(self.parts)}", covered(self.machine, value, COMPUTED))
            self.parts.append(known)
        return leaf(known.name, "int32", COMPUTED)

    def _of_padding(self, value: Expr) -> int:
        """The value of an element's expression for padding."""
        def put(node: Expr) -> Expr | None:
            if isinstance(node, Read) and node.buffer.name == ROW:
                return Const(self.pad, node.dtype)
            if isinstance(node, Read) and node.buffer.name in self.tables:
                place = normal(node.indices[0])
                if isinstance(place, Const):
                    return Const(int(self.tables[node.buffer.name][int(place.value)]), node.dtype)
            return None
        known = normal(rewrite(value, put))
        if not isinstance(known, Const):
            raise LoweringError("a sum over the elements of a row depends on more than these")
        return int(known.value)

    def _over_leaves(self, value: Expr, stage: Computed) -> Expr:
        """An expression of a stage over leaves: elements, numbers, constants, tables."""
        def rule(read: Expr) -> Expr | None:
            if not isinstance(read, Read):
                return None
            name = read.buffer.name
            if name in self.numbers:
                return self.numbers[name]
            if name == ROW:
                return leaf(ROW, read.dtype, INPUTS)
            array = self.graph.constants.get(self.sources[name])
            if array is None or array.ndim != 1:
                raise LoweringError(f"its expression reads {name}, which is no constant of one "
                                    "dimension")
            if any(isinstance(inner, Read) for inner in walk(read.indices[0])):
                self.tables[name] = array
                return table(name, array.size, read.dtype, read.indices[0])
            if read.indices[0] != stage.axes[-1].var:
                raise LoweringError(f"its expression reads {name} at another place than its own")
            return leaf_of_constant(name, array, self.constants, read.dtype)
        return rewrite(value, rule)


def _stages(result: Tensor) -> list[Computed]:
    """The computations that a result depends on, each after those that it reads, its own last."""
    found: dict[str, Computed] = {}

    def visit(definition: Computed | Scan | None) -> None:
        if not isinstance(definition, Computed):
            raise LoweringError("it is computed by more than expressions of one element")
        (value,) = definition.values
        for node in walk(value):
            if isinstance(node, Read) and node.buffer.definition is not None and (
                    node.buffer.name not in found):
                visit(node.buffer.definition)
        found[definition.names[0]] = definition

    visit(result.buffer.definition)
    return list(found.values())
