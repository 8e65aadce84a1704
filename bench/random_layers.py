"""Random convolutions: are the values right, and how near are the cycles to the ideal?

Kernels 1 to 7, strides and dilations 1 to 3, groups, odd sizes, 1 to 300 channels; each behind a
change of scale, which leaves its input in the accelerator's layout. Every layer is compiled for
each preset, simulated by the cycle simulator and compared with the integer reference. Real cycles
are those from the end of the previous layer to its own end. Ideal cycles are the larger of those
for its products and for its compulsory bytes. Prints the layers whose ratio is above 3, with the
main stall of their carrier, and the lines ``layers``, ``layers_wrong``, ``layers_refused``,
``layers_ratio`` (geometric mean) and ``layers_worst``.
"""

import argparse
import sys
from dataclasses import dataclass
from math import exp, log

import numpy as np
from rich.progress import track

from accel.figures.layers import layer_rows
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.mapping.layout import from_blocked, to_plain
from accel.mapping.target import AccelTarget
from accel.sim import cycle
from bench.inputs.networks import layer_graph
from compiler.graph.graph import Graph
from compiler.graph.reference import evaluate
from lockstep.columns import largest_stall

PRESETS = ("ecp5-1x8x8", "ecp5-1x16x16", "pynq-1x16x16")
WORST = 3


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--machine", "--config", action="append",
                        help=f"default {', '.join(PRESETS)}")
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    layers = [Layer.random(rng) for _ in range(args.layers)]
    machines = [load_machine(name) for name in args.machine or PRESETS]
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
    print("layers", len(ratios) + refused)
    print("layers_wrong", wrong)
    print("layers_refused", refused)
    print("layers_ratio", f"{exp(sum(map(log, ratios)) / len(ratios)):.3f}")
    print("layers_worst", f"{max(ratios):.2f}")
    return int(wrong > 0)


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


if __name__ == "__main__":
    sys.exit(main())
