"""Products whose weights are integers of few bits times a factor of each channel and each group of
the depth. gemm makes the sum of each group in acc; vector multiplies it by the factor and adds it.

Factors lie in res, where an entry is a number for each channel: one byte, or a low and a high one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from accel.mapping.operators.blocked import (Activation, BlockedOperator, Blocks, Quantization,
                                             Window, finished, windowed)
from accel.mapping.operators.convolutions import At, over
from compiler import te
from compiler.te import Cast, Const, Expr, Tensor
from compiler.tensorize import Operand
from compiler.tensorize.cover import COMPUTED, CoverStep, leaf, name_of

GROUPED, TILE = "nyxucbo", "nyxcbo"
"""Roles of the axes of a group's sums, of which `u` are groups, and of all sums."""

BYTES = ("low", "high")
"""Leaves of a factor, the lowest byte first; `high` counts 256."""


def factor(count: int, accumulator: str) -> Expr:
    """A factor of so many bytes."""
    low, *high = (leaf(name, "int8", "res").astype(accumulator) for name in BYTES[:count])
    return (high[0] * 256 + low).astype("int16").astype(accumulator) if high else low


def scaled(count: int, accumulator: str) -> Expr:
    """The sum of a group times its factor."""
    return leaf("acc", accumulator, COMPUTED) * factor(count, accumulator)


def added(accumulator: str) -> Expr:
    """The sum of all groups so far, and another."""
    return leaf("total", accumulator, COMPUTED) + leaf("acc", accumulator, COMPUTED)


@dataclass(frozen=True)
class GroupSteps:
    """The instructions of a product in groups of so many blocks of inputs: those that scale the
    sum of one, and the one that adds it; `bytes_` is how many a factor has."""

    blocks: int
    bytes_: int
    scale: Sequence[CoverStep]
    add: CoverStep


def product_in_groups(name: str, x: Activation, channels: int, q: Quantization, blocks: Blocks,
                      steps: GroupSteps) -> BlockedOperator:
    """``requantize(sum over groups of factor · sum over the group of x · w)``, of each pixel.

    Stages: ``x``, ``w`` [co][1][1][ci][block_out][block_in], ``params`` [co][block_out],
    ``factors`` [co][group][byte][block_out], and with images of a batch ``scales``; ``input``;
    ``acc``, ``scaled``, ``scaled_1``, ... of each group; ``total``, ``quantized``, ``output``.
    """
    window = Window((1, 1))
    source, padded = windowed(name, x, window, 0, blocks, blocks.block_in)
    pixels, (depth, batch) = padded.shape[:3], padded.shape[3:5]
    groups, co = depth // steps.blocks, blocks.padded(channels) // blocks.block_out
    w = te.placeholder((co, 1, 1, depth, *blocks.entry), blocks.weight, f"{name}_w")
    kh, kw = (te.reduce_axis(1, f"{name}_k{axis}") for axis in "hw")
    rc, block = te.reduce_axis(steps.blocks, f"{name}_rc"), blocks.reduced(name)
    sizes = dict(zip("nyx", pixels, strict=True)) | {
        "u": groups, "c": co, "b": batch, "o": blocks.block_out}

    def products(at: At) -> Expr:
        place = at["u"] * steps.blocks + rc.var
        term = blocks.term(
            block, lambda *lane: padded[at["n"], at["y"] + kh.var, at["x"] + kw.var, place, *lane],
            lambda *lane: w[at["c"], kh.var, kw.var, place, *lane], at["b"], at["o"])
        return te.sum(term, (rc, kh, kw, *block.values()))

    acc = over(GROUPED, sizes, f"{name}_acc", products)
    factors = te.placeholder((co, groups, steps.bytes_, blocks.block_out), "int8",
                             f"{name}_factors")
    scales = te.compute((co, groups, steps.bytes_, batch, blocks.block_out),
                        lambda c, u, p, b, o: factors[c, u, p, o], f"{name}_scales")
    stages = {"x": source, "w": w, "factors": factors, "input": padded, "scales": scales,
              "acc": acc} | _scaled(name, acc, scales, sizes, steps.scale)
    by = {role: step.intrinsic.name
          for role, step in zip(list(stages)[6:], steps.scale, strict=True)}
    parts, u = list(stages.values())[-1], te.reduce_axis(groups, f"{name}_u")
    total = over(TILE, sizes, f"{name}_total", lambda at: te.sum(
        parts[tuple({**at, "u": u.var}[axis] for axis in GROUPED)], u))
    made = finished(name, {**stages, "total": total}, window, total, q, blocks)
    axes = {**dict.fromkeys(("acc", *by), GROUPED), "total": TILE, **made.axes}
    return replace(made, axes={**axes, "acc": GROUPED},
                   by={**by, "total": steps.add.intrinsic.name},
                   reduced={"depth": rc, "rows": kh, "columns": kw, **block})


def _scaled(name: str, acc: Tensor, scales: Tensor, sizes: dict[str, int],
            steps: Sequence[CoverStep]) -> dict[str, Tensor]:
    """The stages that multiply the sum of each group by its factor, by role."""
    stages, computed = dict[str, Tensor](), dict[Expr, Tensor]()
    for place, step in enumerate(steps):
        def value(at: At, step: CoverStep = step) -> Expr:
            def read(operand: Operand, expr: Expr, scope: str) -> Expr:
                if isinstance(expr, Const):
                    return expr
                if scope == COMPUTED:
                    return computed.get(expr, acc)[tuple(at.values())]
                byte = BYTES.index(name_of(expr))
                return Cast(scales[at["c"], at["u"], byte, at["b"], at["o"]], operand.dtype)
            return step.body(read)

        role = f"scaled_{place}" if place else "scaled"
        stages[role] = computed[step.value] = over(GROUPED, sizes, f"{name}_{role}", value)
    return stages
