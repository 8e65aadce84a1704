"""Do transformers stay on the accelerator? Segments, cycles, and what integers change.

    python -m bench.normalize [--size N] [NETWORK ...]

Quantized networks of the zoo on the shipped `pynq-1x16x16` and on that of
`examples/machines/normalize.py`: the segments on the host from the first layer to the last, copies
across the border, cycles of the accelerator (times only), and whether the functional simulator and
the CPU give the same bytes. `error` is the distance of the output from the same network with
softmax, layer normalization and all else in float between quantizations, in dB. Exit status 1:
bytes differ.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import lockstep
from accel.machine.config import preset
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.sim import cycle
from compiler.frontend.onnx_import import convert
from compiler.graph import evaluate, optimize
from compiler.graph.graph import Graph
from compiler.graph.pipeline import standard_passes
from lockstep.testing import zoo

MACHINE = Path(__file__).parents[1] / "examples" / "machines" / "normalize.py"
ENDS = ("quantize", "dequantize", "to_int8", "to_uint8")
"""What the host does before the first layer and after the last."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, metavar="N")
    parser.add_argument("networks", nargs="*", metavar="NETWORK",
                        default=["bert_small", "vit_small"])
    args = parser.parse_args(argv)
    machines = {"shipped": Machine(preset("pynq-1x16x16")), "normalize": load_machine(MACHINE)}
    equal = True
    for name in args.networks:
        model = convert(zoo.build(name, args.size, int8=True), name)
        feeds = inputs_of(model)
        wanted = run(lockstep.compile(model, "cpu"), feeds)
        print(f"{name}: error {decibels(model, feeds):.1f} dB", flush=True)
        for machine, given in machines.items():
            module = lockstep.compile(model, "accel,cpu", machine=given, sim="functional")
            same = np.array_equal(run(module, feeds), wanted)
            equal &= same
            between = [segment for segment in module.partition.segments
                       if segment.target == "host"
                       and any(node.op not in ENDS for node in segment.nodes)]
            cycles = sum(cycle.simulate(given, segment.program, values=False).cycles
                         for segment in module.accelerated)
            print(f"{name} {machine}: {len(between)} segments on the host, "
                  f"{len(module.partition.copies)} copies, {cycles:,} cycles, "
                  f"{'equal' if same else 'DIFFERENT'}", flush=True)
    return 0 if equal else 1


def inputs_of(model: Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {value: rng.standard_normal(model.values[value].shape, np.float32)
            for value in model.inputs}


def run(module, feeds) -> np.ndarray:
    for value, array in feeds.items():
        module.set_input(value, array)
    module.run()
    return module.get_output(module.graph.outputs[0])


def decibels(model: Graph, feeds) -> float:
    found, wanted = (evaluate(optimize(model, standard_passes(integers)), feeds)[model.outputs[0]]
                     for integers in (True, False))
    return float(10 * np.log10(np.square(wanted).sum() / np.square(wanted - found).sum()))


if __name__ == "__main__":
    sys.exit(main())
