"""How many cycles does each simulator simulate in a second?

On `pynq-1x16x16`: the digits network, compiled once and repeated as one program of at least five
million cycles (short instructions: the most events in a cycle), or ResNet-50. Prints
``name value`` lines, in millions of cycles a second of processor time: of the cycle simulator with
time alone, with values, and with values and a timeline; of the Verilated RTL; and the first two as
multiples of the last. All four must end with the same cycles.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from accel.machine import isa
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Run
from accel.machine.words import decode_words
from accel.mapping.target import AccelTarget
from accel.proof.legal import with_tokens
from accel.sim import cycle, verilated
from bench.inputs.networks import resnet50_graph
from compiler.frontend.onnx_import import load as load_model
from compiler.graph.pipeline import optimize
from runtime import SimulatedDevice, compile_graph, simulator

DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits-int8.onnx"
WAITS, SIGNALS = 1, 2           # bytes of a word


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machine", "--config", default="pynq-1x16x16")
    parser.add_argument("--network", choices=("digits", "resnet50"), default="digits")
    parser.add_argument("--cycles", type=int, default=5_000_000,
                        help="of the digits, at least (default 5000000)")
    args = parser.parse_args()
    machine = load_machine(args.machine)
    if args.network == "digits":
        program = digits(machine)
        once = cycle.simulate(machine, program, values=False).cycles
        # Repeated, the images overlap: each takes somewhat less.
        program = repeated(machine, program, -(-args.cycles * 11 // (10 * once)))
    else:
        program = AccelTarget(machine).compile(resnet50_graph()).program
    image = random_image(program)
    ways: dict[str, Callable[[], Run]] = {
        "cycle_timing": lambda: cycle.simulate(machine, program, image, values=False),
        "cycle_values": lambda: cycle.simulate(machine, program, image),
        "cycle_timeline": lambda: cycle.simulate(machine, program, image, timeline=True),
        "verilated": lambda: verilated.simulate(machine, program, image)}
    cycle.simulate(machine, program, image)     # compiled and loaded
    verilated.build(machine)
    found = {name: timed(way) for name, way in ways.items()}
    prefix = "" if args.network == "digits" else f"{args.network}_"
    print(f"{prefix}simulated_cycles", *sorted({run.cycles for run, _ in found.values()}))
    rates = {name: run.cycles / seconds / 1e6 for name, (run, seconds) in found.items()}
    for name, rate in rates.items():
        print(f"{prefix}{name}_rate", f"{rate:.2f}")
    for name in ("cycle_timing", "cycle_values"):
        print(f"{prefix}{name}_ratio", f"{rates[name] / rates['verilated']:.1f}")
    return 0 if same([run for run, _ in found.values()]) else 1


def digits(machine: Machine) -> AccelProgram:
    graph = optimize(load_model(DIGITS))
    device = SimulatedDevice(machine, simulator("functional"))
    (compiled,) = compile_graph(graph, AccelTarget(machine), device).accelerated
    return compiled.program


def repeated(machine: Machine, program: AccelProgram, times: int) -> AccelProgram:
    """Repeats the stream, with new tokens, so that the repetitions overlap legally."""
    *stream, finish = decode_words(machine, program.words)
    words = np.concatenate([np.tile(program.words[:-1], (times, 1)), program.words[-1:]])
    for word, one in zip(words, with_tokens(machine, [*stream * times, finish]), strict=True):
        word[WAITS], word[SIGNALS] = isa.unit_mask(one.waits), isa.unit_mask(one.signals)
    return replace(program, words=words, layers=())


def random_image(program: AccelProgram) -> np.ndarray:
    rng = np.random.default_rng(0)
    return program.image({slot.name: rng.integers(-128, 128, slot.shape).astype(slot.dtype)
                          for slot in program.inputs})


def timed(way: Callable[[], Run]) -> tuple[Run, float]:
    """The run, and the better processor time of two, in seconds."""
    begin = time.process_time()
    way()
    middle = time.process_time()
    run = way()
    return run, min(middle - begin, time.process_time() - middle)


def same(runs: list[Run]) -> bool:
    """Whether all runs agree: in events, and in memory where there are values (all but the first).
    """
    first, *others = runs
    return all(run.ok and run.cycles == first.cycles and np.array_equal(run.start, first.start)
               and np.array_equal(run.retire, first.retire)
               and np.array_equal(run.memory, others[0].memory) for run in others)


if __name__ == "__main__":
    sys.exit(main())
