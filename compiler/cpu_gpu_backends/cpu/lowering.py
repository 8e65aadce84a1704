"""The passes of the CPU over the graph of a segment, before operators are fused."""

from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.graph.lowering import (AveragesAsMeans, BlockChannels, BytesOfWeights, PackProducts,
                                     PutChannelsLast, ScalesAsIntegers, ShareConstants,
                                     SplitProducts, WholeSums)
from compiler.graph.lowering.integers import Integers
from compiler.graph.lowering.winograd import Sizes, best_size
from compiler.graph.passes.pipeline import Pass


def passes(vectors: Vectors, sizes: Sizes = best_size) -> tuple[Pass, ...]:
    """The list for a processor with these vectors, in order. With vectors images lie in blocks of
    channels, and convolutions are computed by Winograd's products of these `sizes`; without any,
    images have their channels last. Without instructions for float64, scales are integers.
    """
    integers: tuple[Pass, ...] = () if vectors.doubles else (ScalesAsIntegers(),)
    if vectors.scalar:
        return (WholeSums(), BytesOfWeights(), SplitProducts(), AveragesAsMeans(),
                ShareConstants(),
                PutChannelsLast(("float32", "int8"), pieces=False, lanes=vectors.registers),
                *integers)
    stored = Integers(vectors.sums_words, vectors.fuses)
    return (WholeSums(packed=True), BytesOfWeights(), SplitProducts(), ShareConstants(),
            BlockChannels(sizes, integers=stored), PackProducts(integers=stored), *integers)
