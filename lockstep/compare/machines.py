"""Differences between two machines, from their declarations and the plans of their datapaths."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from accel.machine.config import LEFT_OUT, flat, known_default
from accel.machine.declare import Declaration, InstructionForm
from accel.machine.machine import Machine
from lockstep.manual.instructions import formula, used_fields
from lockstep.manual.resources import UnitResources, resources
from lockstep.manual.timing import UnitTiming, timing_of

Value = int | str | list[int] | list[str]
Pair = tuple[Value, Value]


@dataclass(frozen=True)
class MachineDifference:
    """Two machines; every pair is of the first, then of the second.

    Parameters
    ----------
    geometry : fields with another value, the clock included.
    memory : bytes on the chip, by buffer; those of one size in both as well.
    added, removed : instructions that only the second, or only the first has.
    changed : what is declared in another way, a sentence each, by instruction.
    opcodes : those that moved, by instruction.
    resources : those of gemm and vector, by unit.
    times : by unit, cycles from the issue of an iteration to its write, and between iterations.
    """

    geometry: Mapping[str, Pair]
    memory: Mapping[str, tuple[int, int]]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: Mapping[str, tuple[str, ...]]
    opcodes: Mapping[str, tuple[int, int]]
    resources: Mapping[str, tuple[UnitResources, UnitResources]]
    times: Mapping[str, tuple[UnitTiming, UnitTiming]]


def compare(first: Machine, second: Machine) -> MachineDifference:
    """Compare two machines. Raises PlanError for bodies that no datapath can have."""
    here, there = ({one.name: one for one in machine.declarations} for machine in (first, second))
    both = [name for name in here if name in there]
    changes = {name: tuple(_changes(first, here[name], there[name])) for name in both}
    counts = [resources(machine) for machine in (first, second)]
    return MachineDifference(
        dict(_geometry(first, second)), _memory(first, second),
        tuple(name for name in there if name not in here),
        tuple(name for name in here if name not in there),
        {name: sentences for name, sentences in changes.items() if sentences},
        {name: (first.opcodes[name], second.opcodes[name]) for name in both
         if first.opcodes[name] != second.opcodes[name]},
        {unit: (counts[0][unit], counts[1][unit]) for unit in counts[0]},
        {unit: (_time(first, unit), _time(second, unit)) for unit in counts[0]})


def _geometry(first: Machine, second: Machine) -> Iterator[tuple[str, Pair]]:
    here, there = (flat(LEFT_OUT | machine.config.geometry()) | {
        "clock_mhz": machine.config.clock_mhz, "memory": machine.config.memory.options}
        for machine in (first, second))
    for name in dict.fromkeys([*here, *there]):
        pair = tuple(one.get(name, known_default(name)) for one in (here, there))
        if pair[0] != pair[1]:
            yield name, pair


def _memory(first: Machine, second: Machine) -> dict[str, tuple[int, int]]:
    here, there = ({name: buffer.size_bytes for name, buffer in machine.config.buffers.items()}
                   for machine in (first, second))
    return {name: (here.get(name, 0), there.get(name, 0)) for name in {**here, **there}}


def _time(machine: Machine, unit: str) -> UnitTiming:
    return timing_of(machine, machine.of_unit(unit)[0])


def _changes(machine: Machine, here: Declaration, there: Declaration) -> Iterator[str]:
    """Differences between two declarations of one name, both in the first machine's geometry."""
    if here.unit != there.unit:
        yield f"unit {here.unit} -> {there.unit}"
        return
    try:
        forms = tuple(there.build(machine.config))
    except ValueError as error:
        yield f"cannot be declared in the first machine's geometry: {error}"
        return
    mine = machine.forms[here.name]
    if len(mine) != len(forms):
        yield f"forms {len(mine)} -> {len(forms)}"
    for one, other in zip(mine, forms):
        yield from _form_changes(one, other)
    fields = [[field.path for field in used_fields(machine, some)] for some in (mine, forms)]
    for path in dict.fromkeys(fields[0] + fields[1]):
        if (path in fields[0]) != (path in fields[1]):
            yield f"{'no longer reads' if path in fields[0] else 'now reads'} the field {path}"


def _form_changes(one: InstructionForm, other: InstructionForm) -> Iterator[str]:
    pairs = [(formula(form), form.loops) for form in (one, other)]
    for name, here, there in zip(("meaning", "loops"), *pairs):
        if here != there:
            yield f"{name} {here} -> {there}"
    places = [{operand.name: " or ".join(f"{scope} as {dtype}" for scope, dtype in operand.storage)
               for operand in (form.dst, *form.operands)} for form in (one, other)]
    numbers = [{imm.name: f"{imm.dtype} {imm.low} ... {imm.high}" for imm in form.immediates}
               for form in (one, other)]
    for here, there in (places, numbers):
        for name in {**here, **there}:
            if here.get(name) != there.get(name):
                yield f"{name} {here.get(name, 'absent')} -> {there.get(name, 'absent')}"
