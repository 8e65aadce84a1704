"""Products of floats that are stored in few bits, as a machine that sums in float32 does them.

Their order is that of the reduction's axes, whatever the tiles are: blocks of input channels, rows
and columns of the window, and in a block product the tree of gemm's lanes
(`compiler.ops.families.small_types`).
"""

from dataclasses import replace

from accel.mapping.operators import blocked
from accel.mapping.operators.blocked import Activation, BlockedOperator, Blocks, Window
from compiler import te
from compiler.ops.records.stored_floats import AFFINE
from compiler.te import Expr


def convolution(name: str, x: Activation, channels: int, window: Window, relu: bool, blocks: Blocks
                ) -> BlockedOperator:
    """``sum over kernel and channels of x · w``, times the scale of its channel, plus the offset,
    with `relu` at least 0, rounded to an element.

    Stages: ``x``, ``w`` [co][kh][kw][ci][block_out][block_in], ``params`` [co][block_out] of
    `AFFINE`, ``input`` (padded, blocked), ``acc``, ``quantized``, ``output``.
    """
    source, padded = blocked.windowed(name, x, window, 0, blocks, blocks.block_in)
    acc, w, reduced = blocked.window_sums(name, padded, window.outputs(x), channels, window.seen,
                                          blocks)
    params = te.placeholder((acc.shape[3], blocks.block_out), AFFINE, f"{name}_params")

    def lane(n, y, x, c, b, o) -> Expr:
        p = params[c, o]
        value = acc[n, y, x, c, b, o] * p.scale + p.offset
        if relu:
            value = te.maximum(value, te.const(0.0, "float32"))
        return value.astype(blocks.element)

    stages = {"x": source, "w": w, "input": padded, "acc": acc, "params": params}
    return replace(blocked.written(name, stages, window.seen, acc.shape, lane), reduced=reduced,
                   **blocks.own())
