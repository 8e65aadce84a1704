"""The common parts of exported networks, in machine code and in C: their hash, their arrays, the
file of weights, and which outputs kernels write themselves.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256

import numpy as np

from compiler.cpu_gpu_backends.memory import storage
from compiler.exports import CArray
from compiler.graph.fusion import Group
from compiler.graph.graph import Graph
from compiler.graph.room import bytes_of

HEADER_BYTES = 64
"""The file of weights begins with the network's hash, 32 bytes, and zeros."""

INSIDE = 16 << 20
"""Bytes of constants that code holds itself unless the caller decides; more are a file."""


def network_hash(graph: Graph, weights: bytes) -> bytes:
    """A hash of what is computed and of the weights as they lie, whichever processor computes it.
    """
    text = repr([graph.name, [(value, graph.values[value]) for value in
                              (*graph.inputs, *graph.outputs)],
                 [(node.op, node.attrs, node.inputs, node.outputs) for node in graph.nodes]])
    return sha256(text.encode() + weights).digest()


def arrays_of(graph: Graph, names: Sequence[str], known: Mapping[str, CArray] | None = None
              ) -> tuple[CArray, ...]:
    """Inputs or outputs of a network, as C is told of them; some are `known`, with their scale."""
    return tuple((known or {}).get(name) or CArray.of(name, graph.values[name].dtype,
                                                      graph.values[name].shape) for name in names)


def side_by_side(arrays: Mapping[str, np.ndarray], alignment: int) -> tuple[dict[str, int], bytes]:
    """The place of each array, at a multiple of the alignment, and all of them, the lowest byte of
    each element first.
    """
    offsets, data = dict[str, int](), bytearray()
    for name, array in arrays.items():
        data += bytes(-len(data) % alignment)
        offsets[name] = len(data)
        data += array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return offsets, bytes(data)


def weights_file(hashed: bytes, data: bytes) -> bytes:
    """The file of these weights, for the network of this hash."""
    return hashed.ljust(HEADER_BYTES, b"\0") + data


def direct_outputs(graph: Graph, groups: Sequence[Group]) -> dict[str, str]:
    """Values that kernels write where the caller wants an output, with that output. Other outputs
    are copied: they show an input, a constant, a part of something, or what another output shows.
    """
    root, made = storage(groups), {group.output for group in groups if not group.is_view}
    direct: dict[str, str] = {}
    for output in sorted(graph.outputs, key=lambda value: root(value) != value):
        of = root(output)
        if of in made and of not in direct and (
                bytes_of(graph.values[of]) == bytes_of(graph.values[output])):
            direct[of] = output
    return direct
