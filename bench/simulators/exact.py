"""Are simulators equal to the RTL, after edits too, and how fast are they? Do all geometries work?

`exact` runs the digits network and one convolution of ResNet-18 (3x3, 64 -> 64 channels, 56x56) on
every preset, each with memories of several latencies, with and without random stalls, and also with
one of low bandwidth and with rows, and one like a board's. Memory, status, all counters, and the
start and retirement of every instruction must be equal. Prints a line for each run: its cycles, and
millions of cycles a second (processor time) with time alone, with values, and of the Verilated RTL;
then ``exact_runs`` and ``exact_differences``. Exit status 1 if there are any.

`speed`, on `pynq-1x16x16`: the digits network, compiled once and repeated as one program of at
least ``--cycles`` (short instructions: the most events in a cycle), or ResNet-50. Prints millions
of cycles a second of processor time: of the cycle simulator with time alone, with values, and with
values and a timeline; of the slice of the RTL, time alone; of the Verilated RTL; and multiples of
the last, which does ``verilated_kilocycles`` in the time in which CPython compiles part of its
library (`yardstick` of `bench.support.timing`). All must end with the same cycles.

`edits` makes each of `bench.support.edits.EDITS` in a copy of the packages, with nothing else. A
child process runs random programs there on the simulator that `cycle.simulate` chooses and on the
Verilated core: they must agree in every event and counter. It says, too, in how many programs the
cycle simulator would have been wrong.

`floats` compares all 2^32 products of two numbers of 16 bits: the Verilated datapath against NumPy.
A product is that of float32, where both factors are exact. The reference multiplies in NumPy (with
ml_dtypes for bfloat16) and makes every NaN the canonical one.

`geometries` takes 24 machines at the edges (blocks of 4 to 32, rectangular ones, batches, parts of
entries, buses, buffers over a factor of 16, stage depths). Each must be refused with its field and
rule, or pass `lockstep check` and run the digits network with the values that the host computes.

`units` is `lockstep check` of `examples/machines` with units of their own, in their geometry and in
`examples/geometries/2x8x8.toml`, with ``--count`` random programs each.

`sizes` takes 24 geometries that are no powers of two, or beyond 2 to 64 channels and buses of 4 to
64 bytes; buffers have odd numbers of entries. On each, the digits network gives what the host
computes, and so do ``--graphs`` random graphs (layers, and operators that move values: the
accelerator computes all that it takes, by the functional simulator). Of those with up to 32 lanes
``--count`` random programs, and the directed ones, agree on functional, cycle and slice simulators
and the RTL; of larger ones ``--large``: a core of 128 x 128 takes long to build.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import lockstep
from accel.datapath.floats import FORMATS
from accel.datapath.plan import arranged
from accel.machine import isa
from accel.machine.config import AccelConfig, ConfigError, load, preset, preset_names
from accel.machine.dram import Dram
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Run
from accel.machine.words import decode_words
from accel.mapping.target import AccelTarget
from accel.proof.legal import with_tokens
from accel.sim.rtl import verilated
from accel.sim.slice import simulator as slice_
from accel.sim.timed import cycle
from accel.sim.checking.check import check, ran
from accel.sim.checking.differences import differ_in_time
from accel.sim.checking.geometries import quick_simulators
from bench.frame import Bench, Sheet
from bench.support.edits import EDITS, edited_tree, judged
from bench.support.sizes import SIZES, digits_equal, geometry, graphs_equal, is_large
from bench.support.timing import yardstick
from tests.support.networks import convolution_graph, resnet50_graph
from compiler.frontend.onnx.importing import load as load_model
from compiler.graph.passes.pipeline import optimize
from compiler.te import numpy_dtype
from examples.digits.data import held_out
from lockstep.testing.models import DIGITS
from runtime import SimulatedDevice, compile_graph, simulator
from tests.support.float_bodies import BODIES
from tests.support.verilated_datapath import VerilatedDatapath

MEMORIES = {
    **{f"latency{latency}{'_stalls' if seed else ''}": Dram(latency, stall_seed=seed)
       for latency in (0, 7, 64, 256) for seed in (0, 9)},
    "hard": Dram(64, 16, 9, bytes_per_cycle=3.3, row_bytes=2048, row_miss=30, banks=4),
    "board": Dram(15, 3, bytes_per_cycle=2, row_bytes=1024, row_miss=4, row_closed=2, banks=4,
                  in_order=True, refresh_interval=625, refresh_cycles=8)}
WAITS, SIGNALS = 1, 2           # bytes of a word
NUMBERS = 1 << 16

IMAGES = 4              # of the digits, on each of the geometries
TURNS, SHORT_SECONDS = 8, 6.0       # runs that are timed, while they are so short together
GEOMETRIES: tuple[dict[str, int], ...] = (
    {}, {"block_in": 8}, {"block_out": 8}, {"block_in": 8, "block_out": 8},
    {"block_in": 16, "block_out": 4}, {"block_in": 4, "block_out": 16},
    {"block_in": 16, "block_out": 16}, {"block_in": 32, "block_out": 8},
    {"block_in": 8, "block_out": 32}, {"batch": 2}, {"batch": 4},
    {"batch": 2, "block_in": 8, "block_out": 8}, {"vector_beats": 2}, {"vector_beats": 4},
    {"batch": 2, "vector_beats": 4}, {"block_out": 16, "vector_beats": 8}, {"bus_bytes": 8},
    {"bus_bytes": 16}, {"bus_bytes": 64}, {"memory": 1}, {"memory": 16}, {"stage_depth": 1},
    {"stage_depth": 8}, {"vector_beats": 8})
"""Fields that differ from tiny-1x4x4; `memory` is how many quarters of its entries buffers have.
The last one has more parts than an entry has lanes, and is refused."""


def title(changes: Mapping[str, int]) -> str:
    return ",".join(f"{name}={value}" for name, value in changes.items()) or "tiny-1x4x4"


EXAMPLES = Path(__file__).parents[2] / "examples"
UNITS = ("two_vectors", "running_max", "softmax", "gather", "top_k")
"""Machines with units of their own."""

BENCH = Bench(__file__, __doc__, preset_names())
BENCH.option("--channels", type=int, default=64, help="of exact's convolution")
BENCH.option("--size", type=int, default=56, help="of exact's convolution")
BENCH.option("--cycles", type=int, default=5_000_000, help="of speed's digits, at least")
BENCH.option("--count", type=int, default=50, help="random programs for each machine")
BENCH.option("--graphs", type=int, default=60, help="random graphs for each of the sizes")
BENCH.option("--large", type=int, default=0, help="random programs for each large one of them")
BENCH.option("--programs", type=int, default=100, help="random programs for each of the edits")


@BENCH.part()
def exact(sheet: Sheet) -> None:
    runs = differences = 0
    for name, machine, program in _programs(sheet.machines, sheet.channels, sheet.size):
        image = random_image(program)
        verilated.build(machine)
        cycle.simulate(machine, program, image)         # compiled and loaded
        for memory, dram in MEMORIES.items():
            told, difference = _compare(machine, program, image, dram)
            print(f"{name}_{memory}", told, difference)
            runs, differences = runs + 1, differences + bool(difference)
    sheet.figure("exact_runs", runs)
    sheet.figure("exact_differences", differences)
    sheet.require(not differences)


@BENCH.part(("digits", "resnet50"), ("digits",), extra=True)
def speed(sheet: Sheet) -> None:
    machine = sheet.machine_or("pynq-1x16x16")
    for network in sheet.cases:
        program = (_repeated_digits(machine, sheet.cycles) if network == "digits" else
                   AccelTarget(machine).compile(resnet50_graph()).program)
        _speed(sheet, machine, program, "" if network == "digits" else f"{network}_")


@BENCH.part([*EDITS], extra=True)
def edits(sheet: Sheet) -> None:
    programs = different = stale = 0
    for name in sheet.cases:
        with tempfile.TemporaryDirectory() as folder:
            found = judged(edited_tree(Path(folder), name),
                           sheet.machine_or("tiny-1x4x4").config.name, sheet.programs, 1)
        wrong, values = len(found["different"]), found["has_values"]
        print(f"{name:43} {', '.join(found['simulators'])}{' with values' if values else ''}: "
              f"{wrong} of {found['programs']} differ, {found['cycles']:,} cycles; the cycle "
              f"simulator alone: {found['stale']}", flush=True)
        sheet.row(found | {"name": name})
        sheet.require(not wrong and values == EDITS[name].needs_values)
        programs, different = programs + found["programs"], different + wrong
        stale += found["stale"]
    sheet.figure("edited_programs", programs)
    sheet.figure("edited_differences", different)
    sheet.figure("edited_stale", stale)


@BENCH.part(("bfloat16", "float16"), extra=True)
def floats(sheet: Sheet) -> None:
    for dtype in sheet.cases:
        body = BODIES[f"product_of_{dtype}"]
        core = VerilatedDatapath(arranged("vector", (body,), (0,), body.dst.shape, stage_depth=8))
        begin, wrong = time.time(), 0
        for first in range(0, NUMBERS, 16):
            wrong += differing(core, dtype, np.arange(first, first + 16))
            if first % 4096 == 0:
                print(f"{dtype}: {first + 16} factors, {wrong} differ, "
                      f"{time.time() - begin:.0f} s", flush=True)
        print(f"{dtype}: {NUMBERS ** 2} products, {wrong} differ, {time.time() - begin:.0f} s")
        sheet.require(not wrong)


@BENCH.part([*map(title, GEOMETRIES)], extra=True)
def geometries(sheet: Sheet) -> None:
    for changes in (one for one in GEOMETRIES if title(one) in sheet.cases):
        result = judge(changes, sheet.count)
        print(f"{title(changes):28} {_told(result)}", flush=True)
        sheet.row(result | {"name": title(changes)})
        sheet.require(result["ok"])


@BENCH.part([*SIZES], extra=True)
def sizes(sheet: Sheet) -> None:
    for name in sheet.cases:
        begin, machine = time.perf_counter(), Machine(geometry(name))
        equal, nodes = digits_equal(machine), graphs_equal(machine, sheet.graphs)
        count = sheet.large if is_large(machine.config) else sheet.count
        report = check(machine, count, simulators=quick_simulators(machine)) if count else None
        difference = report and report.difference and report.difference.describe()
        checked = f"{report.programs} programs agree" if report else "no programs"
        print(f"{name:20} digits {'equal' if equal else 'DIFFER'}, {sheet.graphs} graphs equal "
              f"({nodes} operators), {difference or checked}, {time.perf_counter() - begin:.0f} s",
              flush=True)
        sheet.row({"name": name, "digits": equal, "graphs": sheet.graphs, "operators": nodes,
                   "programs": report.programs if report else 0, "difference": difference})
        sheet.require(equal and not difference)


@BENCH.part(UNITS, extra=True)
def units(sheet: Sheet) -> None:
    other = load(EXAMPLES / "geometries" / "2x8x8.toml")
    for name in sheet.cases:
        own = load_machine(EXAMPLES / "machines" / f"{name}.py")
        for machine in (own, in_geometry(own, other)):
            begin = time.perf_counter()
            report = check(machine, sheet.count, locate=False)
            wrong = report.difference.describe() if report.difference else ", ".join(
                (*report.empty, *report.missing))
            print(f"{name} in {machine.config.name}: {report.programs} programs, "
                  f"{report.instructions:,} instructions, {report.cycles:,} cycles, "
                  f"{time.perf_counter() - begin:.0f} s; {wrong or ran([report])}", flush=True)
            sheet.require(report.ok)


def in_geometry(machine: Machine, config: AccelConfig) -> Machine:
    """The units, buffers and instructions of a machine in another geometry."""
    return Machine(replace(config, structure=machine.structure,
                           vector_beats=machine.config.vector_beats), machine.declarations)


def _programs(machines: Mapping[str, Machine], channels: int,
              size: int) -> Iterator[tuple[str, Machine, AccelProgram]]:
    for name, machine in machines.items():
        for program in _digits(machine):
            yield f"digits_{name}", machine, program
        compiled = AccelTarget(machine).compile(convolution_graph(channels, channels, size))
        yield f"conv_{name}", machine, compiled.program


def _digits(machine: Machine) -> list[AccelProgram]:
    device = SimulatedDevice(machine, simulator("functional"))
    return [segment.program for segment in compile_graph(
        optimize(load_model(DIGITS)), AccelTarget(machine), device).accelerated]


def random_image(program: AccelProgram) -> np.ndarray:
    rng = np.random.default_rng(0)
    return program.image({slot.name: rng.integers(-128, 128, slot.shape).astype(slot.dtype)
                          for slot in program.inputs})


def _compare(machine: Machine, program: AccelProgram, image: np.ndarray,
             dram: Dram) -> tuple[str, str]:
    """The figures, and the first difference; empty if there is none."""
    ways: dict[str, Callable[[], Run]] = {
        "timing": lambda: cycle.simulate(machine, program, image, values=False, dram=dram),
        "values": lambda: cycle.simulate(machine, program, image, dram=dram),
        "RTL": lambda: verilated.simulate(machine, program, image, dram=dram)}
    found = {name: _timed(way) for name, way in ways.items()}
    rtl, _ = found["RTL"]
    rates = "  ".join(f"{name} {run.cycles / seconds / 1e6:.2f}"
                      for name, (run, seconds) in found.items())
    for run, _ in found.values():
        if difference := differ_in_time(run, rtl):
            return f"{rtl.cycles}  {rates}", f"{difference.index}: {difference.detail}"
    same = rtl.ok and np.array_equal(found["values"][0].memory, rtl.memory)
    return f"{rtl.cycles}  {rates}", "" if same else f"memory; {rtl.describe()}"


def _timed(way: Callable[[], Run]) -> tuple[Run, float]:
    begin = time.process_time()
    run = way()
    return run, time.process_time() - begin


def _repeated_digits(machine: Machine, cycles: int) -> AccelProgram:
    program, = _digits(machine)
    once = cycle.simulate(machine, program, values=False).cycles
    # Repeated, the images overlap: each takes somewhat less.
    return repeated(machine, program, -(-cycles * 11 // (10 * once)))


def _speed(sheet: Sheet, machine: Machine, program: AccelProgram, prefix: str) -> None:
    image = random_image(program)
    ways: dict[str, Callable[[], Run]] = {
        "cycle_timing": lambda: cycle.simulate(machine, program, image, values=False),
        "cycle_values": lambda: cycle.simulate(machine, program, image),
        "slice_timing": lambda: slice_.simulate(machine, program, image, values=False),
        "cycle_timeline": lambda: cycle.simulate(machine, program, image, timeline=True),
        "verilated": lambda: verilated.simulate(machine, program, image)}
    ways["cycle_values"]()                      # compiled and loaded
    verilated.build(machine)
    slice_.sliced_core(machine)
    found = {name: timed(way) for name, way in ways.items()}
    rates = {name: run.cycles / seconds / 1e6 for name, (run, seconds) in found.items()}
    sheet.figure(f"{prefix}simulated_cycles", found["verilated"][0].cycles)
    sheet.figure(f"{prefix}verilated_kilocycles", rates["verilated"] * 1e3 * yardstick(), ".1f")
    for name, rate in rates.items():
        sheet.figure(f"{prefix}{name}_rate", rate, ".2f")
    for name in ("cycle_timing", "cycle_values", "slice_timing"):
        sheet.figure(f"{prefix}{name}_ratio", rates[name] / rates["verilated"], ".1f")
    sheet.figure(f"{prefix}slice_part", rates["slice_timing"] / rates["cycle_timing"], ".3f")
    sheet.require(same([run for name, (run, _) in found.items() if name != "slice_timing"]))
    sheet.require(differ_in_time(found["slice_timing"][0], found["verilated"][0]) is None)


def repeated(machine: Machine, program: AccelProgram, times: int) -> AccelProgram:
    """Repeats the stream, with new tokens, so that the repetitions overlap legally."""
    *stream, finish = decode_words(machine, program.words)
    words = np.concatenate([np.tile(program.words[:-1], (times, 1)), program.words[-1:]])
    for word, one in zip(words, with_tokens(machine, [*stream * times, finish]), strict=True):
        word[WAITS], word[SIGNALS] = isa.unit_mask(one.waits), isa.unit_mask(one.signals)
    return replace(program, words=words, layers=())


def timed(way: Callable[[], Run]) -> tuple[Run, float]:
    """The run, and the best processor time of two, or of more while they are short, in seconds."""
    run, seconds = _timed(way)
    times = [seconds]
    while len(times) < 2 or len(times) < TURNS and sum(times) < SHORT_SECONDS:
        run, seconds = _timed(way)
        times.append(seconds)
    return run, min(times)


def same(runs: list[Run]) -> bool:
    """Whether all runs agree: in events, and in memory where there are values (all but the first).
    """
    first, *others = runs
    return all(run.ok and run.cycles == first.cycles and np.array_equal(run.start, first.start)
               and np.array_equal(run.retire, first.retire)
               and np.array_equal(run.memory, others[0].memory) for run in others)


def differing(core: VerilatedDatapath, dtype: str, factors: np.ndarray) -> int:
    """How many products of `factors` (bits) with every number of the type differ."""
    lanes = core.plan.shape[0]
    every = np.arange(NUMBERS, dtype=np.uint16)
    a, b = (x.reshape(-1, lanes) for x in (np.repeat(factors.astype(np.uint16), NUMBERS),
                                           np.tile(every, len(factors))))
    got = core.run({"a": a, "b": b}).view(np.uint32)
    with np.errstate(all="ignore"):
        want = (a.view(numpy_dtype(dtype)).astype(np.float32)
                * b.view(numpy_dtype(dtype)).astype(np.float32))
    raw = np.where(np.isnan(want), np.uint32(FORMATS["float32"].nan), want.view(np.uint32))
    return int((got != raw).sum())


def configured(changes: dict[str, int]) -> AccelConfig:
    """The geometry: with as many entries as tiny-1x4x4 unless told. Raises ConfigError."""
    base = preset("tiny-1x4x4")
    fields: dict[str, Any] = {"name": title(changes), **changes}
    quarters = fields.pop("memory", 4)
    rows, into, outof = (fields.get(name, getattr(base, name))
                         for name in ("batch", "block_in", "block_out"))
    entry = {"inp": rows * into, "wgt": outof * into, "res": rows * outof, "par": 8 * outof,
             "acc": 4 * rows * outof, "out": rows * outof}
    for name, size in entry.items():
        fields[f"{name}_bytes"] = size * base.buffers[name].depth * quarters // 4
    return replace(base, **fields)


def judge(changes: dict[str, int], count: int) -> dict[str, Any]:
    """What became of a geometry: refused, or programs that agree and cycles of the network."""
    begin = time.perf_counter()
    try:
        machine = Machine(configured(changes))
    except ConfigError as error:
        return {"refused": str(error), "ok": any(name in str(error) for name in changes)}
    report = check(machine, count)
    images = held_out()[0][:IMAGES]
    module = lockstep.compile(DIGITS, machine=machine, sim="cycle")
    wanted = lockstep.compile(DIGITS, "cpu")
    equal = True
    cycles = 0
    for image in images:
        values = []
        for one in (module, wanted):
            one.set_input("image", image[None])
            runs = one.run()
            values.append(one.get_output("logits").copy())
            cycles = sum(run.cycles for run in runs) or cycles
        equal &= np.array_equal(*values)
    return {"ok": report.difference is None and equal, "equal": equal, "cycles": cycles,
            "programs": report.programs, "difference": report.difference and
            report.difference.describe(), "seconds": round(time.perf_counter() - begin, 1)}


def _told(result: dict[str, Any]) -> str:
    if "refused" in result:
        return f"refused: {result['refused']}"
    return (f"{'ok' if result['ok'] else 'FAILS'}, {result['programs']} programs, digits "
            f"{'equal' if result['equal'] else 'DIFFER'} in {result['cycles']:,} cycles, "
            f"{result['seconds']} s")
