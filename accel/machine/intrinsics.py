"""The instructions that every machine has, and `vector_op` and the like for one's own.

Opcodes follow the order of `SHIPPED`: append only.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import mul
from typing import Any

import numpy as np
from amaranth.lib.wiring import Component

from accel.machine.config import AccelConfig
from accel.machine.declare import (IMMEDIATES, TABLE, Declaration, InstructionForm, computed_type,
                                   operand_field, unit_of, unit_of_kind, vector_op)
from accel.machine.matching import term_pattern_of
from accel.machine.streams import LONGEST, Computes, StreamForm, StreamShape
from accel.machine.structure import Structure, UnitKind
from compiler import te
from compiler.ops.integers.arithmetic import PARAM, add_scaled, requantize
from compiler.te import Axis, Expr, Var
from compiler.tensorize import Immediate, Intrinsic, Operand

__all__ = ["IMMEDIATES", "SHIPPED", "TABLE", "Declaration", "also_on", "gemm_op", "instructions",
           "operand_field", "shift_amount", "stream_op", "vector_op"]


def gemm_op(name: str = "gemm", inp: str = "int8", wgt: str = "int8",
            accumulator: str | None = None, term: Callable[[Expr, Expr], Expr] = mul,
            matches: Callable[..., Any] | None = None) -> Declaration:
    """Declare the block product ``acc[b, o] += sum over i of inp[b, i] * wgt[o, i]`` of elements
    of these types, in the type of the accumulator: int16, int24, int32 (the default), int40 or
    int48; float32 if one of them is a float.

    `term` is what it sums in place of the product, an expression of both in the accumulator's type.
    `matches` is the same of real numbers: where a float network sums it along the last axis, of a
    tensor and of each row of a constant, `lockstep quantize --machine` puts this instruction.
    """
    acc = computed_type(name, accumulator, te.is_float(inp) or te.is_float(wgt))
    pattern = term_pattern_of(name, term, (inp, wgt, acc), matches)

    def build(config: AccelConfig) -> tuple[Intrinsic, ...]:
        b, o = Axis(Var("lane_b"), config.batch), Axis(Var("lane_o"), config.block_out)
        i = te.reduce_axis(config.block_in, "lane_i")
        x = te.placeholder((b.extent, i.extent), inp, "inp")
        w = te.placeholder((o.extent, i.extent), wgt, "wgt")
        product = term(x[b.var, i.var].astype(acc), w[o.var, i.var].astype(acc))
        unit = unit_of(config.structure, UnitKind.GEMM)
        (to,), (left,), (right,) = map(unit.at, ("dst", "a", "b"))
        return (Intrinsic(
            name, UnitKind.GEMM.value, Operand("dst", (b.extent, o.extent), acc, ((to, acc),)),
            (Operand("inp", x.shape, inp, ((left, inp),)),
             Operand("wgt", w.shape, wgt, ((right, wgt),))),
            (b, o), te.sum(product, i), "sum", loops=6),)

    return Declaration(name, UnitKind.GEMM.value, build, pattern)


def _copy(kind: UnitKind, sources: tuple[str, ...], destinations: tuple[str, ...], dtype: str,
          padded: bool = False) -> Intrinsic:
    """Copies one element; the instruction's loops and byte run are around it."""
    value = te.placeholder((), dtype, "src")[()]
    immediates: tuple[Immediate, ...] = ()
    if padded:
        low = -(1 << te.bits(dtype) - 1) if te.is_signed(dtype) else 0
        high = low + (1 << te.bits(dtype)) - 1
        # Of floats only a zero is what its bits are as a number; a word has bits for two bytes.
        zero = te.is_float(dtype) or te.bits(dtype) > 16
        pad = Immediate("pad", dtype, *((0, 0) if zero else (low, high)))
        immediates = (Immediate("valid", "bool"), pad)
        value = te.select(immediates[0].var, value, immediates[1].var)
    return Intrinsic(
        kind.value, kind.value,
        Operand("dst", (), dtype, tuple((scope, dtype) for scope in destinations)),
        (Operand("src", (), dtype, tuple((scope, dtype) for scope in sources)),), (),
        value, "assign", immediates, loops=4)


def _load(config: AccelConfig) -> tuple[Intrinsic, ...]:
    """Copies of an element into each buffer, of the type that the machine's has."""
    reached = unit_of(config.structure, UnitKind.LOAD).at("dst")
    types = {buffer: config.elements[buffer] for buffer in reached}
    of = {dtype: tuple(buffer for buffer in types if types[buffer] == dtype)
          for dtype in types.values()}
    records = of.pop(PARAM)
    return (*(_copy(UnitKind.LOAD, ("global",), buffers, dtype, padded)
              for dtype, buffers in of.items() for padded in (False, True)),
            *(_copy(UnitKind.LOAD, ("global",), records, record)
              for record in (PARAM, *config.records)))


def _store(config: AccelConfig) -> tuple[Intrinsic, ...]:
    """Copies of an element from each buffer of results; those of the machine's outputs first."""
    reached = unit_of(config.structure, UnitKind.STORE).at("src")
    types = dict.fromkeys((config.output, *(config.elements[buffer] for buffer in reached)))
    return tuple(_copy(UnitKind.STORE, tuple(buffer for buffer in reached
                                         if config.elements[buffer] == dtype), ("global",), dtype)
                 for dtype in types)


def stream_op(name: str, unit: str, component: Callable[[StreamShape], Component],
              meaning: Callable[..., np.ndarray], *, fields: Sequence[Immediate] = (),
              longest: int = LONGEST, computes: Computes | None = None) -> Declaration:
    """Declare an instruction of a stream unit: rows of entries in, rows of as many entries out.

    The innermost of its five loops is the row, the four around it run over rows. For each row, in
    order, its entries are read at the addresses of ``a``, `component` makes as many entries of
    them, and these are written at the addresses of ``dst``.

    Parameters
    ----------
    unit : the unit of the machine that executes it; ``stream`` means the first of that kind.
    component : ``component(shape)`` makes the hardware; `StreamShape` says what it must fit. Its
        netlist is part of the machine.
    meaning : what it computes: ``meaning(rows)`` of integers of shape (rows, entries of a row,
        *entry of a) gives those of (rows, entries of a row, *entry of dst). It also takes
        ``table``, of shape (entries, *entry of the table), where the unit has one, and an integer
        for each of `fields`, by these names. Floats and records are their bits. Its module's source
        is part of the machine.
    fields : immediates of the instruction, fields of its word: ``Immediate("zp", "int8", -128,
        127)`` has 8 bits.
    longest : the most entries of a row that the component takes; a longer one is illegal.
    computes : the function of rows of a network that it computes; networks use it for that.
    """
    if not isinstance(fields, tuple | list) or not all(
            isinstance(field, Immediate) for field in fields):
        raise ValueError(f"Fields of {name} must be a tuple of Immediate, not {fields!r}")

    def build(config: AccelConfig) -> tuple[StreamForm, ...]:
        place, tiles = unit_of_kind(config.structure, unit, name, UnitKind.STREAM), config.tiles
        buffers = {operand: place.at(operand) for operand in ("dst", "a", "table")}
        dst, a, *tables = (Operand(operand, *tiles[scopes[0]], tuple(
            (scope, tiles[scope][1]) for scope in scopes))
            for operand, scopes in buffers.items() if scopes)
        known = [(config.buffers[one.scopes[0]].depth, *tiles[one.scopes[0]]) for one in tables]
        shape = StreamShape((a.shape, a.dtype), (dst.shape, dst.dtype), {
            field.name: field.dtype for field in fields}, next(iter(known), None),
            config.timing.read_cycles)
        return (StreamForm(name, dst, (a, *tables), shape, component, meaning, tuple(fields),
                           longest),)

    return Declaration(name, unit, build, computes=computes)


def _requantize(stored: str, accumulator: str | None) -> Declaration:
    """Bias, scale, zero point and bounds. A zero point of 16 bits is the immediate ``imm``, for
    which the instruction has no other use."""
    op = partial(vector_op, "requantize", stored=stored, accumulator=accumulator)
    if stored == "int8":
        return op(lambda a, bias, mult, shift, zp, lo, hi:
                  requantize(a, bias, mult, shift, zp, lo, hi).astype(a.dtype))
    return op(lambda a, bias, mult, shift, imm, lo, hi:
              requantize(a, bias, mult, shift, imm, lo, hi).astype(a.dtype))


def shift_amount(b: Expr) -> Expr:
    """The amount of a shift: the low bits of an operand, up to the number of its last bit."""
    most = te.bits(b.dtype) - 1
    mask = (1 << most.bit_length()) - 1
    return b & mask if mask == most else te.minimum(b & mask, most)


def instructions(inp: str = "int8", wgt: str = "int8", stored: str = "int8",
                 accumulator: str | None = None) -> tuple[Declaration, ...]:
    """The shipped instructions on elements of other types: of inp, of wgt, `stored` of res and
    out, and of acc."""
    op = partial(vector_op, stored=stored, accumulator=accumulator)
    return (
        Declaration("load", UnitKind.LOAD.value, _load),
        Declaration("store", UnitKind.STORE.value, _store),
        gemm_op("gemm", inp, wgt, accumulator),
        op("add", lambda a, b: a + b),
        op("sub", lambda a, b: a - b),
        op("max", lambda a, b: te.maximum(a, b)),
        op("min", lambda a, b: te.minimum(a, b)),
        op("mul", lambda a, b: a * b.astype("int16").astype(a.dtype)),
        op("shr", lambda a, b: a >> shift_amount(b)),
        op("clamp", lambda a, lo, hi: te.clamp(a, lo.astype(a.dtype), hi.astype(a.dtype))),
        op("copy", lambda b: b),
        _requantize(stored, accumulator),
        op("add_scaled", lambda a, b, ma, mb, imm, s, zp, lo, hi:
           add_scaled(a, b, ma, mb, imm, s, zp, lo, hi).astype(a.dtype), b=("res",)),
        op("reduce_add", lambda a: a, update="sum"),
        op("reduce_max", lambda a: a, update="max"),
        op("reduce_min", lambda a: a, update="min"),
        op("lookup", lambda a, table: table[a & 255]),
    )


def also_on(unit: str, declarations: tuple[Declaration, ...]) -> tuple[Declaration, ...]:
    """The instructions of vector among some, declared once more for another unit of that kind, and
    for its buffers: ``add`` as ``add_vector2`` for the unit vector2."""
    return tuple(_again(one, unit) for one in declarations if one.unit == UnitKind.VECTOR)


def on_each_vector(structure: Structure, declarations: tuple[Declaration, ...]
                   ) -> tuple[Declaration, ...]:
    """The instructions of units that a structure has, among some; of a further unit of vector that
    has none, all those of the first one once more."""
    kept = tuple(one for one in declarations if structure.kind(structure.meant(one.unit)))
    first, *others = (unit.name for unit in structure.of_kind(UnitKind.VECTOR))
    known = {structure.meant(one.unit) for one in kept}
    mine = [one for one in kept if structure.meant(one.unit) == first]
    return kept + tuple(_again(one, unit) for unit in others if unit not in known for one in mine)


def _again(declaration: Declaration, unit: str) -> Declaration:
    return Declaration(f"{declaration.name}_{unit}", unit, partial(_elsewhere, declaration, unit))


def _elsewhere(declaration: Declaration, unit: str, config: AccelConfig
               ) -> tuple[InstructionForm, ...]:
    here, there = (unit_of(config.structure, name) for name in (declaration.unit, unit))
    buffers = {port.buffer: other.buffer for port, other in zip(here.ports, there.ports)}
    return tuple(replace(_with_buffers(form, buffers), name=f"{declaration.name}_{unit}")
                 for form in declaration.build(config))


def renamed(declaration: Declaration, old: Structure, new: Structure) -> Declaration:
    """The instruction of the same unit where units and buffers have other names: `new` has them at
    the places of `old`."""
    names = dict(zip((*old.names, *old.buffer_names), (*new.names, *new.buffer_names), strict=True))
    unit = names[old.meant(declaration.unit)]
    if unit == new.meant(declaration.unit):
        return declaration
    return replace(declaration, unit=unit, build=partial(_renamed, declaration, old, names))


def _renamed(declaration: Declaration, old: Structure, names: Mapping[str, str],
             config: AccelConfig) -> tuple[InstructionForm, ...]:
    forms = declaration.build(replace(config, structure=old))
    return tuple(_with_buffers(form, names) for form in forms)


def _with_buffers(form: InstructionForm, names: Mapping[str, str]) -> InstructionForm:
    """The form with other names of buffers; those that `names` lacks stay."""
    def moved(operand: Operand) -> Operand:
        return replace(operand, storage=tuple((names.get(scope, scope), dtype)
                                              for scope, dtype in operand.storage))

    return replace(form, dst=moved(form.dst), operands=tuple(map(moved, form.operands)))


SHIPPED = instructions()
