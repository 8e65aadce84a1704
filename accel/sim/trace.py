"""Runs as files to look at: a trace for Perfetto (https://ui.perfetto.dev), or a VCD.

The suffix chooses. ``.json`` and ``.json.gz`` are Chrome's Trace Event Format, which Perfetto
reads. **One cycle is shown as one microsecond**, so that every time is a whole number whatever the
clock. A group of tracks for each unit holds

- ``activity``: what the unit did in every cycle, ``busy`` or the cause of a stall
  (`accel.machine.structure.Structure.activities`);
- ``instructions``: a slice from start to retire, named by layer and loops. A unit may hold several
  at once; then there are more tracks of them.

Arrows are tokens: from the retirement of the instruction that gave the k-th one of a pair of
units to the start of the one that took it. A first group has the layers, from retirement to
retirement as in reports, and the bytes moved so far.

``.vcd`` is for short runs: the activity and instruction of each unit, and all counters of tokens;
one cycle is one nanosecond.
"""

import errno
import gzip
import io
import json
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from vcd import VCDWriter

from accel.figures.attribution import layer_ends
from accel.figures.traffic import dram_bytes
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, disassemble
from accel.machine.status import Run
from accel.machine.structure import Structure
from accel.machine.words import decode_words
from compiler.errors import Error
from compiler.files import FileError, FileInProgress

SUFFIXES = {".json": 150, ".json.gz": 8, ".vcd": 16}
"""The formats, and the least bytes that an instruction takes in each."""

MAX_VCD_CYCLES = 1_000_000

Recording = tuple[AccelProgram, Run]


class TraceError(Error):
    """A trace that cannot be written; the message says where and why."""


class TraceFile:
    """A trace to be written to `path`.

    It is opened before there is anything to write, so that an impossible request is refused
    early, grows under another name in the same folder, and takes its place when it is whole.
    Leaving the context without that leaves nothing behind. Raises TraceError for a suffix that is
    no format, a folder that cannot be written, and a full disk.
    """

    def __init__(self, path: Path):
        self.path = Path(path)
        suffix = "".join(self.path.suffixes[-2:])
        self.suffix = suffix if suffix in SUFFIXES else self.path.suffix
        if self.suffix not in SUFFIXES:
            raise TraceError(f"Trace {str(path)!r} must end in one of {', '.join(SUFFIXES)}")
        try:
            self._growing = FileInProgress(self.path)
        except FileError as error:
            raise self._refusal(error) from None

    def require_space(self, programs: Iterable[AccelProgram]) -> None:
        """Refuse programs whose traces are larger than what the disk has free."""
        free = shutil.disk_usage(self.path.parent).free
        least = sum(program.count for program in programs) * SUFFIXES[self.suffix]
        if least > free:
            raise TraceError(f"Trace {str(self.path)!r} needs more than {least:,} bytes, of which "
                             f"its disk has {free:,}; write it to another disk, or as .json.gz")

    def _refusal(self, error: OSError) -> TraceError:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        advice = "; write it to another disk, or as .json.gz" if full else ""
        said = error if isinstance(error, FileError) else FileError(self.path, error)
        return TraceError(f"Trace {said}{advice}")

    def __enter__(self) -> "TraceFile":
        return self

    def __exit__(self, *error: object) -> None:
        self._growing.abandon()

    def write(self, machine: Machine, recordings: Sequence[Recording]) -> None:
        """Write runs of programs, one after the other, and put the file in its place.

        Runs without a timeline (those of RTL) give no activities. Raises TraceError, also for
        runs that are too long for a VCD.
        """
        if self.suffix == ".vcd":
            cycles = sum(run.cycles for _, run in recordings)
            if cycles > MAX_VCD_CYCLES:
                raise TraceError(f"Trace {str(self.path)!r} must be of at most {MAX_VCD_CYCLES:,} "
                                 f"cycles, not {cycles:,}; write a .json")
        try:
            self._stream(machine, recordings)
            self._growing.finish()
        except OSError as error:
            raise self._refusal(error) from None

    def _stream(self, machine: Machine, recordings: Sequence[Recording]) -> None:
        file = self._growing.file
        packed = (gzip.GzipFile("", "wb", 6, file, mtime=0) if self.suffix == ".json.gz"
                  else file)
        with io.TextIOWrapper(packed, "utf-8", newline="\n") as text:
            if self.suffix == ".vcd":
                _write_vcd(machine, recordings, text)
            else:
                text.writelines(_chrome(machine, recordings))


# ---- what a run says ---------------------------------------------------------------------------

def tokens(stream: Sequence[Instruction]) -> Iterator[tuple[str, str, int, int]]:
    """Giver, taker, and the positions in the stream of the instructions that gave and took a
    token: the k-th signal of a pair of units goes with its k-th wait.
    """
    given: dict[tuple[str, str], list[int]] = defaultdict(list)
    taken: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, instruction in enumerate(stream):
        for unit in instruction.waits:
            taken[unit, instruction.unit].append(index)
        for unit in instruction.signals:
            given[instruction.unit, unit].append(index)
    for (giver, taker), sources in given.items():
        for source, target in zip(sources, taken[giver, taker]):
            yield giver, taker, source, target


# ---- Chrome's Trace Event Format ---------------------------------------------------------------

_LAYERS, _ACTIVITY, _INSTRUCTIONS = 0, 0, 1
"""Process of the layers; threads of a unit's process, which is one more than the unit's place."""


def _chrome(machine: Machine, recordings: Sequence[Recording]) -> Iterator[str]:
    about = {"machine": machine.config.name, "machine_hash": machine.hash,
             "time": "1 us is 1 cycle", "clock_mhz": machine.config.clock_mhz,
             "cycles": sum(run.cycles for _, run in recordings)}
    yield f'{{"displayTimeUnit":"ms","otherData":{json.dumps(about)},"traceEvents":[\n'
    yield json.dumps(_named("process_name", _LAYERS, "layers"))
    for event in _events(machine, recordings):
        yield f",\n{event if isinstance(event, str) else json.dumps(event)}"
    yield "\n]}\n"


def _events(machine: Machine, recordings: Sequence[Recording]) -> Iterator[dict[str, Any] | str]:
    lanes: dict[str, int] = {}
    places = {unit: place for place, unit in enumerate(machine.structure.reporters, 1)}
    begin = flow = 0
    for program, run in recordings:
        stream = decode_words(machine, program.words, program.origins)
        yield from _layer_slices(program, run, begin)
        yield from _activity_slices(machine.structure, run, begin)
        placed = _placed(stream, run)
        for index, lane in placed.items():
            lanes[stream[index].unit] = max(lanes.get(stream[index].unit, 0), lane)
            yield _instruction_slice(places, stream[index], index, lane, run, begin)
        for giver, taker, source, target in tokens(stream):
            if run.retire[source] >= 0 <= run.start[target]:
                ends = ((places[giver], placed[source], run.retire[source], {"ph": "s"}),
                        (places[taker], placed[target], run.start[target],
                         {"ph": "f", "bp": "e"}))
                yield from (_token(flow, f"{giver} to {taker}", *end, begin) for end in ends)
                flow += 1
        yield from _traffic(machine, program, run, begin)
        begin += run.cycles
    yield from _names(places, lanes)


def _named(kind: str, process: int, name: str, thread: int = 0) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _names(places: Mapping[str, int], lanes: dict[str, int]) -> Iterator[dict[str, Any]]:
    yield _named("thread_name", _LAYERS, "layers")
    for unit, place in places.items():
        yield _named("process_name", place, unit)
        yield {"ph": "M", "name": "process_sort_index", "pid": place,
               "args": {"sort_index": place}}
        yield _named("thread_name", place, "activity", _ACTIVITY)
        for lane in range(lanes.get(unit, -1) + 1):
            yield _named("thread_name", place, "instructions", _INSTRUCTIONS + lane)


def _layer_slices(program: AccelProgram, run: Run, begin: int) -> Iterator[dict[str, Any]]:
    ends = layer_ends(program, run)
    for (name, _), first, last in zip(program.layers, [0, *ends], ends):
        if last > first:
            yield {"ph": "X", "name": name, "cat": "layer", "pid": _LAYERS, "tid": 0,
                   "ts": begin + first, "dur": last - first}


def _activity_slices(structure: Structure, run: Run, begin: int) -> Iterator[str]:
    """Yields slices as text: there may be millions, all alike."""
    for unit, spans in (run.timeline.spans if run.timeline else {}).items():
        heads = [f'{{"ph":"X","name":"{name}","cat":"activity",'
                 f'"pid":{structure.names.index(unit) + 1},"tid":{_ACTIVITY},"ts":'
                 for name in _activities(structure)]
        lengths = np.diff(spans[:, 0], append=run.cycles).tolist()
        for (first, activity, index), length in zip(spans.tolist(), lengths):
            about = f',"args":{{"instruction":{index}}}' if index >= 0 else ""
            yield f'{heads[activity]}{begin + first},"dur":{length}{about}}}'


def _activities(structure: Structure) -> list[str]:
    """The activities in words, in the order of their numbers."""
    return [f"wait for {name}" if name in structure.names else name
            for name in structure.activities]


def _placed(stream: Sequence[Instruction], run: Run) -> dict[int, int]:
    """A lane for every started instruction, so that instructions of one lane do not overlap."""
    free: dict[str, list[int]] = defaultdict(list)      # when each lane of a unit is free again
    lanes = {}
    for index, instruction in enumerate(stream):
        if run.start[index] < 0:
            continue
        busy = free[instruction.unit]
        lane = next((n for n, end in enumerate(busy) if end <= run.start[index]), len(busy))
        busy[lane:lane + 1] = [_end(run, index)]
        lanes[index] = lane
    return lanes


def _end(run: Run, index: int) -> int:
    """One past the cycle in which an instruction retired, or the end of the run."""
    return int(run.retire[index]) + 1 if run.retire[index] >= 0 else run.cycles


def _instruction_slice(places: Mapping[str, int], instruction: Instruction, index: int, lane: int,
                       run: Run, begin: int) -> dict[str, Any]:
    start = int(run.start[index])
    return {"ph": "X", "name": f"{instruction.label} {instruction.name}".strip(),
            "cat": instruction.name,
            "pid": places[instruction.unit], "tid": _INSTRUCTIONS + lane,
            "ts": begin + start, "dur": _end(run, index) - start,
            "args": {"instruction": index, "text": disassemble(instruction)}}


def _token(number: int, name: str, place: int, lane: int, cycle: int, kind: dict[str, str],
           begin: int) -> dict[str, Any]:
    return {**kind, "id": number, "name": name, "cat": "token",
            "pid": place, "tid": _INSTRUCTIONS + lane,
            "ts": begin + int(cycle)}


def _traffic(machine: Machine, program: AccelProgram, run: Run,
             begin: int) -> Iterator[dict[str, Any]]:
    """Bytes of DRAM that retired instructions have moved, in order of time."""
    moved = dram_bytes(machine, program)
    done = np.flatnonzero((moved > 0) & (run.retire >= 0))
    done = done[np.argsort(run.retire[done], kind="stable")]
    for cycle, total in zip(run.retire[done].tolist(), np.cumsum(moved[done]).tolist()):
        yield {"ph": "C", "name": "DRAM bytes", "pid": _LAYERS, "ts": begin + cycle,
               "args": {"moved": total}}


# ---- VCD ---------------------------------------------------------------------------------------

_BITS = {"activity": 4, "instruction": 32}


def _write_vcd(machine: Machine, recordings: Sequence[Recording], file: IO[str]) -> None:
    units = machine.structure.names
    meaning = ", ".join(f"{number} {name}"
                        for number, name in enumerate(_activities(machine.structure)))
    about = (f"machine {machine.config.name} {machine.hash}; 1 ns is 1 cycle; activity: {meaning}; "
             "instruction: all ones for none")
    top, begin = _identifier(machine.config.name), 0
    signals = [(unit, name, bits) for unit in units for name, bits in _BITS.items()]
    signals += [("tokens", f"{giver}_to_{taker}", 8) for giver in units for taker in units]
    changes: list[tuple[int, tuple[str, str], int]] = []
    with VCDWriter(file, "1 ns", comment=about, check_values=False) as writer:
        variables = {(scope, name): writer.register_var(f"{top}.{scope}", name, "wire", bits, 0)
                     for scope, name, bits in signals}
        for program, run in recordings:
            stream = decode_words(machine, program.words)
            changes += [(begin + cycle, signal, value) for cycle, signal, value in (
                *_unit_changes(run), *_token_changes(stream, run))]
            begin += run.cycles
        changes.sort(key=lambda change: change[0])
        # The last value in a cycle counts.
        for (cycle, signal), value in {change[:2]: change[2] for change in changes}.items():
            writer.change(variables[signal], cycle, value)
        writer.close(begin)


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)


def _unit_changes(run: Run) -> Iterator[tuple[int, tuple[str, str], int]]:
    for unit, spans in (run.timeline.spans if run.timeline else {}).items():
        for cycle, activity, index in spans.tolist():
            yield cycle, (unit, "activity"), activity
            yield cycle, (unit, "instruction"), index % (1 << _BITS["instruction"])


def _token_changes(stream: Sequence[Instruction],
                   run: Run) -> Iterator[tuple[int, tuple[str, str], int]]:
    """Every change of a pair's token counter: cycle, signal, new value."""
    steps = []
    for index, instruction in enumerate(stream):
        if run.retire[index] >= 0:
            steps += [(int(run.retire[index]), 1, (instruction.unit, unit))
                      for unit in instruction.signals]
        if run.start[index] >= 0:
            steps += [(int(run.start[index]), -1, (unit, instruction.unit))
                      for unit in instruction.waits]
    counters: dict[tuple[str, str], int] = defaultdict(int)
    for cycle, step, (giver, taker) in sorted(steps, key=lambda step: step[0]):
        counters[giver, taker] += step
        yield cycle, ("tokens", f"{giver}_to_{taker}"), counters[giver, taker]
