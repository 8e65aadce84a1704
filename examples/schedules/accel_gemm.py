"""The accelerator's matrix product: every statement handed to an instruction, step by step."""

import numpy as np

from accel.machine.loading import load_machine
from compiler import te
from compiler.schedule import Schedule

from .example import Example

MACHINE = load_machine("tiny-1x4x4")
BATCH, BLOCK_IN, BLOCK_OUT = (MACHINE.config.batch, MACHINE.config.block_in,
                              MACHINE.config.block_out)
ROWS, DEPTH, COLUMNS = 6, 4, 3              # in blocks


def algorithm():
    """Products of int8 blocks of `x` and `w` are summed in 32 bits and clamped to a byte."""
    x = te.placeholder((ROWS, DEPTH, BATCH, BLOCK_IN), "int8", name="x")
    w = te.placeholder((COLUMNS, DEPTH, BLOCK_OUT, BLOCK_IN), "int8", name="w")
    k, i = te.reduce_axis(DEPTH, name="k"), te.reduce_axis(BLOCK_IN, name="i")
    shape = (ROWS, COLUMNS, BATCH, BLOCK_OUT)
    acc = te.compute(shape, lambda r, c, b, o: te.sum(
        x[r, k, b, i].astype("int32") * w[c, k, o, i].astype("int32"), axis=(k, i)), name="acc")
    clamped = te.compute(shape, lambda r, c, b, o: te.clamp(acc[r, c, b, o], -128, 127)
                         .astype("int8"), name="clamped")
    return [te.compute(shape, lambda r, c, b, o: clamped[r, c, b, o], name="y")]


def schedule(s: Schedule):
    """Tiles of two rows of blocks, each with all of its columns, by virtual threads that take turns
    with the buffers. A tile is summed up in acc, clamped into out and stored; what it needs of `x`
    and `w` is loaded before. Then every statement goes to the instruction that performs it."""
    tiles, _ = s["y"].split("r", 2)
    s["y"].virtual_thread(tiles)
    for stage, scope in (("clamped", "out"), ("acc", "acc")):
        s[stage].compute_at(tiles)
        s[stage].set_scope(scope)
    s["acc"].reorder("r", "c", "k", "b", "o", "i")
    for operand, scope in (("x", "inp"), ("w", "wgt")):
        copy = s[operand].cache_read(scope)
        copy.compute_at(tiles)
        copy.tensorize(None, MACHINE.intrinsic("load"))
    s["acc"].tensorize("b", MACHINE.intrinsic("gemm"))
    s["clamped"].tensorize("b", MACHINE.intrinsic("clamp"))
    s["y"].tensorize(None, MACHINE.intrinsic("store"))


def reference(x):
    product = np.einsum("rkbi,ckoi->rcbo", x["x"].astype(np.int32), x["w"].astype(np.int32))
    return {"y": product.clip(-128, 127).astype(np.int8)}


INTRINSICS = [MACHINE.intrinsic(name) for name in ("load", "gemm", "clamp", "store")]
EXAMPLES = (Example("accel_gemm", algorithm, schedule, reference, INTRINSICS),)
