"""Random instructions of every form, and those that show what a program did."""

from random import Random

from accel.machine import isa
from accel.machine.config import PARAM_BYTES, WEIGHT_BITS
from accel.machine.immediates import fields_in
from accel.machine.declare import address_field, immediate_fields
from accel.machine.machine import Machine
from accel.machine.streams import StreamForm
from accel.machine.structure import IMMEDIATE, UnitKind

from . import shapes
from .forms import Form, reads
from .order import Touching
from .places import ITERATIONS, RUN, NoPlace, Places, before_activations


LOOPS = range(isa.STREAM["loops"].shape.length)
"""Levels of the loops of a stream unit's instruction."""

WHOLE = 256
"""Entries of a longest row that random programs have whole."""


class Instructions:
    """Makes the random instructions of one program, at its places."""

    def __init__(self, machine: Machine, random: Random, places: Places):
        self.machine, self.roles = machine, machine.structure.roles
        self.config = machine.config
        self.random = random
        self.places = places

    def of(self, form: Form, level: int | None = None) -> Touching:
        """An instruction of a form; `level` is that of a loop that vector must have."""
        match form.kind:
            case UnitKind.LOAD:
                return self.load(form.target, False, form.name, form.padded, form.bits)
            case UnitKind.STORE: return self.store(form)
            case UnitKind.GEMM: return self.gemm(form)
            case UnitKind.VECTOR: return self.vector(form, level)
            case UnitKind.STREAM: return self.stream(form, level)

    def load_entries(self, buffer: str) -> Touching:
        """A load that fills a whole entry, and mostly several."""
        placed = self.load(buffer, wide=True)
        if not self.places.whole_entries(buffer, placed.writes[buffer]):
            raise NoPlace
        return placed

    def load(self, buffer: str, wide: bool = False, name: str = "",
             padded: bool | None = None, bits: int = 8) -> Touching:
        """`padded`: whether some iterations are padding; None: now and then."""
        random = self.random
        name = name or self.machine.of_unit(UnitKind.LOAD)[0].name
        if buffer == self.roles.par:
            return self._load_records(name)
        entry, size = (self.config.buffers[buffer].entry_bytes,
                       self.config.buffers[buffer].size_bytes)
        run = (2 * entry - 1 if wide and self.places.short
               else random.randrange(entry, min(16 * entry, self.places.wide, size) + 1) if wide
               else random.randrange(1, min(RUN, size)))
        loops = self.places.loops(4, ("dram", "buffer"), 8, 2 if wide else 12)
        if random.random() < 0.5 if padded is None else padded:
            for loop in loops:
                if random.random() < 0.6:
                    loop["before"] = random.randrange(0, 3)
                    loop["after"] = random.randrange(0, 3)
            if padded and not any(loop.get("before") or loop.get("after") for loop in loops):
                raise NoPlace
        return self._dma(name, buffer, run, loops, bits=bits)

    def _load_records(self, name: str) -> Touching:
        """Whole records on whole records: their fields have ranges."""
        random = self.random
        block = self.config.block_out
        loops = [{"extent": 1} for _ in range(4)]
        level = random.randrange(4)
        loops[level] = {"extent": random.randrange(1, 4),
                        "dram": PARAM_BYTES * random.randrange(0, block // 2 + 1),
                        "buffer": PARAM_BYTES * random.choice([1, 2, block])}
        if self.places.short:
            loops[level]["extent"] = 1
        count = (2 * block - 1 if self.places.short
                 else random.choice([block, 2 * block, block + 1, 3]))
        reach = (loops[level]["extent"] - 1) * loops[level]["dram"] // PARAM_BYTES
        first = random.randrange(self.places.record_count - count - reach + 1)
        return self._dma(name, self.roles.par, PARAM_BYTES * count, loops,
                         dram=self.places.records + PARAM_BYTES * first,
                         step=PARAM_BYTES * random.choice([1, block, block]))

    def store(self, form: Form) -> Touching:
        return self._dma(form.name, form.target, self.random.randrange(1, RUN),
                         self.places.loops(4, ("dram", "buffer"), 8, 12))

    def _dma(self, name: str, buffer: str, run: int, loops: list[dict[str, int]],
             dram: int | None = None, step: int = 1, bits: int = 8) -> Touching:
        """Place both sides; `dram` says where in io, `step` is the alignment in the buffer, of
        which addresses count what a byte unpacks to."""
        unit = self.machine.unit_of(name)
        loads = self.machine.structure.kind(unit) is UnitKind.LOAD
        valid = {index for index in shapes.indices(loops)
                 if not loads or not shapes.padding(index, loops)}
        outside = [shapes.offset(index, loops, "dram") for index in shapes.indices(loops)
                   if index in valid]
        inside = [shapes.offset(index, loops, "buffer") for index in shapes.indices(loops)]
        group = 8 // bits
        size = self.config.buffers[buffer].size_bytes // group
        if loads:
            segment = self.places.segment() if dram is None else "io"
            if dram is None:
                dram = self.places.readable(segment, shapes.widened(outside, run)) if outside else 0
            address = self.places.anywhere(shapes.widened(inside, run), size, step)
        else:
            segment = self.random.choice(["io", "io", "activations"])
            address = self.places.readable(buffer, shapes.widened(inside, run))
            dram = self.places.room(segment, shapes.widened(outside, run))
        remote = {segment: shapes.bits(dram + o for o in shapes.widened(outside, run))}
        local = {buffer: shapes.bits((address + o) * group + byte for byte in range(group)
                                     for o in shapes.widened(inside, run))}
        first = before_activations(self.config) if segment == "activations" else 0
        fields = {"buffer": self._code(buffer), "base": isa.BASES.index(segment),
                  "dram": (first + dram) % (1 << 32), "address": address, "run": run,
                  "pad_value": self.random.randrange(256), "loops": shapes.modular(loops, 1 << 24)}
        if bits < 8:
            fields["bits"] = WEIGHT_BITS.index(bits)
        if loads and self.machine.pads_high:
            fields["pad_high"] = self.random.randrange(256)
        reads, writes = (remote, local) if loads else (local, remote)
        return Touching(name, unit, fields, reads, writes)

    def _code(self, buffer: str) -> int:
        return self.machine.structure.buffer_names.index(buffer)

    def shown(self, run: int, address: int, buffer: str) -> Touching:
        """One run of a buffer to a place in io that nothing else touches."""
        dram, name = self.places.fresh(run), self.machine.of_unit(UnitKind.STORE)[0].name
        fields = {"buffer": self._code(buffer), "base": isa.BASES.index("io"),
                  "dram": dram, "address": address, "run": run, "loops": []}
        return Touching(name, self.roles.store, fields, {buffer: (1 << run) - 1 << address},
                       {"io": (1 << run) - 1 << dram})

    def gemm(self, form: Form) -> Touching:
        loops = self.places.loops(6, ("dst", "a", "b"), 3, ITERATIONS)
        self.places.meet(loops)
        offsets = shapes.offsets(loops)
        base = {key: self.places.entry(scope, offsets[key])
                for key, scope in operands(form).items()}
        base["dst"] = (self.places.readable(self.roles.acc, offsets["dst"])
                       if self.roles.acc in reads(self.machine, form)
                       else self.places.anywhere(
                           offsets["dst"], self.config.buffers[form.target].depth))
        return self.gemm_at(form, loops, base)

    def gemm_at(self, form: Form, loops: list[dict[str, int]], base: dict[str, int]) -> Touching:
        offsets = shapes.offsets(loops)
        written = shapes.bits(base["dst"] + o for o in offsets["dst"])
        read = {scope: self.places.touched(scope, base[key], offsets[key])
                for key, scope in operands(form).items()}
        if form.target in reads(self.machine, form):
            read[form.target] = written
        fields = {"banks": self._banks(written), "reset": self._reset(form), "base": base,
                  "loops": shapes.modular(loops, 1 << 16), **self._own(form)}
        return Touching(form.name, form.unit, fields, read, {form.target: written})

    def _reset(self, form: Form) -> int:
        """The field `reset`: random for updates that do not accumulate, which ignore it."""
        return self.random.randrange(2) if form.reset is None else int(form.reset)

    def vector(self, form: Form, level: int | None = None) -> Touching:
        random = self.random
        loops = self.places.loops(5, ("dst", "a", "b"), 3, ITERATIONS, level)
        if form.reset is not None:
            self.places.meet(loops)
        offsets = shapes.offsets(loops)
        base = {"dst": 0, "a": random.randrange(1 << 16), "b": random.randrange(1 << 16)}
        for key, scope in operands(form).items():
            if scope != IMMEDIATE:
                base[key] = self.source(scope, offsets[key])
        base["dst"] = self._destination(form, offsets, base)
        return self.vector_at(form, loops, base)

    def vector_at(self, form: Form, loops: list[dict[str, int]],
                  base: dict[str, int]) -> Touching:
        offsets, scopes, acc = shapes.offsets(loops), form.scopes, self.roles.acc
        codes = isa.selectors(self.machine.structure.unit(form.unit))
        read: dict[str, int] = {}
        for key, scope in operands(form).items():
            if scope != IMMEDIATE:
                touched = self.places.touched(scope, base[key], offsets[key])
                read[scope] = read.get(scope, 0) | touched
        written = self.places.touched(form.target, base["dst"], offsets["dst"])
        if form.reset is False:
            read[acc] = read.get(acc, 0) | written
        in_acc = (written if form.target == acc else 0) | read.get(acc, 0)
        fields = self._immediates(form) | {
            "banks": self._banks(in_acc), "reset": self._reset(form),
            "base": {key: place for key, place in base.items() if key != "c"},
            **({"c": base["c"]} if "c" in base else {}),
            "a_source": codes["a_source"].index(
                scopes.get("a", self.random.choice(codes["a_source"]))),
            "b_source": codes["b_source"].index(scopes.get("b", self.roles.par)),
            "destination": codes["destination"].index(form.target),
            "loops": shapes.modular(loops, 1 << 16)}
        return Touching(form.name, form.unit, fields, read, {form.target: written})

    def stream(self, form: Form, level: int | None = None) -> Touching:
        """Rows of up to the most entries that the component takes."""
        loops = self.places.loops(len(LOOPS), ("dst", "a"), 3, ITERATIONS, level)
        row, declared = loops[-1], self.machine.intrinsic(form.name)
        assert isinstance(declared, StreamForm)
        if (length := self._row(row["extent"], declared.longest)) != row["extent"]:
            row["extent"] = length
            for number, loop in enumerate(loops[:-1]):
                loop["extent"] = loop["extent"] if number == level else 1
        offsets, sources = shapes.offsets(loops), operands(form)
        base = {"a": self.places.entry(sources["a"], offsets["a"]),
                "b": self.random.randrange(1 << 16), "dst": self.places.anywhere(
                    offsets["dst"], self.config.buffers[form.target].depth)}
        read = {sources["a"]: self.places.touched(sources["a"], base["a"], offsets["a"])}
        entries = self.random.randrange(32)
        if table := sources.get("b"):
            entries = self.random.choice([0, 1, 2, 3])
            base["b"] = self.places.entry(table, [*range(1 << entries)])
            read[table] = self.places.touched(table, base["b"], [*range(1 << entries)])
        written = self.places.touched(form.target, base["dst"], offsets["dst"])
        codes = isa.selectors(self.machine.structure.unit(form.unit))
        return Touching(form.name, form.unit, {
            "a_source": codes["a_source"].index(sources["a"]), "entries": entries, "base": base,
            "loops": shapes.modular(loops, 1 << 16), **self._own(form)}, read,
            {form.target: written})

    def _row(self, drawn: int, longest: int) -> int:
        """The length of a row: the one that is drawn, if it may be; now and then the longest, where
        that does not take many cycles, or any other."""
        turn = self.random.random()
        if self.places.short or turn < 0.4:
            return min(drawn, longest)
        if turn < 0.7 and longest <= WHOLE:
            return longest
        return self.random.randrange(min(drawn, longest), min(ITERATIONS, longest) + 1)

    def source(self, scope: str, offsets: list[int]) -> int:
        """A base at which an operand in `scope` has been written."""
        if scope == self.roles.acc:
            return self.places.readable(scope, offsets)
        return self.places.entry(scope, offsets)

    def _destination(self, form: Form, offsets, base) -> int:
        """A random destination; sometimes close to a source in acc, so that iterations meet."""
        if form.reset is False:
            return self.places.readable(self.roles.acc, offsets["dst"])
        target, depth = form.target, self.config.buffers[form.target].depth
        near = [base[key] for key, scope in form.sources if scope == self.roles.acc and key in base]
        if target == self.roles.acc and near and self.random.random() < 0.6:
            place = self.random.choice(near) + self.random.randrange(-2, 5)
            if all(0 <= place + offset < depth for offset in offsets["dst"]):
                return place
        return self.places.anywhere(offsets["dst"], depth)

    def _own(self, form: Form) -> dict[str, int]:
        """Immediates of one's own: the ends of their ranges, and numbers between."""
        own = self.machine.immediates[form.unit]
        return {one.name: self.random.choice([one.low, one.high, 0,
                                              self.random.randint(one.low, one.high)])
                for one in self.machine.intrinsic(form.name).immediates if one.name in own}

    def _immediates(self, form: Form) -> dict[str, int]:
        """Numbers for all fields of immediates that words of this instruction have."""
        known = fields_in(self.machine.layouts[form.name])
        return {name: number for name, number in self._known().items()
                if name in known} | self._own(form)

    def _known(self) -> dict[str, int]:
        random = self.random
        whole = immediate_fields(self.config.output)["lo"]
        ends = whole.low, whole.high + 1
        lo, hi = sorted((random.randrange(*ends), random.randrange(*ends)))
        if random.random() < 0.6:
            lo, hi = whole.low, whole.high
        return {"imm": random.choice([0, 1, 7, -3, random.randrange(-1 << 31, 1 << 31)]),
                "ma": self._factor(), "mb": self._factor(),
                "s": random.choice([0, random.randrange(12), random.randrange(47)]),
                "zp": random.choice([0, random.randrange(-128, 128)]), "lo": lo, "hi": hi}

    def _factor(self) -> int:
        """A factor of 16 bits; often one for which sums stay small and are rounded at a half."""
        random = self.random
        return random.choice([0, 1, 1 << random.randrange(8), 1 << random.randrange(16),
                              random.randrange(1 << 16)])

    def _banks(self, entries: int) -> int:
        depth = self.config.bank_depth
        needed = int(entries & (1 << depth) - 1 != 0) | 2 * (entries >> depth != 0)
        return 3 if self.random.random() < 0.1 else needed


def operands(form: Form) -> dict[str, str]:
    """Field of the word to where its operand lives."""
    names = [name for name, _ in form.sources]
    return {address_field(form.kind, names, name): scope for name, scope in form.sources}
