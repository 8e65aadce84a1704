"""Machines of any size: odd blocks and depths, 128 x 128, narrow and wide buses."""

from math import prod
from random import Random
from typing import Any

import numpy as np

import lockstep
from accel.machine.config import PARAM_BYTES, AccelConfig
from accel.machine.machine import Machine
from accel.machine.structure import SHIPPED_STRUCTURE
from examples.digits.data import held_out
from lockstep.testing.models import DIGITS
from tests.accel.mapping.test_random_graphs import random_graph
from tests.support.divided import assert_divided_right

DEPTHS = {"inp": 250, "wgt": 125, "res": 250, "par": 31, "acc": 126, "out": 125, "tab": 7}
"""Entries of each buffer."""

SIZES: dict[str, tuple[int, int, int, int, dict[str, Any]]] = {
    f"{batch}x{block_in}x{block_out}, bus {bus}": (batch, block_in, block_out, bus, more)
    for batch, block_in, block_out, bus, more in (
        (1, 3, 5, 4, {}), (1, 5, 3, 1, {}), (1, 4, 4, 2, {}), (1, 4, 4, 8, {}),
        (1, 1, 1, 8, {}), (1, 1, 16, 4, {}), (1, 16, 1, 8, {}), (1, 12, 12, 8, {}),
        (1, 24, 24, 16, {}), (1, 24, 16, 8, {}), (1, 16, 24, 32, {"vector_beats": 8}),
        (1, 25, 9, 32, {}), (1, 31, 32, 16, {}), (1, 48, 12, 8, {"vector_beats": 4}),
        (2, 12, 6, 16, {"weight_bits": (8, 4), "vector_beats": 2}), (3, 4, 7, 128, {}),
        (5, 4, 4, 8, {}), (7, 2, 3, 64, {}), (15, 2, 2, 8, {}), (1, 32, 20, 64, {"stage_depth": 3}),
        (1, 64, 128, 64, {}), (1, 128, 128, 128, {}), (1, 256, 8, 32, {}), (1, 8, 256, 32, {}))}
"""Batch, blocks, bus and other fields, by name."""

IMAGES, LARGE = 2, 32
"""Images of digits; channels and lanes of a machine whose RTL takes long to build, and more."""


def geometry(name: str) -> AccelConfig:
    """The geometry of a name in `SIZES`, each buffer with as many entries as `DEPTHS` says, or two
    beats of the bus."""
    batch, block_in, block_out, bus, more = SIZES[name]
    extents = {"batch": batch, "block_in": block_in, "block_out": block_out}
    fields: dict[str, Any] = {}
    for buffer in SHIPPED_STRUCTURE.buffers:
        entry = prod(extent if isinstance(extent, int) else extents[extent]
                     for extent in buffer.shape)
        entry *= {"param": PARAM_BYTES, "accumulator": 4}.get(buffer.element, 1)
        beats = 2 * bus * 8 // min(more.get("weight_bits", (8,)))
        depth = max(DEPTHS[buffer.name], -(-beats // entry))
        fields[str(buffer.size)] = entry * (depth + depth % buffer.banks)
    return AccelConfig(name, **extents, **fields, bus_bytes=bus, **more)


def is_large(config: AccelConfig) -> bool:
    """True if the RTL of the machine takes long to build."""
    return max(config.block_out * config.batch, config.block_in) > LARGE


def digits_equal(machine: Machine) -> bool:
    """True if the digits network gives what the host computes."""
    module, wanted = lockstep.compile(DIGITS, machine=machine), lockstep.compile(DIGITS, "cpu")
    return all(np.array_equal(_logits(module, image), _logits(wanted, image))
               for image in held_out()[0][:IMAGES])


def _logits(module: Any, image: np.ndarray) -> np.ndarray:
    module.set_input("image", image[None])
    module.run()
    return module.get_output("logits").copy()


def graphs_equal(machine: Machine, count: int) -> int:
    """The operators that the machine takes of so many random graphs, which all are right; raises
    AssertionError for one that is not."""
    taken = 0
    for seed in range(count):
        net, graph = random_graph(Random(seed))
        segments = assert_divided_right(machine, graph, net.samples()).segments
        taken += sum(len(one.nodes) for one in segments if one.target != "host")
    return taken
