"""Products whose sums meet a residual in acc: vector adds it before it requantizes them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from accel.mapping.operators.blocked import Activation, BlockedOperator, Blocks, Window, windowed
from accel.mapping.operators.convolutions import At, over
from accel.mapping.operators.elementwise import parameters_of, record_read
from compiler import te
from compiler.te import Cast, Const, Expr, Field, Tensor
from compiler.tensorize import Operand
from compiler.tensorize.cover import COMPUTED, CONSTANTS, CoverStep

STAGES = ("x", "w", "input", "acc")
"""Roles of a product's stages that stay."""


def with_residual(product: BlockedOperator, r: Activation, steps: Sequence[CoverStep],
                  blocks: Blocks) -> BlockedOperator:
    """The product with other steps behind its sums, of which leaves in acc are the sums and those
    in res the residual `r`, an image, or rows, as the result is.

    Stages: those of the product's sums; ``r`` and, in blocks, ``residual``; ``params``,
    ``params_1``, ... of steps that read some; ``t0``, ``t1``, ... in acc; ``quantized``,
    ``output``.
    """
    name, axes, acc = product.output.name.removesuffix("_output"), product.axes, product["acc"]
    stages = {role: product[role] for role in STAGES}
    stages["r"], stages["residual"] = windowed(f"{name}_r", r, Window((1, 1)), 0, blocks,
                                               blocks.block_out)
    records = parameters_of(steps)
    for step, role in records.items():
        stages[role] = te.placeholder(product["params"].shape, record_read(step), f"{name}_{role}")
    computed: dict[Expr, Tensor] = {}
    by, tile, sizes = dict(product.by), axes["acc"], product.extents("acc")
    for place, step in enumerate(steps):
        last = place == len(steps) - 1
        role = "quantized" if last else f"t{place}"
        lane = _Lane(step, acc, computed, stages["residual"],
                     stages[records[step]] if step in records else None, sizes)
        by[role] = step.intrinsic.name
        stages[role] = computed[step.value] = over(
            tile, sizes, f"{name}_{role}", lane.stored(blocks.element) if last else lane.value)
    quantized = stages["quantized"]
    stages["output"] = over(axes["output"], sizes, f"{name}_output",
                            lambda at: quantized[tuple(at[axis] for axis in tile)])
    tiles = {role: tile for role in stages if role in by or role == "acc"}
    return replace(product, stages=stages, axes={**tiles, "output": axes["output"]}, by=by)


class _Lane:
    """The element that a step computes from sums, the residual, and other steps."""

    def __init__(self, step: CoverStep, acc: Tensor, computed: Mapping[Expr, Tensor],
                 residual: Tensor, params: Tensor | None, sizes: Mapping[str, int]):
        self.step, self.acc, self.computed, self.residual = step, acc, computed, residual
        self.params, self.sizes = params, sizes

    def value(self, at: At) -> Expr:
        def read(operand: Operand, expr: Expr, scope: str) -> Expr:
            if scope == CONSTANTS:
                assert self.params is not None
                group = [at["g"]] if len(self.params.shape) > 2 else []
                stored = operand.stored_as(scope).partition(".")[2]
                return Field(self.params[(*group, at["c"], at["o"])], stored).astype(operand.dtype)
            if isinstance(expr, Const):
                return expr
            if scope == COMPUTED:
                return self.computed.get(expr, self.acc)[tuple(at.values())]
            block = at["g"] * self.sizes["c"] + at["c"] if "g" in at else at["c"]
            return Cast(self.residual[at["n"], at["y"], at["x"], block, at["b"], at["o"]],
                        operand.dtype)

        return self.step.body(read)

    def stored(self, element: str):
        """The element as it is written."""
        return lambda at: self.value(at).astype(element)
