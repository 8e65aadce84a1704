"""Functions of rows that lie across lanes: an entry is an element of as many rows as it has lanes.

So totals accumulate lane by lane, and numbers are those of all rows of an entry. What memory has
together, the elements of a row, is loaded and stored apart.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from accel.mapping.operators.blocked import BlockedOperator, Blocks, inside
from accel.mapping.operators.rows import FOLDS, Stages
from accel.mapping.selecting.row_selection import RowSelection, RowStage
from compiler import te
from compiler.te import Expr, Tensor
from compiler.tensorize.cover import leaf_of


def row_function_across(name: str, shape: tuple[int, int], channels: int, selection: RowSelection,
                        blocks: Blocks, together: int = 1) -> BlockedOperator:
    """The stages of a selection for rows across lanes: `shape` is their number and that of their
    elements; so many `channels` of each are written, of which those beyond mean nothing. So many
    elements of an entry lie `together` in memory.

    Stages are those of `accel.mapping.operators.rows.row_function` where totals are apart. ``x`` is
    [row][element]; of the blocks ``n`` and ``y`` are 1, ``x`` are rows, and ``c`` are elements.
    Steps of a total make ``t0``, ... like those of a result.
    """
    return replace(_Across(name, selection, blocks, shape=shape, channels=channels).run(),
                   across=together)


@dataclass
class _Across(Stages):
    shape: tuple[int, int] = field(kw_only=True)
    channels: int = field(kw_only=True)

    def _input(self) -> tuple[Tensor, Tensor]:
        source = te.placeholder(self.shape, "int8", f"{self.name}_x")
        self.source = source
        return source, self._blocked("input", self.channels)

    def _blocked(self, role: str, count: int) -> Tensor:
        (rows, elements), batch, size = self.shape, self.blocks.batch, self.blocks.block_out
        groups = -(-rows // (batch * size))

        def element(n, h, w, c, b, i):
            row = (w * batch + b) * size + i
            there = inside([(row, groups * batch * size, rows), (c, count, elements)])
            read = self.source[row, c]
            return te.select(te.all_of(*there), read, self.selection.pad) if there else read

        return te.compute((1, 1, groups, count, batch, size), element, f"{self.name}_{role}")

    def _total(self, stage: RowStage) -> Tensor:
        """A reduction after what its steps compute of each element."""
        role = self._role("n")
        own = f"input_{role}"
        row = self.stages[own] = self._blocked(own, self.shape[1])
        self.totals[own] = role
        computed = dict[Expr, Tensor]()
        for step in stage.steps[:-1]:
            part = self._role("t")
            self.totals[part], self.by[part] = role, step.intrinsic.name
            self.stages[part] = computed[step.value] = self._each(step, computed, part, row)
        groups, height, width, count, batch, size = row.shape
        c = te.reduce_axis(count, f"{self.name}_{role}_c")
        tensor = te.compute(
            (groups, height, width, batch, size), lambda n, y, x, b, o: FOLDS[stage.total](
                self._folded(stage, (n, y, x, c.var, b, o), computed, row), c),
            f"{self.name}_{role}")
        self._note(role, stage.steps[-1], tensor)
        return tensor

    def _folded(self, stage: RowStage, place: tuple[Expr, ...], computed: Mapping[Expr, Tensor],
                row: Tensor) -> Expr:
        """The value that the last step of a total folds into it: its own, or the operand beside the
        total of one that assigns."""
        step = stage.steps[-1]
        if step.intrinsic.update != "assign":
            return self._value(step, place, computed, row)
        (operand, expr, scope), = (one for one in step.operands if not _is_leaf(one[1], stage.name))
        return self._read(step, operand, expr, scope, place, computed, row)


def _is_leaf(expr: Expr, name: str) -> bool:
    read = leaf_of(expr)
    return read is not None and read.buffer.name == name
