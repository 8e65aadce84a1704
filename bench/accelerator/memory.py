"""What does a shared scratchpad of 256 KiB save?

Int8 networks of `examples.zoo`, 224 x 224, on the machine as it is and with ``shared_bytes`` of
``--kib``. Prints for each NETWORK

``NETWORK_kib``, ``NETWORK_shared_kib``  DRAM bytes of activations between layers, those of
    weights, the input and the output left out, without and with the scratchpad
``NETWORK_left``         the second by the first, %
``NETWORK_beyond_left``  the same of all DRAM bytes of load and store beyond one load of all
    constants, the input and the output: weights that tiles load again count, too
``NETWORK_cycles``, ``NETWORK_shared_cycles``  of the cycle simulator
``NETWORK_time_left``    the second by the first, %

`exact`: that a part of ResNet, a block of convolutions with a pool and additions, gives on that
machine what the integer reference does, in the cycle simulator and in RTL, in the same cycles.
"""

from dataclasses import replace

import numpy as np

from accel.figures.traffic import dram_bytes
from accel.machine import isa
from accel.machine.machine import Machine
from accel.machine.words import column
from accel.mapping.memory.layout import from_memory, to_memory
from accel.mapping.target import AccelTarget
from accel.sim.rtl import verilated
from accel.sim.timed import cycle
from bench.accelerator.networks import accelerated
from bench.frame import Bench, Sheet
from compiler.graph.reference import evaluate
from lockstep.testing import zoo

BENCH = Bench(__file__, __doc__, "pynq-1x16x16")
BENCH.option("--kib", type=int, default=256, metavar="N")


@BENCH.part(zoo.NETWORKS, ("vgg11", "resnet50"))
def traffic(sheet: Sheet) -> None:
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
def exact(sheet: Sheet) -> None:
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
