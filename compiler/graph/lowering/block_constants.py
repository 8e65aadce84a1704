"""Weights, parameters and other constants as kernels on blocks of 16 channels take them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.ops.packed import channel_blocks as blocks
from compiler.ops.packed.quantized_blocks import (for_sums, grouped_inputs, grouped_stem,
                                                  in_singles)
from compiler.ops.records.blocks import LANES, blocks_of


@dataclass(frozen=True, slots=True)
class Packing:
    """The operators of a type, and the layouts of their weights, for windows whose neighbouring
    pixels lie side by side in the image, all channels of each, or apart.
    """

    plain: str
    many: Callable[[np.ndarray, bool], np.ndarray]
    stem: str
    few: Callable[[np.ndarray, bool], np.ndarray]
    depthwise: str


PACKINGS = {
    "float32": Packing("conv2d_blocks", lambda weight, _: blocks.packed_weight(weight),
                        "conv2d_into_blocks", lambda weight, _: blocks.packed_stem(weight),
                        "depthwise_blocks"),
    "int8": Packing("qconv2d_blocks", grouped_inputs, "qconv2d_into_blocks", grouped_stem,
                     "qdepthwise_blocks")}
PACKINGS["int16"] = PACKINGS["int8"]        # bytes in words


def numbers_of_channels(weight: np.ndarray, vectors: Sequence[np.ndarray]
                        ) -> Sequence[np.ndarray] | None:
    """A number of each output: a bias, or for bytes a bias and a scale; None where sums of bytes
    may not fit.
    """
    return vectors if weight.dtype == np.float32 else for_sums(weight, *vectors)


def nearest(weight: np.ndarray, vectors: Sequence[np.ndarray], fuses: bool
            ) -> tuple[Sequence[np.ndarray], dict]:
    """Vectors as `numbers_of_channels` gives them, and a factor perhaps, the scales in float32
    where that is exact and processors want it; and the attribute that says so.
    """
    if weight.dtype == np.float32 or not fuses:
        return vectors, {}
    bias, scale, *factor = vectors
    single = in_singles(weight, bias, scale, *factor)
    return (vectors, {}) if single is None else ((bias, single, *factor), {"near": 1})


def joined(weight: np.ndarray, group: int) -> tuple[np.ndarray, int]:
    """The weight [Co,Ci/group,kh,kw] with as many groups as make up a block in one, and zeros where
    an output does not see an input; and how many groups that are.
    """
    outputs, depth, *kernel = weight.shape
    count, each = LANES // depth, outputs // group
    wide = np.zeros((group // count, count, each, count, depth, *kernel), weight.dtype)
    cut = weight.reshape(group // count, count, each, depth, *kernel)
    for place in range(count):
        wide[:, place, :, place] = cut[:, place]
    return wide.reshape(outputs, count * depth, *kernel), group // count


def channels_of(array: np.ndarray) -> int:
    return 1 if array.ndim < 3 else array.shape[-3]


def vector_of(array: np.ndarray) -> np.ndarray:
    wide = np.zeros(blocks_of(len(array)) * LANES, array.dtype)
    wide[:len(array)] = array
    return wide.reshape(-1, LANES)


def image_of(array: np.ndarray, neutral: float) -> np.ndarray:
    """A constant as it meets images in blocks by broadcasting."""
    image = array.reshape((1,) * (4 - array.ndim) + array.shape)
    if image.shape[1] == 1:
        return image[..., None]
    made = blocks.in_blocks(image)
    if image.shape[1] % LANES:
        made[:, -1, ..., image.shape[1] % LANES:] = neutral
    return made
