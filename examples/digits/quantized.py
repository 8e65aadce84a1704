"""From the float digits network to the accelerator, by our own quantizer.

    python -m examples.digits.quantized [--samples N] [--machine M] [--sim S] [-o FILE]

calibrates digits-float.onnx on N training images (64 unless told), runs the held-out images on the
accelerator in simulation, and prints the accuracy of both. It needs scikit-learn, which has the
training images. Exit status: 0 when int8 is within 0.5 points of float, else 1.
"""

import argparse
import sys

import numpy as np

from accel.machine.loading import load_machine
from accel.mapping.target import AccelTarget
from compiler.frontend.onnx.importing import load as load_model
from compiler.graph.passes.pipeline import optimize
from compiler.quantize import Quantized, quantize
from examples.digits.data import HERE, held_out, training
from runtime import Module, SimulatedDevice, compile_graph, simulator

FLOAT = HERE / "digits-float.onnx"
SEED = 0
POINTS = 0.5


def calibration(count: int = 64) -> np.ndarray:
    """Training images [count, 1, 8, 8], drawn with `SEED`."""
    images, _ = training()
    return images[np.random.default_rng(SEED).choice(len(images), count, replace=False)]


def quantized(samples: np.ndarray) -> Quantized:
    """The int8 network, biases corrected."""
    return quantize(FLOAT, samples, bias_correction=True)


def accuracy(module: Module, images: np.ndarray, labels: np.ndarray) -> float:
    """Share of the images that the module gets right."""
    right = 0
    for image, label in zip(images, labels, strict=True):
        module.set_input("image", image[None])
        module.run()
        right += int(module.get_output("logits").argmax() == label)
    return right / len(labels)


def main() -> int:
    parser = argparse.ArgumentParser(prog="examples.digits.quantized", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=64, help="calibration images (default 64)")
    parser.add_argument("--machine", "--config", default="pynq-1x16x16", help="preset or file")
    parser.add_argument("--sim", default="functional", help="functional, cycle, slice or verilator")
    parser.add_argument("-o", dest="output", metavar="FILE", help="write the int8 network")
    args = parser.parse_args()
    made = quantized(calibration(args.samples))
    if args.output:
        made.save(args.output)
    machine = load_machine(args.machine)
    accel = compile_graph(optimize(made.graph), AccelTarget(machine),
                          SimulatedDevice(machine, simulator(args.sim)))
    host = compile_graph(optimize(load_model(FLOAT)), None)
    found = {"float, host": accuracy(host, *held_out()),
             f"int8, {args.machine}, {args.sim}": accuracy(accel, *held_out())}
    print(f"{args.samples} calibration images, seed {SEED}; output {made.decibels:.1f} dB")
    for name, share in found.items():
        print(f"{name}: {share:.2%} of {len(held_out()[1])} held-out images right")
    real, int8 = found.values()
    print(f"int8 is {100 * (int8 - real):+.2f} points from float (at most {POINTS} wanted)")
    return 0 if abs(int8 - real) <= POINTS / 100 else 1


if __name__ == "__main__":
    sys.exit(main())
