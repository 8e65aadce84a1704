"""Facts about instructions, each from the declaration, the word layouts or the datapath's plan."""

from collections.abc import Iterator
from dataclasses import dataclass

from accel.machine.declare import InstructionForm
from accel.machine.intrinsics import operand_field
from accel.machine.machine import FINISH, Machine
from accel.machine.streams import StreamForm
from accel.machine.structure import FETCH, IMMEDIATE, UnitKind
from compiler.ir import expr_text
from compiler.te import Reduce

from .timing import UnitTiming, timing_of
from .words import WordField, fields_of

UPDATE = {"assign": "=", "sum": "+=", "max": "max=", "min": "min="}


@dataclass(frozen=True)
class OperandPlace:
    """An operand: its tile, the type in which the value reads it, and pairs (buffer, type as it is
    stored there). ``global`` is memory, ``imm`` the immediate of that name.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    storage: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        shape = "×".join(map(str, self.shape)) or "one element"
        stored = " or ".join(f"{scope} as {dtype}" for scope, dtype in self.storage)
        return f"{self.name}: {self.dtype} {shape}, in {stored}"


@dataclass(frozen=True)
class FormFacts:
    """One form of an instruction.

    Parameters
    ----------
    formula : what one iteration does.
    places : the destination, then the operands.
    immediates : name, type, lowest and highest value.
    """

    formula: str
    places: tuple[OperandPlace, ...]
    immediates: tuple[tuple[str, str, int, int], ...]


@dataclass(frozen=True)
class Facts:
    """An instruction.

    Parameters
    ----------
    loops : affine loops that it runs by itself, the last innermost.
    update : how its value meets the destination: assign, sum, max or min.
    fields : fields of its word that it reads.
    timing : None for FINISH, which fetch performs.
    """

    name: str
    opcode: int
    unit: str
    forms: tuple[FormFacts, ...]
    loops: int
    update: str
    fields: tuple[WordField, ...]
    timing: UnitTiming | None

    @property
    def flags(self) -> tuple[str, ...]:
        """Fields of one bit that it reads, without codes."""
        return tuple(field.path for field in self.fields if field.is_flag)


def facts(machine: Machine) -> list[Facts]:
    """All instructions in order of opcodes, FINISH included. Raises PlanError."""
    header = tuple(field for field in fields_of(machine.formats[FETCH], machine)
                   if field.path != "reserved")
    finish = Facts("finish", FINISH, FETCH,
                   (FormFacts("wait until all units are idle, then stop", (), ()),), 0, "assign",
                   tuple(field for field in header if field.path == "opcode"), None)
    return [finish, *(facts_of(machine, name) for name in machine.forms)]


def facts_of(machine: Machine, name: str) -> Facts:
    """An instruction that the machine declares. Raises KeyError, PlanError."""
    forms = machine.forms[name]
    first = forms[0]
    return Facts(name, machine.opcodes[name], machine.unit_of(name), tuple(map(_form, forms)),
                 max(form.loops for form in forms), first.update,
                 tuple(used_fields(machine, forms)), timing_of(machine, first))


def _form(form: InstructionForm) -> FormFacts:
    places = tuple(OperandPlace(operand.name, operand.shape, operand.dtype, operand.storage)
                   for operand in (form.dst, *form.operands))
    return FormFacts(formula(form), places, tuple(
        (imm.name, imm.dtype, imm.low, imm.high) for imm in form.immediates))


def formula(form: InstructionForm) -> str:
    """One iteration: ``dst[lane_b, lane_o] += sum over lane_i < 4 of ...``; of a stream unit's a
    row: ``dst row = softmax(a row, table, zp)``."""
    if isinstance(form, StreamForm):
        table = [operand.name for operand in form.operands[1:]]
        names = ["a row", *table, *(imm.name for imm in form.immediates)]
        return f"dst row = {form.name}({', '.join(names)})"
    indices = ", ".join(axis.var.name for axis in form.axes)
    value = form.value.value if isinstance(form.value, Reduce) else form.value
    over = ", ".join(f"{var.name} < {extent}" for var, extent in form.reduce_axes)
    reduced = f"{form.value.op} over {over} of " if isinstance(form.value, Reduce) else ""
    text = f"dst[{indices}] {UPDATE[form.update]} {reduced}{expr_text(value)}"
    return text.replace("[]", "")


def used_fields(machine: Machine, forms: tuple[InstructionForm, ...]) -> Iterator[WordField]:
    """The fields of its word that an instruction reads, in order of their bits."""
    read = {"opcode", "waits", "signals", "loops.extent"}
    for form in forms:
        read |= _moved(form) if UnitKind(form.unit).moves else _computed(machine, form)
    name = forms[0].name
    for field in fields_of(machine.layouts[name], machine, machine.unit_of(name)):
        if field.path in read:
            yield field


def _moved(form: InstructionForm) -> set[str]:
    padded = {"pad_value", "pad_high", "loops.before", "loops.after"} if form.immediates else set()
    return {"buffer", "base", "dram", "address", "run", "bits", "loops.dram",
            "loops.buffer"} | padded


def _computed(machine: Machine, form: InstructionForm) -> set[str]:
    addressed = {"dst", *address_fields(form).values()}
    read = {f"base.{key}" for key in addressed} | {f"loops.{key}" for key in addressed}
    read |= addressed & {"c"}
    read |= {"reset"} if form.reads_destination else set()
    acc = machine.structure.roles.acc
    read |= {"banks"} if any(acc in operand.scopes for operand in (form.dst, *form.operands)) \
        else set()
    if isinstance(form, StreamForm):
        table = {"entries"} if len(form.operands) > 1 else set()
        return (read | {"a_source"} | table | {imm.name for imm in form.immediates}) - {"loops.b"}
    if form.unit == UnitKind.VECTOR:
        names = {operand.name: operand.scopes for operand in form.operands}
        read |= {"destination"} | {f"{name}_source" for name in names}
        read |= {IMMEDIATE} & {scope for scopes in names.values() for scope in scopes}
    return read | {imm.name for imm in form.immediates}


def address_fields(form: InstructionForm) -> dict[str, str]:
    """The field, ``a``, ``b`` or ``c``, that addresses each operand in a buffer, by its name."""
    return {operand.name: operand_field(form, operand.name)
            for operand in form.operands if operand.scopes != (IMMEDIATE,)}
