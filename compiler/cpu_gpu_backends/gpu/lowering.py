"""The passes of a GPU over the graph of a segment, before operators are fused."""

from compiler.cpu_gpu_backends.gpu.segment import ValueForms
from compiler.graph.lowering import (BytesOfWeights, PutChannelsLast, ShareConstants,
                                     SplitProducts, StoreHalves, WeightsInRows, WholeSums)
from compiler.graph.passes.pipeline import Pass


def passes(forms: ValueForms) -> tuple[Pass, ...]:
    """The list for values in these forms, in order: images have their channels last where tensor
    cores convolve them, factors are halves, weights lie in rows.
    """
    halves: tuple[Pass, ...] = (StoreHalves(forms.halves),) if forms.halves else ()
    rows: tuple[Pass, ...] = (WeightsInRows(),) if forms.rows else ()
    return (WholeSums(), BytesOfWeights(), SplitProducts(), PutChannelsLast(forms.last), *halves,
            *rows,
            ShareConstants())
