"""Accesses that a program makes, counted in its words: what no simulator has counted.

The cycle simulator counts accesses as they come (`Run.accesses`). The slice of the RTL, which
simulates machines with units of one's own, knows times alone. What depends on words only is the
same here, to one: iterations, sums with the destination, beats, chunks. Two things depend on time
and are left out: what an iteration of vector that waits reads again, and rows of the memory that
are opened.
"""

import numpy as np
from amaranth.lib import data
from amaranth.utils import exact_log2

from accel.machine import isa
from accel.machine.config import OUTPUT_STATIONARY, WEIGHT_STATIONARY
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import ACCESSES
from accel.machine.streams import StreamForm
from accel.machine.structure import FETCH, UnitKind, Unit
from accel.machine.words import column
from compiler.tensorize import Intrinsic


def counted(machine: Machine, program: AccelProgram) -> np.ndarray:
    """A row of `ACCESSES` for each instruction (int64); iterations of a stream unit are the entries
    that it reads."""
    words, found = program.words, np.zeros((program.count, len(ACCESSES)), np.int64)
    for opcode, name in machine.names.items():
        rows = np.flatnonzero(words[:, 0] == opcode)
        if not rows.size or machine.units[opcode] == FETCH:
            continue
        unit = machine.structure.unit(machine.units[opcode])
        layout, some = machine.layouts[name], words[rows]
        if unit.kind.moves:
            counts = _moved(machine, unit, layout, some)
        else:
            counts = _computed(machine, unit, machine.intrinsic(name), layout, some)
        for kind, values in counts.items():
            found[rows, ACCESSES.index(kind)] = values
    return found


def _extents(layout: data.Layout, words: np.ndarray, levels: int) -> list[np.ndarray]:
    return [column(layout, words, f"loops.{level}.extent") for level in range(levels)]


def _computed(machine: Machine, unit: Unit, form: Intrinsic | StreamForm, layout: data.Layout,
              words: np.ndarray) -> dict[str, np.ndarray]:
    """Iterations, those that read their destination, and reads of vector's sources."""
    extents = _extents(layout, words, form.loops)
    iterations = np.prod(extents, axis=0)
    found = {"iterations": iterations}
    if isinstance(form, StreamForm):
        return found
    to_sums = unit.kind is UnitKind.GEMM or column(layout, words, "destination") == isa.selectors(
        unit)["destination"].index(machine.structure.roles.acc)
    if form.update != "assign":
        reset = column(layout, words, "reset") != 0
        moved = [np.where(column(layout, words, f"loops.{level}.dst") != 0, extent, 1)
                 for level, extent in enumerate(extents)]
        found["folds"] = to_sums * (iterations - reset * np.prod(moved, axis=0))
    if unit.kind is UnitKind.VECTOR:
        return found | _reads(machine, unit, form, layout, words, iterations)
    return found | _of_array(machine, form, layout, words, found)


def _of_array(machine: Machine, form: Intrinsic, layout: data.Layout, words: np.ndarray,
              found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Reads of weights, and results that meet acc: where weights stay, a column at a time whenever
    an iteration has another tile than the one before; where sums stay, one result for iterations
    that follow each other into one destination."""
    iterations, dataflow = found["iterations"], machine.config.dataflow
    if dataflow == WEIGHT_STATIONARY:
        tiles = [1 + np.count_nonzero(np.diff(_places(layout, word[None], form.loops, "b")))
                 for word in words]
        return {"weights": np.array(tiles, np.int64) * machine.config.block_out,
                "meets": iterations}
    if dataflow == OUTPUT_STATIONARY:
        runs = [_runs(layout, word[None], form) for word in words]
        return {"weights": iterations} | {kind: np.array([one[place] for one in runs], np.int64)
                                          for place, kind in enumerate(("meets", "folds"))}
    return {"weights": iterations, "meets": iterations}


def _runs(layout: data.Layout, word: np.ndarray, form: Intrinsic) -> tuple[int, int]:
    """Runs of iterations into one destination, and those in which none assigns."""
    begins = np.flatnonzero(np.diff(_places(layout, word, form.loops, "dst"), prepend=-1))
    if form.update == "assign":
        return len(begins), 0
    assigns = np.array(column(layout, word, "reset")[0] != 0)
    for level, (extent,) in enumerate(_extents(layout, word, form.loops)):
        still = column(layout, word, f"loops.{level}.dst")[0] == 0
        assigns = (assigns[..., None] & ~(still & (np.arange(extent) > 0))).reshape(-1)
    return len(begins), int((~np.logical_or.reduceat(assigns, begins)).sum())


def _places(layout: data.Layout, word: np.ndarray, levels: int, operand: str) -> np.ndarray:
    """The entry of an operand in each iteration, from the word's base on."""
    places = np.array(0)
    for level, (extent,) in enumerate(_extents(layout, word, levels)):
        step = column(layout, word, f"loops.{level}.{operand}")[0]
        places = (places[..., None] + step * np.arange(extent)).reshape(-1)
    return places & 0xFFFF              # addresses have 16 bits


def _reads(machine: Machine, unit: Unit, form: Intrinsic, layout: data.Layout, words: np.ndarray,
           iterations: np.ndarray) -> dict[str, np.ndarray]:
    """Cycles in which vector reads its sources: one for each part of an entry, and one more where
    both are in one buffer."""
    sums, results = unit.at("a")
    (records,) = unit.at("record")
    named = {operand.name: operand.scopes for operand in form.operands}
    none = np.zeros(len(words), bool)

    def at(operand: str, buffer: str) -> np.ndarray:
        if operand not in named:
            return none
        codes = isa.selectors(unit)[f"{operand}_source"]
        return column(layout, words, f"{operand}_source") == codes.index(buffer)

    each = iterations * machine.config.vector_beats
    both = {buffer: at("a", buffer) & at("b", buffer) for buffer in (sums, results)}
    each = each * (1 + (both[sums] | both[results]))
    record = any(scopes == (records,) and name != "b" for name, scopes in named.items())
    return {"acc": each * (at("a", sums) | at("b", sums)),
            "res": each * (at("a", results) | at("b", results)),
            "par": each * (at("b", records) | record)}


def _moved(machine: Machine, unit: Unit, layout: data.Layout, words: np.ndarray
           ) -> dict[str, np.ndarray]:
    """Beats on the memory port, and chunks of buffers, as the steps of a run make them."""
    counts = [_steps(machine, unit, layout, word[None]) for word in words]
    return {kind: np.array([one[place] for one in counts], np.int64)
            for place, kind in enumerate(("beats", "chunks", "shared"))}


def _steps(machine: Machine, unit: Unit, layout: data.Layout, word: np.ndarray
           ) -> tuple[int, int, int]:
    """Beats and chunks of one instruction, all of whose runs are looked at at once, and the beats
    that are the shared scratchpad's."""
    def field(name: str) -> int:
        return int(column(layout, word, name)[0])

    bits = exact_log2(machine.config.bus_bytes)
    memory, buffer = np.array(field("dram")), np.array(field("address"))
    pad = np.array(False)
    for level in range(isa.DMA["loops"].shape.length):
        extent, before, after, dram, step = (field(f"loops.{level}.{name}") for name in (
            "extent", "before", "after", "dram", "buffer"))
        at = np.arange(extent)
        memory = (memory[..., None] + dram * at).reshape(-1)
        buffer = (buffer[..., None] + step * at).reshape(-1)
        pad = (pad[..., None] | (at < before) | (at + after >= extent)).reshape(-1)
    last, within = field("run") - 1, machine.config.bus_bytes - 1
    ends = (memory & within) + last >> bits, (buffer & within) + last >> bits
    pad, again = pad & bool(unit.writes), np.zeros_like(memory)
    if unit.writes:
        again = _again(machine, memory, ends[0] + 1, pad)
    beats, chunks = np.where(pad, 0, ends[0] + 1 - again), int((ends[1] + 1).sum())
    border = machine.config.shared_bytes * (field("base") == isa.BASES.index("activations")) >> bits
    shared = np.clip(border - (memory >> bits) - again, 0, beats)
    return int(beats.sum()), chunks, int(shared.sum())


def _again(machine: Machine, memory: np.ndarray, beats: np.ndarray, pad: np.ndarray) -> np.ndarray:
    """The number of first beats of each run that are those of the run before, which load keeps."""
    again, real = np.zeros(len(memory), np.int64), np.flatnonzero(~pad)
    if real.size < 2:
        return again
    size, kept = machine.config.bus_bytes, machine.config.kept_beats
    before, run = real[:-1], real[1:]
    passed = (memory[run] // size - memory[before] // size) & ((1 << 32) // size - 1)
    held = np.where(beats[before] > kept, 0, beats[before])
    follows = (passed > 0) | (memory[run] % size >= memory[before] % size)
    again[run] = np.where((passed < held) & follows, held - passed, 0)
    return np.minimum(again, beats)
