"""How busy is the array? Whole networks on the accelerator, in cycles of the cycle simulator.

Int8 networks of `examples.zoo`, 224 x 224: the network's input is plain NHWC, and reformatting
counts. `networks` prints for each NETWORK

``NETWORK_cycles``         first layer to logits
``NETWORK_utilization``    useful multiply-accumulates of those that the array could have done, %
``NETWORK_ratio``          geometric mean over the layers of cycles by ideal cycles
``NETWORK_compile_seconds``  legality included, processor time
``NETWORK_compile_time``   the same by the time in which CPython compiles part of its library
``NETWORK_second_compile_s``  `lockstep compile` of what the cache has: the whole process, its
                             processor time
``NETWORK_second_call_s``  the same as a call of `runtime.compile_for`

and of ResNet-18 ``resnet18_conv_cycles``, the convolutions but for the stem and the last (dense)
layer, with the residual additions that are computed beside them, and ``resnet18_latency_cost``, the
share of cycles that latency 256 costs more than latency 0, %; of MobileNet-v1
``mobilenet_v1_depthwise_cycles``. ``--layers`` prints every layer.

`latency_hiding` prints cycles of ResNet-18 with one and with two virtual threads at several
latencies; ``--picture FILE.svg`` draws them. `machines` runs networks on the presets and on two
custom geometries: the outputs must equal the integer reference, with ``--rtl`` those of the
Verilated core and its cycles as well.

`shared`: what a shared scratchpad of ``--kib`` saves behind the machine. Prints for each NETWORK

``NETWORK_kib``, ``NETWORK_shared_kib``  DRAM bytes of activations between layers, those of
    weights, the input and the output left out, without and with the scratchpad
``NETWORK_left``         the second by the first, %
``NETWORK_beyond_left``  the same of all DRAM bytes of load and store beyond one load of all
    constants, the input and the output: weights that tiles load again count, too
``NETWORK_cycles``, ``NETWORK_shared_cycles``  of the cycle simulator
``NETWORK_time_left``    the second by the first, %

`shared_exact`: that ResNet-18 gives on that machine what the integer reference does, in the cycle
simulator and in RTL, in the same cycles.

`channels`: what several memory channels save, each of which moves ``--rate`` bytes a cycle. The
programs are those of one channel, as no tiling depends on their number. Prints for each NETWORK

``NETWORK_channels_N_RATE``  cycles

`published`: machines of `examples/machines/published` beside what was published of them; ``--keep``
writes the figures that docs/published.md has, which the command else compares.

`array_128`: how near ResNet-50 comes to what padding leaves of an array of 128 x 128, in the
machine of that name and with adder trees in its place, on its bus and, with --buses, on others.
Prints for either, and for another bus as ``DATAFLOW_BUS_cycles``

``DATAFLOW_cycles``, ``DATAFLOW_products``  the second are those of its products, padding included
``DATAFLOW_of_bound``    the second by the first, %
``DATAFLOW_behind_stem`` the same of all layers but the first, with its pooling
``DATAFLOW_of_roof``     by the first, too, %: cycles of the busiest of products, beats of load and
    beats of store, layer by layer
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import geometric_mean
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import onnx

from accel.figures.layers import LayerRow, layer_rows
from accel.figures.traffic import dram_bytes
from accel.machine import isa
from accel.machine.config import ADDER_TREE, WEIGHT_STATIONARY, preset
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.machine.status import Run
from accel.machine.words import column
from accel.mapping.compiled import CompiledSegment
from accel.mapping.memory.layout import from_memory, to_memory
from accel.mapping.target import AccelTarget
from accel.sim.rtl import verilated
from accel.sim.timed import cycle
from bench.frame import Bench, Sheet
from bench.support import published as others
from bench.support.roofs import roofs
from bench.support.timing import yardstick
from compiler.frontend.onnx.importing import convert
from compiler.graph import Graph, optimize, partition
from compiler.graph.division.partition import ACCEL, subgraph
from compiler.graph.division.protocols import Executable
from compiler.graph.reference import evaluate
from lockstep.testing import zoo
from runtime import SimulatedDevice, compile_for, simulator

NETWORKS = ("resnet18", "resnet50", "mobilenet_v1", "squeezenet")
LATENCIES = (0, 16, 64, 256)
CHANNELS = (1, 2, 4)
Rows = list[LayerRow]
PYNQ = preset("pynq-1x16x16")
OWN = {"2x16x16": replace(PYNQ, name="own-2x16x16", batch=2),
       "1x32x32": replace(PYNQ, name="own-1x32x32", block_in=32, block_out=32, bus_bytes=16)}
MACHINES = ("tiny-1x4x4", "ecp5-1x8x8", "ecp5-1x16x16", "pynq-1x16x16", *OWN)

BENCH = Bench(__file__, __doc__, "pynq-1x16x16",
              load=lambda name: Machine(OWN[name]) if name in OWN else load_machine(
                  others.file_of(name)))
BENCH.option("--effort", type=int, choices=range(3), default=0, help="of choosing tilings")
BENCH.option("--layers", action="store_true")
BENCH.option("--picture", type=Path, metavar="FILE.svg")
BENCH.option("--rtl", action="store_true", help="of machines, the Verilated core, too")
BENCH.option("--kib", type=int, default=256, metavar="N", help="of shared, the scratchpad")
BENCH.option("--rate", type=float, nargs="+", default=[8.0, 4.0, 2.0], metavar="R",
             help="of channels, bytes a cycle of each (8 4 2)")
BENCH.option("--buses", type=int, nargs="+", default=[], metavar="B",
             help="of array_128, bytes of the bus (the machine's)")
BENCH.option("--keep", action="store_true", help="of published, what the page has")


@BENCH.part(zoo.NETWORKS, NETWORKS)
def networks(sheet: Sheet) -> None:
    for name in sheet.cases:
        segment, seconds = compiled_twice(sheet.machine, name, [*sheet.machines][0], sheet.effort)
        rows, done = timed(sheet.machine, segment)
        summary(sheet, name, rows, done)
        for figure, value in seconds.items():
            sheet.figure(f"{name}_{figure}", value, ".2f")
        if name == "resnet18":
            residual(sheet, segment, rows)
        if name == "mobilenet_v1":
            sheet.figure(f"{name}_depthwise_cycles", sum(
                row.cycles for row, group in zip(rows, segment.work, strict=False)
                if group[0].node.attrs.get("group", 1) > 1))


@BENCH.part(extra=True)
def latency_hiding(sheet: Sheet) -> None:
    cycles = {threads: [timed(sheet.machine, segment, latency)[1].cycles for latency in LATENCIES]
              for threads in (1, 2)
              for target in (AccelTarget(sheet.machine, threads),)
              for segment in (target.compile(accelerated("resnet18", target)),)}
    print("latency | one virtual thread | two | saved")
    for latency, one, two in zip(LATENCIES, *cycles.values(), strict=True):
        print(f"{latency:7} | {one:18,} | {two:,} | {1 - two / one:.1%}")
    if sheet.picture:
        sheet.picture.write_text(picture(cycles))


@BENCH.part(zoo.NETWORKS, NETWORKS, extra=True)
def machines(sheet: Sheet) -> None:
    for name in sheet.cases:
        graph = accelerated(name, AccelTarget(Machine(PYNQ)))
        x = np.random.default_rng(1).integers(-128, 128, graph.values[graph.inputs[0]].shape)
        inputs = {graph.inputs[0]: x.astype(np.int8)}
        wanted = evaluate(graph, inputs)
        for machine in sheet.machines_or(MACHINES).values():
            sheet.require(measure(name, machine, graph, inputs, wanted, sheet.rtl))


@BENCH.part(zoo.NETWORKS, ("resnet18", "vgg11"), extra=True)
def channels(sheet: Sheet) -> None:
    for name in sheet.cases:
        target = AccelTarget(sheet.machine)
        program = target.compile(accelerated(name, target)).program
        for rate in sheet.rate:
            for count in CHANNELS:
                machine = with_channels(sheet.machine, count, rate)
                run = cycle.measure(machine, replace(program, machine_hash=machine.hash,
                                                     machine=machine.record))
                sheet.require(run.ok)
                sheet.figure(f"{name}_channels_{count}_{rate:g}", run.cycles)


def with_channels(machine: Machine, count: int, rate: float) -> Machine:
    config = machine.config
    return Machine(replace(config, name=f"channels-{count}", channels=count, memory=replace(
        config.memory, bytes_per_cycle=min(rate, config.bus_bytes))), machine.declarations)


def accelerated(name: str, target: AccelTarget) -> Graph:
    """The accelerator's part of a network: all but its ends, which are float."""
    graph = optimize(convert(zoo.build(name, int8=True), name))
    parts = partition(graph, lambda node: target.refusal(graph, node))
    taken, = (one for one in parts.segments if one.target == ACCEL)
    return subgraph(graph, taken)


def compiled_twice(machine: Machine, name: str, config: str, effort: int = 0
                   ) -> tuple[Executable, dict[str, float]]:
    """The compiled network, and the seconds of compiling it and of loading it from its own cache.
    """
    with TemporaryDirectory() as folder, patch.dict(os.environ, LOCKSTEP_CACHE=folder):
        path = Path(folder) / f"{name}.onnx"
        onnx.save(zoo.build(name, int8=True), path)
        device = SimulatedDevice(machine, cycle.simulate)
        peer = yardstick()
        begin = time.process_time()
        segment, = compile_for(path, device, effort=effort).accelerated
        first = time.process_time() - begin
        peer = min(peer, yardstick())
        begin = time.process_time()
        compile_for(path, device, effort=effort)
        call = time.process_time() - begin
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "lockstep", "compile", path, "-o", f"{path}.lockstep",
                        "--target", f"accel:{config}", "--effort", str(effort), "--plans", "own"],
                       check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        process = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        assert len(list(Path(folder).glob("networks/*/"))) == 1, "the cache must have had it"
    return segment, {"compile_seconds": first, "compile_time": first / peer,
                     "second_compile_s": process, "second_call_s": call}


def residual(sheet: Sheet, segment: Executable, rows: Rows) -> None:
    convolutions = [row for row in rows if "qconv2d" in row.op.split(" + ")]
    sheet.figure("resnet18_conv_cycles", sum(row.cycles for row in convolutions[1:]))
    near, far = (timed(sheet.machine, segment, latency)[1].cycles for latency in (0, 256))
    sheet.figure("resnet18_latency_cost", 100 * (far / near - 1), ".2f")


def timed(machine: Machine, segment: CompiledSegment | Executable,
          latency: int = 64) -> tuple[Rows, Run]:
    run = cycle.simulate(machine, segment.program, values=False, latency=latency)
    return layer_rows(machine, segment.program, segment.work, run), run


def summary(sheet: Sheet, name: str, rows: Rows, done: Run) -> None:
    for row in rows if sheet.layers else ():
        print(f"  {row.name:24} {row.op:20} {row.cycles:9} {row.ideal_cycles:9} "
              f"{row.cycles / max(1, row.ideal_cycles):5.2f}")
    sheet.figure(f"{name}_cycles", done.cycles)
    macs = sum(row.macs for row in rows)
    sheet.figure(f"{name}_utilization",
               100 * macs / (done.cycles * sheet.machine.config.macs_per_cycle), ".2f")
    sheet.figure(f"{name}_ratio", geometric_mean(
        row.cycles / row.ideal_cycles for row in rows if row.ideal_cycles), ".3f")


def picture(cycles: Mapping[int, Sequence[int]]) -> str:
    """Draws both cycle counts for each latency as bars, in SVG."""
    width, height, left, top = 640, 320, 60, 40
    most = max(map(max, cycles.values()))
    scale = (height - top - 40) / most
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
             f'font-family="sans-serif" font-size="13">',
             f'<text x="{left}" y="20">ResNet-18: million cycles by memory latency, with one and '
             f'with two virtual threads</text>']
    step = (width - left) / len(LATENCIES)
    for place, latency in enumerate(LATENCIES):
        middle = left + step * (place + 0.5)
        parts.append(f'<text x="{middle:.0f}" y="{height - 12}" text-anchor="middle">'
                     f'{latency} cycles</text>')
        for side, (threads, colour) in enumerate(((1, "#b8c4d6"), (2, "#2f5d9b"))):
            value = cycles[threads][place]
            x, tall = middle - 44 + 46 * side, value * scale
            parts += [f'<rect x="{x:.0f}" y="{height - 32 - tall:.1f}" width="42" '
                      f'height="{tall:.1f}" fill="{colour}"/>',
                      f'<text x="{x + 21:.0f}" y="{height - 36 - tall:.1f}" text-anchor="middle">'
                      f'{value / 1e6:.2f}</text>']
    return "\n".join([*parts, "</svg>", ""])


def measure(name: str, machine: Machine, graph: Graph, inputs, wanted, rtl: bool) -> bool:
    """Compiles, runs and compares one network, and prints its line."""
    begin = time.process_time()
    compiled = AccelTarget(machine).compile(graph)
    compiling = time.process_time() - begin
    segment = compiled.on(SimulatedDevice(machine, cycle.simulate))
    begin = time.perf_counter()
    made = segment(inputs)
    outputs, run = made.values, made.run
    running = time.perf_counter() - begin
    right = all((outputs[value] == wanted[value]).all() for value in graph.outputs)
    macs = sum(row.macs for row in layer_rows(machine, compiled.program, compiled.work, run))
    line = (f"{name:13} {machine.config.name:14} {run.cycles:13,} cycles  "
            f"array {macs / run.cycles / machine.config.macs_per_cycle:6.1%}  "
            f"compiled {compiling:5.1f} s  run {running:5.1f} s  "
            f"values {'equal' if right else 'DIFFER'}")
    if rtl:
        core = compiled.on(SimulatedDevice(machine, simulator("verilator")))
        begin = time.perf_counter()
        same = core(inputs)
        seconds = time.perf_counter() - begin
        agrees = same.run.cycles == run.cycles and all(
            (same.values[value] == outputs[value]).all() for value in graph.outputs)
        line += f"  RTL {'equal' if agrees else 'DIFFERS'}, {seconds:.1f} s"
        right &= agrees
    print(line, flush=True)
    return right


@BENCH.part(zoo.NETWORKS, ("vgg11", "resnet50"), extra=True)
def shared(sheet: Sheet) -> None:
    for name in sheet.cases:
        found = [figures_of(machine, name) for machine in (sheet.machine, with_shared(sheet))]
        (before, beyond, cycles), (after, less, faster) = found
        sheet.figure(f"{name}_kib", before / 1024, ",.0f")
        sheet.figure(f"{name}_shared_kib", after / 1024, ",.0f")
        sheet.figure(f"{name}_left", 100 * after / before, ".1f")
        sheet.figure(f"{name}_beyond_left", 100 * less / beyond, ".1f")
        sheet.figure(f"{name}_cycles", cycles)
        sheet.figure(f"{name}_shared_cycles", faster)
        sheet.figure(f"{name}_time_left", 100 * faster / cycles, ".1f")


def with_shared(sheet: Sheet) -> Machine:
    """The machine with a scratchpad."""
    config = replace(sheet.machine.config, name="shared", shared_bytes=sheet.kib << 10)
    return Machine(config, sheet.machine.declarations)


def figures_of(machine: Machine, name: str) -> tuple[int, int, int]:
    """The DRAM bytes of activations, those beyond what must move once, and the cycles."""
    target = AccelTarget(machine)
    program = target.compile(accelerated(name, target)).program
    moved = dram_bytes(machine, program)
    between = column(isa.DMA, program.words, "base") == isa.BASES.index("activations")
    once = program.weights.size + sum(
        slot.size_bytes for slot in (*program.inputs, *program.outputs))
    return (int(moved[between].sum()), int(moved.sum()) - once,
            cycle.measure(machine, program).cycles)


@BENCH.part(extra=True)
def shared_exact(sheet: Sheet) -> None:
    machine = with_shared(sheet)
    target = AccelTarget(machine)
    graph = accelerated("resnet18", target)
    x = np.random.default_rng(1).integers(-128, 128, graph.values[graph.inputs[0]].shape)
    inputs = {graph.inputs[0]: x.astype(np.int8)}
    program, wanted = target.compile(graph).program, evaluate(graph, inputs)
    image = program.image({slot.name: to_memory(inputs[slot.name], slot.layout)
                           for slot in program.inputs})
    runs = [simulate(machine, program, image) for simulate in (cycle.simulate, verilated.simulate)]
    for run in runs:
        sheet.require(run.ok and run.cycles == runs[0].cycles)
        for slot in program.outputs:
            found = from_memory(program.extract(run.memory, slot.name), slot.layout, slot.logical)
            sheet.require(bool((found == wanted[slot.name]).all()))
    sheet.figure("resnet18_exact_cycles", runs[0].cycles)


@BENCH.part(zoo.NETWORKS, extra=True)
def published(sheet: Sheet) -> None:
    others.compare(sheet)


@BENCH.part(extra=True)
def array_128(sheet: Sheet) -> None:
    own = load_machine(others.file_of("array_128"))
    graph = accelerated("resnet50", AccelTarget(own))
    for bus, dataflow in product(sheet.buses or [own.config.bus_bytes],
                                 (WEIGHT_STATIONARY, ADDER_TREE)):
        machine = Machine(replace(own.config, dataflow=dataflow, bus_bytes=bus), own.declarations)
        name = dataflow if bus == own.config.bus_bytes else f"{dataflow}_{bus}"
        every = roofs(machine, AccelTarget(machine).compile(graph))
        cycles, products, behind = (sum(roof.row.cycles for roof in every),
                                    sum(roof.products for roof in every), every[1:])
        sheet.figure(f"{name}_cycles", cycles)
        sheet.figure(f"{name}_products", products)
        sheet.figure(f"{name}_of_bound", 100 * products / cycles, ".1f")
        sheet.figure(f"{name}_behind_stem", 100 * sum(roof.products for roof in behind)
                     / sum(roof.row.cycles for roof in behind), ".1f")
        sheet.figure(f"{name}_of_roof", 100 * sum(roof.cycles for roof in every) / cycles, ".1f")
