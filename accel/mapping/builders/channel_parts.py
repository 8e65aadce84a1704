"""Products in parts: blocks of output channels whose weights need fewer passes than others.

Weights less a zero point have 9 bits, but few of them: the greatest ones of a tensor. So most
blocks of channels need no second pass.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby

import numpy as np

from accel.mapping.builders.layer import MappedLayer
from accel.mapping.operators.blocked import Blocks
from compiler.graph.graph import Graph, Node
from compiler.ops.integers.fixed_point import limits_of


def channel_parts(node: Node, graph: Graph, whole: MappedLayer, blocks: Blocks,
                  build: Callable[[Graph], MappedLayer]) -> tuple[MappedLayer, ...]:
    """The layers of neighbouring blocks that need more than a pass, and of those that do not, each
    as `build` makes it of a graph with the constants of its channels alone; none where all blocks
    are alike. `whole` is the layer of all.
    """
    runs = _runs(graph.constants[node.inputs[1]], blocks)
    if len(runs) < 2 or whole.bounds:
        return ()
    pitches = whole.pitches or whole.operator.output.buffer.pitches
    apart = pitches[whole.operator.axes["output"].index("c")]
    return tuple(replace(build(_cut(node, graph, begin, end)), part=str(begin), pitches=pitches,
                         offset=whole.offset + begin // blocks.block_out * apart)
                 for begin, end in runs)


def _runs(weights: np.ndarray, blocks: Blocks) -> list[tuple[int, int]]:
    """The channels of neighbouring blocks, all of weights that fit gemm's type or all of others; as
    many to a block as memory is padded to."""
    low, high = limits_of(blocks.weight)
    rows = weights.reshape(len(weights), -1)
    wide, size = (rows < low) | (rows > high), blocks.channels
    each = [bool(wide[begin:begin + size].any()) for begin in range(0, len(wide), size)]
    runs = [[place for place, _ in run] for _, run in groupby(enumerate(each), lambda one: one[1])]
    return [(run[0] * size, (run[-1] + 1) * size) for run in runs]


def _cut(node: Node, graph: Graph, begin: int, end: int) -> Graph:
    constants = {value: graph.constants[value][begin:end] for value in node.inputs[1:]}
    return replace(graph, constants={**graph.constants, **constants})
