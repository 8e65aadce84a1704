"""Functions of rows: each instruction that computes a part is a stage.

A row is the channels of a pixel. Totals and numbers are entries with one value a row, the same in
every lane; a tile holds whole rows. Rows *across* lanes have a lane each: an entry is an element of
as many rows as there are lanes, and so are totals and numbers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from accel.mapping.operators.blocked import (Activation, BlockedOperator, Blocks, Window, inside,
                                             written)
from accel.mapping.operators.elementwise import parameters_of, record_read, tables_of
from accel.mapping.selecting.row_selection import ROW, RowSelection, RowStage
from compiler import te
from compiler.te import Cast, Const, Expr, Field, Tensor
from compiler.tensorize import Operand
from compiler.tensorize.cover import (COMPUTED, CONSTANTS, TABLES, CoverStep, leaf_of, name_of)

FOLDS = {"sum": te.sum, "max": te.max, "min": te.min}


def row_function(name: str, x: Activation, selection: RowSelection, blocks: Blocks,
                 apart: bool = False) -> BlockedOperator:
    """The stages of a selection for rows that lie as channels of `x`. Where they are `apart`, each
    total has an input of its own, so that no row need lie on chip as a whole.

    Stages: ``x``, ``input`` (blocked, padded), ``input_n0``, ... of totals apart; ``table``,
    ``table_1``, ...; ``params``, ``params_1``, ... [co][block_out]; ``n0``, ``n1``, ... totals and
    numbers, int32 [n][h][w][b][o]; ``t0``, ... int32 of each element, then ``quantized`` and
    ``output``.
    """
    return _Along(name, selection, blocks, x=x, apart=apart).run()


def rows_along(name: str, x: Activation, pad: int, blocks: Blocks
               ) -> tuple[Tensor, Callable[..., Expr], Tensor]:
    """Rows along lanes: the stored tensor, an element of its blocks, and the blocks. Elements
    beyond a row are `pad`."""
    size = blocks.block_out
    groups, count = -(-x.n // blocks.batch), x.channel_blocks(blocks, size)
    stored = (x.stored_shape(blocks) if x.plain else
              (groups, x.h, x.w, blocks.batch, count, size))
    source = te.placeholder(stored, "int8", f"{name}_x")

    def element(n, h, w, c, b, i):
        image, channel = n * blocks.batch + b, c * size + i
        read = source[image, h, w, channel] if x.plain else source[n, h, w, b, c, i]
        there = inside([(image, groups * blocks.batch, x.n)]) if x.plain else []
        there += inside([(channel, count * size, x.c)])
        return te.select(te.all_of(*there), read, pad) if there else read

    return source, element, te.compute((groups, x.h, x.w, count, blocks.batch, size), element,
                                       f"{name}_input")


@dataclass
class Stages:
    """The stages of a selection; a class of it says how rows lie, and what a total is."""

    name: str
    selection: RowSelection
    blocks: Blocks
    totals: dict[str, str] = field(default_factory=dict)
    stages: dict[str, Tensor] = field(default_factory=dict)
    axes: dict[str, str] = field(default_factory=dict)
    by: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, Tensor] = field(default_factory=dict)    # of leaves
    loaded: dict[str, Tensor] = field(default_factory=dict)     # tables

    def run(self) -> BlockedOperator:
        stages, selection = self.stages, self.selection
        stages["x"], stages["input"] = self._input()
        steps = [step for stage in selection.stages for step in stage.steps]
        for role, buffer in tables_of(steps).items():
            stages[role] = self.loaded[buffer.name] = te.placeholder(
                buffer.shape, buffer.dtype, f"{self.name}_{role}")
        shape = stages["input"].shape
        self.params: dict[CoverStep, Tensor] = {}
        for step, role in parameters_of(steps).items():
            stages[role] = self.params[step] = te.placeholder(
                (shape[3], shape[5]), record_read(step), f"{self.name}_{role}")
        for stage in selection.stages[:-1]:
            made = self._total(stage) if stage.total else self._number(stage)
            self.numbers[stage.name] = made
        return self._result(selection.stages[-1])

    def _input(self) -> tuple[Tensor, Tensor]:
        """The stored tensor, and its blocks."""
        raise NotImplementedError

    def _total(self, stage: RowStage) -> Tensor:
        """The reduction of a row."""
        raise NotImplementedError

    def _number(self, stage: RowStage) -> Tensor:
        """A number after those that its steps compute on the way."""
        computed, tensor = dict[Expr, Tensor](), None
        for step in stage.steps:
            role = self._role("n")
            tensor = computed[step.value] = self._alone(step, computed, role)
            self._note(role, step, tensor)
        assert tensor is not None
        return tensor

    def _note(self, role: str, step: CoverStep, tensor: Tensor) -> None:
        """Notes the stage of a total or a number."""
        self.stages[role], self.by[role], self.axes[role] = tensor, step.intrinsic.name, "nyxbo"

    def _role(self, kind: str) -> str:
        """The next role of a number, ``n0``, ..., or of what a step has of each element."""
        return f"{kind}{sum(role[0] == kind for role in self.by)}"

    def _alone(self, step: CoverStep, computed: Mapping[Expr, Tensor], role: str) -> Tensor:
        groups, height, width, _, batch, size = self.stages["input"].shape
        return te.compute(
            (groups, height, width, batch, size), lambda n, y, x, b, o: self._value(
                step, (n, y, x, te.const(0, te.INDEX), b, o), computed), f"{self.name}_{role}")

    def _result(self, stage: RowStage) -> BlockedOperator:
        computed = dict[Expr, Tensor]()
        for step in stage.steps[:-1]:
            role = self._role("t")
            self.stages[role] = computed[step.value] = self._each(step, computed, role)
            self.by[role] = step.intrinsic.name
        last = stage.steps[-1]
        self.by["quantized"] = last.intrinsic.name
        whole = written(self.name, self.stages, Window((1, 1)), self.stages["input"].shape,
                        lambda n, y, x, c, b, o: self._value(
                            last, (n, y, x, c, b, o), computed).astype("int8"))
        return replace(whole, by=self.by, axes={**whole.axes, **self.axes}, rows=True,
                       totals=self.totals)

    def _each(self, step: CoverStep, computed: Mapping[Expr, Tensor], role: str,
              row: Tensor | None = None) -> Tensor:
        return te.compute(
            (row or self.stages["input"]).shape, lambda n, y, x, c, b, o: self._value(
                step, (n, y, x, c, b, o), computed, row), f"{self.name}_{role}")

    def _value(self, step: CoverStep, place: tuple[Expr, ...], computed: Mapping[Expr, Tensor],
               row: Tensor | None = None) -> Expr:
        """The value of a step at a place, of the elements of `row`; for numbers the block of
        channels does not count.
        """
        return step.body(lambda operand, expr, scope: self._read(
            step, operand, expr, scope, place, computed, row))

    def _read(self, step: CoverStep, operand: Operand, expr: Expr, scope: str,
              place: tuple[Expr, ...], computed: Mapping[Expr, Tensor], row: Tensor | None) -> Expr:
        """The element that an operand of a step reads there."""
        n, y, x, c, b, o = place
        if scope == COMPUTED and expr in computed:
            tensor = computed[expr]
            return tensor[(n, y, x, b, o) if len(tensor.shape) == 5 else place]
        if scope == COMPUTED:
            return self.numbers[name_of(expr)][n, y, x, b, o]
        if scope == CONSTANTS:
            return Field(self.params[step][c, o], operand.stored_as(scope).partition(".")[2])
        if isinstance(expr, Const):
            return expr
        if scope == TABLES:
            return self.loaded[name_of(expr)][0]
        assert leaf_of(expr) is not None and name_of(expr) == ROW
        return Cast((row or self.stages["input"])[place], operand.dtype)


@dataclass
class _Along(Stages):
    """Rows that lie along lanes."""

    x: Activation = field(kw_only=True)
    apart: bool = field(kw_only=True)

    def _input(self) -> tuple[Tensor, Tensor]:
        """The stored tensor and its blocks; elements beyond a row are the selection's padding."""
        source, self.element, blocked = rows_along(self.name, self.x, self.selection.pad,
                                                   self.blocks)
        return source, blocked

    def _total(self, stage: RowStage) -> Tensor:
        (step,), role = stage.steps, self._role("n")
        groups, height, width, count, batch, size = self.stages["input"].shape
        c, i = (te.reduce_axis(extent, f"{self.name}_{role}_{axis}")
                for extent, axis in ((count, "c"), (size, "i")))
        row = self.stages["input"]
        if self.apart:
            own = f"input_{role}"
            self.totals[own] = role
            row = self.stages[own] = te.compute(row.shape, self.element, f"{self.name}_{own}")
        tensor = te.compute(
            (groups, height, width, batch, size), lambda n, y, x, b, o: FOLDS[stage.total](
                self._value(step, (n, y, x, c.var, b, i.var), {}, row), (c, i)),
            f"{self.name}_{role}")
        self._note(role, step, tensor)
        return tensor
