"""Weights of grouped convolutions, cut into blocks of channels. NumPy only.

A group whose channels are whole blocks stays as it is. Other neighbouring groups are merged until
their channels are whole blocks, with zeros where one's outputs would read another's inputs.
"""

from dataclasses import dataclass

import numpy as np

from accel.mapping.operators.blocked import Blocks


@dataclass(frozen=True)
class Grouped:
    """`weights` [groups, outputs of one, inputs of one, kh, kw], in whole blocks; in a `diagonal`
    each group is one block. `note` says where zeros cost products.
    """

    weights: np.ndarray
    diagonal: bool
    note: str = ""

    @property
    def groups(self) -> int:
        return len(self.weights)

    def packed(self, blocks: Blocks) -> np.ndarray:
        """[g][co][kh][kw][ci][block_out][block_in]; g lacks where there is one group, in a
        diagonal co is that of all groups and ci lacks.
        """
        groups, outputs, inputs, *kernel = self.weights.shape
        cut = self.weights.reshape(groups, outputs // blocks.block_out, blocks.block_out,
                                   inputs // blocks.block_in, blocks.block_in, *kernel)
        packed = cut.transpose(0, 1, 5, 6, 3, 2, 4)
        if self.diagonal:
            packed = packed[:, 0, :, :, 0]
        elif groups == 1:
            packed = packed[0]
        return np.ascontiguousarray(packed)


def grouped(weights: np.ndarray, group: int, blocks: Blocks, planes: bool = False) -> Grouped:
    """[Co, Ci / group, kh, kw] with as few groups merged as whole blocks need: all of them for
    results in `planes`, of which each ends at the last channel, if that is within a block."""
    outputs, inputs = len(weights) // group, weights.shape[1]
    merged = next((m for m in range(1, group) if _is_whole(m, group, outputs, inputs, blocks)),
                  group)
    is_block = (merged * outputs, merged * inputs) == (blocks.block_out, blocks.block_in)
    if planes and not is_block and blocks.padded(len(weights)) != len(weights):
        merged = group
    count = -(-group // merged)
    spread = _merged(weights, group, merged, count)
    height, depth = spread.shape[1:3]
    if count == 1:
        height, depth = blocks.padded(height), blocks.read(depth)
    padded = np.zeros((count, height, depth, *weights.shape[2:]), weights.dtype)
    padded[:, :spread.shape[1], :spread.shape[2]] = spread
    products = height // blocks.block_out * (depth // blocks.block_in)
    note = (f"{group} groups of {inputs} to {outputs} channels are computed as one, with zero "
            f"weights between them: they are no whole blocks"
            if group > 1 and count == 1 and products > 1 else "")
    diagonal = count > 1 and (height, depth) == (blocks.block_out, blocks.block_in)
    return Grouped(padded, diagonal, note)


def _is_whole(merged: int, group: int, outputs: int, inputs: int, blocks: Blocks) -> bool:
    """True if so many groups are whole blocks, and all of them all that are written and read."""
    count = -(-group // merged) * merged
    return (merged * outputs % blocks.block_out == 0 == merged * inputs % blocks.block_in
            and count * outputs == blocks.padded(group * outputs)
            and count * inputs == blocks.read(group * inputs))


def _merged(weights: np.ndarray, group: int, merged: int, count: int) -> np.ndarray:
    """Weights [count, outputs, inputs, kh, kw]: `merged` groups each on a diagonal, else zeros."""
    total, inputs, *kernel = weights.shape
    outputs = total // group
    single = np.zeros((count * merged, outputs, inputs, *kernel), weights.dtype)
    single[:group] = weights.reshape(group, outputs, inputs, *kernel)
    single = single.reshape(count, merged, outputs, inputs, *kernel)
    result = np.zeros((count, merged, outputs, merged, inputs, *kernel), weights.dtype)
    for place in range(merged):
        result[:, place, :, place] = single[:, place]
    return result.reshape(count, merged * outputs, merged * inputs, *kernel)
