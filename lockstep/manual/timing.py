"""The time of instructions: from the plans of the datapaths and the latencies of the hardware."""

from dataclasses import dataclass

from accel.datapath.plan import SELECT_CYCLES, plan
from accel.machine.declare import InstructionForm
from accel.machine.machine import Machine
from accel.machine.streams import StreamForm
from accel.machine.structure import IMMEDIATE, UnitKind
from accel.machine.timing import CoreTiming
from compiler.tensorize import Intrinsic


def _moves(timing: CoreTiming, unit: str) -> tuple[int, str, str]:
    """Cycles from taking an instruction to what it begins with, that, and what it waits for."""
    steps = timing.nest_cycles + timing.read_cycles
    return {
        UnitKind.STREAM: (3 + steps, "its first entry at the component", "room in its component, "
                          "whose time comes on top, and the write of its last entry before it "
                          "retires"),
        UnitKind.LOAD: (timing.load_cycles, "its first request to the memory", "requests, bursts "
                        "and data of the memory, and an earlier load whose data come first"),
        UnitKind.STORE: (timing.store_cycles, "the address of its first chunk", "room for "
                         "requests, and the memory's acknowledgements before it retires"),
    }[UnitKind(unit)]


@dataclass(frozen=True)
class UnitTiming:
    """The time of an instruction, in cycles.

    Parameters
    ----------
    first : from taking the instruction to what `begins` says.
    interval : from one iteration to the next; load and store: of each step of at most `bus_bytes`
        bytes; of a stream unit from one entry to the next, at least.
    shared_interval : `interval` where two sources are in one buffer; 0 where that cannot be.
    latency : from operands to value, the stages of the datapath; 0 without a datapath.
    write : from an iteration's issue to the write of its result; 0 likewise.
    waits : what it waits for besides its tokens.
    """

    first: int
    begins: str
    interval: int
    shared_interval: int
    latency: int
    write: int
    waits: tuple[str, ...]

    def retires(self, iterations: int, shared: bool = False) -> int:
        """Cycles from start to retire, if nothing is waited for: of gemm and vector alone."""
        interval = self.shared_interval if shared else self.interval
        return iterations * interval + self.first + self.write


def timing_of(machine: Machine, form: InstructionForm) -> UnitTiming:
    """The time of an instruction. Raises PlanError for a body that no datapath can have."""
    unit, timing = form.unit, machine.config.timing
    if isinstance(form, StreamForm) or unit not in SELECT_CYCLES:
        first, begins, waits = _moves(timing, unit)
        return UnitTiming(first, begins, 1, 0, 0, 0, (waits,))
    datapath = plan(machine, machine.unit_of(form.name))
    places = [set(operand.scopes) - {IMMEDIATE} for operand in form.operands
              if operand.name in ("a", "b")]
    meet = unit == UnitKind.VECTOR and len(places) == 2 and places[0] & places[1]
    first = datapath.first_cycles if unit == UnitKind.GEMM else timing.issue_cycles
    return UnitTiming(first, "the issue of its first iteration", datapath.interval,
                  2 * datapath.interval if meet else 0, datapath.compute_cycles,
                  datapath.write_cycles, tuple(_waits(machine, form)))


def _waits(machine: Machine, form: Intrinsic):
    acc, own = machine.structure.roles.acc, machine.unit_of(form.name)
    others = [unit.name for unit in machine.structure.users(acc) if unit.name != own]
    if any(acc in operand.scopes for operand in (form.dst, *form.operands)):
        yield f"banks of {acc} that {' or '.join(others)} holds"
    if form.unit == UnitKind.VECTOR and any(acc in operand.scopes for operand in form.operands):
        yield f"a source in {acc} whose write is pending"
        yield f"the read port of {acc}, while an accumulating iteration reads its destination"
