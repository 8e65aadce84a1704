"""Every operator of graphs with odd shapes, strides and pads: attributes and seeded inputs."""

from tests.support.operators import blocks, elements, floats, images, integers
from tests.support.operators.draws import OperatorCase, assert_same

__all__ = ["CASES", "OperatorCase", "assert_same"]

CASES = [*images.CONVOLUTIONS, *images.TRANSPOSED_CASES, *images.POOLS, *elements.MATRICES,
         *elements.ELEMENTWISE, *elements.RESHAPES, *elements.MOVEMENTS, *integers.OF_16_BITS,
         *blocks.BLOCKS, *blocks.INT8_BLOCKS, *integers.AFFINE, *blocks.LAST, *integers.EXACT,
         *integers.TERMS, *integers.SUMS_IN_PLANES, *floats.CONVERSIONS, *floats.FLOAT_PRODUCTS]
