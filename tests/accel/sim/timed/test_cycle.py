"""The cycle simulator equals the RTL in every event and counter."""

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from accel.machine import isa
from accel.machine.config import UNITS, preset
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, ProgramError, TensorSlot, finish
from accel.machine.status import ACTIVITIES, Run, Status
from accel.machine.timing import TIMING
from accel.mapping.target import AccelTarget
from accel.proof.legal import with_tokens
from accel.sim.meaning import functional
from accel.sim.rtl import verilated
from accel.sim.timed import cycle
from accel.machine.dram import Dram, DramError
from accel.sim.checking.geometries import OPTIMIZATION
from accel.sim.programs.directed import directed
from accel.sim.programs.generate import generate
from accel.sim.checking.differences import TimingDifference, differ_in_time
from compiler.frontend.onnx.importing import load
from compiler.graph.passes.pipeline import optimize
from runtime import SimulatedDevice, compile_graph, simulator
from tests.support.effort import tries

MACHINE = Machine(preset("tiny-1x4x4"))
DIGITS = Path(__file__).parents[4] / "examples" / "digits" / "digits-int8.onnx"

MEMORIES: Mapping[str, Dram] = {
    **{f"latency {latency}{', stalls' if seed else ''}": Dram(latency, stall_seed=seed)
       for latency in (0, 7, 64, 256) for seed in (0, 11)},
    "one burst": Dram(20, outstanding=1),
    "bandwidth": Dram(10, bytes_per_cycle=1.7),
    "rows": Dram(10, row_bytes=256, row_miss=13, banks=2),
    "in order": Dram(10, 3, bytes_per_cycle=2, in_order=True, beat_cycles=3),
    "refresh": Dram(10, refresh_interval=50, refresh_cycles=9),
    "board": Dram(15, 3, bytes_per_cycle=2, row_bytes=1024, row_miss=4, row_closed=2, banks=4,
                  in_order=True, refresh_interval=625, refresh_cycles=8),
    "high": Dram(10, origin=0xFFFFF000),
    "all": Dram(33, 3, 5, bytes_per_cycle=3.1, row_bytes=64, row_miss=4, banks=1,
                refresh_interval=200, refresh_cycles=30),
    "all, in order": Dram(33, 3, 5, bytes_per_cycle=3.1, row_bytes=64, row_miss=4, banks=1,
                          in_order=True, refresh_interval=200, refresh_cycles=30),
}


def both(program: AccelProgram, memory: np.ndarray | None = None,
         dram: Dram = MEMORIES["latency 64"], max_cycles: int = 2_000_000) -> tuple[Run, Run]:
    """The cycle simulator, with a timeline, and the RTL."""
    return (cycle.simulate(MACHINE, program, memory, values=False, timeline=True, dram=dram,
                           max_cycles=max_cycles),
            verilated.simulate(MACHINE, program, memory, dram=dram, max_cycles=max_cycles))


def require_equal(run: Run, rtl: Run) -> None:
    assert differ_in_time(run, rtl) is None
    assert run.timeline is not None
    for unit, rows in run.timeline.spans.items():
        require_partition(run, unit, rows)


def require_partition(run: Run, unit: str, rows: np.ndarray) -> None:
    """The rows of a unit partition the cycles and add up to its counters."""
    assert rows[0, 0] == 0 and np.all(np.diff(rows[:, 0]) > 0) and rows[-1, 0] < run.cycles
    lengths = np.diff(np.append(rows[:, 0], run.cycles))
    sums = np.bincount(rows[:, 1], lengths, len(ACTIVITIES)).astype(int)
    assert dict(zip(ACTIVITIES, sums)) == run.counters.activity[unit]
    nobody = rows[:, 1] == ACTIVITIES.index("command")
    assert np.array_equal(rows[:, 2] == -1, nobody)


@pytest.fixture(scope="module")
def digits() -> AccelProgram:
    device = SimulatedDevice(MACHINE, simulator("functional"))
    module = compile_graph(optimize(load(DIGITS)), AccelTarget(MACHINE), device)
    return module.accelerated[0].program


@pytest.mark.one_in(3)
@pytest.mark.parametrize("memory", MEMORIES)
def test_a_network_takes_the_cycles_of_the_rtl(digits, memory):
    run, rtl = both(digits, dram=MEMORIES[memory])
    assert run.ok
    require_equal(run, rtl)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("memory", MEMORIES)
def test_random_programs_take_the_cycles_of_the_rtl(memory):
    for seed in range(tries(20)):
        case = generate(MACHINE, seed)
        run, rtl = both(case.program, case.memory, MEMORIES[memory])
        assert run.ok, case.name
        require_equal(run, rtl)


def test_directed_programs_take_the_cycles_of_the_rtl():
    waited = set()
    for case in directed(MACHINE):
        run, rtl = both(case.program, case.memory)
        assert run.ok
        require_equal(run, rtl)
        waited |= {unit for unit, causes in run.counters.activity.items() if causes["signal"]}
    assert waited == set(UNITS)


def rows(machine: Machine, seed: int, count: int = 40) -> AccelProgram:
    """Loads of short runs that overlap, touch or leave gaps, at any place of a beat and of a chunk,
    some of them padding, while store writes; the last ones leave the memory.
    """
    rng, stream = Random(seed), []
    for index in range(count):
        run = rng.choice((1, 3, 8, 9, 16, 21, 33, 70))
        loops = [{"extent": rng.randrange(1, 4), "dram": rng.randrange(-90, 90), "buffer": 7},
                 {"extent": rng.randrange(1, 9), "dram": rng.choice((run, rng.randrange(-3, 33))),
                  "buffer": rng.choice((run, rng.randrange(40))), "before": rng.choice((0, 0, 1)),
                  "after": rng.choice((0, 0, 2))}]
        stream.append(Instruction("load", "load", {
            "buffer": 0, "base": 3, "address": rng.randrange(64), "run": run, "loops": loops,
            "dram": rng.randrange(300, 1000) if index < count - 4 else 2020 + 8 * index}))
        if rng.random() < 0.5:
            stream.append(Instruction("store", "store", {
                "buffer": 5, "base": 3, "run": rng.randrange(1, 99), "dram": rng.randrange(99)}))
    return AccelProgram.assemble(machine, [*stream, finish()], io_bytes=2048)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("memory", MEMORIES)
def test_rows_that_overlap_take_the_cycles_of_the_rtl(memory):
    for seed in range(4):
        run, rtl = both(rows(MACHINE, seed), dram=MEMORIES[memory])
        assert (run.status, run.unit) == (Status.BUS, "load")
        require_equal(run, rtl)


@pytest.mark.slow
@pytest.mark.parametrize("bus_bytes", [8, 16, 64])
def test_rows_on_a_wider_bus_take_the_cycles_of_the_rtl(bus_bytes):
    machine = Machine(replace(MACHINE.config, name="wide", bus_bytes=bus_bytes))
    core = verilated.build(machine, OPTIMIZATION)
    for seed in range(40):
        program, dram = rows(machine, seed), Dram((0, 7, 64)[seed % 3], stall_seed=seed % 2)
        run = cycle.simulate(machine, program, values=False, timeline=True, dram=dram)
        require_equal(run, core.run(program, program.image(), dram=dram))


@pytest.mark.slow
def test_entries_in_parts_take_the_cycles_of_the_rtl():
    machine = Machine(replace(MACHINE.config, name="parts", vector_beats=2))
    core = verilated.build(machine, OPTIMIZATION)
    for seed in range(12):
        case = generate(machine, seed)
        run = cycle.simulate(machine, case.program, case.memory, values=False, timeline=True,
                             **case.timing)
        rtl = core.run(case.program, case.memory.copy(), dram=Dram(**case.timing))
        assert run.ok, case.name
        require_equal(run, rtl)


@pytest.mark.parametrize("unit", ["gemm", "vector"])
def test_a_unit_without_room_takes_the_cycles_of_the_rtl(unit):
    """Its oldest instruction cannot signal; as many as may be open follow, then none starts."""
    done = {"banks": 1, "loops": []} if unit == "gemm" else {"b_source": 3, "destination": 1}
    short = Instruction("gemm" if unit == "gemm" else "copy", unit, {**done, "reset": 1})
    padding = {"buffer": 2, "base": 3, "run": 16, "loops": [{"extent": 1 << 12, "before": 4095}]}
    give = replace(short, fields={**short.fields, "signals": 1})
    take = Instruction("load", "load", {"buffer": 2, "base": 3, "waits": isa.unit_mask([unit])})
    for early, status in ((4, Status.DONE), (0, Status.DEADLOCK)):      # fetch gets to the first
        stream = [Instruction("load", "load", padding), *[give] * 256, *[take] * early,
                  *[short] * 150, *[take] * (256 - early), finish()]
        run, rtl = both(assembled(stream))
        assert run.status is status and run.counters.activity[unit]["signal"] > 1000
        require_equal(run, rtl)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ecp5-1x2x2", "tiny-1x4x4", "ecp5-1x8x8", "pynq-1x16x16"])
def test_presets_take_the_cycles_of_the_rtl(name):
    machine = Machine(preset(name))
    for seed in range(100):
        case = generate(machine, seed)
        run = cycle.simulate(machine, case.program, case.memory, values=False, **case.timing)
        rtl = verilated.simulate(machine, case.program, case.memory, **case.timing)
        assert differ_in_time(run, rtl) is None, case.name


# ---- programs that end otherwise -----------------------------------------------------------------

def chain(**changes: Mapping[str, object]) -> list[Instruction]:
    """Load, multiply, copy out, store; `changes` of fields by name of instruction."""
    x = {"buffer": 0, "base": 3, "run": 16}
    stream = with_tokens(MACHINE, [
        Instruction("load", "load", x), Instruction("load", "load", {**x, "buffer": 1}),
        Instruction("gemm", "gemm", {"banks": 1, "reset": 1,
                                     "loops": [{"extent": 4, "dst": 1, "a": 1}]}),
        Instruction("copy", "vector", {"banks": 1, "b_source": 0, "destination": 1,
                                       "loops": [{"extent": 4, "dst": 1, "b": 1}]}),
        Instruction("store", "store", {"buffer": 5, "base": 3, "dram": 64, "run": 16}), finish()])
    return [replace(one, fields={**one.fields, **changes.get(one.name, {})}) for one in stream]


def assembled(stream: list[Instruction]) -> AccelProgram:
    slot = TensorSlot("x", "io", 0, (64,), "uint8")
    return AccelProgram.assemble(MACHINE, stream, io_bytes=128, inputs=(slot,))


def with_byte(program: AccelProgram, index: int, place: int, value: int) -> AccelProgram:
    words = program.words.copy()
    words[index, place] = value
    return replace(program, words=words)


FAULTS = {
    "illegal opcode": (with_byte(assembled(chain()), 2, 0, 0xEE), Status.ILLEGAL, "fetch", 2),
    "buffer of load": (assembled(chain(load={"buffer": 4})), Status.ILLEGAL, "load", 0),
    "buffer of store": (assembled(chain(store={"buffer": 0})), Status.ILLEGAL, "store", 4),
    "selector": (assembled([replace(one, name="reduce_add") if one.name == "copy" else one
                            for one in chain()]), Status.ILLEGAL, "vector", 3),
    "entry of inp": (assembled(chain(gemm={"base": {"a": 510}})), Status.ADDRESS, "gemm", 2),
    "entry of out": (assembled(chain(copy={"base": {"dst": 254}})), Status.ADDRESS, "vector", 3),
    "byte of out": (assembled(chain(store={"address": 1009})), Status.ADDRESS, "store", 4),
    "bank of gemm": (assembled(chain(gemm={"base": {"dst": 126}})), Status.ADDRESS, "gemm", 2),
    "bank of vector": (assembled(chain(copy={"base": {"b": 127}})), Status.ADDRESS, "vector", 3),
    "load from nowhere": (assembled(chain(load={"dram": 1 << 20})), Status.BUS, "load", 0),
    "store to nowhere": (assembled(chain(store={"dram": 1 << 20})), Status.BUS, "store", 4),
    "tokens left": (assembled(chain(store={"signals": 1})), Status.TOKENS_LEFT, "fetch", 5),
    "missing token": (assembled(chain(load={"signals": 0})), Status.DEADLOCK, "gemm", 2),
    "no finish": (assembled(chain()[:-1]), Status.DEADLOCK, "fetch", 5),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_takes_the_cycles_of_the_rtl(fault):
    program, *expected = FAULTS[fault]
    for dram in (MEMORIES["latency 7"], MEMORIES["all"]):
        run, rtl = both(program, dram=dram)
        assert [run.status, run.unit, run.index] == expected
        require_equal(run, rtl)


def test_fetch_reads_beyond_the_memory_as_the_rtl_does():
    program = assembled(chain())
    for words in (1, 3, 5):
        run, rtl = both(program, program.image()[:words * isa.WORD_BYTES])
        assert run.status is Status.BUS and run.index <= words
        require_equal(run, rtl)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(tries(150)))
def test_broken_programs_take_the_cycles_of_the_rtl(seed):
    """Words with a few bits turned over: every kind of end, in every state of the machine."""
    random = Random(seed)
    case = generate(MACHINE, seed)
    words = case.program.words.copy()
    for _ in range(random.choice([1, 1, 2, 4])):
        row = words[random.randrange(len(words))]
        bit = random.choice([random.randrange(8, 24), random.randrange(24, 8 * row.size)])
        row[bit // 8] ^= 1 << bit % 8
    broken = replace(case.program, words=words)
    run, rtl = both(broken, broken.image(), Dram(**case.timing), max_cycles=20_000)
    require_equal(run, rtl)


def test_the_watchdog_ends_a_run_as_that_of_the_rtl():
    case = generate(MACHINE, 5)
    for limit in (1, 2, 3, 70, *range(480, 520), 1201):
        run, rtl = both(case.program, case.memory, max_cycles=limit)
        assert (run.status, run.cycles) == (Status.WATCHDOG, limit)
        assert differ_in_time(run, rtl) is None
        if limit > TIMING.begin_cycles + 1:        # before that nothing is counted
            require_equal(run, rtl)


# ---- what the simulator is asked for -------------------------------------------------------------

def test_values_are_those_of_the_functional_simulator():
    case = generate(MACHINE, 2)
    before = case.memory.copy()
    expected = functional.simulate(MACHINE, case.program, case.memory)
    run = cycle.simulate(MACHINE, case.program, case.memory)
    np.testing.assert_array_equal(run.memory, expected.memory)
    np.testing.assert_array_equal(case.memory, before)
    assert not np.array_equal(run.memory, before)


def test_without_values_memory_is_as_it_was_and_time_the_same():
    case = generate(MACHINE, 2)
    run = cycle.simulate(MACHINE, case.program, case.memory, values=False)
    np.testing.assert_array_equal(run.memory, case.memory)
    assert differ_in_time(run, cycle.simulate(MACHINE, case.program, case.memory)) is None


def test_a_run_repeats_itself_with_a_timeline_and_without(digits):
    runs = [cycle.simulate(MACHINE, digits, values=False, timeline=timeline, stall_seed=seed)
            for seed, timeline in ((3, True), (3, False), (3, True), (4, False))]
    assert all(differ_in_time(runs[0], one) is None for one in runs[1:3])
    assert differ_in_time(runs[0], runs[3]) is not None
    first, _, again, _ = (run.timeline for run in runs)
    assert runs[1].timeline is None and first is not None and again is not None
    for unit in UNITS:
        np.testing.assert_array_equal(first.spans[unit], again.spans[unit])


def test_a_timeline_names_who_works_and_who_waits():
    run = cycle.simulate(MACHINE, assembled(chain()), timeline=True)
    assert run.timeline is not None
    told = {unit: [(ACTIVITIES[what], index) for _, what, index in rows.tolist()]
            for unit, rows in run.timeline.spans.items()}
    assert told["gemm"] == [("command", -1), ("load", 2), ("busy", 2), ("command", -1)]
    assert told["vector"] == [("command", -1), ("gemm", 3), ("busy", 3), ("command", -1)]
    assert ("memory", 4) in told["store"] and ("memory", 0) in told["load"]
    busy = next(row for row in run.timeline.spans["gemm"] if row[1] == 0)
    assert busy[0] == run.start[2] - 2      # it is armed, then taken, then started


def test_an_instruction_of_a_million_million_iterations():
    """Cycles in which nothing can change cost nothing."""
    loops = [{"extent": 1 << 16}, {"extent": 1 << 16}, {"extent": 1 << 8}]
    stream = chain(gemm={"loops": loops})
    run = cycle.simulate(MACHINE, assembled(stream), values=False, max_cycles=1 << 60)
    assert run.ok and run.counters.activity["gemm"]["busy"] == (1 << 40) + 2
    assert run.retire[2] > run.start[2] + (1 << 40)


def test_options_take_the_place_of_those_of_the_memory():
    slow = cycle.simulate(MACHINE, assembled(chain()), dram=Dram(latency=90, outstanding=1))
    assert slow.cycles == cycle.simulate(MACHINE, assembled(chain()), latency=90,
                                         outstanding=1).cycles
    assert slow.cycles > cycle.simulate(MACHINE, assembled(chain()), dram=Dram(latency=90),
                                        latency=0, outstanding=1).cycles


def test_program_of_another_machine():
    with pytest.raises(ProgramError, match="^Program was compiled for machine 000000000000, not "):
        cycle.simulate(MACHINE, AccelProgram("0" * 64, np.zeros((0, 64), np.uint8)))


def test_a_bus_must_be_as_wide_as_its_rate():
    with pytest.raises(DramError, match=r"^bytes_per_cycle of the memory must be at most the 4 "
                                        r"bytes of the bus of tiny-1x4x4, not 5$"):
        cycle.simulate(MACHINE, assembled(chain()), bytes_per_cycle=5)


# ---- what is said of a difference ----------------------------------------------------------------

def test_the_earliest_event_that_differs_is_told():
    run = cycle.simulate(MACHINE, assembled(chain()), values=False)
    assert differ_in_time(run, run) is None
    in_vector = np.arange(6) == 3
    late = replace(run, start=run.start + in_vector, retire=run.retire + in_vector)
    assert differ_in_time(late, run) == TimingDifference(
        f"starts in cycle {run.start[3] + 1}; in cycle {run.start[3]}", 3)
    stuck = replace(run, retire=np.where(in_vector, -1, run.retire))
    assert differ_in_time(stuck, run) == TimingDifference(
        f"retires never; in cycle {run.retire[3]}", 3)


@pytest.mark.parametrize(("change", "detail"), [
    ({"cycles": 7}, "7 cycles; {cycles}"),
    ({"status": Status.BUS}, "bus: fetch, instruction 5; done after {cycles} cycles"),
    ({"waiting": {"gemm": 1}}, "done after {cycles} cycles; done after {cycles} cycles"),
])
def test_other_differences_are_told(change, detail):
    run = cycle.simulate(MACHINE, assembled(chain()), values=False)
    assert {*change} <= {field.name for field in fields(Run)}
    found = differ_in_time(replace(run, **change), run)
    assert found == TimingDifference(detail.format(cycles=run.cycles))


def test_counters_that_differ_are_told():
    run = cycle.simulate(MACHINE, assembled(chain()), values=False)
    counters = replace(run.counters, bytes={**run.counters.bytes, "load": 4})
    assert differ_in_time(replace(run, counters=counters), run) == TimingDifference(
        "bytes of load are 4; 32")
    activity = {**run.counters.activity, "gemm": {**run.counters.activity["gemm"], "busy": 9}}
    counters = replace(run.counters, activity=activity)
    assert differ_in_time(replace(run, counters=counters), run) == TimingDifference(
        "cycles of gemm for busy are 9; 6")
