"""What do single layers cost on the accelerator: depthwise, random, and with two virtual threads?

`depthwise` runs MobileNet-v1's depthwise layers, each behind a layer that makes its input, on the
cycle simulator, times only. Prints cycles, block products (0 where an instruction of vector
multiplies), the traffic on the bus in cycles and what gemm waited for; then ``depthwise_cycles``
and ``depthwise_products``.

`double_buffering` runs one convolution (3x3, 128 -> 128 channels, 28x28) in RTL: cycles of one
schedule with one and with two virtual threads, the share that two threads save, the array's limit
(one block product a cycle), and the cycles of one thread with the tiles that the cost model finds
best for a single thread, which may fill whole buffers, with the share that two threads save of
those. Among tiles that take about as long the compiler takes those of the least traffic:
``conv_cycles_fewest`` are the cycles of the cheapest, ``..._bus`` what each of the two moves, in
cycles of the bus.

`random_layers` draws ``--count`` convolutions (kernels 1 to 7, strides and dilations 1 to 3,
groups, odd sizes, 1 to 300 channels), each behind a change of scale, which leaves its input in the
accelerator's layout, compiles each for three presets and compares the cycle simulator with the
integer reference. Real cycles are those from the end of the previous layer to its own end, ideal
ones the larger of those for its products and for its compulsory bytes. Prints the layers whose
ratio is above 3, with the main stall of their carrier, and ``layers``, ``layers_wrong``,
``layers_refused``, ``layers_ratio`` (geometric mean) and ``layers_worst``.
"""

import sys
from dataclasses import dataclass
from statistics import geometric_mean

import numpy as np
from rich.progress import track

from accel.figures.attribution import activities, layer_ends
from accel.figures.layers import layer_rows
from accel.figures.traffic import dram_bytes
from accel.machine.machine import Machine
from accel.machine.status import STALLS
from accel.mapping.assembling import assemble
from accel.mapping.memory.layout import from_blocked, to_plain
from accel.mapping.plans.work import block_products
from accel.mapping.schedules import Tiles, schedule, tiles_of
from accel.mapping.schedules.demands import cost_of
from accel.mapping.schedules.ranking import all_that_fit
from accel.mapping.schedules.tiles import shape_of
from accel.mapping.target import AccelTarget
from accel.sim.rtl import verilated
from accel.sim.timed import cycle
from accel.sim.timed.cycle import simulate
from bench.frame import Bench, Sheet
from tests.support.networks import convolution_graph, depthwise_graph, layer_graph
from compiler.graph.graph import Graph
from compiler.graph.reference import evaluate
from lockstep.printing.columns import largest_stall

PRESETS = ("ecp5-1x8x8", "ecp5-1x16x16", "pynq-1x16x16")
WORST = 3
LAYERS = ((32, 112, 1), (64, 112, 2), (128, 56, 1), (128, 56, 2), (256, 28, 1), (256, 28, 2),
          (512, 14, 1), (512, 14, 1), (512, 14, 1), (512, 14, 1), (512, 14, 1), (512, 14, 2),
          (1024, 7, 1))
"""Channels, pixels of a side, stride."""

BENCH = Bench(__file__, __doc__, "pynq-1x16x16", seed=0)
BENCH.option("--dram-latency", type=int, default=64, metavar="CYCLES", help="not of random layers")
BENCH.option("--channels", type=int, default=128, help="of double_buffering")
BENCH.option("--size", type=int, default=28, help="of double_buffering")
BENCH.option("--count", type=int, default=200, help="of random_layers")


@BENCH.part()
def depthwise(sheet: Sheet) -> None:
    made = {layer: measure(sheet.machine, layer, sheet.dram_latency)
            for layer in dict.fromkeys(LAYERS)}
    sheet.figure("depthwise_cycles", sum(made[layer][0] for layer in LAYERS))
    sheet.figure("depthwise_products", sum(made[layer][1] for layer in LAYERS))


def measure(machine: Machine, layer: tuple[int, int, int], latency: int) -> tuple[int, int]:
    """Runs and prints one layer; returns its cycles and its products."""
    channels, size, stride = layer
    compiled = AccelTarget(machine).compile(depthwise_graph(channels, size, stride))
    run = simulate(machine, compiled.program, values=False, timeline=True, latency=latency)
    assert run.ok and run.timeline is not None, run.describe()
    ends = layer_ends(compiled.program, run)
    cycles, products = int(ends[1] - ends[0]), block_products(compiled.layers[1])
    gemm = activities(run.timeline, [*ends, run.cycles])[1]["gemm"]
    moved = int(dram_bytes(machine, compiled.program)[compiled.program.layers[0][1]:].sum())
    bus = -(-moved // machine.config.bus_bytes)
    waits = ", ".join(f"{cause} {gemm[cause] / cycles:.1%}" for cause in STALLS if gemm[cause])
    tiles, _ = tiles_of(machine, compiled.layers[1].operator, 2)
    ratio = f", {cycles / products:.3f}" if products else ""
    print(f"{size:3}x{size:<3} x {channels:<4} stride {stride}: {cycles:8,} cycles, "
          f"{products:8,} products{ratio}; {bus:7,} of traffic; gemm waits for "
          f"{waits or 'nothing'}; tile {tiles.rows}x{tiles.columns}x{tiles.channels}", flush=True)
    return cycles, products


@BENCH.part()
def double_buffering(sheet: Sheet) -> None:
    machine = sheet.machine
    graph = convolution_graph(sheet.channels, sheet.channels, sheet.size, seed=0)
    layer = AccelTarget(machine).compile(graph).layers[0]
    x = np.random.default_rng(0).integers(-128, 128, graph.values["x"].shape).astype(np.int8)
    wanted = evaluate(graph, {"x": x})["y"]

    def cycles(tiles: Tiles, threads: int) -> int:
        loops = schedule(machine, layer.operator, tiles, threads).program
        constants = {layer.operator[role].name: array for role, array in layer.constants.items()}
        program = assemble(machine, loops, constants)
        run = verilated.simulate(machine, program, latency=sheet.dram_latency,
                                 inputs={layer.operator["x"].name: to_plain(x)})
        stored = program.extract(run.memory, layer.operator.output.name)
        made = from_blocked(stored.reshape(*stored.shape[:4], -1), wanted.shape)
        assert run.ok and np.array_equal(made, wanted), "the result must be right"
        return run.cycles

    def bus(tiles: Tiles) -> int:
        return int(cost_of(machine.config, shape, tiles, 2).traffic)

    shape = shape_of(layer.operator)
    best, _ = tiles_of(machine, layer.operator, 2)
    fewest = all_that_fit(machine.config, shape, 2)[0]
    alone, _ = tiles_of(machine, layer.operator, 1)
    one, two, single = cycles(best, 1), cycles(best, 2), cycles(alone, 1)
    sheet.figure("conv_cycles_one_thread", one)
    sheet.figure("conv_cycles_two_threads", two)
    sheet.figure("conv_cycles_two_threads_bus", bus(best))
    sheet.figure("conv_cycles_fewest", cycles(fewest, 2))
    sheet.figure("conv_cycles_fewest_bus", bus(fewest))
    sheet.figure("conv_cycles_limit", block_products(layer))
    sheet.figure("conv_cycles_saved", 1 - two / one, ".4f")
    sheet.figure("conv_cycles_one_thread_own_tiles", single)
    sheet.figure("conv_cycles_saved_own_tiles", 1 - two / single, ".4f")


@BENCH.part()
def random_layers(sheet: Sheet) -> None:
    rng = np.random.default_rng(sheet.seed)
    layers = [Layer.random(rng) for _ in range(sheet.count)]
    machines = sheet.machines_or(PRESETS).values()
    ratios, wrong, refused = [], 0, 0
    for number, layer in enumerate(track(layers, "layers", disable=not sys.stderr.isatty())):
        graph = layer_graph(seed=number, **vars(layer))
        x = np.random.default_rng(number).integers(
            -128, 128, graph.values[graph.inputs[0]].shape).astype(np.int8)
        wanted = evaluate(graph, {graph.inputs[0]: x})[graph.outputs[0]]
        for machine in machines:
            if reason := AccelTarget(machine).refusal(graph, graph.nodes[1]):
                refused += 1
                print(f"  {machine.config.name} refuses {layer}: {reason}")
                continue
            right, ratio, stall = run(machine, graph, x, wanted)
            wrong += not right
            ratios.append(ratio)
            if ratio > WORST or not right:
                print(f"  {machine.config.name}: {ratio:.2f}{'' if right else ' WRONG'} {layer}; "
                      f"{stall}", flush=True)
    sheet.figure("layers", len(ratios) + refused)
    sheet.figure("layers_wrong", wrong)
    sheet.figure("layers_refused", refused)
    sheet.figure("layers_ratio", geometric_mean(ratios), ".3f")
    sheet.figure("layers_worst", max(ratios), ".2f")
    sheet.require(not wrong)


@dataclass(frozen=True)
class Layer:
    inputs: int
    outputs: int
    size: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int, int, int]
    group: int

    @classmethod
    def random(cls, rng: np.random.Generator) -> "Layer":
        def pair(low: int, high: int) -> tuple[int, int]:
            return int(rng.integers(low, high + 1)), int(rng.integers(low, high + 1))

        kernel, strides, dilations = pair(1, 7), pair(1, 3), pair(1, 3)
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        top, left, bottom, right = (int(rng.integers(0, edge // 2 + 1))
                                    for edge in (*reach, *reach))
        height, width = (max(edge, int(rng.integers(7, 58))) for edge in reach)
        inputs, outputs = pair(1, 300)
        group = 1
        if rng.random() < 0.3:              # depthwise, or groups of any number of channels
            group = int(rng.integers(1, 33))
            inputs = outputs = max(1, inputs // group) * group
            group = inputs if rng.random() < 0.5 else group
        return cls(inputs, outputs, (height, width), kernel, strides, dilations,
                   (top, left, bottom, right), group)


def run(machine: Machine, graph: Graph, x: np.ndarray,
        wanted: np.ndarray) -> tuple[bool, float, str]:
    """Whether the values are right, the ratio of real to ideal cycles, and the layer's main stall.
    """
    compiled = AccelTarget(machine).compile(graph)
    slot, = compiled.program.inputs
    made = cycle.simulate(machine, compiled.program, inputs={slot.name: to_plain(x)},
                          timeline=True)
    stored = compiled.program.extract(made.memory, compiled.program.outputs[0].name)
    first, *rows, _ = layer_rows(machine, compiled.program, compiled.work, made)
    cycles, ideal = sum(row.cycles for row in rows), sum(row.ideal_cycles for row in rows)
    return (np.array_equal(from_blocked(stored, wanted.shape), wanted), cycles / ideal,
            f"{cycles} cycles, ideal {ideal}, {largest_stall(rows[0])}")
