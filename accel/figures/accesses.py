"""Accesses of a run: what each layer did to buffers, memory and datapaths, counted, not estimated.

The counts come from `Run.accesses`, which the cycle simulator keeps for every instruction, and from
the words of the program. Values have no part in them: a run without values gives the same. Of runs
of the slice all come from the words (`accel.figures.counting`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from accel.datapath.plan import plan
from accel.figures.attribution import layer_ends
from accel.figures.counting import counted
from accel.machine import isa
from accel.machine.intrinsics import TABLE
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import ACCESSES, Run
from accel.machine.streams import StreamForm
from accel.machine.structure import UnitKind, Unit
from accel.machine.words import column
from compiler.errors import Error
from compiler.tensorize import Intrinsic


class AccessError(Error):
    """A run whose accesses were not counted."""


@dataclass(frozen=True)
class AccessProfile:
    """Counts of what happened in each layer of one run, or of several.

    Parameters
    ----------
    layers : names; each program's last is ``finish``, the rest of its run.
    counts : int64 of the length of `layers`, by name:

        ``cycles`` : the length of the interval (`accel.figures.attribution`).
        ``fetch.words`` : instruction words read.
        ``load.beats``, ``store.beats`` : beats of `bus_bytes` that these move.
        ``dram.read``, ``dram.write`` : all beats on the memory port, those of words included.
        ``shared.read``, ``shared.write`` : beats of the shared scratchpad, where there is one.
        ``dram.rows`` : rows of the memory that were opened, where it has rows.
        ``load.chunks``, ``store.chunks`` : steps that write a buffer, or read one.
        ``BUFFER.read``, ``BUFFER.write`` : accesses of one port of a buffer, each as wide as the
            port: inp and wgt are read an entry at a time, res, par, acc and out are taken in parts
            by vector, loads write and stores read chunks. acc tells units from each other:
            ``acc.gemm_read``, ``acc.vector_read``, and so on.
        ``tab.read`` : lookups of one lane each; of a table of a stream unit, the cycles that its
            component works.
        ``gemm.NAME``, ``vector.NAME`` : iterations of a body; of vector, parts of an entry.
        ``gemm.folds``, ``vector.folds`` : results that were combined with acc: of iterations, or
            of runs of them where gemm's array keeps its sums.
        ``UNIT.NAME`` : of a stream unit: cycles that its component works on these rows, as the
            instruction says (`accel.machine.streams.Computes`), else one for each entry.

    Units and buffers are called by their roles; a second unit of vector has counts of its own.
    """

    layers: tuple[str, ...]
    counts: dict[str, np.ndarray]

    @classmethod
    def of(cls, machine: Machine, program: AccelProgram, run: Run) -> "AccessProfile":
        """Counts the accesses of a run of the cycle simulator, or of the slice.

        Raises AccessError for a run of anything else, and for one that ended in an error.
        """
        accesses = counted(machine, program) if run.simulator == "slice" else run.accesses
        if accesses is None or not run.ok:
            found = "has no counts" if run.ok else f"ended: {run.describe()}"
            raise AccessError("Accesses are those of a run of the cycle simulator that ended well; "
                              f"this one {found}")
        names = (*(name for name, _ in program.layers), "finish")
        edges = [0, *(end for _, end in program.layers), program.count]
        counter = _LayerCounter(machine, program.words, accesses, edges)
        cycles = np.diff([*layer_ends(program, run), run.cycles], prepend=0)
        return cls(names, {"cycles": cycles.astype(np.int64), **counter.counts()})

    @classmethod
    def joined(cls, profiles: Sequence["AccessProfile"]) -> "AccessProfile":
        """The runs one after the other; all are of one machine."""
        keys = dict.fromkeys(key for profile in profiles for key in profile.counts)
        return cls(tuple(name for profile in profiles for name in profile.layers), {
            key: np.concatenate([profile.counts.get(key, np.zeros(len(profile.layers), np.int64))
                                 for profile in profiles]) for key in keys})

    def totals(self) -> dict[str, int]:
        """The sum of each count over all layers, those that are zero left out."""
        return {key: int(values.sum()) for key, values in self.counts.items() if values.any()}


class _LayerCounter:
    """Sums the counts of instructions over the layers."""

    def __init__(self, machine: Machine, words: np.ndarray, accesses: np.ndarray,
                 edges: Sequence[int]):
        self._machine, self._words = machine.in_roles, words
        self._of = dict(zip(ACCESSES, accesses.T, strict=True))
        self._edges = edges
        self._opcode = words[:, 0].astype(np.int64)
        self._result: dict[str, np.ndarray] = {}

    def counts(self) -> dict[str, np.ndarray]:
        beats = max(1, isa.WORD_BYTES // self._machine.config.bus_bytes)
        one = np.ones(len(self._words), np.int64)
        self._add("fetch.words", one)
        outside = self._of["beats"] - self._of["shared"]
        self._add("dram.read", beats * one + outside * self._named("load"))
        self._add("dram.write", outside * self._named("store"))
        if self._machine.config.shared_bytes:
            self._add("shared.read", self._of["shared"] * self._named("load"))
            self._add("shared.write", self._of["shared"] * self._named("store"))
        self._add("dram.rows", self._of["rows"])
        self._dma("load", "write")
        self._dma("store", "read")
        for body in self._machine.of_unit("gemm"):
            self._gemm(body)
        for unit in self._machine.structure.of_kind(UnitKind.VECTOR):
            for body in self._machine.of_unit(unit.name):
                self._vector(unit, body)
        for unit in self._machine.structure.of_kind(UnitKind.STREAM):
            for form in self._machine.of_unit(unit.name):
                if isinstance(form, StreamForm):
                    self._stream(unit, form)
        return self._result

    def _add(self, key: str, values: np.ndarray) -> None:
        layers = np.array([values[begin:end].sum() for begin, end in pairwise(self._edges)],
                          np.int64)
        self._result[key] = self._result.get(key, 0) + layers

    def _named(self, name: str) -> np.ndarray:
        return self._opcode == self._machine.opcodes[name]

    def _dma(self, unit: str, access: str) -> None:
        here, layout = self._named(unit), self._machine.layouts[unit]
        buffer = column(layout, self._words, "buffer")
        for kind in ("beats", "chunks"):
            self._add(f"{unit}.{kind}", self._of[kind] * here)
        for code in np.unique(buffer[here]).tolist():
            name = self._machine.structure.buffer_names[code]
            self._add(f"{name}.{access}", self._of["chunks"] * (here & (buffer == code)))

    def _gemm(self, body: Intrinsic) -> None:
        here = self._named(body.name)
        iterations, folds = (self._of[kind] * here for kind in ("iterations", "folds"))
        self._add(f"gemm.{body.name}", iterations)
        self._add("gemm.folds", folds)
        self._add("inp.read", iterations)
        self._add("wgt.read", self._of["weights"] * here)
        self._add("acc.gemm_write", self._of["meets"] * here)
        self._add("acc.gemm_read", folds)

    def _vector(self, unit: Unit, body: Intrinsic) -> None:
        here, machine, name = self._named(body.name), self._machine, unit.name
        parts = self._of["iterations"] * here * machine.config.vector_beats
        folds = self._of["folds"] * here * machine.config.vector_beats
        self._add(f"{name}.{body.name}", parts)
        self._add(f"{name}.folds", folds)
        self._add(f"acc.{name}_read", self._of["acc"] * here + folds)
        self._add(f"{unit.at('a')[1]}.read", self._of["res"] * here)
        self._add(f"{unit.at('record')[0]}.read", self._of["par"] * here)
        to = column(machine.layouts[body.name], self._words, "destination")
        for code, scope in enumerate(unit.writes):
            self._add(f"acc.{name}_write" if scope == "acc" else f"{scope}.write",
                      parts * (to == code))
        if any(operand.name == TABLE.name for operand in body.operands):
            (table,) = unit.at("table")
            self._add(f"{table}.read", parts * plan(machine, name).count("lookup"))

    def _stream(self, unit: Unit, form: StreamForm) -> None:
        """Entries are read and written once; the component works as long as rows take it."""
        here, layout = self._named(form.name), self._machine.layouts[form.name]
        entries = self._of["iterations"] * here
        works = next((one for other, one in self._machine.of_rows if other.name == form.name), None)
        cycles = entries
        if works is not None:
            rows = column(layout, self._words, f"loops.{form.loops - 1}.extent")
            cycles = sum((here & (rows == length)) * (entries // length) * round(
                works.cycles(length)) for length in np.unique(rows[here]).tolist()) + 0 * entries
        self._add(f"{unit.name}.{form.name}", cycles)
        code = column(layout, self._words, "a_source")
        for number, name in enumerate(unit.at("a")):
            self._add(f"{name}.read", entries * (code == number))
        self._add(f"{unit.at('dst')[0]}.write", entries)
        for table in unit.at("table"):
            self._add(f"{table}.read", cycles)
