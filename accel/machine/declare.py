"""Functions with which an instruction is declared.

A `Declaration` builds, for one geometry, the `Intrinsic` that says what the instruction means;
some instructions have several **forms** (a copy with and without padding) under one opcode. To add
a vector operation, declare it and hand it to `Machine`::

    absdiff = vector_op("absdiff", lambda a, b: te.abs(a - b))
    machine = Machine(preset("tiny-1x4x4"), SHIPPED + (absdiff,))

Decoder, datapath, simulators, checker and compiler take it from there.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from accel.machine.config import ELEMENTS, TABLE_BYTES, AccelConfig, ConfigError, one_of
from accel.machine.streams import Computes, StreamForm
from accel.machine.structure import IMMEDIATE, SHIPPED_STRUCTURE, Structure, Unit, UnitKind
from compiler import te
from compiler.ops.integers.arithmetic import PARAM
from compiler.ops.patterns import Immediates, Pattern
from compiler.ops.term_patterns import TermPattern
from compiler.te import (COMPARISONS, Axis, Binary, Call, Cast, Const, Expr, Select, Var, children,
                         is_float, walk)
from compiler.tensorize import Immediate, Intrinsic, Operand

from accel.machine.matching import pattern_of


def immediate_fields(stored: str) -> dict[str, Immediate]:
    """The immediates of a vector instruction, the fields of these names in its word, on a machine
    whose out holds `stored`."""
    most = (1 << te.bits(stored) - 1) - 1
    bound = stored if te.is_integer(stored) else f"int{te.bits(stored)}"
    return {immediate.name: immediate for immediate in (
        Immediate("imm", "int32", -(1 << 31), (1 << 31) - 1),
        Immediate("ma", "uint16", 0, (1 << 16) - 1),
        Immediate("mb", "uint16", 0, (1 << 16) - 1),
        Immediate("s", "uint8", 0, 63),
        Immediate("zp", "int8", -128, 127),
        Immediate("lo", bound, -most - 1, most),
        Immediate("hi", bound, -most - 1, most),
    )}


def known_immediates(kind: str, stored: str) -> dict[str, Immediate]:
    """The immediates that the words of a kind of units have for all its instructions; gemm's have
    none."""
    return immediate_fields(stored) if kind == UnitKind.VECTOR else {}


IMMEDIATES = immediate_fields("int8")
"""The immediates of a vector instruction of most machines."""

_PARAMETERS = te.record_fields(PARAM)

_SHIPPED = SHIPPED_STRUCTURE.unit(SHIPPED_STRUCTURE.roles.vector)

TABLE = Operand("table", (TABLE_BYTES,), "int32", ((_SHIPPED.at("table")[0], "int8"),))
"""A table: the value for each of 256 numbers, as an integer of acc's type; beside floats int32. On
machines whose buffers have other names it lies in theirs."""

_RECORD = "per-channel parameters"
_KINDS = {"b": "b", **dict.fromkeys(_PARAMETERS, _RECORD), TABLE.name: "table"}
"""Operands beside `a`, each with its kind; others are of a record of one's own. Operands of one
kind have one address."""

_FIELDS = ("b", "c")
"""Fields of the word that address operands beside `a`, in the order of kinds."""

_REDUCERS = {"sum": te.sum, "max": te.max, "min": te.min}

_ANYWHERE = {"a": _SHIPPED.at("a"), "b": (*_SHIPPED.at("b"), IMMEDIATE)}


InstructionForm = Intrinsic | StreamForm
"""What one instruction is on one machine."""


@dataclass(frozen=True)
class Declaration:
    """An instruction: `build(config)` gives its forms, which share name, kind of unit and opcode.
    `unit` is the unit that executes it, or a kind: then the machine's first unit of that kind does.
    Where it matches something in float networks, `pattern` says what."""

    name: str
    unit: str
    build: Callable[[AccelConfig], tuple[InstructionForm, ...]]
    pattern: Pattern | TermPattern | None = None
    computes: Computes | None = None


def computed_type(name: str, accumulator: str | None, float_: bool) -> str:
    """The type in which an instruction computes: that of acc, by default int32, or float32 where
    its operands are floats."""
    known = tuple(dtype for dtype in ELEMENTS["accumulator"] if te.is_float(dtype) == float_)
    if accumulator is None:
        return known[0]
    if accumulator not in known:
        of = "floats" if float_ else "integers"
        raise ValueError(f"Accumulator of {name} must be {one_of(known)}, as its operands are "
                         f"{of}, not {accumulator!r}")
    return accumulator


_ACC, _PAR = SHIPPED_STRUCTURE.roles.acc, SHIPPED_STRUCTURE.roles.par


def _kind(name: str) -> str:
    return _KINDS.get(name, _RECORD)


def kinds_of(names: Iterable[str]) -> list[str]:
    """The kinds of a vector instruction's operands beside `a`, in the order of their fields;
    `names` are those of operands."""
    present = {_kind(name) for name in names if name not in ("dst", "a")}
    return [kind for kind in dict.fromkeys(_KINDS.values()) if kind in present]


def unit_of(structure: Structure, name: str) -> Unit:
    """The unit that an instruction of a unit, or of a kind, is executed by."""
    return structure.unit(structure.meant(name))


def unit_of_kind(structure: Structure, name: str, instruction: str, kind: UnitKind) -> Unit:
    """The unit that executes an instruction, which must be of a kind. Raises ConfigError."""
    unit = unit_of(structure, name)
    if unit.kind is not kind:
        raise ConfigError(f"Unit of {instruction} must be of kind {kind}, not {unit.name}, which "
                          f"is of kind {unit.kind}")
    return unit


def address_field(kind: str, names: Sequence[str], name: str) -> str:
    """The field of the word that addresses an operand of gemm or vector in its buffer.

    `names` are all operands in order. gemm's first is at `a`, the second at `b`. Of vector `b`,
    the record of per-channel parameters and the table are at the field `b` where they stand alone;
    where two of them stand beside each other the later is at `c`, which no loop moves.
    """
    if name == "dst":
        return name
    if kind != UnitKind.VECTOR:
        return "ab"[names.index(name)]
    return name if name == "a" else _FIELDS[kinds_of(names).index(_kind(name))]


def operand_field(intrinsic: InstructionForm, name: str) -> str:
    """The field of the word that addresses an operand: ``dst``, ``a``, ``b`` or ``c``."""
    return address_field(intrinsic.unit, [operand.name for operand in intrinsic.operands], name)


def vector_op(name: str, value: Callable[..., Expr], *, update: str = "assign",
              lanes: str | None = None, a: tuple[str, ...] = _ANYWHERE["a"],
              b: tuple[str, ...] | None = None, stored: str = "int8",
              accumulator: str | None = None, matches: Callable[..., Expr] | None = None,
              immediates: Immediates | None = None, tolerance: float = 0.0,
              fields: Sequence[Immediate] = (), record: str = PARAM,
              unit: str = UnitKind.VECTOR.value) -> Declaration:
    """Declare an operation of the vector unit.

    Parameters
    ----------
    value : the result of one lane, an expression of acc's type, int32 by default. The names of its
        parameters say what it takes: the operands ``a`` and ``b`` (of acc's type; read from acc,
        or from res with sign extension; ``b`` also from the per-channel parameters or the
        immediate, of which a narrower acc keeps the low bits); the per-channel parameters
        ``bias``, ``mult`` and ``shift``; ``table``, whose entries ``table[index]`` are int8 values,
        converted to acc's type; and the immediates of `IMMEDIATES` and `fields`. For every value of
        the operands the index of a table must lie in 0 ... 255. A body may have two of ``b``,
        parameters and ``table``: no loop moves the address of the second. With parameters, ``b`` is
        not in par.
    update : how the result meets the destination. Other than ``assign``, it accumulates in acc;
        then the sources must not be in acc, whose read port the accumulation uses.
    lanes : ``sum``, ``max`` or ``min`` of the value over the lanes of a row, which becomes the
        result in every lane of it; the update follows. Needs whole rows: `vector_beats` up to
        `batch`.
    a, b : the scopes in which the operands may live, as the shipped machine calls them.
    stored : the type of an element of res and of out: int8, int16, bfloat16, float8_e4m3fn or
        float8_e5m2, one for all instructions of a machine. With those of 16 bits the immediates
        `lo` and `hi` are int16.
    accumulator : the type of an element of acc, one for all instructions of a machine: int16,
        int24, int32, int40 or int48 (None: int32, and float32 with floats).
    matches : a real function of as many numbers as there are operands, a before b, and, of a body
        with parameters of channels, of constants of channels behind them. Where operators of a
        float network compute it, `lockstep quantize --machine` puts this operation.
    tolerance : with `matches`, how far operators may be from it that are taken for the same
        function: 1e-3 takes GELU by tanh for GELU by erf.
    immediates : with `matches`, the integers that the immediates of `value` then are, by name: a
        function of the quantized inputs, an array for each constant of channels, and the quantized
        result; what is quantized has ``scale`` and ``zp``. What is stored as q stands for
        ``(q - zp) * scale``; the operands and the result of `value` are such q. Fields of the
        record are arrays, one integer for each channel, or numbers. It may refuse by ValueError.
    fields : immediates of one's own, which are fields of the instruction's word where that has room
        for them: ``Immediate("scale", "int8", -128, 127)`` has 8 bits.
    record : what the body reads an element of par as: a record that `te.record` declared, of 5 to 8
        bytes of integers, with floats of float32 too. Its fields take the place of ``bias``,
        ``mult`` and ``shift``.
    unit : the unit of the machine that executes it, where there are several of vector.

    The destination is acc, or out, which keeps the low bits. With floats, acc, the operands and
    the result are float32, ``b`` is in acc or res, and the update is ``assign``. A result of the
    type `stored` is written to acc as float32, or to out; others are written to acc alone.
    """
    float_ = te.is_float(stored)
    computed = computed_type(name, accumulator, float_)
    table = TABLE if float_ else replace(TABLE, dtype=computed)
    anywhere = {"a": _ANYWHERE["a"], "b": _ANYWHERE["a"]} if float_ else _ANYWHERE
    b = anywhere["b"] if b is None else b
    if lanes is not None and lanes not in _REDUCERS:
        raise ValueError(f"Reduction over lanes of {name} must be one of {', '.join(_REDUCERS)}, "
                         f"not {lanes!r}")
    if not isinstance(fields, tuple | list) or not all(
            isinstance(field, Immediate) for field in fields):
        raise ValueError(f"Fields of {name} must be a tuple of Immediate, not {fields!r}")
    own = {field.name: field for field in fields}
    if not isinstance(record, str) or not te.is_record(record):
        raise ValueError(f"Record of {name} must be one that te.record declared, not {record!r}")
    members = te.record_fields(record)
    parameters = inspect.signature(value).parameters
    names = tuple(parameters)
    for parameter in names:
        if parameters[parameter].kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            raise ValueError(f"Parameter {parameter} of vector operation {name} must be a plain "
                             f"one: what the instruction takes is told by names")
        if parameter not in ("a", "b", TABLE.name, *members, *IMMEDIATES, *own):
            known = ", ".join(dict.fromkeys((*members, *IMMEDIATES, *own)))
            raise ValueError(f"Parameter of vector operation {name} must be a, b, table, one of "
                             f"{known}, not {parameter!r}")
    for field in own:
        if field not in names:
            raise ValueError(f"Field {field} of {name} must be a parameter of its value")
    kinds = kinds_of(each for each in names if each not in IMMEDIATES and each not in own)
    if len(kinds) > len(_FIELDS):
        raise ValueError(f"Vector operation {name} must take at most two of {', '.join(kinds)}: "
                         f"the word has an address for a and two more")
    for operand, given in (("a", a), ("b", b)):
        known = anywhere[operand]
        if not isinstance(given, tuple | list) or not all(scope in known for scope in given):
            raise ValueError(f"Scopes of {operand} of {name} must be a tuple of some of "
                             f"{', '.join(known)}, not {given!r}")
    if update != "assign":
        a, b = (tuple(s for s in scopes if s != _ACC) for scopes in (a, b))
    if stored not in ELEMENTS["output"]:
        raise ValueError(f"Stored elements of {name} must be {one_of(ELEMENTS['output'])}, "
                         f"not {stored!r}")
    scalars = immediate_fields(stored) | own
    if matches is not None and computed != "int32":
        raise ValueError(f"Vector operation {name} must compute in int32 to match something, not "
                         f"in {computed}")
    if matches is not None and (lanes or update != "assign"):
        raise ValueError(f"Vector operation {name} must compute each lane by itself, and "
                         f"assign it, to match something")
    pattern = pattern_of(name, value, names, {each: scalars[each] for each in names
                                              if each in scalars},
                         members, stored, matches, immediates, tolerance)
    types = dict(zip(_ANYWHERE["b"], (computed, stored, f"{PARAM}.bias", "int32"), strict=True))
    why = "" if update == "assign" else f" beside acc: update {update} takes its read port"
    if members.keys() & set(names):
        b = tuple(scope for scope in b if scope != _PAR)
        why = why or " beside parameters: par gives one record a cycle"
    scopes = {"a": a, "b": b}
    for operand in scopes:
        if operand in names and not scopes[operand]:
            raise ValueError(f"Operand {operand} of {name} must have a scope to live in{why}")

    def build(config: AccelConfig) -> tuple[Intrinsic, ...]:
        place = unit_of_kind(config.structure, unit, name, UnitKind.VECTOR)
        acc, out = place.at("dst")
        here = dict(zip(_ANYWHERE["b"], (*place.at("b"), IMMEDIATE), strict=True))
        tile = (config.batch, config.block_out)
        axes = (Axis(Var("lane_b"), tile[0]), Axis(Var("lane_o"), tile[1]))
        reduced = te.reduce_axis(tile[1], "lane_i")
        row, lane = axes[0].var, reduced.var if lanes else axes[1].var
        operands, arguments, taken = [], [], []
        for param in names:
            if param in scalars:
                taken.append(scalars[param])
                arguments.append(scalars[param].var)
            elif param == TABLE.name:
                operands.append(replace(table, storage=((place.at("table")[0], "int8"),)))
                arguments.append(te.placeholder(table.shape, table.dtype, param))
            elif param in scopes:
                storage = tuple((here[scope], types[scope]) for scope in anywhere[param]
                                if scope in scopes[param])
                operands.append(Operand(param, tile, computed, storage))
                arguments.append(te.placeholder(tile, computed, param)[row, lane])
            else:
                operands.append(Operand(param, tile[1:], members[param],
                                        ((place.at("record")[0], f"{record}.{param}"),)))
                arguments.append(te.placeholder(tile[1:], members[param], param)[lane])
        result = value(*arguments)
        if not isinstance(result, Expr):
            raise ValueError(f"Result of vector operation {name} must be an {computed} expression, "
                             f"not {result!r}")
        rounded = float_ and result.dtype == stored
        if rounded:
            result = result.astype(computed)
        if result.dtype != computed:
            raise ValueError(f"Result of vector operation {name} must be "
                             f"{f'{computed} or {stored}' if float_ else computed}, "
                             f"not {result.dtype}")
        to_out = update == "assign" and (rounded or not float_)
        storage = ((acc, computed),) + (((out, stored),) if to_out else ())
        if lanes:
            result = _REDUCERS[lanes](result, reduced)
        return (Intrinsic(name, place.kind.value, Operand("dst", tile, computed, storage),
                          tuple(operands), axes, result, update, tuple(taken), loops=5),)

    return Declaration(name, unit, build, pattern)


# ---- which operators of a body fit a datapath, which takes a value every cycle ------------------

DIVISIONS = ("div", "floordiv", "mod")
OF_FLOATS = frozenset(("add", "sub", "mul", "min", "max")) | COMPARISONS


def is_static(expr: Expr, lanes: Collection[Var]) -> bool:
    """True if the place of a lane or term alone decides its value."""
    return all(node in lanes or not is_float(node.dtype) and isinstance(
        node, Const | Binary | Select | Cast) for node in walk(expr))


def unfit(expr: Expr, lanes: Collection[Var]) -> Iterator[tuple[str, str]]:
    """The operators of an expression that no datapath computes: each as what it is, and its rule.
    What the place of a lane decides is known before, whatever computes it.
    """
    if is_static(expr, lanes):
        return
    match expr:
        case Binary(op) if op in DIVISIONS:
            yield f"Operator {op}", "a shift, or a product and a shift: no pipeline divides"
        case Binary(op, a) if is_float(a.dtype) and op not in OF_FLOATS:
            yield f"Operator {op} on floats", f"one of {', '.join(sorted(OF_FLOATS))}"
        case Call(function) if function != "abs":
            yield f"Function {function}", "a table, or a polynomial: no pipeline computes it"
    for part in children(expr):
        yield from unfit(part, lanes)
