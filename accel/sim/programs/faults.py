"""Random programs with a planted fault, or two, to hold simulators against each other in errors."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from accel.machine import isa
from accel.machine.intrinsics import operand_field
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction
from accel.machine.status import Status
from accel.machine.streams import StreamForm
from accel.machine.structure import Structure, UnitKind
from accel.proof.access import Fault, touches
from accel.sim.meaning import functional

from .case import Case
from .generate import generate

SHAPE_SEED = 1 << 40            # other programs than those without a fault
TRIES = 40                      # programs in which a kind of fault is planted before another one

Stream = list[Instruction]
Change = Callable[[Machine, str, Stream, Random], str]


def plant(machine: Machine, seed: int) -> Case:
    """The program of a seed with one or two faults; each alone ends the functional simulator with
    an error.

    The kind of fault and its unit follow from the seed, so that all have their turn. A machine may
    have no instruction that a kind could be in: after some programs another kind has its turn.
    """
    random = Random(f"{machine.hash} fault {seed}")
    turn, kind = divmod(seed, len(FAULTS))
    units = machine.structure.names
    chosen = [(FAULTS[kind], units[(turn + kind) % len(units)])]
    if turn % 2:
        chosen.append((random.choice(FAULTS), random.choice(units)))
    case = generate(machine, SHAPE_SEED + seed)
    for tried in itertools.count(1):
        harms = [_harm(machine, case, change, unit, random) for change, unit in chosen]
        if all(harm for harm, _ in harms):
            faulty = _with_words(machine, case, _merged(
                case.program.instructions(machine), [stream for _, stream in harms]))
            run = functional.simulate(machine, faulty.program, faulty.memory)
            if run.status is not Status.DONE:
                text = ", ".join(text for text, _ in harms)
                return replace(faulty, name=f"fault {seed}", fault=f"{text}: {run.describe()}")
        if tried % TRIES == 0:
            kind = (kind + 1) % len(FAULTS)
            chosen = [(FAULTS[kind], units[(turn + kind) % len(units)])]
        case = generate(machine, SHAPE_SEED + random.randrange(1 << 40))    # it did no harm
    raise AssertionError("every machine has opcodes without an instruction")


def _harm(machine: Machine, case: Case, change: Change, unit: str,
          random: Random) -> tuple[str, Stream]:
    """The effect of a change, with the stream; nothing if it is not an error."""
    stream = case.program.instructions(machine)
    harm = change(machine, unit, stream, random)
    faulty = _with_words(machine, case, stream)
    run = functional.simulate(machine, faulty.program, faulty.memory)
    return (harm, stream) if run.status is not Status.DONE else ("", stream)


def _merged(plain: Stream, faulty: Sequence[Stream]) -> Stream:
    """Applies all changes to a stream; where two change one instruction, the later counts."""
    result = list(plain)
    for stream in faulty:
        result = [old if new == before else new
                  for old, new, before in zip(result, stream, plain, strict=False)]
    return result


def _with_words(machine: Machine, case: Case, stream: Stream) -> Case:
    """The case with another program, also in its memory."""
    words = AccelProgram.assemble(machine, stream).words
    memory, first = case.memory.copy(), case.program.bases["program"]
    memory[first:first + words.size] = words.reshape(-1)
    return replace(case, program=replace(case.program, words=words), memory=memory)


def _change(stream: Stream, index: int, **fields: Any) -> None:
    stream[index] = replace(stream[index], fields={**stream[index].fields, **fields})


def _of(stream: Stream, unit: str) -> list[int]:
    return [index for index, instruction in enumerate(stream) if instruction.unit == unit]


def _opcode(machine: Machine, unit: str, stream: Stream, random: Random) -> str:
    index = random.randrange(len(stream))
    code = random.choice([code for code in range(256) if code not in machine.names])
    stream[index] = _Coded("illegal", "illegal", {**stream[index].fields, "opcode": code})
    return f"opcode {code} at {index}"


class _Coded(Instruction):
    """An instruction with an opcode that no declaration has."""

    def encode(self, machine: Machine) -> int:
        return isa.encode(isa.HEADER, {"opcode": self.fields["opcode"]})


def _selector(machine: Machine, unit: str, stream: Stream, random: Random) -> str:
    """A buffer or an operand's place that the instruction does not take."""
    unit = _instead(machine.structure, unit, {UnitKind.GEMM: UnitKind.VECTOR})
    options: list[tuple[int, str, Any]] = [
        (index, name, value) for index in _of(stream, unit)
        for name, values in _SELECTORS.items() if name in stream[index].fields
        for value in range(values) if _illegal(machine, stream[index], name, value)]
    options += [(index, "loops", loops) for index in _of(stream, unit)
                for loops in _rows(machine, stream[index])
                if _illegal(machine, stream[index], "loops", loops)]
    if not options:
        return ""
    index, name, value = random.choice(options)
    _change(stream, index, **{name: value})
    return f"{name} {value} at {index}"


_SELECTORS = {"buffer": 8, "bits": 4, "a_source": 2, "b_source": 4, "destination": 2}


def _rows(machine: Machine, instruction: Instruction) -> Iterator[list[dict[str, int]]]:
    """The loops of a stream unit's instruction with longer rows than the longest."""
    form, loops = machine.intrinsic(instruction.name), instruction.fields["loops"]
    if isinstance(form, StreamForm):
        for more in (1, 2, 1 << 15):
            extent = min(form.longest + more, 1 << 16)
            yield [*loops[:-1], {**loops[-1], "extent": extent}]


def _instead(structure: Structure, unit: str, kinds: Mapping[UnitKind, UnitKind]) -> str:
    """The unit, or for one of a kind that `kinds` maps the first of another kind."""
    kind = structure.unit(unit).kind
    other = kinds.get(kind, kind)
    return unit if other is kind else structure.of_kind(other)[0].name


def _illegal(machine: Machine, instruction: Instruction, name: str, value: Any) -> bool:
    try:
        touches(machine, replace(instruction, fields={**instruction.fields, name: value}))
    except Fault:
        return True
    return False


def _bank(machine: Machine, unit: str, stream: Stream, random: Random) -> str:
    places = _of(stream, _instead(machine.structure, unit, {
        UnitKind.LOAD: UnitKind.GEMM, UnitKind.STORE: UnitKind.VECTOR,
        UnitKind.STREAM: UnitKind.VECTOR}))
    if not places:
        return ""
    index, banks = random.choice(places), random.randrange(4)
    _change(stream, index, banks=banks)
    return f"banks {banks} at {index}"


def _address(machine: Machine, unit: str, stream: Stream, random: Random) -> str:
    """One operand outside its buffer: by a little, or anywhere."""
    places = [(index, touch) for index in _of(stream, unit)
              for touch in touches(machine, stream[index])
              if touch.memory not in isa.BASES and touch.walk.count]
    if not places:
        return ""
    index, touch = random.choice(places)
    instruction, geometry = stream[index], machine.config.buffers[touch.memory]
    dma = machine.structure.unit(unit).kind.moves
    size = (geometry.size_bytes - touch.width) // touch.scale + 1 if dma else geometry.depth
    near = size - touch.walk.bounds[1] + random.randrange(4)
    far = random.randrange(size, 1 << (24 if dma else 16))
    if dma:
        address = instruction.fields["address"] + near if random.random() < 0.5 else far
        _change(stream, index, address=address)
        return f"address {address} at {index}"
    key = operand_field(machine.intrinsic(instruction.name), touch.operand)
    if key == "c":
        _change(stream, index, c=far)
        return f"c from {far} at {index}"
    base = dict(instruction.fields["base"])
    base[key] = (base[key] + near if random.random() < 0.5 else far) % (1 << 16)
    _change(stream, index, base=base)
    return f"{key} from {base[key]} at {index}"


def _memory(machine: Machine, unit: str, stream: Stream, random: Random) -> str:
    """A run outside the memory."""
    places = _of(stream, _instead(machine.structure, unit, {
        UnitKind.GEMM: UnitKind.LOAD, UnitKind.VECTOR: UnitKind.STORE,
        UnitKind.STREAM: UnitKind.STORE}))
    if not places:
        return ""
    index = random.choice(places)
    far = random.choice([1 << 13, 1 << 16, 1 << 31, (1 << 32) - (1 << 14)])
    dram = (stream[index].fields["dram"] + far + random.randrange(64)) % (1 << 32)
    _change(stream, index, dram=dram)
    return f"dram {dram} at {index}"


def _token(machine: Machine, unit: str, stream: Stream, random: Random) -> str:
    """A signal or a wait too many, or one that is missing."""
    places = _of(stream, unit)
    if not places:
        return ""
    index = random.choice(places)
    name, other = random.choice(["waits", "signals"]), random.choice(machine.structure.names)
    mask = stream[index].fields.get(name, 0) ^ isa.unit_mask([other], machine.structure.names)
    _change(stream, index, **{name: mask})
    return f"{name} {mask:04b} at {index}"


def _wait(machine: Machine, unit: str, stream: Stream, random: Random) -> str:
    """A wait for a token that no unit gives."""
    options = [(index, other) for index in _of(stream, unit) for other in machine.structure.names
               if other not in stream[index].waits]
    if not options:
        return ""
    index, other = random.choice(options)
    mask = isa.unit_mask([other], machine.structure.names)
    _change(stream, index, waits=stream[index].fields.get("waits", 0) | mask)
    return f"wait for {other} at {index}"


def _end(machine: Machine, unit: str, stream: Stream, random: Random) -> str:
    """No FINISH, or one that comes too early."""
    if random.random() < 0.5:
        stream.pop()
        return "no finish"
    index = random.randrange(len(stream))
    stream[index] = stream[-1]
    return f"finish at {index}"


FAULTS: tuple[Change, ...] = (
    _opcode, _selector, _bank, _address, _memory, _token, _address, _wait, _end)
"""What can be wrong with a program. Each changes the stream, if it can an instruction of the unit
that it is given, and says what it did."""
