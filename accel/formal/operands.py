"""The operand registers of vector: what was read, from where the instruction says, in its cycle."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from accel.formal.claims import Claim, all_of
from accel.formal.logic import Answer, Logic, Term
from accel.formal.unrolled import Unrolled
from accel.hw.vector.operands import Operands, parameter_layout
from accel.machine.config import FLOAT8, PARAM_BYTES
from accel.machine.intrinsics import TABLE
from accel.machine.structure import IMMEDIATE
from compiler.te import is_float, numpy_dtype

_LATEST = 2             # the cycle in which source b is fetched; a comes then, or one before


def operand_claims(operands: Operands, name: str) -> Iterator[Claim]:
    yield Claim(f"{name}: sources are those that the instruction names, as they were read", "",
                lambda seconds: _Question(operands).decide(seconds))


class _Question:
    """An iteration whose last source is fetched in cycle `_LATEST`."""

    def __init__(self, operands: Operands) -> None:
        self.logic, self.operands = Logic(), operands
        self.hardware = Unrolled(self.logic, operands)
        self.fetch = operands.signature.members["s0_fetch"].shape
        self.reading = operands.plan.timing.read_cycles

    def fetched(self, field: str, cycle: int) -> Any:
        return self.hardware.part("s0_fetch", self.fetch, field, cycle)

    def operation(self, cycle: int, *path: str) -> Term:
        """A field of the instruction that is fetched."""
        term, layout = self.fetched("operation", cycle), self.fetch["operation"].shape
        for name in path:
            (field,) = (known for key, known in layout if key == name)
            term, layout = self.logic.bits(term, field.offset, field.width), field.shape
        return term

    def read(self, buffer: str, cycle: int) -> Term:
        """The data of a buffer for the addresses of a cycle."""
        return self.hardware.input(f"s2_{buffer}", cycle + self.reading)

    def lane(self, buffer: str, lane: int, cycle: int, wide: int) -> Term:
        bits = self.operands.bits[buffer]
        term = self.logic.bits(self.read(buffer, cycle), lane * bits, bits)
        if is_float(self.operands.stored) and buffer == self.operands.others[1]:
            term = self.number(term)
        return self.logic.widened(term, wide, True)

    def number(self, term: Term) -> Term:
        """A stored float as float32."""
        stored = self.operands.stored
        if stored not in FLOAT8:
            return self.logic.joined((self.logic.number(0, 16), term))
        known = np.arange(256, dtype=np.uint8).view(numpy_dtype(stored)).astype(np.float32)
        known[np.isnan(known)] = np.nan
        return self.logic.row(self.logic.filled(8, known.view(np.uint32).tolist(), 32), term)

    def parameter(self, channel: int, name: str) -> Term:
        layout: Any = parameter_layout(self.operands.records)
        (field,) = (known for key, known in layout if key == name)
        place = channel * PARAM_BYTES * 8 + field.offset
        return self.logic.bits(self.read(self.operands.record, _LATEST), place, field.width)

    def a(self, lane: int, wide: int) -> Term:
        """The element of source a, fetched in this cycle or in the one before."""
        logic, (first, second) = self.logic, self.operands.others
        found = [logic.chosen(self.operation(cycle, "a", first), self.lane(
            first, lane, cycle, wide), self.lane(second, lane, cycle, wide))
            for cycle in (_LATEST, _LATEST - 1)]
        return logic.chosen(self.fetched("a", _LATEST), *found)

    def b(self, lane: int, wide: int) -> Term:
        logic, operands = self.logic, self.operands
        cases = {name: self.lane(name, lane, _LATEST, wide) for name in operands.others}
        cases[IMMEDIATE] = logic.widened(self.operation(_LATEST, "imm"), wide, True)
        cases[operands.record] = logic.widened(
            self.parameter(lane % operands.columns, "bias"), wide, True)
        result = logic.number(0, wide)
        for name, value in cases.items():
            result = logic.chosen(self.operation(_LATEST, "b", name), value, result)
        return result

    def decide(self, seconds: float) -> Answer:
        logic, operands, plan = self.logic, self.operands, self.operands.plan
        later, end = _LATEST + self.reading, _LATEST + self.reading + 1
        given = [self.fetched("b", _LATEST), logic.binary(
            "or", self.fetched("a", _LATEST), self.fetched("a", _LATEST - 1)),
            self.single(self.operation(_LATEST, "b"))]
        claims = [logic.compared("eq", self.hardware.output("s2_issued", later),
                                 self.fetched("b", _LATEST)),
                  logic.compared("eq", self.hardware.output("s2_operation", later),
                                 self.fetched("operation", _LATEST))]
        layout = operands.signature.members["s3"].shape
        for bus in plan.buses:
            width, whole = operands.widths[bus], self.hardware.part("s3", layout, bus, end)
            for place in range(logic.width(whole) // width):
                meant = self.element(bus, place, max(width, 64))
                claims.append(logic.compared("eq", logic.bits(whole, place * width, width),
                                             logic.bits(meant, 0, width)))
        return all_of(logic, claims, given, seconds)

    def single(self, term: Term) -> Term:
        """A truth: at most one bit is 1."""
        less = self.logic.binary("sub", term, self.logic.number(1, self.logic.width(term)))
        return self.logic.inverted(self.logic.any(self.logic.binary("and", term, less)))

    def element(self, bus: str, place: int, wide: int) -> Term:
        match bus:
            case "a": return self.a(place, wide)
            case "b": return self.b(place, wide)
            case "bias" if not self.operands.apart: return self.b(place, wide)
            case TABLE.name: return self.logic.widened(self.fetched("table", _LATEST), wide, False)
        return self.logic.widened(self.parameter(place, bus), wide, False)
