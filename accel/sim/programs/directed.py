"""Programs for what random ones may not reach: every form of every instruction, a token counter
that is full, long waits for every cause, so that the counters of cycles are tried beyond a few
thousand, extents, padding and strides of many bits."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from accel.datapath.plan import open_instructions, plan
from accel.machine import isa
from accel.machine.isa import WORD_BYTES
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, TensorSlot, finish
from accel.machine.streams import StreamForm
from accel.machine.structure import UnitKind
from accel.proof.legal import with_tokens

from .case import Case
from .forms import Form, form_of, forms, reads
from .generate import with_forms

TOGETHER = 16           # forms that one program holds

LATENCY = 40
"""Cycles from one short instruction to the next, at most, if its word takes no longer to come."""

WAITED = 24
"""Cycles from the last beat of a word to the first of the next, at most."""

SLOW = 240
"""The same of a stream unit, whose component takes its time."""

ROWS = 1 << 14
"""Rows of one entry of the longest instruction of a stream unit."""

LOOPS = {kind: layout["loops"].shape.length for kind, layout in isa.LAYOUTS.items()}
"""Loops in the words of a unit of each kind."""

LONG = 1 << 16
"""Cycles of a long wait, about."""

ODD = LONG - 1500
"""A long wait for which most bits of the sum of both are set."""

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
    loop is long; in which every loop has long strides; in which load reads the shared scratchpad,
    where there is one; that hold every form of every instruction."""
    every = forms(machine)
    all_forms = [with_forms(machine, first, every[first:first + TOGETHER])
                 for first in range(0, len(every), TOGETHER)]
    roles, units = machine.structure.roles, machine.structure.names
    if roles.acc in reads(machine, _idle(machine)):     # all of vector depends on gemm
        return all_forms
    return [*(_full_counter(machine, source, target)
              for source, target in zip(units, (*units[1:], units[0]))),
            *(_long_wait(machine, unit) for unit in units), *_banks(machine), *_hazard(machine),
            _slow_memory(machine), _extents(machine), _strides(machine), *_scratchpad(machine),
            *all_forms]


def _full_counter(machine: Machine, source: str, target: str) -> Case:
    """The target is busy for long while the source gives it a token too many: the last has to wait,
    and instructions gather behind it until there is no room."""
    give = {"signals": _mask(machine, target)}
    take = {"waits": _mask(machine, source)}
    short, taking = nothing(machine, source, 1), changed(nothing(machine, target, 1), take)
    full, streams = machine.config.timing.tokens, machine.structure.kind(source) is UnitKind.STREAM
    apart = max(SLOW if streams else LATENCY, WORD_BYTES // machine.config.bus_bytes + WAITED)
    busy, left = divmod((full + 1) * (apart + 1), LONG)
    body = [*[nothing(machine, target, LONG)] * busy, nothing(machine, target, left),
            *[changed(short, give)] * full, taking, changed(short, give),
            *[short] * _crowd(machine), *[taking] * full]
    return _case(machine, f"full counter, {source} to {target}", body)


def _mask(machine: Machine, *units: str) -> int:
    return isa.unit_mask(units, machine.structure.names)


def _loops(machine: Machine, unit: str) -> int:
    """Loops in the words of a unit."""
    return LOOPS[machine.structure.unit(unit).kind]


def _around(machine: Machine, unit: str) -> int:
    """Loops in the words of a unit, but for the row of a stream unit, which may not be long."""
    return _loops(machine, unit) - (machine.structure.kind(unit) is UnitKind.STREAM)


def _crowd(machine: Machine) -> int:
    """More instructions than any unit has between start and retirement; load and store have few."""
    return 2 + max(open_instructions(machine, unit.name)
                   for unit in machine.structure.units if not unit.kind.moves)


def _long_wait(machine: Machine, source: str) -> Case:
    """One unit is busy for long, twice in its first loop and once, shorter, in its last; the others
    wait for its tokens, and then for commands."""
    others, roles = [unit for unit in machine.structure.names if unit != source], (
        machine.structure.roles)
    give, take = ({name: _mask(machine, *units)}
                  for name, units in (("signals", others), ("waits", [source])))
    long, odd = (nothing(machine, source, cycles) for cycles in (LONG, ODD))
    taking = [changed(nothing(machine, unit, 1), take) for unit in others]
    short = nothing(machine, source, SHORT)
    reading = [roles.gemm, roles.store, *(
        unit.name for unit in machine.structure.of_kind(UnitKind.STREAM))]
    body = [*(nothing(machine, unit, 1) for unit in reading),
            changed(long, give),
            *taking, changed(odd, give), *taking,
            changed(short, {"loops": _last(short.fields["loops"], _around(machine, source))})]
    return _case(machine, f"long wait for {source}", body)


def _last(loops: list[dict[str, int]], count: int) -> list[dict[str, int]]:
    """Moves the first loop innermost of `count`."""
    first, *others = loops
    return [*others, *[{"extent": 1}] * (count - len(loops)), first]


def _banks(machine: Machine) -> list[Case]:
    """Either unit waits for the other; none where what vector does in out it cannot do in acc."""
    roles = machine.structure.roles
    to_acc = replace(_idle(machine), target=roles.acc)
    pairs = ([(roles.gemm, roles.vector), (roles.vector, roles.gemm)]
             if to_acc in forms(machine) else [])
    return [_bank(machine, *pair) for pair in pairs]


def _bank(machine: Machine, holder: str, other: str) -> Case:
    """A unit holds a bank of acc for long in which the other one writes another entry."""
    roles = machine.structure.roles
    to_acc = machine.structure.unit(roles.vector).writes.index(roles.acc)
    acc = {roles.gemm: {}, roles.vector: {"banks": 1, "destination": to_acc}}
    return _case(machine, f"{other} waits for a bank", [
        nothing(machine, roles.gemm, 1), changed(nothing(machine, holder, LONG), acc[holder]),
        changed(nothing(machine, other, 1), acc[other])])


def _hazard(machine: Machine) -> list[Case]:
    """Every iteration of vector reads what the one before it wrote; none where no operation can."""
    roles = machine.structure.roles
    form = _plainest(machine, roles.acc, roles.acc)
    if form is None:
        return []
    long = changed(_written_down(machine, form), {"base": {}, "loops": [{"extent": LONG // 8}]})
    return [_case(machine, "hazards", [
        _also(nothing(machine, roles.gemm, 1), "signals", _mask(machine, roles.vector)),
        _also(long, "waits", _mask(machine, roles.gemm))])]


def _plainest(machine: Machine, source: str, target: str) -> Form | None:
    """An operation of vector from one buffer to another that reads as few others as can be, `copy`
    where it is among these."""
    vector = machine.structure.roles.vector
    candidates = [form for form in forms(machine) if form.unit == vector and form.target == target
                  and form.reset is None and source in form.scopes.values()]
    return min(candidates, default=None, key=lambda form: (
        len(reads(machine, form)), [*form.scopes.values()].count(source), form.name != "copy"))


def _idle(machine: Machine, unit: str = "") -> Form:
    """The form of a unit of vector that reads least, into out and not from acc if it can; `copy`
    where it is among these."""
    roles = machine.structure.roles
    return min((form for form in forms(machine) if form.unit == (unit or roles.vector)),
               key=lambda form: (form.target == roles.acc, roles.acc in reads(machine, form),
                                 len(reads(machine, form)), form.name != "copy"))


def _written_down(machine: Machine, form: Form) -> Instruction:
    """An instruction of vector."""
    scopes, acc = form.scopes, machine.structure.roles.acc
    codes = isa.selectors(machine.structure.unit(form.unit))
    return Instruction(form.name, form.unit, {
        "banks": 3 if acc in (*scopes.values(), form.target) else 0,
        "reset": int(bool(form.reset)),
        "a_source": codes["a_source"].index(scopes.get("a", acc)),
        "b_source": codes["b_source"].index(scopes.get("b", acc)),
        "destination": codes["destination"].index(form.target)})


def _code(machine: Machine, buffer: str) -> int:
    return machine.structure.buffer_names.index(buffer)


def _slow_memory(machine: Machine) -> Case:
    """Beats are rare, but none takes over a thousand cycles: load and store wait for them."""
    roles = machine.structure.roles
    run, times = min(16, machine.config.buffers[roles.inp].size_bytes), 256
    loops = [{"extent": times}]
    body = [changed(nothing(machine, roles.load, 1), {
        "buffer": _code(machine, roles.inp), "address": 0, "base": isa.BASES.index("weights"),
        "run": run, "loops": loops}),
            changed(nothing(machine, roles.store, 1), {"run": 1, "loops": loops, "dram": 32})]
    case = _case(machine, "slow memory", body)
    rate = max(run * times / LONG, machine.config.bus_bytes / 1000)
    return Case(case.name, case.program, case.memory, {"latency": 2, "bytes_per_cycle": rate})


def _extents(machine: Machine) -> Case:
    """Every loop of every unit but the first runs through long extents, twice; of those of load
    some iterations are padding. The units do so at the same time."""
    body = []
    for level in range(max(LOOPS.values())):
        for unit in machine.structure.names:
            if 0 < level < _loops(machine, unit):
                body += [_twice(machine, unit, level, extent) for extent in EXTENTS]
    body += [_padded(machine, level, *pads)
             for level in range(LOOPS[UnitKind.LOAD]) for pads in (PADS, PADS[::-1])]
    return _case(machine, "long extents", body)


def _twice(machine: Machine, unit: str, level: int, extent: int) -> Instruction:
    loops = [{"extent": 1} for _ in range(_loops(machine, unit))]
    is_load = machine.structure.kind(unit) is UnitKind.LOAD
    inner = 1 + (extent - 1) // _interval(machine, unit)
    if machine.structure.kind(unit) is UnitKind.STREAM:     # rows, or the entries of one
        form = machine.of_unit(unit)[0]
        assert isinstance(form, StreamForm)
        inner = min(inner, form.longest if level == len(loops) - 1 else 512)
    loops[level - 1], loops[level] = {"extent": 2}, {"extent": inner}
    if is_load:                         # nothing but padding
        loops[level - 1] |= {"before": 2}
    return changed(nothing(machine, unit, 1), {"loops": loops, "run": 1} if is_load
                   else {"loops": loops})


def _interval(machine: Machine, unit: str) -> int:
    """Cycles from an iteration of gemm or vector to the next one into the same entry; from a row
    of one entry to the next, where a stream unit's first instruction says how many."""
    match machine.structure.kind(unit):
        case UnitKind.GEMM: return plan(machine, unit).hazard_cycles + 1
        case UnitKind.VECTOR: return machine.config.vector_beats
        case UnitKind.STREAM:
            first = machine.of_unit(unit)[0].name
            return next((max(1, round(computes.cycles(1))) for form, computes in machine.of_rows
                         if form.name == first), 1)
    return 1


def _padded(machine: Machine, level: int, before: int, after: int) -> Instruction:
    loops = [{"extent": 1} for _ in range(LOOPS[UnitKind.LOAD])]
    loops[level] = {"extent": before + after + 2, "before": before, "after": after}
    return changed(nothing(machine, machine.structure.roles.load, 1), {
        "base": isa.BASES.index("weights"), "run": 1, "loops": loops})


def _scratchpad(machine: Machine) -> list[Case]:
    """Load reads from the shared scratchpad what store has put there, in several runs."""
    if not machine.config.shared_bytes:
        return []
    roles, base = machine.structure.roles, isa.BASES.index("activations")
    run = machine.config.buffers[roles.out].entry_bytes
    store = changed(nothing(machine, roles.store, 1), {
        "base": base, "run": run, "signals": _mask(machine, roles.load),
        "loops": [{"extent": 4, "dram": run}]})
    load = changed(nothing(machine, roles.load, 1), {
        "base": base, "run": 2 * run, "address": 0, "waits": _mask(machine, roles.store),
        "loops": [{"extent": 2, "dram": 2 * run}]})
    case = _case(machine, "shared scratchpad", [store, load])
    program = replace(case.program,
                      activations_bytes=max(machine.config.shared_bytes, 4 * run + -4 * run % 64))
    return [replace(case, program=program, memory=program.image())]


def _strides(machine: Machine) -> Case:
    """Sixteen entries far from each other in memory go to places far from each other in a buffer
    (to as many as it has, if they are fewer), by load, gemm or vector, and store, and to others in
    memory. In turn every four loops of a unit that follow each other walk them, up and down."""
    body = [instruction for turn in range(2 * max(LOOPS.values()))
            for instruction in _scattered(machine, turn)]
    slot = TensorSlot("data", "io", 0, (FAR,), "uint8")
    program = AccelProgram.assemble(machine, [*with_tokens(machine, body), finish()],
                                    io_bytes=2 * FAR, inputs=(slot,))
    data = np.random.default_rng(0).integers(256, size=FAR, dtype=np.uint8)
    return Case("long strides", program, program.image({"data": data}),
                {"latency": 2, "origin": ORIGIN})


def _scattered(machine: Machine, turn: int) -> list[Instruction]:
    """The way of sixteen entries: in turn through res and, as products, through acc."""
    def dma(unit: str, buffer: str, first: int) -> Instruction:
        entry = machine.config.buffers[buffer].entry_bytes
        inside = [entry * step for step in steps[buffer]]
        loops, base = _walk(_loops(machine, unit), turn, {"buffer": inside, "dram": STRIDES})
        return Instruction(machine.of_unit(unit)[0].name, unit, {
            "buffer": _code(machine, buffer), "base": isa.BASES.index("io"), "run": entry,
            "dram": first + base["dram"], "address": base["buffer"], "loops": loops})

    roles = machine.structure.roles
    steps = {buffer: _steps(machine, buffer) for buffer in machine.structure.buffer_names}
    source = (roles.res, roles.acc)[turn % 2]
    form = _plainest(machine, source, roles.out)
    if form is None or reads(machine, form) != {source}:
        return []
    loops, base = _walk(LOOPS[UnitKind.VECTOR], turn, {"b": steps[source], "dst": steps[roles.out]})
    if "a" in form.scopes:
        for fields in (base, *loops):
            fields["a"] = fields.get("b", 0)
    after = [changed(_written_down(machine, form), {"base": base, "loops": loops}),
             dma(roles.store, roles.out, FAR)]
    if source == roles.res:
        return [dma(roles.load, roles.res, 0), *after]
    loops, base = _walk(LOOPS[UnitKind.GEMM], turn, {
        "a": steps[roles.inp], "b": steps[roles.wgt], "dst": steps[roles.acc]})
    product = changed(nothing(machine, roles.gemm, 1), {"banks": 3, "base": base, "loops": loops})
    return [dma(roles.load, roles.inp, 0), dma(roles.load, roles.wgt, 0), product, *after]


def _steps(machine: Machine, buffer: str) -> list[int]:
    """Strides, in entries, through sixteen places of a buffer that are as far apart as can be; of
    one that has fewer entries, through these."""
    depth = machine.config.buffers[buffer].depth
    apart = max(1, depth // 16)         # with all strides before it, one of t reaches 2t - 1
    return [apart * times if apart * (2 * abs(times) - 1) < depth else 0
            for times in (1, -2, 4, -8)]


def _walk(count: int, turn: int,
          steps: Mapping[str, Sequence[int]]) -> tuple[list[dict[str, int]], dict[str, int]]:
    """Four of so many loops, of two iterations, from level `turn` on, with these strides in some
    order, and the first address for each operand."""
    loops, base = [{"extent": 1} for _ in range(count)], {}
    for number, (key, strides) in enumerate(steps.items()):
        sign = -1 if (turn >> 1) + number & 1 else 1
        signed = [sign * strides[(turn + number + k) % 4] for k in range(4)]
        base[key] = -sum(min(0, stride) for stride in signed)
        for k, stride in enumerate(signed):
            stored = stride if key == "dram" else stride % (1 << (24 if key == "buffer" else 16))
            loops[(turn + k) % len(loops)] |= {"extent": 2, key: stored}
    return loops, base


def _case(machine: Machine, name: str, body: Sequence[Instruction]) -> Case:
    program = AccelProgram.assemble(machine, [*_prepared(machine, list(body)), finish()],
                                    io_bytes=64, weights=np.arange(64, dtype=np.uint8))
    return Case(name, program, program.image(), {"latency": 2})


def _prepared(machine: Machine, body: list[Instruction]) -> list[Instruction]:
    """With what writes the entries that gemm, vector and store read, and tokens for these."""
    structure, roles = machine.structure, machine.structure.roles
    for unit in structure.of_kind(UnitKind.STORE):
        if (store := _first(body, unit.name)) is not None:
            writer = next(one.name for one in structure.units if unit.reads[0] in one.writes)
            body[store] = _also(body[store], "waits", _mask(machine, writer))
            body = [_also(changed(nothing(machine, writer, 1), {"base": {}}), "signals",
                          _mask(machine, unit.name)), *body]
    loaded, fills = structure.unit(roles.load).writes, dict[str, Instruction]()
    for unit in structure.units:
        first = _first(body, unit.name)
        used = {scope for instruction in body if instruction.unit == unit.name
                for scope in reads(machine, form_of(machine, instruction))} if (
                    not unit.kind.moves) else set()
        buffers = [buffer for buffer in loaded if buffer in used]
        if first is not None and buffers:
            for buffer in buffers:
                fills.setdefault(buffer, _filled(machine, buffer))
            last = [buffer for buffer in fills if buffer in buffers][-1]
            fills[last] = _also(fills[last], "signals", _mask(machine, unit.name))
            body[first] = _also(body[first], "waits", _mask(machine, roles.load))
    return [*fills.values(), *body]


def _first(body: Sequence[Instruction], unit: str) -> int | None:
    return next((k for k, instruction in enumerate(body) if instruction.unit == unit), None)


def _also(instruction: Instruction, field: str, units: int) -> Instruction:
    """Adds more units that the instruction waits for or signals."""
    return changed(instruction, {field: instruction.fields.get(field, 0) | units})


def _filled(machine: Machine, buffer: str) -> Instruction:
    """A load of an entry of nothing but padding."""
    return changed(nothing(machine, machine.structure.roles.load, 1), {
        "buffer": _code(machine, buffer), "address": 0,
        "run": machine.config.buffers[buffer].entry_bytes})


def changed(instruction: Instruction, fields: Mapping[str, Any]) -> Instruction:
    return replace(instruction, fields={**instruction.fields, **fields})


def nothing(machine: Machine, unit: str, cycles: int) -> Instruction:
    """An instruction of about `cycles` cycles that depends on nothing."""
    cycles = max(1, cycles // _interval(machine, unit))
    loops, name = [{"extent": min(cycles, LONG)}], machine.of_unit(unit)[0].name
    structure = machine.structure
    match structure.kind(unit):
        case UnitKind.LOAD:         # nothing but padding, where nothing is read
            loops.append({"extent": 1, "before": 1})
            res = structure.roles.res
            return Instruction(name, unit, {
                "buffer": _code(machine, res), "base": 3, "run": 1,
                "address": machine.config.buffers[res].size_bytes - 1, "loops": loops})
        case UnitKind.STORE:
            (source, *_) = structure.unit(unit).reads
            return Instruction(name, unit, {"buffer": _code(machine, source), "base": 3,
                                            "loops": loops})
        case UnitKind.STREAM:
            (source, *_) = machine.of_unit(unit)[0].operands[0].scopes
            return Instruction(name, unit, {
                "a_source": structure.unit(unit).at("a").index(source), "base": {"dst": 1},
                "loops": [{"extent": min(cycles, ROWS)}]})
        case UnitKind.VECTOR:
            return changed(_written_down(machine, _idle(machine, unit)),
                           {"loops": loops, "base": {"dst": 1}})
    return Instruction(name, unit, {"banks": 1, "reset": 1, "loops": loops})
