"""Decoding: which body an instruction of vector selects, from which sources, and whether it may."""

from collections.abc import Mapping

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from accel.datapath.plan import DatapathPlan
from accel.hw.parts import field_of
from accel.machine.intrinsics import TABLE, operand_field
from accel.machine.isa import selectors
from accel.machine.structure import SHIPPED_STRUCTURE, Unit
from compiler.ops.integers.arithmetic import PARAM
from compiler.te import record_fields

PARAMETERS = tuple(record_fields(PARAM))
"""Operands that are fields of the record of a channel that the compiler fills."""


SHIPPED = SHIPPED_STRUCTURE.unit(SHIPPED_STRUCTURE.roles.vector)


def parameters_of(plan: DatapathPlan, unit: Unit = SHIPPED) -> tuple[str, ...]:
    """Operands that are fields of a record of a channel."""
    return tuple(dict.fromkeys((*PARAMETERS, *(
        operand.name for body in plan.bodies for operand in body.operands
        if operand.scopes == unit.at("record") and operand.name != "b"))))


IMMEDIATES = ("imm", "ma", "mb", "s", "zp", "lo", "hi")


def operation_layout(plan: DatapathPlan, word: data.StructLayout,
                     unit: Unit = SHIPPED) -> data.StructLayout:
    """An instruction in this layout, decoded.

    select : one-hot, which of ``plan.bodies``.
    a, b, to : one-hot, where each source that the body uses is, and its destination.
    c : the same for the third operand, and its entry; only where a body has one.
    twice : both sources are in one buffer that gives one entry a cycle.
    illegal : the instruction does nothing, and none of `a`, `b` and `to` is set.
    """
    own = {name: Shape(interval.width, interval.signed)
           for name, interval in plan.immediates.items() if name not in IMMEDIATES}
    codes = selectors(unit)
    return data.StructLayout({
        "select": len(plan.bodies),
        "a": data.StructLayout(dict.fromkeys(codes["a_source"], 1)),
        "b": data.StructLayout(dict.fromkeys((*codes["b_source"], *unit.at("table")), 1)),
        **({"c": data.StructLayout(dict.fromkeys(plan.third, 1)), "entry": word["c"].shape}
           if plan.third else {}),
        "to": data.StructLayout(dict.fromkeys(codes["destination"], 1)),
        "twice": 1, "illegal": 1, "reset": 1, "banks": 2,
        **{name: word[name].shape for name in IMMEDIATES}, **own})


class Decode(wiring.Component):
    """Decodes an instruction of this layout. Latency: 1. Throughput: one word a cycle.

    An opcode that no body has, or a selector that the body does not take, makes an instruction
    illegal. A selector of an operand that the body does not use may hold anything; parameters of
    channels are in par and tables in tab, whatever `b_source` says. The word has the field c where
    a body has three operands.

    Parameters
    ----------
    word : the layout of instructions.
    own : the fields of immediates of one's own, by name.

    Members
    -------
    word : an instruction.
    operation : the word of the cycle before, decoded (`operation_layout`).
    """

    def __init__(self, plan: DatapathPlan, word: data.StructLayout,
                 own: Mapping[str, data.Field] | None = None, unit: Unit = SHIPPED):
        self.plan, self._unit, self._codes = plan, unit, selectors(unit)
        self._own = {name: field for name, field in (own or {}).items() if name in plan.immediates}
        self._scopes = [{operand.name: operand.scopes for operand in (*body.operands, body.dst)}
                        for body in plan.bodies]
        self._fields = [{operand.name: operand_field(body, operand.name)
                         for operand in body.operands} for body in plan.bodies]
        super().__init__({"word": In(word), "operation": Out(operation_layout(plan, word, unit))})

    def elaborate(self, platform):
        m = Module()
        word, decoded = self.word, Signal(self.operation.shape(), reset_less=True)
        operation = Signal(self.operation.shape(), reset_less=True)
        m.d.sync += operation.eq(decoded)
        m.d.comb += self.operation.eq(operation)

        select = [word.opcode == code for code in self.plan.opcodes]
        uses_a, uses_b = (self._takes(select, name, name) for name in "ab")
        (par,), (tab,) = self._unit.at("record"), self._unit.at("table")
        uses = {par: parameters_of(self.plan, self._unit), tab: (TABLE.name,)}
        alone, third = ({buffer: self._takes(select, field, *names)
                         for buffer, names in uses.items()} for field in "bc")
        illegal = self._illegal(select)
        m.d.comb += [
            decoded.select.eq(Cat(select)), decoded.illegal.eq(illegal),
            decoded.reset.eq(word.reset), decoded.banks.eq(word.banks),
            decoded.twice.eq(_any([decoded.a[scope] & decoded.b[scope]
                                   for scope in self._codes["a_source"]])),
            *(decoded.a[scope].eq(uses_a & ~illegal & (word.a_source == code))
              for code, scope in enumerate(self._codes["a_source"])),
            *(decoded.b[scope].eq(~illegal & ((uses_b & (word.b_source == code))
                                              | (alone[par] if scope == par else 0)))
              for code, scope in enumerate(self._codes["b_source"])),
            decoded.b[tab].eq(~illegal & alone[tab]),
            *(decoded.c[buffer].eq(~illegal & third[buffer]) for buffer in self.plan.third),
            *([decoded.entry.eq(word.c)] if self.plan.third else []),
            *(decoded.to[scope].eq(~illegal & (word.destination == code))
              for code, scope in enumerate(self._codes["destination"])),
            *(decoded[name].eq(word[name]) for name in IMMEDIATES),
            *(decoded[name].eq(field_of(word.as_value(), field))
              for name, field in self._own.items()),
        ]
        return m

    def _takes(self, select: list[Value], field: str, *names: str) -> Value:
        """True if the body has an operand of one of these names, which `field` addresses."""
        return Cat(test for test, fields in zip(select, self._fields, strict=True)
                   if any(fields.get(name) == field for name in names)).any()

    def _illegal(self, select: list[Value]) -> Value:
        wrong = [~Cat(select).any()]
        for selector, name in (("a_source", "a"), ("b_source", "b"), ("destination", "dst")):
            field = self.word[selector]
            for code, scope in enumerate(self._codes[selector]):
                refuse = [test for test, scopes in zip(select, self._scopes, strict=True)
                          if name in scopes and scope not in scopes[name]]
                wrong.append((field == code) & Cat(refuse).any())
        return Cat(wrong).any()


def _any(tests: list[Value]) -> Value:
    result, *others = tests
    for test in others:
        result = result | test
    return result
