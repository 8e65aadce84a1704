"""Programs for what random ones do not reach: a token counter that is full, long waits for every
cause, so that the counters of cycles are tried beyond a few thousand, extents, padding and strides
of many bits."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from accel import isa
from accel.access import with_tokens
from accel.config import UNITS
from accel.machine import Machine
from accel.plan import plan
from accel.program import Instruction, Program, TensorSlot, finish

from .generate import Case

__all__ = ["changed", "directed", "nothing"]


LATENCY = 40            # cycles from one short instruction to the next, at most

LOOPS = {unit: layout["loops"].shape.length for unit, layout in isa.FORMATS.items()
         if unit in UNITS}

LONG = 1 << 16
"""Cycles of a long wait, about."""

ODD = LONG - 1500
"""The same, but most bits of the sum of both are set."""

SHORT = LONG >> 3

EXTENTS = (1 + 0x2AAA, 1 + 0x1555)
"""Extents that a loop runs through twice; they are stored minus one."""

PADS = 0xAAA, 0x555
"""Padding before and after."""

FAR = 1 << 20
"""Bytes of memory over which strides reach, of what is loaded and of what is stored."""

STRIDES = (0x55555, -0x33333, 0x1E1E1, -0x38E38)
"""In memory: of so many bytes; together they reach less than `FAR`."""

ORIGIN = 0x55 << 24
"""Address of the first byte there."""


def directed(machine: Machine) -> list[Case]:
    """Programs in which a token counter is full, for each unit as the one that signals; in which
    all others wait for a unit; in which units wait for a bank, a hazard or memory; in which every
    loop is long; in which every loop has long strides."""
    return [*(_full_counter(machine, source, target)
              for source, target in zip(UNITS, (*UNITS[1:], UNITS[0]))),
            *(_long_wait(machine, unit) for unit in UNITS),
            _bank(machine, "gemm", "vector"), _bank(machine, "vector", "gemm"),
            _hazard(machine), _slow_memory(machine), _extents(machine), _strides(machine)]


def _full_counter(machine: Machine, source: str, target: str) -> Case:
    """The target is busy for long while the source gives it 256 tokens: the last has to wait, and
    instructions gather behind it until there is no room."""
    give = {"signals": isa.unit_mask([target])}
    take = {"waits": isa.unit_mask([source])}
    short, taking = nothing(machine, source, 1), changed(nothing(machine, target, 1), take)
    busy = 256 * (LATENCY + _load_cycles(machine))
    body = [nothing(machine, target, busy), *[changed(short, give)] * 255, taking,
            changed(short, give), *[short] * _crowd(machine), *[taking] * 255]
    return _case(machine, f"full counter, {source} to {target}", body)


def _crowd(machine: Machine) -> int:
    """More instructions than any unit has between start and retirement; load and store have few."""
    return 2 + max(plan(machine, unit).retire_depth for unit in ("gemm", "vector"))


def _long_wait(machine: Machine, source: str) -> Case:
    """One unit is busy for long, twice in its first loop and once, shorter, in its last; the others
    wait for its tokens, and then for commands."""
    others = [unit for unit in UNITS if unit != source]
    give, take = ({name: isa.unit_mask(units)}
                  for name, units in (("signals", others), ("waits", [source])))
    long, odd = (nothing(machine, source, cycles) for cycles in (LONG, ODD))
    taking = [changed(nothing(machine, unit, 1), take) for unit in others]
    short = nothing(machine, source, SHORT)
    body = [nothing(machine, "gemm", 1), nothing(machine, "store", 1), changed(long, give),
            *taking, changed(odd, give), *taking,
            changed(short, {"loops": _last(short.fields["loops"], LOOPS[source])})]
    return _case(machine, f"long wait for {source}", body)


def _last(loops: list[dict[str, int]], count: int) -> list[dict[str, int]]:
    """The same loops, the first one innermost of `count`."""
    first, *others = loops
    return [*others, *[{"extent": 1}] * (count - len(loops)), first]


def _bank(machine: Machine, holder: str, other: str) -> Case:
    """A unit holds a bank of acc for long in which the other one writes another entry."""
    acc = {"gemm": {}, "vector": {"banks": 1, "destination": 0}}
    return _case(machine, f"{other} waits for a bank", [
        nothing(machine, "gemm", 1), changed(nothing(machine, holder, LONG), acc[holder]),
        changed(nothing(machine, other, 1), acc[other])])


def _hazard(machine: Machine) -> Case:
    """Every iteration of vector reads what the one before it wrote."""
    add = {"banks": 1, "b_source": isa.SOURCES_B.index("imm"), "imm": 1, "base": {},
           "loops": [{"extent": LONG // 8}]}
    first = {"banks": 1, "b_source": isa.SOURCES_B.index("imm"), "imm": 3, "base": {}}
    return _case(machine, "hazards", [Instruction("copy", "vector", first),
                                      Instruction("add", "vector", add)])


def _slow_memory(machine: Machine) -> Case:
    """Beats are rare: load and store wait for them."""
    run, times = 16, 256
    loops = [{"extent": times}]
    body = [changed(nothing(machine, "load", 1), {
        "base": isa.BASES.index("weights"), "run": run, "loops": loops}),
            changed(nothing(machine, "store", 1), {"run": 1, "loops": loops, "dram": 32})]
    case = _case(machine, "slow memory", body)
    rate = run * times / LONG
    return Case(case.name, case.program, case.memory, {"latency": 2, "bytes_per_cycle": rate})


def _extents(machine: Machine) -> Case:
    """Every loop of every unit but the first runs through long extents, twice; of those of load
    some iterations are padding. The units do so at the same time."""
    body = []
    for level in range(max(LOOPS.values())):
        for unit, count in LOOPS.items():
            if 0 < level < count:
                body += [_twice(machine, unit, level, extent) for extent in EXTENTS]
    body += [_padded(machine, level, *pads)
             for level in range(LOOPS["load"]) for pads in (PADS, PADS[::-1])]
    return _case(machine, "long extents", body)


def _twice(machine: Machine, unit: str, level: int, extent: int) -> Instruction:
    beats = machine.config.vector_beats if unit == "vector" else 1
    loops = [{"extent": 1} for _ in range(LOOPS[unit])]
    loops[level - 1], loops[level] = {"extent": 2}, {"extent": 1 + (extent - 1) // beats}
    if unit == "load":                  # nothing but padding
        loops[level - 1] |= {"before": 2}
    return changed(nothing(machine, unit, 1), {"loops": loops, "run": 1} if unit == "load"
                   else {"loops": loops})


def _padded(machine: Machine, level: int, before: int, after: int) -> Instruction:
    loops = [{"extent": 1} for _ in range(LOOPS["load"])]
    loops[level] = {"extent": before + after + 2, "before": before, "after": after}
    return changed(nothing(machine, "load", 1), {
        "base": isa.BASES.index("weights"), "run": 1, "loops": loops})


def _strides(machine: Machine) -> Case:
    """Sixteen entries far from each other in memory go to places far from each other in a buffer,
    by load, gemm or vector, and store, and to others in memory. In turn every four loops of a unit
    that follow each other walk them, up and down."""
    body = [one for turn in range(2 * max(LOOPS.values())) for one in _scattered(machine, turn)]
    slot = TensorSlot("data", "io", 0, (FAR,), "uint8")
    program = Program.assemble(machine, [*with_tokens(machine, body), finish()], io_bytes=2 * FAR,
                               inputs=(slot,))
    data = np.random.default_rng(0).integers(256, size=FAR, dtype=np.uint8)
    return Case("long strides", program, program.image({"data": data}),
                {"latency": 2, "origin": ORIGIN})


def _scattered(machine: Machine, turn: int) -> list[Instruction]:
    """The way of sixteen entries: in turn through res and, as products, through acc."""
    def dma(unit: str, buffer: str, first: int) -> Instruction:
        entry = machine.config.buffers[buffer].entry_bytes
        loops, base = _walk(unit, turn, {"buffer": entry * _apart(machine, buffer), "dram": 0})
        return Instruction(unit, unit, {
            "buffer": isa.BUFFERS.index(buffer), "base": isa.BASES.index("io"), "run": entry,
            "dram": first + base["dram"], "address": base["buffer"], "loops": loops})

    apart = {buffer: _apart(machine, buffer) for buffer in isa.BUFFERS}
    source = ("res", "acc")[turn % 2]
    loops, base = _walk("vector", turn, {"b": apart[source], "dst": apart["out"]})
    copy = Instruction("copy", "vector", {
        "banks": 3, "b_source": isa.SOURCES_B.index(source), "base": base, "loops": loops,
        "destination": isa.DESTINATIONS.index("out")})
    after = [copy, dma("store", "out", FAR)]
    if source == "res":
        return [dma("load", "res", 0), *after]
    loops, base = _walk("gemm", turn, {"a": apart["inp"], "b": apart["wgt"], "dst": apart["acc"]})
    product = Instruction("gemm", "gemm", {"banks": 3, "reset": 1, "base": base, "loops": loops})
    return [dma("load", "inp", 0), dma("load", "wgt", 0), product, *after]


def _apart(machine: Machine, buffer: str) -> int:
    """Entries from one of sixteen places of a buffer to the next."""
    return machine.config.buffers[buffer].depth // 16


def _walk(unit: str, turn: int,
          apart: Mapping[str, int]) -> tuple[list[dict[str, int]], dict[str, int]]:
    """Four loops of two iterations, from level `turn` on, through sixteen places that are so much
    apart (in memory: by `STRIDES`), and the first address for each operand."""
    loops, base = [{"extent": 1} for _ in range(LOOPS[unit])], {}
    for number, (key, step) in enumerate(apart.items()):
        strides = [step * times for times in (1, -2, 4, -8)] if key != "dram" else STRIDES
        sign = -1 if (turn >> 1) + number & 1 else 1
        signed = [sign * strides[(turn + number + k) % 4] for k in range(4)]
        base[key] = -sum(min(0, stride) for stride in signed)
        for k, stride in enumerate(signed):
            stored = stride if key == "dram" else stride % (1 << (24 if key == "buffer" else 16))
            loops[(turn + k) % len(loops)] |= {"extent": 2, key: stored}
    return loops, base


def _case(machine: Machine, name: str, body: Sequence[Instruction]) -> Case:
    program = Program.assemble(machine, [*_prepared(machine, list(body)), finish()], io_bytes=64,
                               weights=np.arange(64, dtype=np.uint8))
    return Case(name, program, program.image(), {"latency": 2})


def _prepared(machine: Machine, body: list[Instruction]) -> list[Instruction]:
    """Before the stream, what writes the entries that gemm and store read."""
    before: list[Instruction] = []
    for unit, maker in (("gemm", "load"), ("store", "vector")):
        first = next((k for k, one in enumerate(body) if one.unit == unit), None)
        if first is None:
            continue
        made = ([changed(nothing(machine, maker, 1), {"buffer": k}) for k in range(2)]
                if maker == "load" else [changed(nothing(machine, maker, 1), {"base": {}})])
        made[-1] = changed(made[-1], {"signals": isa.unit_mask([unit])})
        waits = body[first].fields.get("waits", 0) | isa.unit_mask([maker])
        body[first] = changed(body[first], {"waits": waits})
        before += made
    return before + body


def changed(instruction: Instruction, fields: Mapping[str, Any]) -> Instruction:
    return Instruction(instruction.name, instruction.unit, {**instruction.fields, **fields})


def _entry_bytes(machine: Machine) -> int:
    """Of the larger one of the entries that load writes for gemm."""
    return max(machine.config.buffers[name].entry_bytes for name in ("inp", "wgt"))


def _load_cycles(machine: Machine) -> int:
    """Of a run of `_entry_bytes`."""
    return max(1, _entry_bytes(machine) // machine.config.bus_bytes)


def nothing(machine: Machine, unit: str, cycles: int) -> Instruction:
    """An instruction of about so many cycles that needs nothing but itself."""
    if unit == "load":
        cycles = max(1, cycles // _load_cycles(machine))
    if unit == "vector":
        cycles = max(1, cycles // machine.config.vector_beats)
    loops = [{"extent": min(cycles, LONG)}]
    if unit == "load":          # nothing but padding, of a whole entry
        loops.append({"extent": 1, "before": 1})
        return Instruction("load", unit, {"buffer": 2, "base": 3, "run": _entry_bytes(machine),
                                          "loops": loops})
    if unit == "store":
        return Instruction("store", unit, {"buffer": 5, "base": 3, "loops": loops})
    if unit == "vector":
        copy = {"b_source": isa.SOURCES_B.index("imm"), "destination": 1, "loops": loops,
                "base": {"dst": 1}}
        return Instruction("copy", unit, copy)
    return Instruction("gemm", unit, {"banks": 1, "reset": 1, "loops": loops})
