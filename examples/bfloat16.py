"""A network of two layers in bfloat16, on the machine of ``examples/machines/bfloat16.py``.

    python -m examples.bfloat16 [--sim functional|cycle|verilator] [--rows N]

Each layer is a product of matrices, a bias and, behind the first, Relu::

    h = bfloat16(max(x @ w1.T + b1, 0))        y = bfloat16(h @ w2.T + b2)

Blocks of the output of a layer are those of the input of the next: block_in is block_out.
`algorithm` says this in tensor expressions; `schedule` places it: tiles of rows, loads of what a
tile needs, and every statement handed to an instruction. `reference` computes the same bits by
NumPy, in the order of sums that the machine has.
"""

import argparse
import hashlib
from collections.abc import Mapping

import numpy as np

from accel.machine.machine import Machine
from accel.mapping.assembling import assemble
from accel.sim.meaning import functional
from accel.sim.rtl import verilated
from accel.sim.timed import cycle
from compiler import te
from compiler.schedule import Schedule
from compiler.te import Tensor, numpy_dtype
from examples.machines.bfloat16 import machine as MACHINE

DEPTH, INNER, WIDTH = 12, 16, 8             # channels of x, h and y
TILE = 4                                    # rows of blocks at once

BFLOAT16 = numpy_dtype("bfloat16")
SIMULATORS = {"functional": functional.simulate, "cycle": cycle.simulate,
              "verilator": verilated.simulate}


def layer(machine: Machine, number: int, x: Tensor, columns: int, relu: bool) -> Tensor:
    """The layer on rows of blocks ``x[r, k, b, i]``; gives ``y[r, c, b, o]``."""
    config = machine.config
    rows, depth, *_ = x.shape
    block = config.block_out, config.block_in
    w = te.placeholder((columns, depth, *block), "bfloat16", f"w{number}")
    bias = te.placeholder((columns, config.batch, config.block_out), "bfloat16", f"b{number}")
    k, i = te.reduce_axis(depth, f"k{number}"), te.reduce_axis(config.block_in, f"i{number}")
    shape = (rows, columns, config.batch, config.block_out)
    acc = te.compute(shape, lambda r, c, b, o: te.sum(
        x[r, k, b, i].astype("float32") * w[c, k, o, i].astype("float32"), axis=(k, i)),
        f"acc{number}")

    def rounded(r, c, b, o):
        value = acc[r, c, b, o] + bias[c, b, o].astype("float32")
        return (te.maximum(value, te.const(0.0, "float32")) if relu else value).astype("bfloat16")

    out = te.compute(shape, rounded, f"out{number}")
    return te.compute(shape, lambda r, c, b, o: out[r, c, b, o], f"y{number}")


def algorithm(machine: Machine, rows: int) -> list[Tensor]:
    config = machine.config
    x = te.placeholder((rows, DEPTH // config.block_in, config.batch, config.block_in), "bfloat16",
                       "x")
    h = layer(machine, 1, x, INNER // config.block_out, relu=True)
    return [h, layer(machine, 2, h, WIDTH // config.block_out, relu=False)]


def schedule(machine: Machine, s: Schedule) -> None:
    """Rows of a tile are inner to the depth: sums into one entry wait for each other, those into
    several hide the wait."""
    for number, source, body in ((1, "x", "add_relu"), (2, "y1", "add_round")):
        acc, out, y = (f"{stage}{number}" for stage in ("acc", "out", "y"))
        tiles, _ = s[y].split("r", TILE)
        for stage, scope in ((out, "out"), (acc, "acc")):
            s[stage].compute_at(tiles)
            s[stage].set_scope(scope)
        s[acc].reorder(f"k{number}", "r", "c", "b", "o", f"i{number}", reassociate=True)
        for operand, scope in ((source, "inp"), (f"w{number}", "wgt"), (f"b{number}", "res")):
            copy = s[operand].cache_read(scope)
            copy.compute_at(tiles)
            copy.tensorize(None, machine.intrinsic("load"))
        s[acc].tensorize("b", machine.intrinsic("gemm"))
        s[out].tensorize("b", machine.intrinsic(body))
        s[y].tensorize(None, machine.intrinsic("store"))


def program(machine: Machine = MACHINE, rows: int = 8):
    """The network as an `AccelProgram`; `rows` rows of blocks."""
    s = Schedule(algorithm(machine, rows))
    schedule(machine, s)
    return assemble(machine, s.program)


def arrays(machine: Machine = MACHINE, rows: int = 8, seed: int = 0) -> dict[str, np.ndarray]:
    """Random inputs, in blocks; of many magnitudes, so that the order of sums shows."""
    rng, c = np.random.default_rng(seed), machine.config
    shapes: dict[str, tuple[int, ...]] = {
        "x": (rows, DEPTH // c.block_in, c.batch, c.block_in)}
    for number, depth, width in ((1, DEPTH, INNER), (2, INNER, WIDTH)):
        columns = width // c.block_out
        shapes[f"w{number}"] = (columns, depth // c.block_in, c.block_out, c.block_in)
        shapes[f"b{number}"] = (columns, c.batch, c.block_out)
    return {name: (rng.normal(size=shape) * 2.0 ** rng.integers(-8, 9, shape)).astype(BFLOAT16)
            for name, shape in shapes.items()}


def reference(given: Mapping[str, np.ndarray]) -> np.ndarray:
    """`y`: of each block product neighbours are summed, then neighbours of the sums; block products
    follow each other."""
    y = given["x"]
    for number in (1, 2):
        x, w = y.astype(np.float32), given[f"w{number}"].astype(np.float32)
        terms = x[:, None, :, :, None] * w[None, :, :, None]        # r, c, k, b, o, i
        while terms.shape[-1] > 1:
            terms = terms[..., 0::2] + terms[..., 1::2]
        total = terms[:, :, 0, ..., 0]
        for k in range(1, terms.shape[2]):
            total = total + terms[:, :, k, ..., 0]
        total = total + given[f"b{number}"].astype(np.float32)
        y = (np.maximum(total, 0) if number == 1 else total).astype(BFLOAT16)
    return y


def main() -> int:
    parser = argparse.ArgumentParser(description="A network of two layers in bfloat16.")
    parser.add_argument("--sim", choices=SIMULATORS, default="cycle")
    parser.add_argument("--rows", type=int, default=8, help="rows of blocks, a multiple of 4")
    args = parser.parse_args()
    given = arrays(rows=args.rows)
    run = SIMULATORS[args.sim](MACHINE, made := program(rows=args.rows), inputs=given)
    y = made.extract(run.memory, "y2")
    right = bool((y.view(np.uint16) == reference(given).view(np.uint16)).all())
    print(f"{run.describe()}, y {hashlib.sha256(y.tobytes()).hexdigest()[:16]}, "
          f"{'equal to' if right else 'differs from'} the reference")
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())
