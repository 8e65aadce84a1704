"""What do weights of 4 bits with scales of groups cost a decoder in cycles, and networks in noise?

`decoder` compiles a step of a Llama (seeded weights, as `accelerator.transformers` has it) with
weights of 8 bits on the machine as it is, and with weights of 4 bits and each CASE in all layers
but the first and the last on the same machine with ``weight_bits = [8, 4]``; times only, in the
cycle simulator. Prints ``CASE_cycles`` and ``CASE_part``, the part of the cycles of 8 bits.

`noise` prints ``NETWORK_CASE``, the signal to noise of the outputs in dB: weights of 8 bits, of 4
with a scale for each channel, and with scales of groups. Images are of ``--size`` pixels.

A CASE is the size of a group, and the bits of its scale: ``32x8``.
"""

from pathlib import Path
from typing import Any

import lockstep
from accel.machine.machine import Machine
from accel.sim.timed import cycle
from bench.accelerator.transformers import sizes_of
from bench.accelerator.weights import with_bits
from bench.frame import Bench, Sheet
from compiler.frontend.onnx.importing import convert
from compiler.quantize import quantize, quantize_ranges
from lockstep.testing import zoo
from lockstep.testing.networks import decoders

MACHINE = Path(__file__).parents[2] / "examples" / "machines" / "normalize.py"
CASES = ("32x8", "128x8", "32x16")

BENCH = Bench(__file__, __doc__, str(MACHINE))
for option, default in (("layers", 12), ("width", 768), ("places", 64)):
    BENCH.option(f"--{option}", type=int, metavar="N", default=default, help="of the decoder")
BENCH.option("--size", type=int, metavar="N", default=32)


@BENCH.part(CASES, CASES)
def decoder(sheet: Sheet) -> None:
    net = zoo.ZooNetwork("llama_small_step", sheet.places)
    decoders.llama(net, sizes_of("llama", sheet.layers, sheet.width), True)
    filled = zoo.fill(net.finish())
    model = zoo.float_model(net, filled)

    def cycles(machine: Machine, **options: Any) -> int:
        graph = convert(quantize_ranges(model, filled.ranges, **options), net.name)
        module = lockstep.compile(graph, "accel,cpu", machine=machine, sim="cycle")
        return sum(cycle.simulate(machine, segment.program, values=False).cycles
                   for segment in module.accelerated)

    whole = cycles(sheet.machine)
    sheet.figure("int8_cycles", whole)
    for case in sheet.cases:
        mine = cycles(with_bits(sheet.machine, 4), **options_of(case))
        sheet.figure(f"{case}_cycles", mine)
        sheet.figure(f"{case}_part", mine / whole, ".3f")


@BENCH.part(("gpt_small", "mobilenet_v1", "digits"), ("gpt_small", "mobilenet_v1"), extra=True)
def noise(sheet: Sheet) -> None:
    for name in sheet.cases:
        net = zoo.network(name, None if name == "gpt_small" else sheet.size)
        model = zoo.float_model(net, zoo.fill(net))
        samples = zoo.samples(net, 0)
        for case, options in {"8": {}, "4": {"weight_bits": 4},
                              **{case: options_of(case) for case in CASES}}.items():
            sheet.figure(f"{name}_{case}", quantize(model, samples, **options).decibels, ".1f")


def options_of(case: str) -> dict[str, int]:
    """The options of the quantizer."""
    size, bits = map(int, case.split("x"))
    return {"weight_bits": 4, "weight_groups": size, "scale_bits": bits}
