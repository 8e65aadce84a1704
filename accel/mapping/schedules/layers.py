"""Schedules of the accelerator's layers, in the schedule language.

Algorithm (accel/mapping/operators/blocked.py)::

    input     = the window's pixels, padded          acc  = products or window maxima
    quantized = requantized lanes, int8              output = quantized, in memory's layout

Schedule::

    for n, group, channels/tile, rows/tile, columns/tile:        (innermost: virtual threads)
      for depth/step:                                    (convolutions whose tile has several steps)
        load input and weights, run gemm over the tile
      requantize the tile into out, store it

A window that does not fit is loaded in pieces: each is folded, or multiplied, into acc before the
next. Where the results of a function of rows do not fit at once, all its numbers come first; where
a row does not fit, each total loads its parts. A tile loads what it uses. A stationary operand is
loaded before the tiles that share it: weights by the loop over channels, input by the loop over
columns, which then encloses the loop over channels.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import prod

from accel.machine.config import WEIGHT_STATIONARY, AccelConfig
from accel.machine.intrinsics import operand_field
from accel.machine.machine import Machine
from accel.mapping.lowering import LoweringError
from accel.mapping.operators.blocked import AROUND, BlockedOperator
from accel.mapping.schedules.demands import cost_of, piece_of
from accel.mapping.schedules.ranking import choose
from accel.mapping.schedules.streams import streamed
from accel.mapping.schedules.tiles import Shape, Tiles, most_threads, shape_of
from compiler.ir import Program, loops
from compiler.schedule import Schedule
from compiler.schedule.handle import StageSchedule
from compiler.schedule.primitives.intrinsics import tensorized
from compiler.te import Expr, Read, Reduce, Tensor, is_float, walk
from compiler.tensorize import Intrinsic


def tiles_of(machine: Machine, operator: BlockedOperator, threads: int, only: bool = True
             ) -> tuple[Tiles, int]:
    """The cheapest tiles that fit the machine, and how many virtual threads share its buffers:
    `threads`, or fewer where no tile fits so many times. Products and functions of rows come in
    pieces only where no tile fits otherwise. Units of vector that share tiles may have `threads`
    each, where that is cheaper. Where the layer is not the `only` one of its program, others hide
    some of its beginning. Refuses a layer of which not even one pixel fits.
    """
    shape, config = replace(shape_of(operator), only=only), machine.config
    whole = (shape.weighted or shape.numbers) and not shape.across
    found = _most_that_fit(config, shape, threads, bool(whole))
    if (most := most_threads(shape, threads)) > threads:
        with suppress(LoweringError):
            more = choose(config, shape, most, not whole), most
            return min(found, more, key=lambda way: cost_of(config, shape, *way).cycles)
    return found


def _most_that_fit(config: AccelConfig, shape: Shape, threads: int, whole: bool
                   ) -> tuple[Tiles, int]:
    """The cheapest tiles that fit as many times as any do, up to `threads`; `whole`: in pieces only
    where no other does."""
    ways = [(cut, count) for cut in (not whole, True)
            for count in range(threads, 0, -1)]
    for cut, count in ways[:-1]:
        try:
            return choose(config, shape, count, cut), count
        except LoweringError:
            continue
    return choose(config, shape, 1), 1


def schedule(machine: Machine, operator: BlockedOperator, tiles: Tiles,
             threads: int = 2) -> Schedule:
    """Schedules one layer with given tiles. Refuses tiles that no schedule can have."""
    layer = placed(machine, operator, tiles, threads)
    layer.compute()
    return layer.steps


def placed(machine: Machine, operator: BlockedOperator, tiles: Tiles, threads: int) -> "LayerSteps":
    """The schedule with all but its last steps: what vector computes has no instructions yet."""
    layer = LayerSteps(machine, operator, tiles, threads)
    layer.tile_output()
    layer.place_results()
    layer.place_operands()
    layer.tensorize()
    return layer


class LayerSteps:
    """The steps of one schedule, in order; each method is one group of steps."""

    def __init__(self, machine: Machine, operator: BlockedOperator, tiles: Tiles, threads: int):
        self.machine, self.operator, self.tiles, self.threads = machine, operator, tiles, threads
        self.steps = Schedule([operator.output], operator.output.name)
        self.stages = {role: tensor.name for role, tensor in operator.stages.items()}
        self.computed_weights = {"w", "y"} <= set(self.stages)
        lanes = operator.reduced.get("lanes")
        self.lanes = [lanes.name] if lanes else []
        self.blocks: dict[str, str] = {}        # loops over blocks of rows, of totals that are cut
        self.window = [axis.name for axis in operator["acc"].reduce_axes if axis != lanes
                       ] if "acc" in operator.stages else []

    def __getitem__(self, role: str):
        return self.steps[self.stages[role]]

    def tile_output(self) -> None:
        """Puts tile loops outside, the tile inside, virtual threads on the innermost loop of
        several iterations.
        """
        output, cut = self["output"], {}
        for axis, size in (("y", self.tiles.rows), ("x", self.tiles.columns),
                           ("c", self.tiles.channels)):
            cut[axis] = output.split(axis, size)
        kept = "c" if self.tiles.stationary == "w" else "x"
        order = ("yxc" if self.tiles.stationary == "input" else
                 "ycx" if self.tiles.by_rows else "cyx")
        outer = [cut[axis][0] for axis in order]
        around, (p, q) = self._axes("output", AROUND), self._phases("output")
        output.reorder(*around, *outer, cut["y"][1], *p, cut["x"][1], *q, "b",
                       *self._axes("output", "s"), cut["c"][1], "o")
        shared, innermost = cut[kept][0], outer[-1]
        several = any(self._extents()[self._full(cut[axis][0])] > 1 for axis in "yx")
        if self.threads > 1:
            if self.tiles.stationary:
                shared = self._threaded(shared, [*around, *outer[:outer.index(shared) + 1]])
                self.tile_loop = self._threaded(innermost, outer[outer.index(cut[kept][0]) + 1:])
            else:
                self.tile_loop = self._threaded(innermost, [*around, *outer])
        else:
            self.tile_loop = innermost
        self.shared_loop = shared if self.tiles.stationary else self.tile_loop
        self.repeated_loop = cut["c"][0] if several else self.tile_loop

    def _axes(self, role: str, wanted: str) -> list[str]:
        """The wanted axes that a stage has."""
        return [axis for axis in wanted if axis in self.operator.axes[role]]

    def _phases(self, role: str) -> tuple[list[str], list[str]]:
        """The axes of the phases of rows and of columns, where there are several."""
        return self._axes(role, "p"), self._axes(role, "q")

    def _full(self, name: str) -> str:
        return name if name in self._extents() else f"{self.stages['output']}_{name}"

    def _of(self, role: str, loop: str) -> str:
        """The full name of a loop of a stage."""
        return loop if loop in self._extents() else f"{self.stages[role]}_{loop}"

    def _extents(self) -> dict[str, int]:
        return {loop.var.name: loop.extent for loop in loops(self.steps.program.body)}

    def _threaded(self, innermost: str, candidates: list[str]) -> str:
        """Puts virtual threads on the innermost of `candidates` (outermost first) that has several
        iterations. Returns the loop in which to compute what belongs to an iteration of
        `innermost`, the last of them.
        """
        extents = self._extents()
        several = [name for name in candidates if extents[self._full(name)] > 1]
        if not several:
            return innermost
        count = min(self.threads, extents[self._full(several[-1])])
        _, thread = self["output"].split(several[-1], count)
        self["output"].virtual_thread(thread)
        return thread if self._full(several[-1]) == self._full(innermost) else innermost

    def place_results(self) -> None:
        """Places results of a tile in out and acc."""
        self["quantized"].compute_at(self.tile_loop)
        self["quantized"].set_scope(self._scope("quantized", "out"))
        self._order_records()
        for role in _readers_first(self.operator):
            if role not in self.operator.totals:
                self[role].compute_at(self._result_loop(role))
                self[role].set_scope("acc")

    def _order_records(self) -> None:
        """Puts blocks of channels outside where the instruction that makes results has its record
        at an address that no loop moves."""
        form = self.machine.forms.get(self.operator.by.get("quantized", ""), (None,))[0]
        if isinstance(form, Intrinsic) and any(
                operand_field(form, operand.name) == "c" and operand.scopes == ("par",)
                for operand in form.operands):
            axes = self.operator.axes["quantized"]
            self["quantized"].reorder("c", *axes.replace("c", ""))

    def place_operands(self) -> None:
        """Places operands where they are used."""
        loop, scope = self.tile_loop, self._scope("input", "res")
        if "w" in self.stages:
            loop, scope = self._order_products(), "inp"
            w = self["w"] if self.computed_weights else self["w"].cache_read("wgt")
            w.compute_at(self._kept("w", loop))
            self._spread_entries(w)
            if self.computed_weights:
                w.set_scope("wgt")
        elif self.tiles.pieces > 1:
            loop = self._cut_window()
        for total in dict.fromkeys(self.operator.totals.values()):
            self._place_parts(total, self._cut_total(total))
        for role in self.operator.inputs:
            if role in self.operator.totals:
                continue
            if role in self.operator.repeated:
                place = self.repeated_loop
            else:
                place = loop if self.operator.totals else self._kept("input", loop)
            self[role].compute_at(place)
            self[role].set_scope(scope)
        for role in self.operator.residuals:
            self[role].compute_at(self.tile_loop)
            self[role].set_scope("res")
        if self.operator.scales:
            self["scales"].compute_at(self._kept("w", self.tile_loop))
            self["scales"].set_scope("res")
            self._add_groups()
        for role in self.operator.parameters:
            self[role].cache_read("par").compute_at(self._kept("w", self._reader_loop(role, loop)))
        for role in self.operator.tables:
            self[role].cache_read(self._scope(role, "tab"))
        if self.operator.row:
            self._pack_rows()

    def _add_groups(self) -> None:
        """Adds the sums of a group, of all outputs, before those of the next."""
        groups, = (axis.name for axis in self.operator["total"].reduce_axes)
        self["total"].reorder(groups, "n", "y", "x", "c", "b", "o")
        self["total"].decompose_reduction(groups)

    def _scope(self, role: str, usual: str) -> str:
        """The buffer of a stage."""
        stream = self.operator.stream
        return stream.buffers[role] if stream else usual

    def _result_loop(self, role: str) -> str:
        """The loop that computes a stage: numbers of rows come before the parts of their results.
        """
        return self.shared_loop if role in self.operator.numbers else self.tile_loop

    def _reader_loop(self, role: str, pieces: str) -> str:
        """The loop that computes what reads a parameter; `pieces` computes parts of sums."""
        name = self.operator[role].name
        readers = [reader for reader in self.operator.accumulators
                   if name in _read_by(self.operator[reader])]
        if readers == ["acc"] and self.tiles.pieces > 1:
            return pieces
        return self._result_loop(readers[0]) if readers else self.tile_loop

    def _kept(self, operand: str, loop: str) -> str:
        """The loop that loads an operand: `loop`, unless the operand is stationary."""
        return self.shared_loop if self.tiles.stationary == operand else loop

    def _pack_rows(self) -> None:
        """Orders the windows of a packed input: row after row of bytes that lie together in memory.
        """
        window = self["input"]
        window.reorder("b", "c", "i")
        window.split(window.fuse("c", "i"), self.operator.row)

    def _spread_entries(self, w: StageSchedule) -> None:
        """Lets weights that are the first elements of entries lie an entry apart."""
        config, elements = self.machine.config, self.operator.weights
        whole = prod(config.tiles["wgt"][0])
        if elements and elements < whole:
            entry = self.machine.intrinsic(self.operator.by["acc"]).operands[1].shape
            w.storage_align(len(self.operator["w"].shape) - len(entry) - 1, whole)

    def _order_products(self) -> str:
        """Orders gemm's loops: tile, kernel, lanes; where weights stay, all pixels of the tile meet
        a block of weights before the next; sums of floats into one entry wait for each other, so
        all entries of the tile take a product before the next. Returns the loop that loads
        operands."""
        acc, reduced, outer = self["acc"], self.operator.reduced, list[str]()
        inner = [reduced["depth"].name] if "depth" in reduced else []
        if inner and self.tiles.depth < reduced["depth"].extent:
            around, inner[0] = acc.split(reduced["depth"].name, self.tiles.depth)
            outer.append(around)
        window = [reduced[role].name for role in ("rows", "columns")]
        outer += self._cut(window, piece_of(self.operator.window.kernel, self.tiles.pieces))
        passes = [reduced["passes"].name] if "passes" in reduced else []
        kernel, axes = [*inner, *window, *passes], partial(self._axes, "acc")
        config = self.machine.config
        floats = is_float(config.accumulator)
        if floats and self.tiles.pieces > 1:
            raise LoweringError("its window does not fit buffers at once, and the order in which "
                                "floats are summed is part of what it means")
        order = ([*kernel, *axes("pyxqcu")] if floats
                 else [*axes("pqcu"), *kernel, *axes("yx")] if config.dataflow == WEIGHT_STATIONARY
                 else [*axes("pyxqcu"), *kernel])
        acc.reorder(*outer, *axes(AROUND), *order, "b", "o", reduced["lanes"].name,
                    reassociate=floats)
        return self._alternating("acc", outer[-1]) if outer else self.tile_loop

    def _cut_window(self) -> str:
        """Cuts the window of a pool, or what is gathered, into pieces. Returns the loop that loads
        a piece.
        """
        sizes: Sequence[int] = piece_of(self.operator.window.kernel, self.tiles.pieces)
        if "depth" in self.operator.reduced:
            sizes = (-(-self.operator.reduced["depth"].extent // self.tiles.pieces),)
        outer = self._cut(self.window, sizes)
        self["acc"].reorder(*outer, *self._axes("acc", AROUND + "yxc"))
        return self._alternating("acc", outer[-1])

    def _cut(self, window: list[str], sizes: Sequence[int]) -> list[str]:
        """Splits loops of `acc` into pieces of such sizes, in place; the loops around them."""
        outer = list[str]()
        extents = {axis.name: axis.extent for axis in self.operator["acc"].reduce_axes}
        for at, size in enumerate(sizes):
            if size < extents[window[at]]:
                around, window[at] = self["acc"].split(window[at], size)
                outer.append(around)
        return outer

    def _cut_total(self, role: str) -> str:
        """Cuts the rows of a total into parts. Returns the loop that loads a part."""
        blocks = self.operator[role].reduce_axes[0]
        outer, inner = self[role].split(blocks.name, min(self.tiles.channels, blocks.extent))
        if not self.operator.across:
            self[role].reorder(outer, "n", "y", "x", inner)
        else:               # neighbouring iterations of vector do not wait for each other
            self[role].reorder(outer, inner, "n", "y", "x", "b", "o")
        self.blocks[role] = inner
        if self._is_folded(role):
            self[role].decompose_reduction(outer)
        return outer if self._extents()[self._of(role, outer)] == 1 else self._alternating(
            role, outer)

    def _is_folded(self, role: str) -> bool:
        """True of a total whose instruction assigns what it makes of the total and an element."""
        return bool(self.operator[role].reduce_axes) and all(
            form.update == "assign" for form in self.machine.forms[self.operator.by[role]])

    def _place_parts(self, total: str, loop: str) -> None:
        """Places what one total alone reads where it reads a part."""
        roles = [role for role in (*_readers_first(self.operator), *self.operator.inputs)
                 if self.operator.totals.get(role) == total]
        for role in roles:
            self[role].compute_at(loop)
            self[role].set_scope("res" if role in self.operator.inputs else "acc")

    def _alternating(self, role: str, loop: str) -> str:
        """Puts virtual threads on a loop of a stage. Returns the loop of what each turn loads."""
        if self.threads == 1:
            return loop
        count = min(self.threads, self._extents()[self._of(role, loop)])
        _, thread = self[role].split(loop, count)
        self[role].virtual_thread(thread)
        return thread

    def tensorize(self) -> None:
        """Replaces copies and sums by instructions."""
        self._copy(self.stages["output"], "store")
        for role in (*self.operator.inputs, *self.operator.residuals,
                     *["scales"] * bool(self.operator.scales), *["w"] * self.computed_weights):
            self._copy(self.stages[role], "load")
        for role, scope in (("w", "wgt"), *((role, "par") for role in self.operator.parameters),
                            *((role, self._scope(role, "tab"))
                              for role in self.operator.tables)):
            if role in self.stages and (role != "w" or not self.computed_weights):
                self._copy(f"{self.stages[role]}_{scope}", "load",
                           f"a load of {self.operator[role].dtype} into {scope}")
        if "acc" in self.stages:
            self._accumulate()
        for role in self.operator.numbers:
            if self.operator[role].reduce_axes and not self.operator.across:
                blocks, lanes = (axis.name for axis in self.operator[role].reduce_axes)
                self[role].reorder(self.blocks.get(role, blocks), "b", "o", lanes)

    @property
    def computed(self) -> tuple[str, ...]:
        """The stages that `compute` has instructions for."""
        return tuple(role for role in (*self.operator.accumulators, "quantized") if role != "acc")

    def compute(self) -> None:
        """Replaces what vector, or a stream unit, computes of them by instructions."""
        if self.operator.stream:
            self.steps = Schedule(streamed(self.machine, self.steps.program, self.operator))
            return
        for place, forms in self._places():
            self._try(place, forms)

    def program_computed(self) -> Program | None:
        """The program after `compute`, made in one step; None where that refuses."""
        if self.operator.stream:
            return streamed(self.machine, self.steps.program, self.operator)
        return tensorized(self.steps.program, dict(self._places()))

    def _places(self) -> Iterator[tuple[str, Iterable[Intrinsic]]]:
        """The loops of what vector computes, with the instructions that may compute it."""
        for role in self.computed:
            yield f"{self.stages[role]}_b", self._bodies(role)
            if (role in self.operator.numbers or role == "total") and self._is_folded(role):
                yield f"{self.stages[role]}_b_init", self._assigning

    def _bodies(self, role: str) -> list[Intrinsic]:
        """The instructions that may compute a stage: the one that is known, or all that assign, the
        shortest body first.
        """
        if role in self.operator.by:
            return list(self.machine.forms[self.operator.by[role]])
        return self._assigning

    @property
    def _assigning(self) -> list[Intrinsic]:
        """The instructions of vector that assign, the shortest body first."""
        assigning = [form for form in self.machine.of_unit("vector")
                     if not (form.reads_destination or form.reduce_axes)]
        return sorted(assigning, key=lambda form: sum(1 for _ in walk(form.value)))

    def _accumulate(self) -> None:
        if "w" not in self.stages:
            self["acc"].reorder("n", "y", "x", "c", *self.window, "b", "o", *self.lanes)
        self._lanes("acc", self._bodies("acc") if "acc" in self.operator.by else [
                            form for unit in ("gemm", "vector")
                            for form in self.machine.of_unit(unit)
                            if form.reads_destination or form.reduce_axes])

    def _lanes(self, role: str, candidates: Iterable[Intrinsic]) -> None:
        self._try(f"{self.stages[role]}_b", candidates)

    def _copy(self, stage: str, unit: str, said: str = "") -> None:
        self._try(stage, [form for forms in self.machine.forms.values() for form in forms
                          if form.unit == unit], said)

    def _try(self, place: str, candidates: Iterable[Intrinsic], said: str = "") -> None:
        """Tensorizes with the first intrinsic that matches; refuses a machine without one, by what
        is `said` of the place."""
        if self.steps.tensorize_first(place, candidates) is None:
            raise LoweringError(
                f"no instruction of the machine computes {said or self._said(place)}")

    def _said(self, place: str) -> str:
        """The computation at a place, in words."""
        role = next((role for role, stage in self.stages.items()
                     if place in (stage, f"{stage}_b")), "")
        if role == "quantized":
            return "its result from what acc holds"
        if role not in self.operator.accumulators:
            return "a copy that it needs"
        body = self.operator[role].body
        return f"its {body.op} in acc" if isinstance(body, Reduce) else "a step of it in acc"


def _readers_first(operator: BlockedOperator) -> list[str]:
    """The accumulators, each after those that are computed from it."""
    left, order = list(operator.accumulators), list[str]()
    reads = {role: _read_by(operator[role]) for role in left}
    while left:
        role = next(role for role in left
                    if not any(operator[role].name in reads[other] for other in left))
        order.append(role)
        left.remove(role)
    return order


def _read_by(reader: Tensor) -> set[str]:
    assert isinstance(reader.body, Expr)
    return {node.buffer.name for node in walk(reader.body) if isinstance(node, Read)}
