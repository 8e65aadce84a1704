"""Random legal programs, to hold simulators against each other.

What makes a program legal is tracked here on its own: every instruction's addresses are enumerated
one by one into bit sets, every pair of instructions is compared, and the known order is a set of
predecessors for each instruction. Nothing is shared with the address sets, the insertion of tokens
or the proof that compiled programs rely on, so that they cannot share a mistake.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from accel.machine import isa
from accel.machine.config import PARAM_BYTES, UNITS
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, TensorSlot, finish
from compiler.lazy import cached_property
from compiler.te import numpy_dtype

from . import shapes
from .forms import Form, forms, reads

__all__ = ["Case", "generate", "with_forms"]

OUTPUT_BYTES = 400
"""Room for results in io."""

ASSIGNED = 5
"""Instructions of a program whose form follows from its seed, so that all get their turn."""

TRIES, FEW_TRIES = 60, 8
"""Shapes that are tried before an instruction is left out, where it must be there and elsewhere;
in the last half of many all loops are short."""

SEGMENTS = {"weights": 160, "activations": 320}
"""Bytes of the other segments."""

ITERATIONS, RUN, SHOWN = 48, 40, 40     # at most, of one instruction; entries or bytes shown


@dataclass(frozen=True)
class Case:
    """A program, the memory that it starts with, and how that memory behaves.

    `fault` says what is wrong with the program; empty: it is legal.
    """

    name: str
    program: AccelProgram
    memory: np.ndarray
    timing: Mapping[str, Any]
    fault: str = ""


@dataclass
class _Placed:
    """An instruction of the stream, with what it touches as bit sets by memory."""

    name: str
    unit: str
    fields: dict[str, Any]
    reads: dict[str, int] = field(default_factory=dict)
    writes: dict[str, int] = field(default_factory=dict)
    before: int = 0             # the instructions known to have finished when it starts
    waits: int = 0
    signals: int = 0


class _NoPlace(Exception):
    """Nothing of the chosen shape could be placed."""


def generate(machine: Machine, seed: int) -> Case:
    """The program of a seed: 8 to 36 random instructions, then some that show what they did."""
    return _Generator(machine, seed).case()


def with_forms(machine: Machine, seed: int, wanted: Sequence[Form]) -> Case:
    """A program that holds an instruction of each of these forms, and shows what it did."""
    return _Generator(machine, seed).case(wanted)


class _Generator:
    def __init__(self, machine: Machine, seed: int):
        self.machine = machine
        self.config = machine.config
        self.seed = seed
        self.random = Random(f"{machine.hash} {seed}")
        self.stream: list[_Placed] = []
        self.forms = forms(machine)
        self.short = False          # loops have one iteration
        self.record_count = 6 * self.config.block_out
        largest = max(b.entry_bytes for b in self.config.buffers.values())
        self.wide = min(16 * largest, max(8192, 2 * largest))
        self.records = max(600, 2 * self.wide) + self.random.randrange(8)   # any alignment
        self.inputs = self.records + PARAM_BYTES * self.record_count
        self.io_bytes = self.inputs + OUTPUT_BYTES
        self.written = dict.fromkeys((*isa.BUFFERS, "io", *SEGMENTS), 0)
        self.written["io"] = (1 << self.inputs) - 1
        self.written["weights"] = (1 << SEGMENTS["weights"]) - 1

    def case(self, wanted: Sequence[Form] = ()) -> Case:
        for buffer in ("inp", "wgt", "res", "par"):
            self._try(lambda buffer=buffer: self._load_entries(buffer), must=True)
        first = next((form for form in self.forms if form.unit == "gemm" and form.reset), None)
        first = first or next(form for form in self.forms if form.unit == "gemm")
        self._try(lambda: self._gemm(first), must=True)
        if wanted:
            self._fill_out()
            for form in wanted:
                self._try(lambda form=form: self._of(form), must=True)
        else:
            self._at_random()
        self._show()
        self._order()
        return self._assembled(f"forms {wanted[0]} ..." if wanted else f"seed {self.seed}")

    def _at_random(self) -> None:
        random, forms = self.random, self.forms
        units = {unit: [form for form in forms if form.unit == unit] for unit in UNITS}
        kinds = [lambda unit=unit: self._of(_any_name(random, units[unit]))
                 for unit in ("load", "gemm", "store", "vector", "vector")]
        chosen: list[Callable[[], _Placed]] = [
            random.choice(kinds) for _ in range(random.randrange(3, 29))]
        for turn in range(self.seed * ASSIGNED, (self.seed + 1) * ASSIGNED):
            place = random.randrange(len(chosen) // 2, len(chosen) + 1)
            chosen.insert(place, lambda turn=turn: self._of(
                forms[turn % len(forms)], (turn // len(forms) + turn) % 5))
        for kind in chosen:
            self._try(kind)

    def _fill_out(self) -> None:
        """Writes something to out, for a store."""
        to_out = [form for form in self.forms if form.unit == "vector" and form.target == "out"
                  and all(scope == "imm" or self.written[scope] for _, scope in form.sources)]
        if to_out:
            self._try(lambda: self._vector(to_out[0]), must=True)

    def _of(self, form: Form, level: int | None = None) -> "_Placed":
        """An instruction of a form; `level` is that of a loop that vector must have."""
        match form.unit:
            case "load": return self._load(form.target, name=form.name, padded=form.padded)
            case "store": return self._store(form.name)
            case "gemm": return self._gemm(form)
            case _: return self._vector(form, level)

    def _assembled(self, name: str) -> Case:
        random = self.random
        stream = [Instruction(p.name, p.unit, p.fields | {"waits": p.waits, "signals": p.signals})
                  for p in self.stream]
        slot = TensorSlot("data", "io", 0, (self.inputs,), "uint8")
        weights = np.frombuffer(random.randbytes(SEGMENTS["weights"]), np.uint8)
        program = AccelProgram.assemble(self.machine, [*stream, finish()], io_bytes=self.io_bytes,
                                        weights=weights, inputs=(slot,),
                                        activations_bytes=SEGMENTS["activations"])
        memory = program.image({"data": self._data(slot.shape[0])})
        return Case(name, program, memory, self._timing())

    def _timing(self) -> dict[str, Any]:
        """Options of the memory: half of them with no more than latency and stalls."""
        random = self.random
        timing: dict[str, Any] = {"latency": random.choice([0, 1, 3, 17, 64, 130]),
                                  "outstanding": random.choice([1, 2, 8, 64]),
                                  "stall_seed": random.choice([0, random.randrange(1, 1 << 32)])}
        if random.random() < 0.3:
            timing["bytes_per_cycle"] = self.config.bus_bytes * random.uniform(0.1, 1)
        if random.random() < 0.3:
            timing |= {"row_bytes": random.choice([64, 256, 2048]),
                       "row_miss": random.choice([0, 5, 40]), "banks": random.choice([1, 2, 8])}
        if random.random() < 0.5:
            timing["origin"] = random.randrange(1 << 26) * 64
        return timing

    def _data(self, size: int) -> np.ndarray:
        data = np.frombuffer(self.random.randbytes(size), np.uint8).copy()
        sparse = np.frombuffer(self.random.randbytes(size), np.uint8)
        if self.random.random() < 0.5:          # few bits, so that one of them decides a rounding
            data = np.where(sparse < 192, (data >= 128) << (data & 7), data).astype(np.uint8)
        records = np.zeros(self.record_count, numpy_dtype("param"))
        for record in records:
            record["bias"] = self.random.choice([0, 0, 5, -1000, 2**31 - 1, -2**31])
            record["mult"] = self.random.choice([0, 1 << 15, self.random.randrange(1 << 16)])
            record["shift"] = self.random.choice([self.random.randrange(47),
                                                  self.random.randrange(14, 34)])
        data[self.records:] = records.view(np.uint8)
        return data

    def _try(self, kind: Callable[[], "_Placed"], must: bool = False) -> None:
        """Add an instruction, unless no shape of several can be placed."""
        tries = TRIES if must else FEW_TRIES
        for number in range(tries):
            self.short = must and number >= tries // 2
            try:
                placed = kind()
            except _NoPlace:
                continue
            finally:
                self.short = False
            self._append(placed)
            return

    # ---- instructions ------------------------------------------------------------------------

    def _load_entries(self, buffer: str) -> "_Placed":
        """A load that fills a whole entry, and mostly several."""
        placed = self._load(buffer, wide=True)
        if not self._whole(buffer, placed.writes[buffer]):
            raise _NoPlace
        return placed

    def _load(self, buffer: str, wide: bool = False, name: str = "",
              padded: bool | None = None) -> _Placed:
        """`padded`: whether some iterations are padding; None: now and then."""
        random = self.random
        name = name or self.machine.of_unit("load")[0].name
        if buffer == "par":
            return self._load_records(name)
        entry, size = (self.config.buffers[buffer].entry_bytes,
                       self.config.buffers[buffer].size_bytes)
        run = (2 * entry - 1 if wide and self.short
               else random.randrange(entry, min(16 * entry, self.wide, size) + 1) if wide
               else random.randrange(1, min(RUN, size)))
        loops = self._loops(4, ("dram", "buffer"), 8, 2 if wide else 12)
        if random.random() < 0.5 if padded is None else padded:
            for loop in loops:
                if random.random() < 0.6:
                    loop["before"] = random.randrange(0, 3)
                    loop["after"] = random.randrange(0, 3)
            if padded and not any(loop.get("before") or loop.get("after") for loop in loops):
                raise _NoPlace
        return self._dma(name, "load", buffer, run, loops)

    def _load_records(self, name: str) -> _Placed:
        """Whole records on whole records: their fields have ranges."""
        random = self.random
        block = self.config.block_out
        loops = [{"extent": 1} for _ in range(4)]
        level = random.randrange(4)
        loops[level] = {"extent": random.randrange(1, 4),
                        "dram": PARAM_BYTES * random.randrange(0, block // 2 + 1),
                        "buffer": PARAM_BYTES * random.choice([1, 2, block])}
        if self.short:
            loops[level]["extent"] = 1
        count = 2 * block - 1 if self.short else random.choice([block, 2 * block, block + 1, 3])
        reach = (loops[level]["extent"] - 1) * loops[level]["dram"] // PARAM_BYTES
        first = random.randrange(self.record_count - count - reach + 1)
        return self._dma(name, "load", "par", PARAM_BYTES * count, loops,
                         dram=self.records + PARAM_BYTES * first,
                         step=PARAM_BYTES * random.choice([1, block, block]))

    def _store(self, name: str) -> _Placed:
        return self._dma(name, "store", "out", self.random.randrange(1, RUN),
                         self._loops(4, ("dram", "buffer"), 8, 12))

    def _dma(self, name: str, unit: str, buffer: str, run: int, loops: list[dict[str, int]],
             dram: int | None = None, step: int = 1) -> _Placed:
        """Place both sides; `dram` says where in io, `step` is the alignment in the buffer."""
        valid = {index for index in shapes.indices(loops)
                 if unit == "store" or not shapes.padding(index, loops)}
        outside = [shapes.offset(index, loops, "dram") for index in shapes.indices(loops)
                   if index in valid]
        inside = [shapes.offset(index, loops, "buffer") for index in shapes.indices(loops)]
        size = self.config.buffers[buffer].size_bytes
        if unit == "load":
            segment = self._segment() if dram is None else "io"
            if dram is None:
                dram = self._readable(segment, shapes.widened(outside, run)) if outside else 0
            address = self._anywhere(shapes.widened(inside, run), size, step)
        else:
            segment = self.random.choice(["io", "io", "activations"])
            address = self._readable(buffer, shapes.widened(inside, run))
            dram = self._room(segment, shapes.widened(outside, run))
        remote = {segment: shapes.bits(dram + o for o in shapes.widened(outside, run))}
        local = {buffer: shapes.bits(address + o for o in shapes.widened(inside, run))}
        fields = {"buffer": isa.BUFFERS.index(buffer), "base": isa.BASES.index(segment),
                  "dram": dram % (1 << 32), "address": address, "run": run,
                  "pad_value": self.random.randrange(256), "loops": shapes.modular(loops, 1 << 24)}
        reads, writes = (remote, local) if unit == "load" else (local, remote)
        return _Placed(name, unit, fields, reads, writes)

    def _segment(self) -> str:
        """The segment to load from."""
        return self.random.choice([name for name in ("io", "io", *SEGMENTS)
                                   if self.written[name]])

    def _shown(self, run: int, address: int) -> _Placed:
        """One run of out to a place in io that nothing else touches."""
        dram, name = self._fresh(run), self.machine.of_unit("store")[0].name
        fields = {"buffer": isa.BUFFERS.index("out"), "base": isa.BASES.index("io"),
                  "dram": dram, "address": address, "run": run, "loops": []}
        return _Placed(name, "store", fields, {"out": (1 << run) - 1 << address},
                       {"io": (1 << run) - 1 << dram})

    def _room(self, segment: str, offsets: list[int]) -> int:
        """The place to store to: over the inputs only now and then."""
        if segment != "io":
            return self._anywhere(offsets, SEGMENTS[segment])
        low = self.inputs if self.random.random() < 0.8 else 0
        return low + self._anywhere(offsets, self.io_bytes - low)

    def _gemm(self, form: Form) -> _Placed:
        loops = self._loops(6, ("dst", "a", "b"), 3, ITERATIONS)
        self._meet(loops)
        offsets = shapes.offsets(loops)
        base = {key: self._entry(scope, offsets[key]) for key, scope in _keys(form).items()}
        base |= {"dst": self._readable("acc", offsets["dst"]) if "acc" in reads(self.machine, form)
                 else self._anywhere(offsets["dst"], self.config.buffers["acc"].depth)}
        return self._gemm_at(form, loops, base)

    def _gemm_at(self, form: Form, loops: list[dict[str, int]], base: dict[str, int]) -> _Placed:
        offsets = shapes.offsets(loops)
        places = shapes.bits(base["dst"] + o for o in offsets["dst"])
        read = {scope: self._bytes(scope, base[key], offsets[key])
                for key, scope in _keys(form).items()}
        if "acc" in reads(self.machine, form):
            read["acc"] = places
        fields = {"banks": self._banks(places), "reset": self._reset(form),
                  "base": base, "loops": shapes.modular(loops, 1 << 16)}
        return _Placed(form.name, "gemm", fields, read, {"acc": places})

    def _reset(self, form: Form) -> int:
        """The field `reset`: random for updates that do not accumulate, which ignore it."""
        return self.random.randrange(2) if form.reset is None else int(form.reset)

    def _vector(self, form: Form, level: int | None = None) -> _Placed:
        random = self.random
        loops = self._loops(5, ("dst", "a", "b"), 3, ITERATIONS, level)
        if form.reset is not None:
            self._meet(loops)
        offsets = shapes.offsets(loops)
        base = {"dst": 0, "a": random.randrange(1 << 16), "b": random.randrange(1 << 16)}
        for key, scope in _keys(form).items():
            if scope != "imm":
                base[key] = self._source(scope, offsets[key])
        base["dst"] = self._destination(form, offsets, base)
        return self._vector_at(form, loops, base)

    def _vector_at(self, form: Form, loops: list[dict[str, int]],
                   base: dict[str, int]) -> _Placed:
        offsets, scopes = shapes.offsets(loops), form.scopes
        read: dict[str, int] = {}
        for key, scope in _keys(form).items():
            if scope != "imm":
                read[scope] = read.get(scope, 0) | self._bytes(scope, base[key], offsets[key])
        places = self._bytes(form.target, base["dst"], offsets["dst"])
        if form.reset is False:
            read["acc"] = read.get("acc", 0) | places
        touched = (places if form.target == "acc" else 0) | read.get("acc", 0)
        fields = self._immediates() | {
            "banks": self._banks(touched), "reset": self._reset(form), "base": base,
            "a_source": isa.SOURCES_A.index(scopes.get("a", self.random.choice(isa.SOURCES_A))),
            "b_source": isa.SOURCES_B.index(scopes.get("b", "par")),
            "destination": isa.DESTINATIONS.index(form.target),
            "loops": shapes.modular(loops, 1 << 16)}
        return _Placed(form.name, "vector", fields, read, {form.target: places})

    def _source(self, scope: str, offsets: list[int]) -> int:
        return self._readable("acc", offsets) if scope == "acc" else self._entry(scope, offsets)

    def _destination(self, form: Form, offsets, base) -> int:
        """A random destination; sometimes close to a source in acc, so that iterations meet."""
        if form.reset is False:
            return self._readable("acc", offsets["dst"])
        target, depth = form.target, self.config.buffers[form.target].depth
        near = [base[key] for key, scope in form.sources if scope == "acc" and key in base]
        if target == "acc" and near and self.random.random() < 0.6:
            place = self.random.choice(near) + self.random.randrange(-2, 5)
            if all(0 <= place + offset < depth for offset in offsets["dst"]):
                return place
        return self._anywhere(offsets["dst"], depth)

    def _immediates(self) -> dict[str, int]:
        random = self.random
        lo, hi = sorted((random.randrange(-128, 128), random.randrange(-128, 128)))
        if random.random() < 0.6:
            lo, hi = -128, 127
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

    # ---- what happened, made visible ---------------------------------------------------------

    def _show(self) -> None:
        """Store the contents of out and acc, and products and results that depend on the rest.

        It shows part of long stretches, and two of an accumulator's four bytes: other programs show
        other parts.
        """
        for start, count in self._stretches("out", 3):
            self._append(self._shown(count, start))
        for start, count in self._stretches("acc", 3):
            self._show_acc(start, count)
        self._show_factors()
        for scope in ("res", "par"):
            for start, count in self._stretches(scope, 1):
                self._show_result(scope, start, count)

    def _show_factors(self) -> None:
        """Products of a stretch of inp or wgt with an entry of the other."""
        for buffer, other in (("inp", "wgt"), ("wgt", "inp")):
            form = next((form for form in self.forms if form.unit == "gemm"
                         and form.reset is not False and buffer in form.scopes.values()), None)
            stretches = self._stretches(other, 1)
            if form is None or not stretches:
                continue
            for start, count in self._stretches(buffer, 1):
                base = {"dst": 0} | {key: start if scope == buffer else stretches[0][0]
                                     for key, scope in _keys(form).items()}
                steps = {key: int(scope == buffer) for key, scope in _keys(form).items()}
                self._append(self._gemm_at(form, [{"extent": count, "dst": 1, **steps}], base))
                self._show_acc(0, count)

    def _show_acc(self, start: int, count: int) -> None:
        for byte in (0, self.random.randrange(1, 4)):
            self._show_result("acc", start, count, 8 * byte)

    def _show_result(self, scope: str, start: int, count: int, imm: int = 0) -> None:
        """What is in `scope` from `start` on, by an operation into out; then a store. Other
        operands stand still."""
        form = next((form for form in self._showing if scope in form.scopes.values()), None)
        if form is None:
            return
        base, loop = {"dst": 0}, {"extent": count, "dst": 1}
        try:
            for key, place in _keys(form).items():
                here = place == scope
                loop[key] = int(here)
                base[key] = start if here else 0 if place == "imm" else self._source(place, [0])
        except _NoPlace:
            return
        placed = self._vector_at(form, [loop], base)
        if "imm" in form.scopes.values():
            placed.fields["imm"] = imm
        self._append(placed)
        self._append(self._shown(count * self.config.buffers["out"].entry_bytes, 0))

    @cached_property
    def _showing(self) -> list[Form]:
        """Operations into out, first those that reveal most of what they read."""
        telling = ("shr acc,imm to out", "copy res to out", "requantize acc to out")
        to_out = [form for form in self.forms if form.unit == "vector" and form.target == "out"]
        return sorted(to_out, key=lambda form: str(form) not in telling)

    def _stretches(self, buffer: str, most: int) -> list[tuple[int, int]]:
        """Start and length of parts that have been written: entries; of out, bytes."""
        written = self.written[buffer]
        if buffer not in ("acc", "out"):
            written = self._whole(buffer, written)
        found = [(match.start(), len(match.group())) for match
                 in re.finditer("1+", format(written, "b")[::-1])]
        limit = min(SHOWN, *(self.config.buffers[name].depth for name in ("out", "acc")))
        result = []
        for start, count in self.random.sample(found, min(most, len(found))):
            skip = self.random.randrange(max(0, count - limit) + 1)
            result.append((start + skip, min(count - skip, limit)))
        return result

    def _fresh(self, size: int) -> int:
        """A new place at the end of io, at any alignment."""
        place = self.io_bytes + self.random.randrange(4)
        self.io_bytes = place + size
        return place

    def _append(self, placed: _Placed) -> None:
        self.stream.append(placed)
        for memory, addresses in placed.writes.items():
            self.written[memory] |= addresses

    # ---- shapes and places -------------------------------------------------------------------

    def _loops(self, levels: int, keys: tuple[str, ...], reach: int, limit: int,
               first: int | None = None) -> list[dict[str, int]]:
        """Random extents, at most `limit` iterations in all, and strides up to `reach` or so.

        `first` is a level that must have more than one iteration.
        """
        random = self.random
        loops = [{"extent": 1} for _ in range(levels)]
        if self.short:
            return loops
        chosen = random.sample(range(levels), random.randrange(0, min(4, levels) + 1))
        for level in chosen if first is None else [first, *(k for k in chosen if k != first)]:
            extent = random.randrange(2, 5)
            if limit // extent:
                limit //= extent
                loops[level] = {"extent": extent} | {
                    key: random.choice([0, 0, 1, 1, 2, random.randrange(-reach, 2 * reach)])
                    for key in keys}
        return loops

    def _meet(self, loops: list[dict[str, int]]) -> None:
        """Now and then, let updates of one entry follow each other by one to three iterations."""
        if self.random.random() < 0.3 and not self.short:
            outer, inner = sorted(self.random.sample(range(len(loops)), 2))
            for loop in loops:
                loop["extent"] = 1
            loops[outer] |= {"extent": self.random.randrange(2, 5), "dst": 0}
            loops[inner] |= {"extent": self.random.randrange(1, 4), "dst": 1}

    def _readable(self, memory: str, offsets: list[int]) -> int:
        """A base at which every address has been written."""
        return self._pick(shapes.fitting(self.written[memory], set(offsets)))

    def _entry(self, buffer: str, offsets: list[int]) -> int:
        """A base at which every entry has been written, in a buffer that counts bytes."""
        return self._pick(shapes.fitting(self._whole(buffer, self.written[buffer]), set(offsets)))

    def _whole(self, buffer: str, whole: int) -> int:
        """The entries of which every byte is in the set `whole`."""
        size = self.config.buffers[buffer].entry_bytes
        for shift in range((size - 1).bit_length()):
            whole &= whole >> (1 << shift)          # bit k: bytes k to k + size - 1 are written
        bits = format(whole, "b")[::-1][::size]
        return int(bits[::-1] or "0", 2)

    def _pick(self, candidates: int) -> int:
        places = [index for index, bit in enumerate(format(candidates, "b")[::-1]) if bit == "1"]
        if not places:
            raise _NoPlace
        return self.random.choice(places)

    def _anywhere(self, offsets: list[int], size: int, step: int = 1) -> int:
        """A base at which every address is below `size`; the ends are likelier than the rest."""
        low, high = -min(offsets), size - 1 - max(offsets)
        if high < low:
            raise _NoPlace
        low, high = -(-low // step), high // step
        near = self.random.randrange(low, min(high, low + 24) + 1)
        middle = size // step // 2 - self.random.randrange(0, 6)
        choices = [near, near, high, self.random.randint(low, high), min(max(middle, low), high)]
        return self.random.choice(choices) * step

    def _bytes(self, memory: str, base: int, offsets: list[int]) -> int:
        size = 1 if memory == "acc" else self.config.buffers[memory].entry_bytes
        entry = (1 << size) - 1
        total = 0
        for offset in set(offsets):
            total |= entry << (base + offset) * size
        return total

    # ---- tokens ------------------------------------------------------------------------------

    def _order(self) -> None:
        """Tokens for every conflict that is not ordered yet, and some more at random."""
        signalled: dict[tuple[str, str], int] = {}
        latest: dict[str, int] = {}
        for index, one in enumerate(self.stream):
            if one.unit in latest:
                self._know(index, latest[one.unit])
            for earlier in reversed(range(index)):
                if self._conflict(self.stream[earlier], one) and not one.before >> earlier & 1:
                    self._token(earlier, index, signalled)
            for _ in range(self.random.choice([0, 0, 0, 1, 2])):
                if index:
                    self._spare(self.random.randrange(index), index, signalled)
            latest[one.unit] = index

    def _conflict(self, a: _Placed, b: _Placed) -> bool:
        """Whether two instructions of different units touch one address, and one writes it."""
        if a.unit == b.unit:
            return False
        return any(a.writes.get(m, 0) & (b.reads.get(m, 0) | b.writes.get(m, 0))
                   or a.reads.get(m, 0) & b.writes.get(m, 0) for m in self.written)

    def _know(self, index: int, earlier: int) -> None:
        self.stream[index].before |= self.stream[earlier].before | 1 << earlier

    def _token(self, earlier: int, index: int, signalled: dict[tuple[str, str], int]) -> None:
        """Adds a token from `earlier`, or a later instruction of its unit, to `index`.

        The pair's last signal came before `earlier`: otherwise its wait, which came before
        `index`, would have ordered them.
        """
        pair = (self.stream[earlier].unit, self.stream[index].unit)
        assert signalled.get(pair, -1) < earlier
        bit = 1 << UNITS.index(pair[0])
        assert not self.stream[index].waits & bit
        sources = [k for k in range(earlier, index) if self.stream[k].unit == pair[0]]
        source = self.random.choice([sources[0], sources[0], *sources])
        self.stream[index].waits |= bit
        self.stream[source].signals |= 1 << UNITS.index(pair[1])
        signalled[pair] = source
        self._know(index, source)

    def _spare(self, earlier: int, index: int, signalled: dict[tuple[str, str], int]) -> None:
        """Adds a token that nothing needs, where one is possible."""
        pair = (self.stream[earlier].unit, self.stream[index].unit)
        if (signalled.get(pair, -1) < earlier
                and not self.stream[index].waits >> UNITS.index(pair[0]) & 1):
            self._token(earlier, index, signalled)


def _keys(form: Form) -> dict[str, str]:
    """Field of the word to where its operand lives; per-channel parameters are at `b`."""
    if form.unit == "gemm":
        return {key: scope for key, (_, scope) in zip("ab", form.sources)}
    return {name if name in ("a", "b") else "b": scope for name, scope in form.sources}


def _any_name(random: Random, forms: Sequence[Form]) -> Form:
    """A random form: names are equally likely, then the forms of one name."""
    name = random.choice(sorted({form.name for form in forms}))
    return random.choice([form for form in forms if form.name == name])
