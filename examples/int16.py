"""What activations of 16 bits win and cost: the digits network in float, int8 and int16.

    python -m examples.int16 [--machine PRESET] [--images N]

quantizes the network with 64 held-out images to activations of 8 and of 16 bits, runs the others on
the accelerator, and prints how many are right, the signal to quantization noise of the outputs, and
cycles and bytes of one image.
"""

import argparse

import numpy as np

import lockstep
from accel.machine.config import preset
from accel.machine.intrinsics import SHIPPED
from accel.machine.machine import Machine
from compiler.plans import OWN
from examples.digits.data import HERE, held_out
from examples.machines.int16 import INT16
from runtime import Module

FLOAT = HERE / "digits-float.onnx"
SAMPLES = 64


def outputs(module: Module, images: np.ndarray) -> np.ndarray:
    """The logits of images, one at a time."""
    return np.concatenate([module({"image": image[None]})["logits"] for image in images])


def main() -> None:
    parser = argparse.ArgumentParser(prog="examples.int16", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", default="pynq-1x16x16", help="geometry: a preset")
    parser.add_argument("--images", type=int, default=296, help="how many are compared")
    args = parser.parse_args()
    whole, known = held_out()
    images, labels = (array[SAMPLES:SAMPLES + args.images] for array in (whole, known))
    wanted = outputs(lockstep.compile(FLOAT, "cpu"), images)
    print(f"float: {(wanted.argmax(1) == labels).mean():.2%} right")
    for bits, declarations in ((8, SHIPPED), (16, INT16)):
        machine = Machine(preset(args.machine), declarations)
        graph = lockstep.quantize(FLOAT, whole[:SAMPLES], activation_bits=bits).graph
        found = outputs(lockstep.compile(graph, "accel", machine=machine, sim="functional"), images)
        noise = 10 * np.log10((wanted ** 2).sum() / ((found - wanted) ** 2).sum())
        timed = lockstep.compile(graph, "accel", machine=machine, sim="cycle", plans=OWN)
        timed.set_input("image", images[:1])
        run, = timed.run()
        moved = run.counters.bytes["load"] + run.counters.bytes["store"]
        print(f"int{bits}: {(found.argmax(1) == labels).mean():.2%} right, {noise:.1f} dB, "
              f"{run.cycles:,} cycles, {moved:,} bytes")


if __name__ == "__main__":
    main()
