"""Do transformers and decoders stay on the accelerator, in one stream?

`decode` compiles a step of a decoder (`lockstep.testing.networks`; seeded weights, int8) and lets
the cycle simulator make tokens. Each is compared with that of the CPU, to the bit. `bus` is the
share of cycles in which the bus must move bytes: weights and parameters once a token, what comes
and goes, and once what is read of the caches. ``--at P,P`` makes one token at each of these
positions instead, behind random rows.

`normalize` runs quantized networks of the zoo on `pynq-1x16x16` and on the bench's machines: the
segments on the host from the first layer to the last, copies across the border, cycles of the
accelerator (times only), and whether the functional simulator and the CPU give the same bytes.
`error` is the distance of the output from the same network with softmax, layer normalization and
all else in float between quantizations, in dB. Exit status 1: bytes differ.

`groups` compiles the step of a Llama with weights of 8 bits on the machine as it is, and with
weights of 4 bits and scales of groups in all layers but the first and the last on the same machine
with ``weight_bits = [8, 4]``; times only, in the cycle simulator. A CASE is the size of a group,
and the bits of its scale: ``32x8``. Prints ``CASE_cycles`` and ``CASE_part``, the part of the
cycles of 8 bits.

`noise` prints ``NETWORK_CASE``, the signal to noise of the outputs in dB: with weights of 8 bits,
of 4 with a scale for each channel, and with scales of groups; images are of 32 x 32.
"""

import time
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import lockstep
from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.sim.timed import cycle
from bench.accelerator.weights import with_bits
from bench.frame import Bench, Sheet
from bench.inputs.float_networks import image
from bench.support import long_contexts
from compiler.errors import RequestError
from compiler.frontend.onnx.importing import convert
from compiler.graph import evaluate, optimize
from compiler.graph.graph import Graph
from compiler.graph.passes.pipeline import standard_passes
from compiler.quantize import quantize, quantize_ranges
from lockstep.testing import zoo
from lockstep.testing.networks import decoders
from lockstep.testing.networks.decoders import DecoderSizes
from runtime.driver.decoding import Decoder

MACHINE = Path(__file__).parents[2] / "examples" / "machines" / "normalize.py"
DEPTH = 64                          # channels of a head
GROUPS = ("32x8", "128x8", "32x16")
ENDS = ("quantize", "dequantize", "to_int8", "to_uint8")
"""What the host does before the first layer and after the last."""

BENCH = Bench(__file__, __doc__, str(MACHINE))
for option, default in (("layers", 12), ("width", 768), ("places", 64), ("tokens", 64)):
    BENCH.option(f"--{option}", type=int, metavar="N", default=default, help="of a decoder")
BENCH.option("--at", type=lambda text: positions(text), metavar="P,P", help="positions of tokens")
BENCH.option("--weight-bits", type=int, choices=(8, 4, 2), default=8)
BENCH.option("--size", type=int, metavar="N", help="of images, or tokens")


@BENCH.part(("llama", "gpt"), ("llama",))
def decode(sheet: Sheet) -> None:
    if sheet.at and max(sheet.at) >= sheet.places:
        raise RequestError(f"--at must be below the {sheet.places} places, not {max(sheet.at)}")
    for name in sheet.cases:
        _decode(sheet, name)


def _decode(sheet: Sheet, name: str) -> None:
    net, model = step(name, sizes_of(name, sheet.layers, sheet.width), sheet.places)
    machine, states = sheet.machine, decoders.states(net)
    begin = time.perf_counter()
    found = lockstep.decoder(model, "accel,cpu", machine=machine, sim="cycle", states=states)
    wanted = lockstep.decoder(model, "cpu", states=states)
    segments = found.module.accelerated
    print(f"{net.name}: {sheet.layers} layers of {sheet.width} channels, {sheet.places} places: "
          f"{len(segments)} segments of the accelerator, compiled in "
          f"{time.perf_counter() - begin:.0f} s", flush=True)
    rng, equal, cycles, needed = np.random.default_rng(1), 0, 0, 0
    places = sheet.at or range(sheet.tokens)
    for position in places:
        if sheet.at:
            rows = rows_of(wanted, position, rng)
            for step_ in (found, wanted):
                step_.reset()
                step_.remember(rows)
        token = {net.source: rng.standard_normal((1, sheet.width), np.float32)}
        same = np.array_equal(found(token)["logits"], wanted(token)["logits"])
        mine = sum(run.cycles for run in found.runs)
        equal, cycles = equal + same, cycles + mine
        read = max(run.places for run in found.runs) or sheet.places
        needed += sum(needed_bytes(segment.program, states, read / sheet.places)
                      for segment in segments)
        print(f"token {position}: {mine:,} cycles, {read} places read, "
              f"{'equal' if same else 'DIFFERENT'}", flush=True)
    sheet.figure("tokens_equal", equal)
    sheet.figure("tokens", len(places))
    sheet.figure("cycles_a_token", cycles // len(places))
    sheet.figure("bus", 100 * needed / (machine.config.bus_bytes * cycles), ".1f")
    sheet.require(equal == len(places))


@BENCH.part(extra=True)
def long_context(sheet: Sheet) -> None:
    (position, *others) = sheet.at or [sheet.places - 1]
    if others or position >= sheet.places:
        raise RequestError(f"--at must be one position below the {sheet.places} places")
    (name,) = sheet.machines
    found = long_contexts.measured(name, sizes_of("llama", sheet.layers, sheet.width),
                                   sheet.places, sheet.weight_bits, position)
    for figure, value in asdict(found).items():
        sheet.figure(figure, value, "" if isinstance(value, int) else ".2f")
    sheet.require(found.equal)


@BENCH.part(zoo.NETWORKS, ("bert_small", "vit_small"), extra=True)
def normalize(sheet: Sheet) -> None:
    machines = {"shipped": Machine(preset("pynq-1x16x16")),
                **{Path(name).stem: machine for name, machine in sheet.machines.items()}}
    for name in sheet.cases:
        model = convert(zoo.build(name, sheet.size, int8=True), name)
        feeds = image(model)
        wanted = run(lockstep.compile(model, "cpu"), feeds)
        print(f"{name}: error {decibels(model, feeds):.1f} dB", flush=True)
        for machine, given in machines.items():
            module = lockstep.compile(model, "accel,cpu", machine=given, sim="functional")
            same = np.array_equal(run(module, feeds), wanted)
            sheet.require(same)
            between = [segment for segment in module.partition.segments
                       if segment.target == "host"
                       and any(node.op not in ENDS for node in segment.nodes)]
            cycles = sum(cycle.simulate(given, segment.program, values=False).cycles
                         for segment in module.accelerated)
            print(f"{name} {machine}: {len(between)} segments on the host, "
                  f"{len(module.partition.copies)} copies, {cycles:,} cycles, "
                  f"{'equal' if same else 'DIFFERENT'}", flush=True)


@BENCH.part(GROUPS, GROUPS, extra=True)
def groups(sheet: Sheet) -> None:
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
        mine = cycles(with_bits(sheet.machine, 4), **in_groups(case))
        sheet.figure(f"{case}_cycles", mine)
        sheet.figure(f"{case}_part", mine / whole, ".3f")


@BENCH.part(("gpt_small", "mobilenet_v1"), ("gpt_small", "mobilenet_v1"), extra=True)
def noise(sheet: Sheet) -> None:
    for name in sheet.cases:
        net = zoo.network(name, None if name == "gpt_small" else 32)
        model, samples = zoo.float_model(net, zoo.fill(net)), zoo.samples(net, 0)
        for case, options in {"8": {}, "4": {"weight_bits": 4},
                              **{case: in_groups(case) for case in GROUPS}}.items():
            sheet.figure(f"{name}_{case}", quantize(model, samples, **options).decibels, ".1f")


def in_groups(case: str) -> dict[str, Any]:
    """The quantizer's options."""
    size, bits = map(int, case.split("x"))
    return {"weight_bits": 4, "weight_groups": size, "scale_bits": bits}


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


def run(module, feeds) -> np.ndarray:
    for value, array in feeds.items():
        module.set_input(value, array)
    module.run()
    return module.get_output(module.graph.outputs[0])


def decibels(model: Graph, feeds) -> float:
    found, wanted = (evaluate(optimize(model, standard_passes(integers)), feeds)[model.outputs[0]]
                     for integers in (True, False))
    return float(10 * np.log10(np.square(wanted).sum() / np.square(wanted - found).sum()))
