"""Does a decoder make token after token by one stream, and is the bus busy with what it needs?

    python -m bench.decode [llama|gpt] [--layers N] [--width N] [--places N] [--tokens N | --at P,P]

Compiles a step of a decoder (`lockstep.testing.networks`; seeded weights, int8) for the machine
of `examples/machines/normalize.py` and lets the cycle simulator make tokens. Each is compared with
that of the CPU, to the bit. `bus` is the share of cycles in which the bus must move bytes: weights
and parameters once a token, what comes and goes, and once what is read of the caches. `--at` makes
one token at each of these positions instead, behind random rows. Exit status 1: bytes differ.
"""

import argparse
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

import lockstep
from accel.machine.loading import load_machine
from accel.machine.program import AccelProgram
from compiler.frontend.onnx_import import convert
from compiler.graph.graph import Graph
from lockstep.testing import zoo
from lockstep.testing.networks import decoders
from lockstep.testing.networks.decoders import DecoderSizes
from runtime.decoding import Decoder

MACHINE = Path(__file__).parents[1] / "examples" / "machines" / "normalize.py"
DEPTH = 64                          # channels of a head


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", nargs="?", choices=("llama", "gpt"), default="llama")
    for option, default in (("layers", 12), ("width", 768), ("places", 64), ("tokens", 64)):
        parser.add_argument(f"--{option}", type=int, metavar="N", default=default)
    parser.add_argument("--at", type=positions, metavar="P,P", help="positions of the tokens")
    args = parser.parse_args(argv)
    if args.at and max(args.at) >= args.places:
        parser.error(f"argument --at: must be below the {args.places} places, not {max(args.at)}")
    net, model = step(args.network, sizes_of(args.network, args.layers, args.width), args.places)
    machine, states = load_machine(MACHINE), decoders.states(net)
    begin = time.perf_counter()
    found = lockstep.decoder(model, "accel,cpu", machine=machine, sim="cycle", states=states)
    wanted = lockstep.decoder(model, "cpu", states=states)
    segments = found.module.accelerated
    print(f"{net.name}: {args.layers} layers of {args.width} channels, {args.places} places: "
          f"{len(segments)} segments of the accelerator, compiled in "
          f"{time.perf_counter() - begin:.0f} s", flush=True)
    rng, equal, cycles, needed = np.random.default_rng(1), 0, 0, 0
    places = args.at or range(args.tokens)
    for position in places:
        if args.at:
            rows = rows_of(wanted, position, rng)
            for step_ in (found, wanted):
                step_.reset()
                step_.remember(rows)
        token = {net.source: rng.standard_normal((1, args.width), np.float32)}
        same = np.array_equal(found(token)["logits"], wanted(token)["logits"])
        mine = sum(run.cycles for run in found.runs)
        equal, cycles = equal + same, cycles + mine
        read = max(run.places for run in found.runs) or args.places
        needed += sum(needed_bytes(segment.program, states, read / args.places)
                      for segment in segments)
        print(f"token {position}: {mine:,} cycles, {read} places read, "
              f"{'equal' if same else 'DIFFERENT'}", flush=True)
    share = needed / (machine.config.bus_bytes * cycles)
    print(f"tokens_equal {equal}\ntokens {len(places)}\ncycles_a_token {cycles // len(places)}\n"
          f"bus {100 * share:.1f}")
    return 0 if equal == len(places) else 1


def positions(text: str) -> list[int]:
    """Numbers of at least 0, with commas between them."""
    found = [int(part) for part in text.split(",")]
    if min(found) < 0:
        raise ValueError(text)
    return found


def rows_of(decoder: Decoder, count: int, rng: np.random.Generator
            ) -> dict[str, np.ndarray]:
    """Random rows of so many tokens."""
    return {state.row: rng.standard_normal((*state.type.shape[:state.axis], count,
                                            *state.type.shape[state.axis + 1:]), np.float32)
            for state in decoder.states}


def sizes_of(network: str, layers: int, width: int) -> DecoderSizes:
    """Sizes as those of published decoders of that width."""
    heads = max(1, width // DEPTH)
    if network == "gpt":
        return DecoderSizes(layers, width, heads, 1, 4 * width)
    return DecoderSizes(layers, width, heads, 3 if heads % 3 == 0 else 1, 8 * width // 3)


def step(network: str, sizes: DecoderSizes, places: int) -> tuple[zoo.ZooNetwork, Graph]:
    """A step of a decoder, quantized."""
    net = zoo.ZooNetwork(f"{network}_small_step", places)
    getattr(decoders, network)(net, sizes, True)
    filled = zoo.fill(net.finish())
    model = zoo.int8_model(zoo.float_model(net, filled), net, filled, 0)
    return net, convert(model, net.name)


def needed_bytes(program: AccelProgram, caches: Collection[str], share: float) -> float:
    """Weights and parameters, what comes and goes, and a share of the caches."""
    return program.weights.size + sum(slot.size_bytes * (share if slot.name in caches else 1)
                                      for slot in (*program.inputs, *program.outputs))


if __name__ == "__main__":
    sys.exit(main())
