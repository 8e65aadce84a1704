"""Operands: data of buffers, and numbers of tables, on their way into the registers before
the data path."""

from collections.abc import Mapping, Sequence
from math import prod

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from accel.datapath.floats import FORMATS
from accel.datapath.plan import DatapathPlan
from accel.hw.parts import spread, trail
from accel.machine.config import PARAM_BYTES, AccelConfig
from accel.machine.intrinsics import TABLE
from accel.machine.isa import formats
from accel.machine.structure import IMMEDIATE, Unit
from compiler.ops.integers.arithmetic import PARAM
from compiler.te import bits, is_float, is_signed, record_places

from .decode import SHIPPED, operation_layout, parameters_of
from .stored import widened


def fetch_layout(plan: DatapathPlan, operation: data.StructLayout) -> data.StructLayout:
    """A read of one cycle: of source a, source b or both, the instruction, and the table in which
    it looks values up."""
    return data.StructLayout({"a": 1, "b": 1, "table": plan.table_bits, "operation": operation})


def parameter_layout(records: Sequence[str] = ()) -> data.Layout:
    """An element of par: the record of a channel as the compiler declares it, in a power of two of
    bytes, and fields of the records of one's own on the same bits."""
    fields = {name: data.Field(Shape(bits(dtype), is_signed(dtype)), 8 * offset)
              for record in (PARAM, *records)
              for name, (dtype, offset) in record_places(record).items()}
    return data.FlexibleLayout(PARAM_BYTES * 8, fields)


class Operands(wiring.Component):
    """Registers that hold the operands of an iteration, selected from what the buffers give.

    The number of a prefix is the cycle that a signal belongs to, counted from the issue of the
    iteration, where `read_cycles` is 2; else what comes from the buffers, and what follows, is so
    much later. Latency: `DatapathPlan.operand_cycles`, from `s0_fetch` to `s3`. Throughput: a fetch
    a cycle. The sources a and b stay until they are fetched again.

    Parameters
    ----------
    config : the geometry: lanes of an iteration, and columns, which share parameters of a channel.
    widths : bits of an element on each of ``plan.buses``.

    Members
    -------
    s0_fetch : which sources are read (`fetch_layout`).
    s2_{buffer} : data of the buffers of entries and of records, `read_cycles` after their
        addresses.
    s2_issued, s2_operation : whether the last source came, and its instruction, for the data path.
    s3 : for each of ``plan.buses`` its elements.
    """

    def __init__(self, config: AccelConfig, plan: DatapathPlan, widths: Mapping[str, int],
                 unit: Unit = SHIPPED):
        operation = operation_layout(plan, formats(config, bool(plan.third))[unit.name], unit)
        self._unit, (self.record,) = unit, unit.at("record")
        self.bits = {name: bits(config.elements[name]) for name in unit.at("a")}
        self.stored = config.output
        *self.others, _ = unit.at("b")
        self.apart = any("bias" in names and "b" in names for names in (
            [operand.name for operand in body.operands] for body in plan.bodies))
        rows, self.columns = config.vector_tile
        self.records = config.records
        self._lanes, self.widths, self.plan = rows * self.columns, widths, plan
        super().__init__({
            "s0_fetch": In(fetch_layout(plan, operation)),
            **{f"s2_{buffer}": In(width * self._lanes) for buffer, width in self.bits.items()},
            f"s2_{self.record}": In(PARAM_BYTES * 8 * self.columns),
            "s2_issued": Out(1), "s2_operation": Out(operation),
            "s3": Out(data.StructLayout({bus: prod(shape) * widths[bus]
                                         for bus, shape in plan.buses.items()})),
        })

    def elaborate(self, platform):
        m = Module()
        *_, s1, s2 = trail(m, self.s0_fetch, self.plan.timing.read_cycles, "fetch")
        m.d.comb += [self.s2_issued.eq(s2.b), self.s2_operation.eq(s2.operation)]
        par = data.View(data.ArrayLayout(parameter_layout(self.records), self.columns),
                        getattr(self, f"s2_{self.record}"))
        a, b = self._sources(m, platform, s1, s2.operation.imm, par)
        bias = (self._parameter(m, par, "bias") if self.apart
                else [b[channel] for channel in range(self.columns)])
        elements = {"a": a, "b": b, "bias": bias,
                    **{name: self._parameter(m, par, name)
                       for name in parameters_of(self.plan, self._unit) if name != "bias"}}
        if TABLE.name in self.plan.buses:
            s3_table = Signal.like(s2.table, name="s3_table", reset_less=True)
            m.d.sync += s3_table.eq(s2.table)
            elements[TABLE.name] = [s3_table]
        for bus in self.plan.buses:
            width = self.widths[bus]
            m.d.comb += [self.s3[bus].word_select(place, width).eq(element)
                         for place, element in enumerate(elements[bus])]
        return m

    def _sources(self, m: Module, platform, s1, imm: Value, par):
        """Sources a and b of every lane; b has room for immediates and biases. Lanes that are far
        apart have registers of their own for what selects.
        """
        def control(value: Value, name: str) -> list[Signal]:
            return spread(m, platform, value, f"s2_{name}", self._lanes)

        takes_a, takes_b = control(s1.a, "takes_a"), control(s1.b, "takes_b")
        others, places = self.others, (*self.others, self.record)
        a_from_acc = control(s1.operation.a[others[0]], f"a_from_{others[0]}")
        b_from = {name: control(s1.operation.b[name], f"b_from_{name}")
                  for name in (*places, IMMEDIATE)}
        acc, res = (data.View(data.ArrayLayout(signed(width), self._lanes),
                              getattr(self, f"s2_{buffer}"))
                    for buffer, width in self.bits.items())
        wide = max(self.bits.values())
        s3_a, s3_b = (Signal(data.ArrayLayout(signed(width), self._lanes), name=f"s3_{name}",
                             reset_less=True)
                      for name, width in (("a", wide), ("b", max(wide, 32))))
        for lane in range(self._lanes):
            stored = (widened(res[lane], FORMATS[self.stored]).as_signed() if is_float(self.stored)
                      else res[lane])
            with m.If(takes_a[lane]):
                m.d.sync += s3_a[lane].eq(Mux(a_from_acc[lane], acc[lane], stored))
            sources = {**dict(zip(others, (acc[lane], stored), strict=True)), IMMEDIATE: imm,
                       self.record: par[lane % self.columns].bias}
            with m.If(takes_b[lane]):
                m.d.sync += s3_b[lane].eq(_choose(
                    *((b_from[name][lane], value) for name, value in sources.items())))
        return s3_a, s3_b

    def _parameter(self, m: Module, par, name: str) -> list[Signal]:
        """A parameter of every channel."""
        registers = [Signal.like(par[channel][name], name=f"s3_{name}{channel}", reset_less=True)
                     for channel in range(self.columns)]
        m.d.sync += [register.eq(par[channel][name])
                     for channel, register in enumerate(registers)]
        return registers


def _choose(*cases: tuple[Value, Value]) -> Value:
    """The value whose test holds, of tests that exclude each other."""
    result: Value = Const(0)
    for test, value in cases:
        result = result | Mux(test, value, 0)
    return result
