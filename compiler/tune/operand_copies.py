"""Copies of what a reduction reads, as decisions: whether, for which loop, and how they lie.

::

    for j_o:
      for k, j_i: y_copy[k, j_i] = y[j_o*16 + j_i, k]       turned: lanes lie side by side
      for i, k:
        for j_i (vectorize):
          z[i, j_o*16 + j_i] += x[i, k] * y_copy[k, j_i]
"""

from math import prod

from compiler.ir import For, Program, Update, free_variables, reads, writes
from compiler.schedule import Schedule
from compiler.te import Buffer
from compiler.tune.accesses import VectorCore, access_of
from compiler.tune.chooser import Chooser
from compiler.tune.stage_nest import ALONE, NONE, TURNING, loops_around, write_of

MOST_BYTES = 1 << 22    # of a copy
LEAST_REUSE = 2         # times that an element of a copy is read
COPYING = 2             # terms of a sum that take as long as an element of a copy
TURNED = "turned"


def copy_operands(s: Schedule, stage: str, chooser: Chooser, core: VectorCore) -> None:
    """Decides which inputs are copied that a stage reduces."""
    if (update := _reduction(s.program, stage)) is not None:
        for buffer in dict.fromkeys(read.buffer for read in reads(update)):
            if buffer in s.program.inputs:
                _OperandCopy(s, stage, buffer, core).decide(chooser)


def _reduction(program: Program, stage: str) -> Update | None:
    """The statement that reduces into the stage, its beginning apart."""
    return next((write for write in writes(program.body) if isinstance(write, Update)
                 and write.buffer.name == stage), None)


class _OperandCopy:
    """The ways to copy one input for one reduction."""

    def __init__(self, s: Schedule, stage: str, buffer: Buffer, core: VectorCore):
        update = _reduction(s.program, stage)
        assert update is not None
        self.s, self.stage, self.buffer, self.core = s, stage, buffer, core
        self.around = loops_around(s.program, update)
        self.reads = [read for read in reads(update) if read.buffer == buffer]
        self.terms = _runs(self.around)
        self.along = next((loop.var for loop in self.around if loop.kind == "vectorize"), None)
        self.across = self._across()

    def decide(self, chooser: Chooser) -> None:
        places = {ALONE: 0} | {loop.var.name: number for number, loop in enumerate(self.around, 1)
                               if loop.kind == "serial"}
        ways = ("", f" {TURNED}") if self._dimension() is not None else ("",)
        options = [NONE, *(f"{place}{way}" for place, at in places.items() if self._pays(at)
                           for way in ways)]

        def cost(option: str) -> float:
            place, _, turned = option.partition(" ")
            if place == NONE:
                return float(self.across)
            each = TURNING if turned else COPYING
            return 1.02 * (1 if turned else self.across) + each * self._copied(
                places[place]) / self.terms

        option = chooser.one_of(f"{self.stage} copy of {self.buffer.name}", options, cost)
        if option != NONE:
            place, _, turned = option.partition(" ")
            self._copy(place, turned == TURNED)

    def _across(self) -> int:
        """Loads for a vector of it as it lies."""
        if self.along is None:
            return 1
        strides = {access_of(read).stride(self.along) for read in self.reads}
        return self.core.lanes // 2 if strides - {0, 1} else 1

    def _dimension(self) -> int | None:
        """The dimension that vectors run along, if that is one, and not the last."""
        found = {dimension for read in self.reads for dimension, index in enumerate(read.indices)
                 if self.along is not None and self.along in free_variables(index)}
        dimension = found.pop() if len(found) == 1 else None
        return None if dimension == len(self.buffer.shape) - 1 else dimension

    def _elements(self, at: int) -> int:
        """The elements that are read inside of so many loops."""
        inside = {loop.var: int(loop.extent) for loop in self.around[at:]}
        return max(access_of(read).elements(inside) for read in self.reads)

    def _copied(self, at: int) -> int:
        """The elements that are copied altogether, inside of so many loops."""
        return self._elements(at) * _runs(self.around[:at])

    def _pays(self, at: int) -> bool:
        size = self._elements(at) * access_of(self.reads[0]).element_bytes
        return size <= MOST_BYTES and self.terms > LEAST_REUSE * self._copied(at)

    def _copy(self, place: str, turned: bool) -> None:
        s, name = self.s, f"{self.stage}_{self.buffer.name}"
        s[self.buffer.name].cache_read("global", readers=[self.stage], name=name)
        if place != ALONE:
            s[name].compute_at(place)
        if turned:
            last = self._dimension()
            dims = [f"i{dimension}" for dimension in range(len(self.buffer.shape))]
            moved = sorted(dims, key=lambda dim: dim == f"i{last}")
            s[name].transform_layout(f"{', '.join(dims)} -> {', '.join(moved)}")
        write = write_of(s.program, name)
        assert write is not None
        row = loops_around(s.program, write)[-1]
        loop = row.var.name
        if row.extent > self.core.lanes:
            _, loop = s[name].split(loop, self.core.lanes)
        if row.extent > 1:
            s[name].vectorize(loop)


def _runs(loops: list[For]) -> int:
    return prod(int(loop.extent) for loop in loops)
