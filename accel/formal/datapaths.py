"""The datapaths of units that compute: each declared body against the pipeline made for it.

::

    cycle 0             select, immediates, valid
    cycle 1             operands
    cycle 1 + latency   value

In all other cycles inputs are anything, and registers begin with anything: what came before, and
what comes behind, cannot be seen in the value. Tables are any tables. Each lane is a question of
its own.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np

from accel.datapath.lowering import bus_of
from accel.datapath.plan import DatapathPlan, plan
from accel.formal.claims import Claim, undecided
from accel.formal.logic import Answer, Logic, Term
from accel.formal.meaning import meaning
from accel.formal.products import CutLogic
from accel.formal.unrolled import Unrolled
from accel.hw.compute.datapath import Datapath
from accel.machine.intrinsics import TABLE
from accel.machine.machine import Machine
from accel.machine.structure import UnitKind
from compiler import te
from compiler.te import Binary, walk
from compiler.tensorize import Operand


def datapath_claims(machine: Machine) -> Iterator[Claim]:
    """One for each instruction of gemm and vector whose values come from a datapath."""
    for kind in (UnitKind.GEMM, UnitKind.VECTOR):
        for unit in machine.structure.of_kind(kind):
            made = plan(machine, unit.name)
            for number, body in enumerate(made.bodies):
                if made.array is None:
                    yield Claim(f"{body.name}: the datapath of {unit.name} computes what is "
                                f"declared", body.name, partial(_decide, made, number),
                                (made, number))


def _decide(made: DatapathPlan, number: int, seconds: float) -> Answer:
    """With products cut, and then, if that says nothing, without."""
    begin = time.monotonic()
    multiplies = any(isinstance(node, Binary) and node.op == "mul"
                     for node in walk(made.bodies[number].value))
    answer = _decided(CutLogic(), made, number, seconds) if multiplies else None
    if answer is None or not answer.proved:
        left = max(seconds - (time.monotonic() - begin), 0.001)
        answer = _decided(Logic(), made, number, left)
    return undecided(replace(answer, seconds=time.monotonic() - begin), seconds)


def _decided(logic: Logic, made: DatapathPlan, number: int, seconds: float) -> Answer:
    """All lanes in turn, in so many seconds together."""
    begin, question = time.monotonic(), _Question(logic, made, number)
    for place in product(*(range(extent) for extent in made.shape)):
        claim = question.claim(place)
        left = seconds - (time.monotonic() - begin)
        facts = logic.facts if isinstance(logic, CutLogic) else ()
        answer = logic.decide(claim, (*question.given, *facts), max(left, 0.001))
        if not answer.proved:
            return answer
    return Answer(True, 0.0)


class _Question:
    """The datapath with one body selected."""

    def __init__(self, logic: Logic, made: DatapathPlan, number: int) -> None:
        self.logic, self._plan, self._body = logic, made, made.bodies[number]
        self._datapath = Datapath(made)
        self._elements = {bus: [logic.symbol(f"{bus}[{element}]", self._datapath.widths[bus])
                                for element in range(prod(shape))]
                          for bus, shape in made.buses.items()}
        self._tables = logic.table(TABLE.name, 8 + made.table_bits, 8)
        self._lookups = made.count("lookup")
        self._hardware = Unrolled(logic, self._datapath, given={
            "valid": self._only(0, logic.number(1, 1)),
            "select": self._only(0, logic.number(1 << number, len(made.bodies))),
            **{bus: self._only(1, logic.joined(elements))
               for bus, elements in self._elements.items()},
            "tab__data": self._looked_up})
        self._scalars: dict[str, Term] = {}
        self.given = [truth for one in self._body.immediates for truth in self._immediate(one)]

    @staticmethod
    def _only(cycle: int, term: Term) -> Any:
        return lambda now: term if now == cycle else None

    def _looked_up(self, cycle: int) -> Term | None:
        """Data of the memories of tables: the element whose address they got, if they did."""
        before, logic, data = cycle - self._plan.timing.read_cycles, self.logic, []
        if before < 0:
            return None
        addresses, enables = (self._hardware.output(f"tab__{port}", before)
                              for port in ("addr", "en"))
        bits = logic.width(addresses) // self._lookups
        for lookup in range(self._lookups):
            row = logic.row(self._tables, logic.bits(addresses, lookup * bits, bits))
            nothing = logic.symbol(f"nothing{lookup}@{cycle}", 8)
            data.append(logic.chosen(logic.bits(enables, lookup, 1), row, nothing))
        return logic.joined(data)

    def _immediate(self, immediate: Any) -> Iterator[Term]:
        """Keeps an immediate for the body; yields that it lies in its range."""
        logic, name = self.logic, immediate.name
        interval = self._plan.immediates.get(name)
        bits = te.bits(immediate.var.dtype)
        if interval is None:                        # of no use to the value
            self._scalars[name] = logic.symbol(name, bits)
            return
        port, signed = self._hardware.input(name, 0), interval.low < 0
        self._scalars[name] = logic.widened(port, bits, signed)
        order, width = "sle" if signed else "ule", logic.width(port)
        if immediate.low > interval.low:
            yield logic.compared(order, logic.number(immediate.low, width), port)
        if immediate.high < interval.high:
            yield logic.compared(order, port, logic.number(immediate.high, width))

    def claim(self, place: tuple[int, ...]) -> Term:
        """A truth: this lane's value is that of the body."""
        logic, body, bits = self.logic, self._body, self._plan.value_bits
        lane = int(np.ravel_multi_index(place, self._plan.shape))
        if isinstance(logic, CutLogic):
            logic.begin_body()
        meant = meaning(logic, body.value, body.axes, place, self._read, self._scalars)
        if isinstance(logic, CutLogic):
            logic.begin_hardware(self.given)
        value = self._hardware.output("value", 1 + self._plan.latency)
        return logic.compared("eq", logic.bits(value, lane * bits, bits), meant)

    def _read(self, name: str, indices: tuple[Term | int, ...]) -> Term:
        if name == TABLE.name:
            number = (self._elements[TABLE.name][0],) if TABLE.name in self._elements else ()
            address = (self.logic.bits(indices[0], 0, 8), *number)
            return self.logic.widened(self.logic.row(self._tables, self.logic.joined(address)),
                                      te.bits(self._body.operand(name).dtype), True)
        operand = self._body.operand(name)
        shape = operand.shape if self._plan.interval == 1 else self._plan.buses[bus_of(operand)]
        result = None
        for place in product(*(range(extent) for extent in shape)):
            if any(isinstance(index, int) and index != at for index, at in zip(indices, place)):
                continue
            element = self._element(operand, int(np.ravel_multi_index(place, shape))
                                    if shape else 0)
            result = element if result is None else self.logic.chosen(self.logic.every(
                self.logic.compared("eq", index, self.logic.number(at, self.logic.width(index)))
                for index, at in zip(indices, place) if not isinstance(index, int)),
                element, result)
        return result

    def _element(self, operand: Operand, number: int) -> Term:
        """An element, as wide as where it is stored, in the type of the operand."""
        bits, signed = _stored(operand)
        bus = self._elements[bus_of(operand)][number]
        return self.logic.widened(self.logic.bits(bus, 0, min(bits, self.logic.width(bus))),
                                  te.bits(operand.dtype), signed)


def _stored(operand: Operand) -> tuple[int, bool]:
    """Bits of an operand, and whether they have a sign, wherever it may be stored."""
    types = []
    for _, dtype in operand.storage:
        record, _, field = dtype.partition(".")
        types.append(te.record_fields(record)[field] if field else dtype)
    signed = any(te.is_signed(dtype) for dtype in types)
    widest = max(te.bits(dtype) + (signed and not te.is_signed(dtype)) for dtype in types)
    return min(widest, te.bits(operand.dtype)), signed
