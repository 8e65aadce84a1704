"""What do weights of 4 bits, and 2:4 sparse ones, save, and what do floats of few bits keep?

`packed`: int8 networks of `examples.zoo` with 8-bit weights on the machine as it is, and with
weights of ``--bits`` in all layers but the first and the last on the same machine with
``weight_bits = [8, 4]``, in the cycle simulator, with memories of the whole bus, half of it and a
quarter. Prints for each NETWORK

``NETWORK_weights_saved``  share of the bytes loaded to wgt that are gone, %
``NETWORK_bytes_saved``    the same of all bytes between memory and buffers
``NETWORK_cycles_saved_full``, ``..._half``, ``..._quarter``  of cycles, by the rate of the memory
``NETWORK_fastest_layer``  the most that a layer gains at the full rate, times

`accuracy` prints the share of the held-out digits that the accelerator gets right, by the bits of
weights (``digits_8``, ``digits_4``, ``digits_2``; needs scikit-learn).

`sparse`: networks with their own weights and with pruned ones, times only, on the shipped machine,
on that of `examples/machines/sparse.py` and on that of `halved.py`, which has half the multipliers.
Prints ``NETWORK weights machine``, the cycles with a memory of the whole bus and of a quarter, the
bytes loaded to wgt and the multipliers of gemm.

`floats`: the digits network on 64 held-out images, and gpt_small, in int8 on the machine as it is
(`tiny-1x4x4` for digits) and in each type of `examples/machines/fp8.py` on the same geometry.
Prints for each ``NETWORK_TYPE_decibels``, the signal to noise of the outputs, and
``NETWORK_TYPE_cycles``, those of the accelerator for one inference in the cycle simulator.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import lockstep

from accel.datapath.plan import plan
from accel.figures.layers import layer_rows
from accel.figures.traffic import dram_bytes
from accel.machine import isa
from accel.machine.config import preset
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.words import decode_words
from accel.mapping.compiled import CompiledSegment
from accel.mapping.target import AccelTarget
from accel.sim.timed import cycle
from bench.frame import Bench, Sheet
from compiler.frontend.onnx.importing import convert
from compiler.graph import Graph, optimize, partition
from compiler.graph.division.partition import ACCEL, subgraph
from compiler.ops.records.stored_floats import STORED_FLOATS
from compiler.quantize import quantize, quantize_ranges
from examples.machines import fp8
from lockstep.testing import zoo
from lockstep.testing.networks.parameters import fill

EXAMPLES = Path(__file__).parents[2] / "examples"
FLOAT = EXAMPLES / "digits" / "digits-float.onnx"
RATES = {"full": 1, "half": 2, "quarter": 4}

BENCH = Bench(__file__, __doc__, "pynq-1x16x16")
BENCH.option("--bits", type=int, choices=(4, 2), default=4)
BENCH.option("--size", type=int, metavar="N")


@BENCH.part(zoo.NETWORKS, ("resnet18", "vgg11", "mobilenet_v1"))
def packed(sheet: Sheet) -> None:
    machine = with_bits(sheet.machine, sheet.bits)
    for name in sheet.cases:
        before, after = (figures_of(machine, name, bits, sheet.size)
                         for machine, bits in ((sheet.machine, 8), (machine, sheet.bits)))
        sheet.figure(f"{name}_weights_saved", saved(before.weights, after.weights))
        sheet.figure(f"{name}_bytes_saved", saved(before.moved, after.moved))
        for rate, cycles in before.cycles.items():
            sheet.figure(f"{name}_cycles_saved_{rate}", saved(cycles, after.cycles[rate]))
        sheet.figure(f"{name}_fastest_layer", max(
            cycles / after.layers[layer] for layer, cycles in before.layers.items()
            if after.layers.get(layer)), ".2f")


@BENCH.part(extra=True)
def accuracy(sheet: Sheet) -> None:
    machine = with_bits(sheet.machine, sheet.bits)
    for bits in (8, 4, 2):
        sheet.figure(f"digits_{bits}", 100 * digits(
            machine if bits < 8 else sheet.machine, bits), ".2f")


@BENCH.part(("digits", *zoo.NETWORKS), ("digits", "resnet18"), extra=True)
def sparse(sheet: Sheet) -> None:
    shipped = sheet.machine
    declared = {name: load_machine(EXAMPLES / "machines" / f"{name}.py").declarations
                for name in ("sparse", "halved")}
    machines = {"gemm": shipped} | {name: Machine(shipped.config, instructions)
                                    for name, instructions in declared.items()}
    for network in sheet.cases:
        for weights, sparsity in (("dense", None), ("2:4", "2:4")):
            graph = network_of(network, sheet.size, sparsity)
            for name, machine in machines.items():
                print(network, weights, name, *figures(machine, graph),
                      plan(machine, "gemm").count("mul"), flush=True)


@BENCH.part(("digits", "gpt_small"), ("digits", "gpt_small"), extra=True)
def floats(sheet: Sheet) -> None:
    for name in sheet.cases:
        small = name == "digits"
        model, samples = held_out_digits() if small else drawn_network(name, sheet.size or 32)
        shipped = Machine(preset("tiny-1x4x4")) if small else sheet.machine
        machines = {"int8": shipped, **{stored: Machine(shipped.config, fp8.instructions(stored))
                                        for stored in STORED_FLOATS}}
        for stored, machine in machines.items():
            made = lockstep.quantize(model, samples, machine=machine)
            module = lockstep.compile(made.graph, "accel,cpu", machine=machine)
            sheet.figure(f"{name}_{stored}_decibels", made.decibels, ".1f")
            sheet.figure(f"{name}_{stored}_cycles", sum(
                cycle.simulate(machine, one.program, values=False).cycles
                for one in module.accelerated))


def held_out_digits() -> tuple[Path, np.ndarray]:
    from examples.digits.data import held_out
    return FLOAT, held_out()[0][:64]


def drawn_network(name: str, places: int) -> tuple[Any, Any]:
    """A network of seeded weights, and random samples."""
    net = zoo.network(name, places)
    return zoo.float_model(net, zoo.fill(net)), zoo.samples(net, 0)


@dataclass(frozen=True)
class Figures:
    """Bytes that a network moves, and cycles by the rate of the memory."""

    weights: int
    moved: int
    cycles: dict[str, int]
    layers: dict[str, int]


def with_bits(machine: Machine, bits: int) -> Machine:
    return replace(machine, config=replace(machine.config, weight_bits=(8, bits)))


def saved(before: int, after: int) -> str:
    return f"{100 * (1 - after / before):.1f}"


def figures_of(machine: Machine, name: str, bits: int, size: int | None) -> Figures:
    net = zoo.network(name, size)
    filled = fill(net, 0, lambda macs: None)
    model = quantize_ranges(zoo.float_model(net, filled), filled.ranges, bits)
    graph = optimize(convert(model, name))
    segment, = _compiled(machine, graph)
    runs = {rate: cycle.simulate(machine, segment.program, values=False,
                                 bytes_per_cycle=machine.config.bus_bytes / part)
            for rate, part in RATES.items()}
    rows = layer_rows(machine, segment.program, segment.work, runs["full"])
    return Figures(loaded_weights(machine, segment.program),
                   int(dram_bytes(machine, segment.program).sum()),
                   {rate: run.cycles for rate, run in runs.items()},
                   {row.name: row.cycles for row in rows})


def _compiled(machine: Machine, graph: Graph) -> Iterator[CompiledSegment]:
    target = AccelTarget(machine)
    for part in partition(graph, lambda node: target.refusal(graph, node)).segments:
        if part.target == ACCEL:
            yield target.compile(subgraph(graph, part))


def loaded_weights(machine: Machine, program: AccelProgram) -> int:
    """Bytes loaded to wgt."""
    wgt = isa.BUFFERS.index("wgt")
    to_wgt = np.array([one.unit == "load" and one.fields["buffer"] == wgt
                       for one in decode_words(machine, program.words)])
    return int(dram_bytes(machine, program)[to_wgt].sum())


def digits(machine: Machine, bits: int) -> float:
    from examples.digits.data import held_out
    from examples.digits.quantized import accuracy, calibration
    from runtime import SimulatedDevice, compile_graph, simulator

    network = quantize(FLOAT, calibration(), bias_correction=True, weight_bits=bits)
    module = compile_graph(optimize(network.graph), AccelTarget(machine),
                           SimulatedDevice(machine, simulator("functional")))
    return accuracy(module, *held_out())


def network_of(name: str, size: int | None, sparsity: str | None) -> Graph:
    rng = np.random.default_rng(0)
    if name == "digits":
        return optimize(quantize(FLOAT, rng.random((8, 1, 8, 8), np.float32),
                                 sparsity=sparsity).graph)
    net = zoo.network(name, size)
    model = zoo.float_model(net, fill(net, 0, lambda macs: None))
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    samples = rng.standard_normal((1, *shape[1:]), np.float32)
    return optimize(convert(quantize(model, samples, sparsity=sparsity).model, name))


def figures(machine: Machine, graph: Graph) -> tuple[int, int, int]:
    """Cycles with the whole bus and with a quarter of it, and bytes loaded to wgt."""
    cycles, loaded = [0, 0], 0
    for segment in _compiled(machine, graph):
        for at, rate in enumerate((1, 4)):
            cycles[at] += cycle.simulate(machine, segment.program, values=False,
                                         bytes_per_cycle=machine.config.bus_bytes / rate).cycles
        loaded += loaded_weights(machine, segment.program)
    return cycles[0], cycles[1], loaded
