"""The loops of one stage, as decisions: vectors, tiles, order, and where its reduction stands.

::

    for i_o_o, j_o                      blocks of tiles, in some order
      for i_o_i
        for k_o
          for k_i (unroll)              the reduction, before the first loop of the tile, say
            for i_i (unroll)
              for j_i (vectorize)
"""

from collections.abc import Mapping, Sequence
from itertools import product
from math import log2, prod

from compiler.ir import For, Program, Stmt, Store, Update, Write, path_to, reads, writes
from compiler.schedule import Schedule
from compiler.te import Read, Var
from compiler.tune.accesses import MemoryAccess, VectorCore, access_of
from compiler.tune.chooser import Chooser

MOST_UNROLLED = 64      # iterations of a nest that are written out
MOST_TILE = 16          # iterations of an axis in a tile, but those in vectors
MOST_TABLE = 400        # tiles of which estimates are compared
LATENCY = 8             # products that are begun before the first one is done
SCALAR = 6.0            # times that a row takes as long that LLVM may make vectors of, or not
AWKWARD = 8             # times that such vectors take as long as others
LOAD = 0.3              # the cycle that a load takes of products at the same time
TURNING = 100           # terms of a sum that take as long as an element of a turned copy
NONE, LAST, ALONE = "none", "last", "alone"


def write_of(program: Program, stage: str) -> Write | None:
    """The one write of a stage; None where there are several."""
    found = [write for write in writes(program.body)
             if any(buffer.name == stage for buffer in write.buffers)]
    return found[0] if len(found) == 1 else None


def loops_around(program: Program, stmt: Stmt) -> list[For]:
    return [s for s in path_to(program.body, lambda s: s is stmt) if isinstance(s, For)]


def is_naive(program: Program, write: Write | None) -> bool:
    """True if it is computed by a nest that the template knows: a loop for each dimension, all
    extents numbers.
    """
    if not isinstance(write, Store | Update):
        return False
    around = {loop.var: loop for loop in loops_around(program, write)}
    own = [around.get(index) for index in write.indices if isinstance(index, Var)]
    reduced = [around.get(axis) for axis in write.axes] if isinstance(write, Update) else []
    found = [loop for loop in (*own, *reduced) if loop is not None]
    return (len(own) == len(write.indices) > 0 and len(found) == len(own) + len(reduced)
            == len({loop.var for loop in found})
            and all(isinstance(loop.extent, int) and loop.kind == "serial" for loop in found))


def divisors(extent: int, most: int) -> list[int]:
    return [size for size in range(1, min(extent, most) + 1) if extent % size == 0]


class StageNest:
    """Schedules the loops of a stage by the answers of a chooser.

    `driver` is the reduction that will be computed for each tile of it, the stage itself where
    that is one: its operands say what a tile costs.
    """

    def __init__(self, s: Schedule, stage: str, chooser: Chooser, core: VectorCore):
        self.s, self.stage, self.chooser, self.core = s, stage, chooser, core
        write = write_of(s.program, stage)
        assert isinstance(write, Store | Update)
        self.write = write
        around = loops_around(s.program, write)
        self.reduced = [loop.var.name for loop in around
                        if isinstance(write, Update) and loop.var in write.axes]
        self.extents = {loop.var.name: int(loop.extent) for loop in around
                        if loop.var in write.indices or loop.var.name in self.reduced}
        self.axes = [index.name for index in write.indices
                     if isinstance(index, Var) and self.extents[index.name] > 1]
        self.driver, self.renamed = self._driver()
        self.sums_rows = self._sums_rows()

    def schedule(self) -> list[str]:
        """Schedules it; the loops whose last iteration is to stand by itself."""
        if not self.axes and not self.reduced:
            return []
        vector = self._vector()
        sizes = self._sizes(vector)
        outer, tile, behind = self._split(vector, sizes)
        order = self._order(outer) + tile
        position, unrolled = self._reduce(order, tile, vector)
        if len(position) > 1:
            self.s[self.stage].reorder(*position)
        self._mark(tile, vector, unrolled)
        if isinstance(self.write, Update) and self._begins(position):
            self.s[self.stage].decompose_reduction(next(
                loop for loop in position if self._is_reduced(loop)))
        return behind

    def _ask(self, name: str, options, cost=None):
        return self.chooser.one_of(f"{self.stage} {name}", tuple(options), cost)

    def _driver(self) -> tuple[Update | None, Mapping[str, Var]]:
        """The reduction whose operands count, and its variables by the axes of this stage."""
        names = {index.name: index for index in self.write.indices if isinstance(index, Var)}
        if isinstance(self.write, Update):
            return self.write, names
        for read in reads(self.write):
            update = write_of(self.s.program, read.buffer.name)
            if isinstance(update, Update) and len(read.indices) == len(update.indices) and all(
                    isinstance(index, Var) for index in update.indices):
                renamed = {index.name: own for index, own in zip(read.indices, update.indices)
                           if isinstance(index, Var) and isinstance(own, Var)}
                if set(self.axes) <= set(renamed):
                    return update, renamed
        return None, names

    def _touches(self) -> list[MemoryAccess]:
        """The accesses of an iteration, the result included."""
        target = Read(self.write.buffer, self.write.indices)
        return [access_of(read) for read in dict.fromkeys((*reads(self.write), target))]

    # Vectors and tiles

    def _vector(self) -> str:
        """The axis whose neighbours are computed at once."""
        lanes, touches = self.core.lanes, self._touches()
        operands = [access_of(read) for read in reads(self.driver)] if self.driver else []

        def cost(axis: str) -> float:
            if axis == NONE:
                row = len(touches) + 4 * len(operands)
                return row if self.sums_rows else SCALAR * row
            few = max(1.0, lanes / self.extents[axis])
            own = sum(self._each(touch, Var(axis)) for touch in touches)
            inside = sum(self._each(touch, self.renamed[axis]) for touch in operands)
            return few * (own + 4 * inside)

        return self._ask("vector", [*reversed(self.axes), NONE], cost)

    def _each(self, touch: MemoryAccess, along: Var | None) -> float:
        """Loads for each vector, of something whose lanes lie along this variable."""
        stride = 0 if along is None else touch.stride(along)
        if stride is None:
            return float(self.core.lanes)
        if stride in (0, 1):
            return 0.5 + 0.5 * stride
        across = min(2.0 * abs(stride), self.core.lanes / 2)
        if self.driver is None or touch.buffer not in self.s.program.inputs:
            return across
        runs = prod(int(loop.extent) for loop in loops_around(self.s.program, self.driver))
        return min(across, 1 + TURNING * prod(touch.buffer.shape) / runs)

    def _sums_rows(self) -> bool:
        """True if the terms of a long sum lie side by side."""
        if self.driver is None:
            return False
        last = loops_around(self.s.program, self.driver)[-1]
        return last.var in self.driver.axes and int(last.extent) >= 2 * self.core.lanes and all(
            access_of(read).stride(last.var) in (0, 1) for read in reads(self.driver))

    def _options(self, axis: str, vector: str) -> list[int]:
        extent, lanes = self.extents[axis], self.core.lanes
        if axis == vector:
            sizes = {lanes // 2, lanes, 2 * lanes, 4 * lanes, extent, *divisors(extent, lanes)}
            return sorted(size for size in sizes if min(extent, lanes // 2) <= size <= extent
                          and not self._is_awkward(size))
        sizes = divisors(extent, MOST_TILE)
        return sizes if len(sizes) > 1 else [size for size in (1, 4, 8) if size < extent]

    def _is_awkward(self, width: int) -> bool:
        """True if LLVM cuts vectors of that many lanes badly: beyond one register, all but powers
        of two.
        """
        return width > 4 * self.core.lanes or (
            width > self.core.lanes and width & width - 1 != 0)

    def _sizes(self, vector: str) -> dict[str, int]:
        """The iterations of each axis in a tile."""
        options = {axis: self._options(axis, vector) for axis in self.axes}
        wide = sorted(options, key=lambda axis: (axis == vector, len(options[axis])))
        while prod(map(len, options.values())) > MOST_TABLE and wide:
            axis = wide.pop(0)
            if axis != vector:
                options[axis] = options[axis][:1]
        table = [dict(zip(options, sizes)) for sizes in product(*options.values())]
        costs = [self._time(sizes, vector) for sizes in table]
        chosen: dict[str, int] = {}
        for axis in self.axes:
            near = [other for other in chosen if chosen[other] in options[other]]

            def cost(size: int, axis: str = axis, near: Sequence[str] = near) -> float:
                return min((cost for sizes, cost in zip(table, costs) if sizes[axis] == size
                            and all(sizes[other] == chosen[other] for other in near)),
                           default=1.2 * min(costs))

            chosen[axis] = self._ask(f"tile {axis}", self._options(axis, vector), cost)
        return chosen

    def _time(self, sizes: Mapping[str, int], vector: str) -> float:
        """The time of an element with such tiles, by estimate."""
        lanes = self.core.lanes
        waste = prod(-(-self.extents[axis] // size) * size / self.extents[axis]
                     for axis, size in sizes.items())
        width = sizes.get(vector, 1)
        vectors = -(-width // lanes)
        if vector in sizes and self._is_awkward(rest := self.extents[vector] % width):
            waste *= 1 + AWKWARD * rest / self.extents[vector]
        others = prod(size for axis, size in sizes.items() if axis != vector)
        if self.driver is None:
            return waste * vectors * lanes / width * (1 + 0.05 * log2(others))
        inside = {self.renamed[axis]: size for axis, size in sizes.items()}
        along = self.renamed.get(vector)
        loads = 0.0
        for read in dict.fromkeys(reads(self.driver)):
            touch = access_of(read)
            rows = touch.elements({var: size for var, size in inside.items() if var != along})
            each = self._each(touch, along)
            loads += rows * each * (vectors if each >= 1 else 1)
        count = others * vectors
        spilled = max(0, count + 2 - self.core.registers)
        if vector in sizes and any(sizes[axis] > 1 for axis in self.axes[
                self.axes.index(vector) + 1:]):     # lanes of a sum are apart: in no register
            count *= lanes / 2
        cycles = max(count + LOAD * loads, LATENCY) + 2 * spilled
        return waste * cycles / (others * width)

    def _split(self, vector: str, sizes: Mapping[str, int]
               ) -> tuple[list[list[str]], list[str], list[str]]:
        """Splits axes: loops over blocks and over tiles, from outside, those in a tile, the vector
        last, and those to be peeled.
        """
        stage = self.s[self.stage]
        blocks, tiles, tile, behind = [], [], [], []
        for axis in self.axes:
            extent, size = self.extents[axis], sizes[axis]
            name = axis
            if size == extent:
                tile.append(axis)
                continue
            if size > 1:
                name, inner = stage.split(axis, size)
                tile.append(inner)
                self.extents |= {name: -(-extent // size), inner: size}
            count, block = self.extents[name], 1
            several = [size for size in divisors(count, count // 2) if size > 1]
            if self.driver is not None and several:
                block = self._ask(f"block {axis}", (1, *several[::max(1, len(several) // 4)]),
                                  lambda block: 1.0 if block == 1 else 1.1)
            if block > 1:
                outer, name = stage.split(name, block)
                self.extents |= {outer: count // block, name: block}
                blocks.append(outer)
            elif axis == vector and extent % size and self._ask(
                    "peel", (True, False), lambda peel: 1.0 if peel else 1.2):
                behind.append(name)
            tiles.append(name)
        inner = {vector: vector, f"{vector}_i": vector}
        tile.sort(key=lambda loop: loop in inner)
        return [blocks, tiles], tile, behind

    # Order

    def _order(self, outer: list[list[str]]) -> list[str]:
        """The loops over blocks and over tiles, one of which comes first or last."""
        result: list[str] = []
        for name, group in zip(("blocks", "order"), outer):
            if len(group) > 1:
                ways = ["as is", *(f"{loop} last" for loop in group[:-1]),
                        *(f"{loop} first" for loop in group[1:] if len(group) > 2)]
                way = self._ask(name, ways, lambda way: 1.0 if way == "as is" else 1.1)
                loop, _, end = way.partition(" ")
                if loop in group:
                    rest = [other for other in group if other != loop]
                    group = [loop, *rest] if end == "first" else [*rest, loop]
            result += group
        return result

    def _reduce(self, order: list[str], tile: list[str], vector: str
                ) -> tuple[list[str], list[str]]:
        """All loops with those of the reduction among them, and which of these are unrolled."""
        if not self.reduced:
            return order, []
        if vector != NONE:
            wanted = tile[0] if tile else LAST
        else:
            wanted = LAST if self.sums_rows or not tile else tile[-1]

        def cost(place: str) -> float:
            if place == wanted:
                return 1.0
            return 1.3 if place in tile else 2.0

        places = order if vector != NONE else [*order, LAST]     # no reduction inside of vectors
        place = self._ask("reduce", places, cost)
        at = order.index(place) if place != LAST else len(order)
        last = self.reduced[-1]
        written = prod(self.extents[loop] for loop in tile if loop in order[at:]
                       and not loop.startswith(vector))
        extent = self.extents[last]
        cuts = [size for size in divisors(extent, MOST_UNROLLED) if size in (1, 2, 4, 8)
                or size == extent]
        cuts = [size for size in cuts if size == 1 or size * written <= MOST_UNROLLED]
        cut = self._ask("cut", cuts or [1], lambda size: 1.05 if size > 1 else 1.0)
        inside, unrolled = list(self.reduced), []
        if cut == extent > 1:
            unrolled = [last]
        elif cut > 1:
            outer, inner = self.s[self.stage].split(last, cut)
            inside[-1:] = [outer, inner]
            unrolled = [inner]
        return [*order[:at], *inside, *order[at:]], unrolled

    def _is_reduced(self, loop: str) -> bool:
        write = write_of(self.s.program, self.stage)
        return isinstance(write, Update) and Var(loop) in write.axes

    def _begins(self, position: list[str]) -> bool:
        """True if the reduction begins before its loops."""
        inside = position[-1] if position else ""
        return bool(position) and not self._is_reduced(inside) and self._ask(
            "begins", ("before", "inside"), lambda when: 1.0 if when == "before" else 1.3
        ) == "before"

    def _mark(self, tile: list[str], vector: str, unrolled: list[str]) -> None:
        stage = self.s[self.stage]
        along = next((loop for loop in tile if loop in (vector, f"{vector}_i")), None)
        others = [loop for loop in tile if loop != along]
        count = prod(self.extents[loop] for loop in others)
        leaves = along is None and not self.sums_rows    # vectors to LLVM

        def cost(written_out: bool) -> float:
            if leaves:
                return 1.3 if written_out else 1.0
            return 1.0 if written_out else 1.5 if self.reduced else 1.1

        if others and 1 < count <= MOST_UNROLLED and self._ask("unrolled", (True, False), cost):
            unrolled = [*unrolled, *others]
        for loop in unrolled:
            stage.unroll(loop)
        if along is not None:
            stage.vectorize(along)
