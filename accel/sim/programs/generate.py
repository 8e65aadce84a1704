"""Random legal programs, to hold simulators against each other.

What makes a program legal is tracked on its own: `places` knows what has been written, `order` what
has finished. Nothing is shared with the address sets, the insertion of tokens or the proof that
compiled programs rely on, so that they cannot share a mistake.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, TensorSlot, finish
from accel.machine.structure import IMMEDIATE, UnitKind
from compiler.lazy import cached_property
from compiler.te import bits, numpy_dtype

from .case import Case
from .forms import Form, forms
from .instructions import Instructions, operands
from .order import Touching, order
from .places import SEGMENTS, NoPlace, Places, before_activations

ASSIGNED = 5
"""Instructions of a program whose form follows from its seed, so that all get their turn."""

TRIES, FEW_TRIES = 60, 8
"""Shapes that are tried before an instruction is left out, where it must be there and elsewhere;
in the last half of many all loops are short."""


def generate(machine: Machine, seed: int) -> Case:
    """The program of a seed: 8 to 36 random instructions, then some that show what they did."""
    return _Generator(machine, seed).case()


def with_forms(machine: Machine, seed: int, wanted: Sequence[Form]) -> Case:
    """A program that holds an instruction of each of these forms, and shows what it did."""
    return _Generator(machine, seed).case(wanted)


class _Generator:
    def __init__(self, machine: Machine, seed: int):
        self.machine, self.roles = machine, machine.structure.roles
        self.seed = seed
        self.random = Random(f"{machine.hash} {seed}")
        self.stream: list[Touching] = []
        self.forms = forms(machine)
        self.places = Places(machine.config, self.random)
        self.instructions = Instructions(machine, self.random, self.places)

    def case(self, wanted: Sequence[Form] = ()) -> Case:
        loads = (form for form in self.forms if form.kind is UnitKind.LOAD)
        for buffer in dict.fromkeys(form.target for form in loads):
            self._try(lambda buffer=buffer: self.instructions.load_entries(buffer), must=True)
        products = [form for form in self.forms if form.kind is UnitKind.GEMM]
        first = next((form for form in products if form.reset), products[0])
        self._try(lambda: self.instructions.gemm(first), must=True)
        if wanted:
            self._fill_out()
            for form in wanted:
                self._try(lambda form=form: self.instructions.of(form), must=True)
        else:
            self._at_random()
        self._show()
        order(self.stream, self.random, self.machine.structure.names,
              self.machine.config.timing.tokens)
        return self._assembled(f"forms {wanted[0]} ..." if wanted else f"seed {self.seed}")

    def _at_random(self) -> None:
        random, forms = self.random, self.forms
        structure = self.machine.structure
        units = {unit: [form for form in forms if form.unit == unit] for unit in structure.names}
        turns = [unit.name for kind in (
            UnitKind.LOAD, UnitKind.GEMM, UnitKind.STORE, UnitKind.VECTOR, UnitKind.VECTOR,
            UnitKind.STREAM)
                 for unit in structure.of_kind(kind)]
        kinds = [lambda unit=unit: self.instructions.of(_any_name(random, units[unit]))
                 for unit in turns]
        chosen: list[Callable[[], Touching]] = [
            random.choice(kinds) for _ in range(random.randrange(3, 29))]
        for turn in range(self.seed * ASSIGNED, (self.seed + 1) * ASSIGNED):
            place = random.randrange(len(chosen) // 2, len(chosen) + 1)
            chosen.insert(place, lambda turn=turn: self.instructions.of(
                forms[turn % len(forms)], (turn // len(forms) + turn) % 5))
        for kind in chosen:
            self._try(kind)

    def _fill_out(self) -> None:
        """Writes something to each buffer of results, for a store."""
        for buffer in self.machine.structure.moved[self.roles.store]:
            into = [form for form in self.forms if form.target == buffer
                    and form.kind in (UnitKind.VECTOR, UnitKind.STREAM) and all(
                        scope == IMMEDIATE or self.places.written[scope]
                        for _, scope in form.sources)]
            if into:
                self._try(lambda form=into[0]: self.instructions.of(form), must=True)

    def _assembled(self, name: str) -> Case:
        random = self.random
        stream = [Instruction(p.name, p.unit, p.fields | {"waits": p.waits, "signals": p.signals})
                  for p in self.stream]
        slot = TensorSlot("data", "io", 0, (self.places.inputs,), "uint8")
        weights = np.frombuffer(random.randbytes(SEGMENTS["weights"]), np.uint8)
        program = AccelProgram.assemble(
            self.machine, [*stream, finish()], io_bytes=self.places.io_bytes, weights=weights,
            inputs=(slot,),
            activations_bytes=before_activations(self.machine.config) + SEGMENTS["activations"])
        memory = program.image({"data": self._data(slot.shape[0])})
        return Case(name, program, memory, self._timing())

    def _timing(self) -> dict[str, Any]:
        """Options of the memory: a quarter of them with no more than latency and stalls."""
        random = self.random
        timing: dict[str, Any] = {"latency": random.choice([0, 1, 3, 17, 64, 130]),
                                  "outstanding": random.choice([1, 2, 8, 64]),
                                  "stall_seed": random.choice([0, random.randrange(1, 1 << 32)])}
        if random.random() < 0.3:
            timing["bytes_per_cycle"] = self.machine.config.bus_bytes * random.uniform(0.1, 1)
        if random.random() < 0.3:
            timing |= {"row_bytes": random.choice([64, 256, 2048]),
                       "row_miss": random.choice([0, 5, 40]), "banks": random.choice([1, 2, 8]),
                       "row_closed": random.choice([None, 0, 7])}
        if random.random() < 0.3:
            timing |= {"in_order": True, "beat_cycles": random.choice([1, 3, 9])}
        if random.random() < 0.3:
            timing |= {"refresh_interval": random.choice([45, 200, 625]),
                       "refresh_cycles": random.choice([0, 8, 44])}
        if random.random() < 0.5:
            timing["origin"] = random.randrange(1 << 26) * 64 & -self.machine.config.bus_bytes
        return timing

    def _data(self, size: int) -> np.ndarray:
        data = np.frombuffer(self.random.randbytes(size), np.uint8).copy()
        sparse = np.frombuffer(self.random.randbytes(size), np.uint8)
        if self.random.random() < 0.5:          # few bits, so that one of them decides a rounding
            data = np.where(sparse < 192, (data >= 128) << (data & 7), data).astype(np.uint8)
        records = np.zeros(self.places.record_count, numpy_dtype("param"))
        for record in records:
            record["bias"] = self.random.choice([0, 0, 5, -1000, 2**31 - 1, -2**31])
            record["mult"] = self.random.choice([0, 1 << 15, self.random.randrange(1 << 16)])
            record["shift"] = self.random.choice([self.random.randrange(47),
                                                  self.random.randrange(14, 34)])
        if self.machine.config.records:         # any bytes are records of one's own
            own = np.frombuffer(self.random.randbytes(records.nbytes), records.dtype)
            records[::2] = own[::2]
        data[self.places.records:] = records.view(np.uint8)
        return data

    def _try(self, kind: Callable[[], Touching], must: bool = False) -> None:
        """Adds an instruction, unless none of several shapes can be placed."""
        tries = TRIES if must else FEW_TRIES
        for number in range(tries):
            self.places.short = must and number >= tries // 2
            try:
                placed = kind()
            except NoPlace:
                continue
            finally:
                self.places.short = False
            self._append(placed)
            return

    def _append(self, placed: Touching) -> None:
        self.stream.append(placed)
        self.places.write(placed)

    def _show(self) -> None:
        """Stores the contents of out and acc, and products and results that depend on the rest.

        It shows part of long stretches, and two of an accumulator's bytes: other programs show
        other parts.
        """
        roles = self.roles
        for name in (one for unit in self.machine.structure.of_kind(UnitKind.STORE)
                     for one in unit.reads):
            for start, count in self.places.stretches(name, 3):
                self._append(self.instructions.shown(count, start, name))
        for start, count in self.places.stretches(roles.acc, 3):
            self._show_acc(start, count)
        self._show_factors()
        for scope in (roles.res, roles.par, roles.tab):
            for start, count in self.places.stretches(scope, 1):
                self._show_result(scope, start, count)

    def _show_factors(self) -> None:
        """Products of a stretch of inp or wgt with an entry of the other."""
        inp, wgt = self.roles.inp, self.roles.wgt
        for buffer, other in ((inp, wgt), (wgt, inp)):
            form = next((form for form in self.forms if form.kind is UnitKind.GEMM
                         and form.reset is not False and buffer in form.scopes.values()), None)
            stretches = self.places.stretches(other, 1)
            if form is None or not stretches:
                continue
            for start, count in self.places.stretches(buffer, 1):
                base = {"dst": 0} | {key: start if scope == buffer else stretches[0][0]
                                     for key, scope in operands(form).items()}
                steps = {key: int(scope == buffer) for key, scope in operands(form).items()}
                loops = [{"extent": count, "dst": 1, **steps}]
                self._append(self.instructions.gemm_at(form, loops, base))
                self._show_acc(0, count)

    def _show_acc(self, start: int, count: int) -> None:
        for byte in (0, self.random.randrange(1, bits(self.machine.config.accumulator) // 8)):
            self._show_result(self.roles.acc, start, count, 8 * byte)

    def _show_result(self, scope: str, start: int, count: int, imm: int = 0) -> None:
        """Copies what is in `scope` from `start` on into out by an operation, then stores it. Other
        operands stand still."""
        form = next((form for form in self._showing if any(
            place == scope and key != "c" for key, place in operands(form).items())), None)
        if form is None:
            return
        base, loop = {"dst": 0}, {"extent": count, "dst": 1}
        try:
            for key, place in operands(form).items():
                here = place == scope and key != "c"
                loop |= {key: int(here)} if key != "c" else {}
                base[key] = (start if here else 0 if place == IMMEDIATE
                             else self.instructions.source(place, [0]))
        except NoPlace:
            return
        placed = self.instructions.vector_at(form, [loop], base)
        if IMMEDIATE in form.scopes.values():
            placed.fields["imm"] = imm
        self._append(placed)
        entry = self.machine.config.buffers[self.roles.out].entry_bytes
        self._append(self.instructions.shown(count * entry, 0, form.target))

    @cached_property
    def _showing(self) -> list[Form]:
        """Operations into out, first those that reveal most of what they read."""
        acc, res, out = self.roles.acc, self.roles.res, self.roles.out
        telling = (f"shr {acc},{IMMEDIATE} to {out}", f"copy {res} to {out}",
                   f"requantize {acc} to {out}")
        return sorted(self._into_out, key=lambda form: str(form) not in telling)

    @cached_property
    def _into_out(self) -> list[Form]:
        return [form for form in self.forms
                if form.kind is UnitKind.VECTOR and form.target == self.roles.out]


def _any_name(random: Random, forms: Sequence[Form]) -> Form:
    """A random form: names are equally likely, then the forms of one name."""
    name = random.choice(sorted({form.name for form in forms}))
    return random.choice([form for form in forms if form.name == name])
