"""Coverage: the bins that the programs of a check must fill."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from accel.datapath.plan import plan
from accel.machine import isa
from accel.machine.machine import Machine
from accel.machine.program import Instruction
from accel.machine.declare import InstructionForm
from accel.machine.status import Run, Status
from accel.machine.streams import LONGEST, StreamForm
from accel.machine.structure import FETCH, UnitKind
from accel.machine.words import decode_words
from accel.proof.access import (WRITABLE, Touch, accumulates, row_length, touches,
                                valid_box)

from accel.sim.programs.case import Case
from accel.sim.programs.forms import Form, form_of, forms
from accel.sim.programs.instructions import WHOLE

DISTANCES = (1, 2, 3)
"""Distances, in iterations, of two updates of one entry, for which the bypass is checked."""


class Coverage:
    """Counts by group and bin. The bins that a machine must fill exist from the start.

    Groups: ``loop`` (opcode and loop level of extent > 1), ``form`` (every `Form` of every
    instruction), ``row`` (the longest that a component takes), ``bypass`` (unit and distance),
    ``alias`` (a source that meets its own destination), ``token`` (ordered pair), ``stall`` (unit
    and cause), ``pad`` (edge and loop), ``align`` (bytes at odd places), ``bank``, ``segment``,
    ``fault`` (status and who is blamed).
    """

    def __init__(self, machine: Machine):
        self.machine = machine
        self.counts: dict[str, Counter[str]] = {}
        self.ran: Counter[str] = Counter({_name(form): 0 for form in forms(machine)})
        for group, name in self._required():
            self.counts.setdefault(group, Counter())[name] = 0

    def add(self, case: Case, run: Run) -> None:
        """Count a case and its run on the RTL. For a program with a fault only the end counts."""
        if case.fault:
            self._count("fault", f"{run.status.text} of {run.unit}")
            return
        for instruction in decode_words(self.machine, case.program.words)[:-1]:
            form = form_of(self.machine, instruction)
            self.ran[_name(form)] += 1
            self._count("form", str(form))
            for group, name in self._of(instruction):
                self._count(group, name)
        for unit, causes in run.counters.activity.items():
            for cause, cycles in causes.items():
                if cause != "busy" and cycles:
                    self._count("stall", f"{unit} for {cause}")

    def _count(self, group: str, name: str) -> None:
        if name in self.counts.get(group, ()):
            self.counts[group][name] += 1

    @property
    def empty(self) -> list[str]:
        """The bins that nothing has filled, as ``group: bin``."""
        return [f"{group}: {name}" for group, bins in self.counts.items()
                for name, count in bins.items() if not count]

    @property
    def missing(self) -> list[str]:
        """The forms that no program held."""
        return [name for name, count in self.counts["form"].items() if not count]

    def totals(self) -> dict[str, tuple[int, int]]:
        """For each group, the number of filled bins and of all."""
        return {group: (sum(count > 0 for count in bins.values()), len(bins))
                for group, bins in self.counts.items()}

    # ---- which bins there are ----------------------------------------------------------------

    def _required(self) -> Iterator[tuple[str, str]]:
        for name, intrinsics in self.machine.forms.items():
            yield from (("immediate", text) for _, text in self._ends(name))
            yield from (("loop", f"{name} loop {level}") for level in range(intrinsics[0].loops)
                        if level < intrinsics[0].loops - 1 or _longest(intrinsics[0]) > 1)
            if _longest(intrinsics[0]) <= WHOLE:
                yield "row", f"longest of {name}"
        every = forms(self.machine)
        yield from (("form", str(form)) for form in every)
        structure, units = self.machine.structure, self.machine.structure.names
        for unit in (one.name for one in structure.units if not one.kind.moves):
            if any(form.unit == unit and form.reset for form in every):
                yield from (("bypass", f"{unit} at distance {d}") for d in DISTANCES)
            if self._has_banks(unit):
                yield from (("bank", f"{unit} in {which}")
                            for which in ("bank 0", "bank 1", "both"))
        if self._meets_itself:
            yield "alias", f"{structure.roles.vector} reads what it wrote"
        yield from (("token", f"{a} to {b}") for a in units for b in units)
        yield from self._stalls()
        for loop in range(4):
            yield from (("pad", f"{edge} in loop {loop}") for edge in ("before", "after"))
        for unit in structure.moved:
            yield from (("align", f"{unit} {alignment}") for alignment in _ALIGNMENTS)
        yield from (("segment", f"{structure.roles.load} {name}") for name in isa.BASES[1:])
        yield from (("segment", f"{structure.roles.store} {name}") for name in WRITABLE)
        yield from (("fault", f"{status.text} of {unit}")
                    for status, units in self._blamed().items() for unit in units)

    def _has_banks(self, unit: str) -> bool:
        """True if a unit uses the accumulators."""
        structure = self.machine.structure
        return structure.roles.acc in structure.unit(unit).buffers

    def _blamed(self) -> dict[Status, tuple[str, ...]]:
        """Whom each error can be of. Words of gemm have no selector that could be illegal."""
        structure = self.machine.structure
        selecting = tuple(unit.name for unit in structure.units if unit.kind is not UnitKind.GEMM)
        return {Status.ILLEGAL: (FETCH, *selecting), Status.ADDRESS: structure.names,
                Status.BUS: tuple(structure.moved), Status.TOKENS_LEFT: (FETCH,),
                Status.DEADLOCK: structure.reporters}

    def _ends(self, name: str) -> Iterator[tuple[tuple[str, int], str]]:
        """The ends of immediates of one's own of an instruction, and their bins."""
        body = self.machine.intrinsic(name)
        for one in body.immediates:
            if one.name in self.machine.immediates.get(self.machine.unit_of(name), {}):
                yield (one.name, one.low), f"least {one.name} of {name}"
                yield (one.name, one.high), f"greatest {one.name} of {name}"

    @property
    def _meets_itself(self) -> bool:
        """True if an operation of vector can read what an earlier iteration wrote."""
        acc = self.machine.structure.roles.acc
        return any(form.kind is UnitKind.VECTOR and form.target == acc
                   and acc in form.scopes.values() for form in forms(self.machine))

    def _stalls(self) -> Iterator[tuple[str, str]]:
        """A DMA unit that waits for a token of its own waits for its memory."""
        units = self.machine.structure.names
        for unit in units:
            kind = self.machine.structure.unit(unit).kind
            dma = kind.moves
            causes = ["command", "signal"]
            causes += ["memory"] if dma else ["bank"] if self._has_banks(unit) else []
            causes += [other for other in units if not (dma and other == unit)]
            meets = (self._meets_itself if kind is UnitKind.VECTOR else
                     kind is UnitKind.GEMM and plan(self.machine, unit).hazard_cycles > 0)
            causes += ["hazard"] if meets else []
            yield from (("stall", f"{unit} for {cause}") for cause in causes)

    # ---- which bins an instruction fills -----------------------------------------------------

    def _of(self, instruction: Instruction) -> Iterator[tuple[str, str]]:
        touched = touches(self.machine, instruction)
        for level, loop in enumerate(instruction.fields["loops"]):
            if loop["extent"] > 1:
                yield "loop", f"{instruction.name} loop {level}"
        if row_length(instruction) == _longest(self.machine.intrinsic(instruction.name)):
            yield "row", f"longest of {instruction.name}"
        for source in instruction.waits:
            yield "token", f"{source} to {instruction.unit}"
        if instruction.unit in self.machine.structure.moved:
            yield from self._of_dma(instruction, touched)
        else:
            yield from self._of_compute(instruction, touched)

    def _of_dma(self, instruction: Instruction,
                touched: Sequence[Touch]) -> Iterator[tuple[str, str]]:
        fields, unit = instruction.fields, instruction.unit
        segment = isa.BASES[fields["base"]]
        yield "segment", f"{unit} {segment}"
        if self.machine.structure.kind(unit) is UnitKind.LOAD:
            for loop, (low, high) in enumerate(valid_box(fields["loops"])):
                if 0 < low < fields["loops"][loop]["extent"]:
                    yield "pad", f"before in loop {loop}"
                if 0 < high < fields["loops"][loop]["extent"]:
                    yield "pad", f"after in loop {loop}"
        remote = next(touch for touch in touched if touch.memory == segment)
        local = next(touch for touch in touched if touch.memory != segment)
        if remote.walk.count and not remote.walk.wraps:
            yield from (("align", f"{unit} {alignment}")
                        for alignment in self._alignments(remote, local))

    def _alignments(self, remote: Touch, local: Touch) -> Iterator[str]:
        bus = self.machine.config.bus_bytes
        far, near = remote.walk.base % bus, local.walk.base % bus
        if far:
            yield "from an odd place in memory"
        if near:
            yield "from an odd place in the buffer"
        if remote.width % bus:
            yield "of an odd number of bytes"
        yield ("lower in the buffer" if near < far else
               "higher in the buffer" if near > far else "aligned alike")
        if remote.walk.base % 64 + remote.width > 64:
            yield "across 64 bytes"

    def _of_compute(self, instruction: Instruction,
                    touched: Sequence[Touch]) -> Iterator[tuple[str, str]]:
        intrinsic, dst = self.machine.intrinsic(instruction.name), touched[-1]
        unit = instruction.unit
        for (field, end), text in self._ends(instruction.name):
            if instruction.fields[field] == end:
                yield "immediate", text
        if intrinsic.reads_destination:
            yield from (("bypass", f"{unit} at distance {d}")
                        for d in _distances(dst.walk.addresses().reshape(-1)))
        acc = self.machine.structure.roles.acc
        in_acc = [touch for touch in touched if touch.memory == acc]
        if len(in_acc) > 1 and dst.memory == acc and not accumulates(self.machine, instruction):
            if any(_meets(dst, touch) for touch in in_acc if not touch.write):
                yield "alias", f"{unit} reads what it wrote"
        banks = {bound // self.machine.config.bank_depth
                 for touch in in_acc for bound in touch.walk.bounds}
        if banks:
            yield "bank", f"{unit} in " + ("both" if len(banks) > 1 else f"bank {min(banks)}")


_ALIGNMENTS = ("from an odd place in memory", "from an odd place in the buffer",
               "of an odd number of bytes", "lower in the buffer", "higher in the buffer",
               "aligned alike", "across 64 bytes")


def _longest(form: InstructionForm) -> int:
    """The most entries of a row of a stream unit's instruction; without limit of others."""
    return form.longest if isinstance(form, StreamForm) else LONGEST + 1


def _name(form: Form) -> str:
    """The instruction, and how it unpacks what it moves."""
    return form.name if form.bits == 8 else f"{form.name} of {form.bits} bits"


def _distances(places: np.ndarray) -> Iterator[int]:
    """Distances at which an entry comes again, and not closer."""
    closer = np.zeros(places.size, bool)
    for distance in DISTANCES:
        again = np.zeros(places.size, bool)
        again[distance:] = places[distance:] == places[:-distance]
        if (again & ~closer).any():
            yield distance
        closer |= again


def _meets(dst: Touch, source: Touch) -> bool:
    """True if an iteration reads what an earlier one wrote."""
    written: set[int] = set()
    pairs = zip(dst.walk.addresses().reshape(-1).tolist(),
                source.walk.addresses().reshape(-1).tolist())
    for place, read in pairs:
        if read in written:
            return True
        written.add(place)
    return False
