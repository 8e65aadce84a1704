"""Random legal programs, to hold simulators against each other.

What makes a program legal is tracked here on its own: every instruction's addresses are
enumerated one by one into bit sets, every pair of instructions is compared, and what is known to
come before what is a set of instructions. Nothing is shared with the address sets, the insertion
of tokens or the proof that compiled programs rely on, so that they cannot share a mistake.
"""

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from accel import isa
from accel.config import PARAM_BYTES, UNITS
from accel.machine import Machine
from accel.program import Instruction, Program, TensorSlot, finish
from compiler.te import numpy_dtype
from compiler.tensorize import Intrinsic

__all__ = ["Case", "generate"]

OUTPUT_BYTES = 400
"""Room for results in io."""

ASSIGNED = 5
"""Vector instructions of a program whose form follows from its seed, so that all get their turn."""

SEGMENTS = {"weights": 160, "activations": 320}
"""Bytes of the other segments."""

ITERATIONS, RUN, SHOWN = 48, 40, 40     # at most, of one instruction; entries or bytes shown


@dataclass(frozen=True)
class Case:
    """A program, the memory that it starts with, and how that memory behaves.

    `fault` says what is wrong with the program; empty: it is legal.
    """

    name: str
    program: Program
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


_Form = tuple[str, dict[str, str], str]
"""A vector operation, where its operands live, and its destination."""


def _forms(machine: Machine) -> list[_Form]:
    """All that the declarations allow."""
    result = []
    for intrinsic in machine.of_unit("vector"):
        names = [operand.name for operand in intrinsic.operands]
        for scopes in itertools.product(*(operand.scopes for operand in intrinsic.operands)):
            result += [(intrinsic.name, dict(zip(names, scopes)), target)
                       for target in intrinsic.dst.scopes]
    return result


def _of_name(forms: list[_Form], name: str) -> list[_Form]:
    return [form for form in forms if form[0] == name]


class _NoPlace(Exception):
    """Nothing of the chosen shape could be placed."""


def generate(machine: Machine, seed: int) -> Case:
    """The program of a seed: 8 to 36 random instructions, then some that show what they did."""
    return _Generator(machine, seed).case()


class _Generator:
    def __init__(self, machine: Machine, seed: int):
        self.machine = machine
        self.config = machine.config
        self.seed = seed
        self.random = Random(f"{machine.hash} {seed}")
        self.stream: list[_Placed] = []
        self.record_count = 6 * self.config.block_out
        largest = max(b.entry_bytes for b in self.config.buffers.values())
        self.wide = min(16 * largest, max(8192, 2 * largest))
        self.records = max(600, 2 * self.wide) + self.random.randrange(8)   # any alignment
        self.inputs = self.records + PARAM_BYTES * self.record_count
        self.io_bytes = self.inputs + OUTPUT_BYTES
        self.written = dict.fromkeys((*isa.BUFFERS, "io", *SEGMENTS), 0)
        self.written["io"] = (1 << self.inputs) - 1
        self.written["weights"] = (1 << SEGMENTS["weights"]) - 1

    def case(self) -> Case:
        random = self.random
        for buffer in ("inp", "wgt", "res", "par"):
            self._try(lambda buffer=buffer: self._load(buffer, wide=True))
        self._try(lambda: self._gemm(reset=1))
        forms = _forms(self.machine)
        names = sorted({name for name, _, _ in forms})
        kinds = [self._load, self._gemm, self._store] + 2 * [lambda: self._vector(
            random.choice(_of_name(forms, random.choice(names))))]
        chosen = [random.choice(kinds) for _ in range(random.randrange(3, 29))]
        for turn in range(self.seed * ASSIGNED, (self.seed + 1) * ASSIGNED):
            place = random.randrange(len(chosen) // 2, len(chosen) + 1)
            chosen.insert(place, lambda turn=turn: self._vector(
                forms[turn % len(forms)], (turn // len(forms) + turn) % 5))
        for kind in chosen:
            self._try(kind)
        self._show()
        self._order()
        return self._assembled()

    def _assembled(self) -> Case:
        random = self.random
        stream = [Instruction(p.name, p.unit, p.fields | {"waits": p.waits, "signals": p.signals})
                  for p in self.stream]
        slot = TensorSlot("data", "io", 0, (self.inputs,), "uint8")
        weights = np.frombuffer(random.randbytes(SEGMENTS["weights"]), np.uint8)
        program = Program.assemble(self.machine, [*stream, finish()], io_bytes=self.io_bytes,
                                   weights=weights, inputs=(slot,),
                                   activations_bytes=SEGMENTS["activations"])
        memory = program.image({"data": self._data(slot.shape[0])})
        return Case(f"seed {self.seed}", program, memory, self._timing())

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

    def _try(self, kind) -> None:
        """Add an instruction, unless no shape of several can be placed."""
        for _ in range(8):
            try:
                placed = kind()
            except _NoPlace:
                continue
            self._append(placed)
            return

    # ---- instructions ------------------------------------------------------------------------

    def _load(self, buffer: str = "", wide: bool = False) -> _Placed:
        random = self.random
        buffer = buffer or random.choice(["inp", "wgt", "res", "par"])
        if buffer == "par":
            return self._load_records()
        entry = self.config.buffers[buffer].entry_bytes
        run = (random.randrange(entry, min(16 * entry, self.wide) + 1) if wide
               else random.randrange(1, RUN))
        loops = self._loops(4, ("dram", "buffer"), 8, 2 if wide else 12)
        for loop in loops if random.random() < 0.5 else ():
            if random.random() < 0.6:
                loop["before"] = random.randrange(0, 3)
                loop["after"] = random.randrange(0, 3)
        return self._dma("load", buffer, run, loops)

    def _load_records(self) -> _Placed:
        """Whole records on whole records: their fields have ranges."""
        random = self.random
        block = self.config.block_out
        loops = [{"extent": 1} for _ in range(4)]
        level = random.randrange(4)
        loops[level] = {"extent": random.randrange(1, 4),
                        "dram": PARAM_BYTES * random.randrange(0, block // 2 + 1),
                        "buffer": PARAM_BYTES * random.choice([1, 2, block])}
        count = random.choice([block, 2 * block, block + 1, 3])
        reach = (loops[level]["extent"] - 1) * loops[level]["dram"] // PARAM_BYTES
        first = random.randrange(self.record_count - count - reach + 1)
        return self._dma("load", "par", PARAM_BYTES * count, loops,
                         dram=self.records + PARAM_BYTES * first,
                         step=PARAM_BYTES * random.choice([1, block, block]))

    def _store(self) -> _Placed:
        return self._dma("store", "out", self.random.randrange(1, RUN),
                         self._loops(4, ("dram", "buffer"), 8, 12))

    def _dma(self, unit: str, buffer: str, run: int, loops: list[dict[str, int]],
             dram: int | None = None, step: int = 1) -> _Placed:
        """Place both sides; `dram` says where in io, `step` is the alignment in the buffer."""
        valid = {index for index in _indices(loops)
                 if unit == "store" or not _padding(index, loops)}
        outside = [_offset(index, loops, "dram") for index in _indices(loops) if index in valid]
        inside = [_offset(index, loops, "buffer") for index in _indices(loops)]
        size = self.config.buffers[buffer].size_bytes
        if unit == "load":
            segment = self._segment() if dram is None else "io"
            if dram is None:
                dram = self._readable(segment, _widened(outside, run)) if outside else 0
            address = self._anywhere(_widened(inside, run), size, step)
        else:
            segment = self.random.choice(["io", "io", "activations"])
            address = self._readable(buffer, _widened(inside, run))
            dram = self._room(segment, _widened(outside, run))
        remote = {segment: _bits(dram + o for o in _widened(outside, run))}
        local = {buffer: _bits(address + o for o in _widened(inside, run))}
        fields = {"buffer": isa.BUFFERS.index(buffer), "base": isa.BASES.index(segment),
                  "dram": dram % (1 << 32), "address": address, "run": run,
                  "pad_value": self.random.randrange(256), "loops": _modular(loops, 1 << 24)}
        reads, writes = (remote, local) if unit == "load" else (local, remote)
        return _Placed(unit, unit, fields, reads, writes)

    def _segment(self) -> str:
        """Where to load from."""
        return self.random.choice([name for name in ("io", "io", *SEGMENTS)
                                   if self.written[name]])

    def _dma_at(self, unit: str, buffer: str, run: int, address: int, dram: int) -> _Placed:
        """One run to a place in io that nothing else touches."""
        fields = {"buffer": isa.BUFFERS.index(buffer), "base": isa.BASES.index("io"),
                  "dram": dram, "address": address, "run": run, "loops": []}
        return _Placed(unit, unit, fields, {buffer: (1 << run) - 1 << address},
                       {"io": (1 << run) - 1 << dram})

    def _room(self, segment: str, offsets: list[int]) -> int:
        """Where to store to: over the inputs only now and then."""
        if segment != "io":
            return self._anywhere(offsets, SEGMENTS[segment])
        low = self.inputs if self.random.random() < 0.8 else 0
        return low + self._anywhere(offsets, self.io_bytes - low)

    def _gemm(self, reset: int | None = None) -> _Placed:
        random = self.random
        reset = random.randrange(2) if reset is None else reset
        loops = self._loops(6, ("dst", "a", "b"), 3, ITERATIONS)
        self._meet(loops)
        offsets = _offsets(loops)
        a = self._entry("inp", offsets["a"])
        b = self._entry("wgt", offsets["b"])
        dst = (self._anywhere(offsets["dst"], self.config.buffers["acc"].depth) if reset
               else self._readable("acc", offsets["dst"]))
        return self._gemm_at(loops, {"dst": dst, "a": a, "b": b}, reset)

    def _gemm_at(self, loops: list[dict[str, int]], base: dict[str, int], reset: int) -> _Placed:
        offsets = _offsets(loops)
        dst, a, b = base["dst"], base["a"], base["b"]
        places = _bits(dst + o for o in offsets["dst"])
        reads = {"inp": self._bytes("inp", a, offsets["a"]),
                 "wgt": self._bytes("wgt", b, offsets["b"])}
        if not reset:
            reads["acc"] = places
        fields = {"banks": self._banks(places), "reset": reset,
                  "base": base, "loops": _modular(loops, 1 << 16)}
        return _Placed("gemm", "gemm", fields, reads, {"acc": places})

    def _vector(self, form: _Form, level: int | None = None) -> _Placed:
        random = self.random
        name, scopes, target = form
        intrinsic = self.machine.intrinsic(name)
        loops = self._loops(5, ("dst", "a", "b"), 3, ITERATIONS, level)
        if intrinsic.update != "assign":
            self._meet(loops)
        offsets = _offsets(loops)
        base = {"dst": 0, "a": random.randrange(1 << 16), "b": random.randrange(1 << 16)}
        for key, scope in _keys(scopes).items():
            if scope != "imm":
                base[key] = self._source(scope, offsets[key])
        reset = random.randrange(2)
        read = intrinsic.update != "assign" and not reset
        base["dst"] = self._destination(target, offsets, base, scopes, read)
        return self._vector_at(name, scopes, target, loops, base, reset)

    def _vector_at(self, name: str, scopes: dict[str, str], target: str,
                   loops: list[dict[str, int]], base: dict[str, int], reset: int = 0) -> _Placed:
        intrinsic, offsets = self.machine.intrinsic(name), _offsets(loops)
        reads: dict[str, int] = {}
        for key, scope in _keys(scopes).items():
            if scope != "imm":
                reads[scope] = reads.get(scope, 0) | self._bytes(scope, base[key], offsets[key])
        places = self._bytes(target, base["dst"], offsets["dst"])
        if intrinsic.update != "assign" and not reset:
            reads["acc"] = reads.get("acc", 0) | places
        touched = (places if target == "acc" else 0) | reads.get("acc", 0)
        fields = self._immediates(intrinsic) | {
            "banks": self._banks(touched), "reset": reset, "base": base,
            "a_source": isa.SOURCES_A.index(scopes.get("a", self.random.choice(isa.SOURCES_A))),
            "b_source": isa.SOURCES_B.index(scopes.get("b", "par")),
            "destination": isa.DESTINATIONS.index(target), "loops": _modular(loops, 1 << 16)}
        return _Placed(name, "vector", fields, reads, {target: places})

    def _source(self, scope: str, offsets: list[int]) -> int:
        return self._readable("acc", offsets) if scope == "acc" else self._entry(scope, offsets)

    def _destination(self, target: str, offsets, base, scopes, read: bool) -> int:
        """Somewhere; sometimes close to a source in acc, so that iterations meet."""
        if read:
            return self._readable("acc", offsets["dst"])
        depth = self.config.buffers[target].depth
        near = [base[key] for key, scope in scopes.items() if scope == "acc" and key in base]
        if target == "acc" and near and self.random.random() < 0.6:
            place = self.random.choice(near) + self.random.randrange(-2, 5)
            if all(0 <= place + offset < depth for offset in offsets["dst"]):
                return place
        return self._anywhere(offsets["dst"], depth)

    def _immediates(self, intrinsic: Intrinsic) -> dict[str, int]:
        random = self.random
        lo, hi = sorted((random.randrange(-128, 128), random.randrange(-128, 128)))
        if random.random() < 0.6:
            lo, hi = -128, 127
        return {"imm": random.choice([0, 1, 7, -3, random.randrange(-1 << 31, 1 << 31)]),
                "ma": self._factor(), "mb": self._factor(),
                "s": random.choice([0, random.randrange(12), random.randrange(47)]),
                "zp": random.choice([0, random.randrange(-128, 128)]), "lo": lo, "hi": hi}

    def _factor(self) -> int:
        """16 bits; often such that sums stay small, and are rounded at a half."""
        random = self.random
        return random.choice([0, 1, 1 << random.randrange(8), 1 << random.randrange(16),
                              random.randrange(1 << 16)])

    def _banks(self, entries: int) -> int:
        depth = self.config.bank_depth
        needed = int(entries & (1 << depth) - 1 != 0) | 2 * (entries >> depth != 0)
        return 3 if self.random.random() < 0.1 else needed

    # ---- what happened, made visible ---------------------------------------------------------

    def _show(self) -> None:
        """Store what stands in out and acc; products and results that depend on the rest.

        Of long stretches a part, of accumulators two of the four bytes: other programs show
        other parts.
        """
        for start, count in self._stretches("out", 3):
            self._append(self._dma_at("store", "out", count, start, self._fresh(count)))
        for start, count in self._stretches("acc", 3):
            self._show_acc(start, count)
        for buffer, a, b in (("inp", 1, 0), ("wgt", 0, 1)):
            other = [start for start, _ in self._stretches("wgt" if a else "inp", 1)]
            for start, count in self._stretches(buffer, 1) if other else ():
                loops = [{"extent": count, "dst": 1, "a": a, "b": b}]
                base = {"dst": 0, "a": start if a else other[0], "b": start if b else other[0]}
                self._append(self._gemm_at(loops, base, 1))
                self._show_acc(0, count)
        for start, count in self._stretches("res", 1):
            self._show_result("copy", {"b": "res"}, start, count)
        for start, count in self._stretches("par", 1):
            scopes = {"a": "acc", "bias": "par", "mult": "par", "shift": "par"}
            self._show_result("requantize", scopes, start, count)

    def _show_acc(self, start: int, count: int) -> None:
        for byte in (0, self.random.randrange(1, 4)):
            self._show_result("shr", {"a": "acc", "b": "imm"}, start, count, 8 * byte)

    def _show_result(self, name: str, scopes: dict[str, str], start: int, count: int,
                     imm: int = 0) -> None:
        """The operation over entries from `start` on, into out; then a store."""
        keys = _keys(scopes)
        if name not in self.machine.opcodes or "acc" in scopes.values() and not self.written["acc"]:
            return
        base = {"dst": 0, "a": start, "b": start}
        loops = [{"extent": count, "dst": 1, "a": 1, "b": 1}]
        if name == "requantize":        # one accumulator for all records
            base["a"], loops[0]["a"] = self._source("acc", [0]), 0
        placed = self._vector_at(name, scopes, "out", loops, base)
        placed.fields["imm"] = imm if "b" in keys else 0
        self._append(placed)
        run = count * self.config.buffers["out"].entry_bytes
        self._append(self._dma_at("store", "out", run, 0, self._fresh(run)))

    def _stretches(self, buffer: str, most: int) -> list[tuple[int, int]]:
        """Start and length of parts that have been written: entries; of out, bytes."""
        written = self.written[buffer] if buffer in ("acc", "out") else self._whole(buffer)
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
        if self.random.random() < 0.3:
            outer, inner = sorted(self.random.sample(range(len(loops)), 2))
            for loop in loops:
                loop["extent"] = 1
            loops[outer] |= {"extent": self.random.randrange(2, 5), "dst": 0}
            loops[inner] |= {"extent": self.random.randrange(1, 4), "dst": 1}

    def _readable(self, memory: str, offsets: list[int]) -> int:
        """A base at which every address has been written."""
        return self._pick(_fitting(self.written[memory], set(offsets)))

    def _entry(self, buffer: str, offsets: list[int]) -> int:
        """The same, for entries of a buffer that counts bytes."""
        return self._pick(_fitting(self._whole(buffer), set(offsets)))

    def _whole(self, buffer: str) -> int:
        """The entries of which every byte has been written."""
        size = self.config.buffers[buffer].entry_bytes
        whole = self.written[buffer]
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
        """From `earlier`, or a later instruction of its unit, to `index`.

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
        """A token that nothing needs, where one can be."""
        pair = (self.stream[earlier].unit, self.stream[index].unit)
        if (signalled.get(pair, -1) < earlier
                and not self.stream[index].waits >> UNITS.index(pair[0]) & 1):
            self._token(earlier, index, signalled)


def _indices(loops: list[dict[str, int]]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(loop["extent"]) for loop in loops))


def _offset(index: tuple[int, ...], loops: list[dict[str, int]], key: str) -> int:
    return sum(i * loop.get(key, 0) for i, loop in zip(index, loops))


def _offsets(loops: list[dict[str, int]]) -> dict[str, list[int]]:
    """For each operand of a computation, the entries of its iterations, from the base."""
    return {key: [_offset(index, loops, key) for index in _indices(loops)]
            for key in ("dst", "a", "b")}


def _keys(scopes: dict[str, str]) -> dict[str, str]:
    """Field of the word to where its operand lives; per-channel parameters are at `b`."""
    return {name if name in ("a", "b") else "b": scope for name, scope in scopes.items()}


def _padding(index: tuple[int, ...], loops: list[dict[str, int]]) -> bool:
    return any(i < loop.get("before", 0) or i >= loop["extent"] - loop.get("after", 0)
               for i, loop in zip(index, loops))


def _widened(offsets: list[int], run: int) -> list[int]:
    return [offset + byte for offset in offsets for byte in range(run)]


def _bits(addresses) -> int:
    total = 0
    for address in set(addresses):
        total |= 1 << address
    return total


def _fitting(written: int, offsets: set[int]) -> int:
    """The bases for which every ``base + offset`` is in the set `written`."""
    low = min(offsets)
    shifted = written << -low if low < 0 else written >> low
    total = shifted
    for offset in offsets:
        total &= shifted >> (offset - low)
    return total


def _modular(loops: list[dict[str, int]], modulus: int) -> list[dict[str, int]]:
    """Strides as the word stores them; those into DRAM are signed."""
    return [{key: value % modulus if key in ("dst", "a", "b", "buffer") else value
             for key, value in loop.items()} for loop in loops]
