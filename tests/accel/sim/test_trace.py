"""Traces: what the files say of a run, and that a file is whole or not there."""

import gzip
import io
import json
import subprocess
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from vcd.reader import ScopeDecl, TokenKind, VarDecl, VectorChange, tokenize

from accel.machine import isa
from accel.machine.config import UNITS, preset
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, finish
from accel.machine.origins import Loop, Origin, Site
from accel.machine.status import ACTIVITIES, Run, Status, Timeline
from accel.sim import trace
from accel.sim.trace import TraceError, TraceFile

MACHINE = Machine(preset("tiny-1x4x4"))
CONV = Site("conv", (Loop("y", 4), Loop("x", 2)))


def instruction(name, unit, waits=(), signals=(), position=(0, 0), **fields):
    return Instruction(name, unit, fields | {"waits": isa.unit_mask(waits),
                                             "signals": isa.unit_mask(signals)},
                       Origin(CONV, position))


PROGRAM = AccelProgram.assemble(MACHINE, [
    instruction("load", "load", signals=("gemm",), run=16),
    instruction("load", "load", signals=("gemm",), position=(1, 0), run=8, loops=[{"extent": 2}]),
    instruction("gemm", "gemm", waits=("load",), signals=("vector",)),
    instruction("gemm", "gemm", waits=("load",), signals=("vector",), position=(1, 0)),
    instruction("copy", "vector", waits=("gemm",), signals=("store",)),
    instruction("copy", "vector", waits=("gemm",), signals=("store",), position=(1, 1)),
    instruction("store", "store", waits=("vector",), buffer=5, run=4),
    instruction("store", "store", waits=("vector",), buffer=5, run=4),
    finish()], layers=(("conv", 4), ("tail", 8)))

CYCLES = 50


def rows(*spans):
    return np.array([(first, ACTIVITIES.index(activity), index)
                     for first, activity, index in spans], np.int64)


TIMELINE = Timeline({
    "load": rows((0, "command", -1), (1, "busy", 0), (9, "memory", 1), (12, "command", -1)),
    "gemm": rows((0, "load", 2), (8, "busy", 2), (20, "busy", 3), (30, "command", -1)),
    "vector": rows((0, "gemm", 4), (16, "busy", 4), (32, "signal", 5), (33, "command", -1)),
    "store": rows((0, "vector", 6), (20, "busy", 6), (40, "memory", 7), (45, "command", -1))})

RUN = Run(Status.DONE, "fetch", 8, np.zeros(0, np.uint8), CYCLES,
          start=np.array([1, 3, 8, 20, 16, 30, 20, 34, 48]),
          retire=np.array([7, 11, 15, 29, 19, 32, 33, 45, 48]), timeline=TIMELINE)


def written(path: Path, *runs: Run) -> Path:
    with TraceFile(path) as file:
        file.require_space([PROGRAM])
        file.write(MACHINE, [(PROGRAM, run) for run in runs or (RUN,)])
    return path


def events(path: Path, *runs: Run, **wanted):
    document = json.loads(written(path, *runs).read_text())
    return [event for event in document["traceEvents"]
            if all(event.get(key) == value for key, value in wanted.items())]


@pytest.fixture
def target(tmp_path) -> Path:
    return tmp_path / "t.json"


def process(unit: str) -> int:
    return (*UNITS, "fetch").index(unit) + 1


def test_the_document_says_what_it_is_of(target) -> None:
    document = json.loads(written(target).read_text())
    assert document["otherData"] == {
        "machine": "tiny-1x4x4", "machine_hash": MACHINE.hash, "time": "1 us is 1 cycle",
        "clock_mhz": 100, "cycles": CYCLES}


def test_activities_fill_every_cycle_of_every_unit(target) -> None:
    for unit in UNITS:
        slices = events(target, ph="X", cat="activity", pid=process(unit))
        assert slices[0]["ts"] == 0
        assert all(a["ts"] + a["dur"] == b["ts"] for a, b in pairwise(slices))
        assert slices[-1]["ts"] + slices[-1]["dur"] == CYCLES
    gemm = events(target, cat="activity", pid=process("gemm"))
    assert [(e["name"], e.get("args")) for e in gemm] == [
        ("wait for load", {"instruction": 2}), ("busy", {"instruction": 2}),
        ("busy", {"instruction": 3}), ("command", None)]


def test_instructions_are_named_by_layer_and_loops(target) -> None:
    found = [(e["name"], e["pid"], e["ts"], e["dur"], e["args"]["instruction"])
             for e in events(target, ph="X") if "text" in e.get("args", {})]
    assert found[:3] == [("conv y=0 x=0 load", 1, 1, 7, 0), ("conv y=1 x=0 load", 1, 3, 9, 1),
                         ("conv y=0 x=0 gemm", 2, 8, 8, 2)]
    assert found[5][0] == "conv y=1 x=1 copy" and found[-1] == ("finish", 5, 48, 1, 8)
    (first, *_) = events(target, cat="load")
    assert first["args"]["text"].startswith("load signal=gemm buffer=inp")


def test_slices_of_a_track_do_not_overlap(target) -> None:
    tracks = defaultdict(list)
    for event in events(target, ph="X"):
        tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for slices in tracks.values():
        assert all(a[1] <= b[0] for a, b in pairwise(sorted(slices)))
    assert {thread for unit, thread in tracks if unit == process("load")} == {0, 1, 2}


def test_every_track_has_a_name(target) -> None:
    named = {(e["pid"], e["tid"]) for e in events(target, ph="M", name="thread_name")}
    assert named >= {(e["pid"], e["tid"]) for e in events(target, ph="X")}
    groups = [e["args"]["name"] for e in events(target, ph="M", name="process_name")]
    assert groups == ["layers", *UNITS, "fetch"]


def test_tokens_lead_from_retirement_to_start(target) -> None:
    flows = {}
    for one in events(target, cat="token"):
        flows.setdefault(one["id"], {})[one["ph"]] = one
    found = {(f["s"]["name"], f["s"]["ts"], f["f"]["ts"]) for f in flows.values()}
    assert found == {("load to gemm", 7, 8), ("load to gemm", 11, 20), ("gemm to vector", 15, 16),
                     ("gemm to vector", 29, 30), ("vector to store", 19, 20),
                     ("vector to store", 32, 34)}
    slices = events(target, ph="X")
    for flow in flows.values():
        assert flow["f"]["bp"] == "e"
        for end in flow.values():       # each lies in a slice of its track
            assert any(s["pid"] == end["pid"] and s["tid"] == end["tid"]
                       and s["ts"] <= end["ts"] < s["ts"] + s["dur"] for s in slices)


def test_layers_and_bytes(target) -> None:
    assert [(e["name"], e["ts"], e["dur"]) for e in events(target, cat="layer")] == [
        ("conv", 0, 29), ("tail", 29, 16)]
    assert [(e["ts"], e["args"]["moved"]) for e in events(target, ph="C")] == [
        (7, 16), (11, 24), (33, 28), (45, 32)]


def test_runs_follow_each_other(target) -> None:
    twice = events(target, RUN, RUN, cat="gemm")
    assert [e["ts"] for e in twice] == [8, 20, 8 + CYCLES, 20 + CYCLES]
    assert len({e["id"] for e in events(target, RUN, RUN, cat="token")}) == 12


def test_a_run_without_timeline_has_no_activities(target) -> None:
    bare = Run(Status.DONE, "fetch", 8, RUN.memory, CYCLES, start=RUN.start, retire=RUN.retire)
    assert not events(target, bare, cat="activity") and events(target, bare, cat="gemm")


def test_a_run_that_stopped_shows_what_was_open(target) -> None:
    stopped = Run(Status.DEADLOCK, "vector", 5, RUN.memory, CYCLES,
                  start=np.where(np.arange(9) < 4, RUN.start, -1),
                  retire=np.where(np.arange(9) < 3, RUN.retire, -1))
    slices = [(e["args"]["instruction"], e["ts"] + e["dur"]) for e in
              events(target, stopped, ph="X") if e["cat"] != "layer"]
    assert slices == [(0, 8), (1, 12), (2, 16), (3, CYCLES)]
    assert len({e["id"] for e in events(target, stopped, cat="token")}) == 2


def test_compressed_is_the_same(tmp_path) -> None:
    plain, packed = written(tmp_path / "t.json"), written(tmp_path / "a.b.json.gz")
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()


def values(data: bytes) -> dict[str, list[tuple[int, int]]]:
    """Changes of every variable of a VCD, by dotted name."""
    names, scope, now = {}, [], 0
    changes: dict[str, list[tuple[int, int]]] = {}
    for token in tokenize(io.BytesIO(data)):
        match token.data:
            case ScopeDecl(ident=name): scope.append(name)
            case VarDecl(id_code=code, reference=name):
                changes[names.setdefault(code, ".".join([*scope, name]))] = []
            case VectorChange(id_code=code, value=value): changes[names[code]].append((now, value))
            case int(time): now = time
            case _ if token.kind is TokenKind.UPSCOPE: scope.pop()
    assert now == CYCLES
    return changes


def test_vcd(tmp_path) -> None:
    found = values(written(tmp_path / "t.vcd").read_bytes())
    top = "tiny_1x4x4"
    code = {name: number for number, name in enumerate(ACTIVITIES)}
    assert found[f"{top}.gemm.activity"] == [(0, code["load"]), (8, code["busy"]),
                                             (30, code["command"])]
    assert found[f"{top}.gemm.instruction"] == [(0, 2), (20, 3), (30, (1 << 32) - 1)]
    assert found[f"{top}.tokens.load_to_gemm"] == [(0, 0), (7, 1), (8, 0), (11, 1), (20, 0)]
    assert found[f"{top}.tokens.store_to_load"] == [(0, 0)]


def test_a_long_run_is_no_vcd(tmp_path) -> None:
    long = Run(Status.DONE, "fetch", 8, RUN.memory, trace.MAX_VCD_CYCLES + 1, start=RUN.start,
               retire=RUN.retire)
    path = tmp_path / "t.vcd"
    with pytest.raises(TraceError, match=r"must be of at most 1,000,000 cycles, not 1,000,001; "
                                         r"write a \.json$"):
        written(path, long)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["t.txt", "t", "t.gz", "json"])
def test_a_suffix_that_is_no_format(tmp_path, name) -> None:
    with pytest.raises(TraceError, match=r" must end in one of \.json, \.json\.gz, \.vcd$"):
        TraceFile(tmp_path / name)


def test_a_folder_that_is_not_there(tmp_path) -> None:
    path = tmp_path / "none" / "t.json"
    with pytest.raises(TraceError) as refusal:
        TraceFile(path)
    assert str(refusal.value) == f"Trace {str(path)!r} cannot be written: No such file or directory"
    (tmp_path / "t.json").mkdir()
    with pytest.raises(TraceError, match=r" cannot be written: Is a directory$"):
        TraceFile(tmp_path / "t.json")


def test_a_disk_that_is_too_small(tmp_path, monkeypatch) -> None:
    least = PROGRAM.count * trace.SUFFIXES[".json"]
    usage = trace.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(trace.shutil, "disk_usage", lambda path: usage._replace(free=least - 1))
    with pytest.raises(TraceError, match=f"needs more than {least:,} bytes, of which its disk has "
                                         f"{least - 1:,}; write it to another disk, or as"):
        written(tmp_path / "t.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", trace.SUFFIXES)
def test_the_least_size_is_one(tmp_path, suffix) -> None:
    path = written(tmp_path / f"t{suffix}")
    assert path.stat().st_size > PROGRAM.count * trace.SUFFIXES[suffix]


FULL_DISK = """
import resource, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from accel.sim.trace import TraceError
import test_trace
sys.dont_write_bytecode = True          # Python would keep what it can write of a module
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
try:
    test_trace.written(Path({path!r}))
except TraceError as error:
    print(error)
"""


@pytest.mark.parametrize("suffix", [
    suffix if suffix == ".json.gz" else pytest.param(suffix, marks=pytest.mark.slow)
    for suffix in trace.SUFFIXES])
def test_a_disk_that_gets_full_leaves_what_was_there(tmp_path, suffix) -> None:
    path = tmp_path / f"t{suffix}"
    path.write_text("before")
    script = FULL_DISK.format(tests=str(Path(__file__).parent), path=str(path), limit=300)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          cwd=Path(__file__).parents[3])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (f"Trace {str(path)!r} cannot be written: File too large; write it to "
                           f"another disk, or as .json.gz\n")
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]


def test_nothing_is_left_when_there_is_nothing_to_write(tmp_path) -> None:
    with pytest.raises(KeyboardInterrupt), TraceFile(tmp_path / "t.json"):
        assert len(list(tmp_path.iterdir())) == 1
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())
