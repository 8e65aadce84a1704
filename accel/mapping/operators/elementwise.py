"""Element-wise operators: each instruction that computes one is a stage.

The inputs broadcast: one of a single image, channel, row or column is loaded once for all of them,
and its entries are read again and again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from accel.mapping.operators.blocked import (Activation, BlockedOperator, Blocks, Window,
                                             inside, windowed, written)
from compiler import te
from compiler.te import Buffer, Cast, Const, Expr, Field, Tensor
from compiler.tensorize import Operand
from compiler.tensorize.cover import COMPUTED, CONSTANTS, TABLES, CoverStep, leaf_of, name_of

SOURCES = ("x", "y", "z", *(f"x{place}" for place in range(3, 16)))
"""The roles of inputs as they lie in memory, in order."""


def elementwise(name: str, inputs: Mapping[str, Activation], result: Activation,
                steps: Sequence[CoverStep], blocks: Blocks) -> BlockedOperator:
    """The stages of steps that read these inputs, by the names of their leaves.

    Stages: ``x``, ``y``, ``z``, ``x3``, ... and the same tensors in blocks, ``input``, ``input_y``,
    ...; for each table ``table``, ``table_1``, ...; for each step that reads parameters of channels
    ``params``, ``params_1``, ... [co][block_out]; ``t0``, ``t1``, ... that steps compute, in
    acc, then ``quantized`` and ``output``.
    """
    stages: dict[str, Tensor] = {}
    loaded: dict[str, Tensor] = {}
    for place, (known, x) in enumerate(inputs.items()):
        role = SOURCES[place]
        prefix = f"{name}_{role}" if place else name
        stages[role], loaded[known] = _loaded(prefix, x, result, blocks)
        stages[f"input_{role}" if place else "input"] = loaded[known]
    shape = (-(-result.n // blocks.batch), result.h, result.w,
             result.channel_blocks(blocks, blocks.block_out), blocks.batch, blocks.block_out)
    for role, buffer in tables_of(steps).items():
        stages[role] = loaded[buffer.name] = te.placeholder(buffer.shape, buffer.dtype,
                                                            f"{name}_{role}")
    records, computed = parameters_of(steps), dict[Expr, Tensor]()
    by: dict[str, str] = {}
    for place, step in enumerate(steps):
        params = None
        if step in records:
            params = te.placeholder((shape[3], blocks.block_out), record_read(step),
                                    f"{name}_{records[step]}")
            stages[records[step]] = params
        lane = _Lane(step, loaded, computed, params, blocks.element)
        if place == len(steps) - 1:
            by["quantized"] = step.intrinsic.name
            whole = written(name, stages, Window((1, 1)), shape, lane.stored)
            return replace(whole, by=by, repeated=tuple(
                role for role in whole.inputs if stages[role].shape[1:3] == (1, 1) != shape[1:3]))
        role = f"t{place}"
        by[role] = step.intrinsic.name
        stages[role] = computed[step.value] = te.compute(shape, lane.value, f"{name}_{role}")
    raise ValueError(f"Steps of {name} must be one or more")


def record_read(step: CoverStep) -> str:
    """The record that a step reads parameters as."""
    return next(operand.stored_as(scope).partition(".")[0] for operand, _, scope in step.operands
                if scope == CONSTANTS)


def numbers_of(step: CoverStep, constants: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The fields of the record that a step reads: each a number, or one for each channel, from the
    constants that leaves are.
    """
    return {operand.stored_as(scope).partition(".")[2]:
            expr.value if isinstance(expr, Const) else constants[name_of(expr)]
            for operand, expr, scope in step.operands if scope == CONSTANTS}


def parameters_of(steps: Sequence[CoverStep]) -> dict[CoverStep, str]:
    """The role of the parameters of each step that reads some."""
    reading = [step for step in steps if any(scope == CONSTANTS for *_, scope in step.operands)]
    return {step: f"params_{place}" if place else "params" for place, step in enumerate(reading)}


def tables_of(steps: Sequence[CoverStep]) -> dict[str, Buffer]:
    """The role of each table that steps read."""
    buffers = dict.fromkeys(read.buffer for step in steps for _, expr, scope in step.operands
                            if scope == TABLES and (read := leaf_of(expr)) is not None)
    return {f"table_{place}" if place else "table": buffer for place, buffer in enumerate(buffers)}


class _Lane:
    """The element that a step computes, over the stages that it reads."""

    def __init__(self, step: CoverStep, loaded: Mapping[str, Tensor],
                 computed: Mapping[Expr, Tensor], params: Tensor | None, element: str):
        self.step, self.loaded, self.computed, self.params = step, loaded, computed, params
        self.element = element

    def value(self, n, y, x, c, b, o) -> Expr:
        place = (n, y, x, c, b, o)

        def read(operand: Operand, expr: Expr, scope: str) -> Expr:
            if scope == COMPUTED:
                return self.computed[expr][place]
            if scope == CONSTANTS:
                assert self.params is not None
                stored = operand.stored_as(scope).partition(".")[2]
                return Field(self.params[c, o], stored).astype(operand.dtype)
            if isinstance(expr, Const):
                return expr
            if scope == TABLES:
                return self.loaded[name_of(expr)][0]
            tensor = self.loaded[name_of(expr)]
            own = (te.const(0, te.INDEX) if extent == 1 else index
                   for extent, index in zip(tensor.shape[:4], place[:4], strict=True))
            return Cast(tensor[(*own, b, o)], operand.dtype)

        return self.step.body(read)

    def stored(self, n, y, x, c, b, o) -> Expr:
        return self.value(n, y, x, c, b, o).astype(self.element)


def _loaded(name: str, x: Activation, result: Activation, blocks: Blocks) -> tuple[Tensor, Tensor]:
    """The stored tensor and its blocks; what broadcasts is of extent 1, in every lane of a block.
    """
    wide = (x.n, x.c) == (result.n, result.c)
    if wide:
        return windowed(name, x, Window((1, 1)), 0, blocks, blocks.block_out)
    size, one_image, one_channel = blocks.block_out, x.n < result.n, x.c < result.c
    groups = -(-x.n // blocks.batch)
    count = 1 if one_channel else x.channel_blocks(blocks, size)
    stored = (x.stored_shape(blocks) if x.plain else
              (groups, x.h, x.w, blocks.batch, x.channel_blocks(blocks, size), size))
    source = te.placeholder(stored, blocks.element, f"{name}_x")

    def element(n, h, w, c, b, i):
        zero = te.const(0, te.INDEX)
        if not x.plain:
            channel = (zero, zero) if one_channel else (c, i)
            return source[(n, h, w, zero if one_image else b, *channel)]
        image = zero if one_image else n * blocks.batch + b
        channel = zero if one_channel else c * size + i
        there = ([] if one_image else inside([(image, groups * blocks.batch, x.n)])) + (
            [] if one_channel else inside([(channel, count * size, x.c)]))
        read = source[image, h, w, channel]
        return te.select(te.all_of(*there), read, 0) if there else read

    return source, te.compute((groups, x.h, x.w, count, blocks.batch, size), element,
                              f"{name}_input")
