"""The work of the accelerator's layers."""

import numpy as np

from accel.figures.work import Work
from accel.mapping.builders.layer import MappedLayer


def work_of(layer: MappedLayer) -> Work:
    return Work(layer.node, layer.macs, block_products(layer), layer.size(*layer.inputs),
                layer.size(*layer.constants, "output"), layer.note)


def block_products(layer: MappedLayer) -> int:
    """Cycles that gemm needs at one block product a cycle; 0 for layers without products."""
    if "w" not in layer.operator.stages:
        return 0
    acc = layer.operator["acc"]
    *steps, _ = (axis.extent for axis in acc.reduce_axes)       # without the lanes of a product
    return int(np.prod(acc.shape[:-2]) * np.prod(steps))
