"""All 2^32 products of two numbers of 16 bits: the Verilated datapath against NumPy.

    python -m bench.floats [bfloat16|float16 ...]

A product is that of float32, where both factors are exact. The reference multiplies in NumPy (with
ml_dtypes for bfloat16) and makes every NaN the canonical one. Exit status 1: some product differs.
"""

import argparse
import time

import numpy as np

from accel.datapath.floats import FORMATS
from accel.datapath.plan import arranged
from compiler.te import numpy_dtype
from tests.support.float_bodies import BODIES
from tests.support.verilated_datapath import VerilatedDatapath

__all__ = ["differing"]

NUMBERS = 1 << 16


def differing(core: VerilatedDatapath, dtype: str, factors: np.ndarray) -> int:
    """How many products of `factors` (bits) with every number of the type differ."""
    lanes = core.plan.shape[0]
    every = np.arange(NUMBERS, dtype=np.uint16)
    a, b = (x.reshape(-1, lanes) for x in (np.repeat(factors.astype(np.uint16), NUMBERS),
                                           np.tile(every, len(factors))))
    got = core.run({"a": a, "b": b}).view(np.uint32)
    with np.errstate(all="ignore"):
        want = (a.view(numpy_dtype(dtype)).astype(np.float32)
                * b.view(numpy_dtype(dtype)).astype(np.float32))
    raw = np.where(np.isnan(want), np.uint32(FORMATS["float32"].nan), want.view(np.uint32))
    return int((got != raw).sum())


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Compares all products of two numbers of 16 bits.")
    parser.add_argument("types", nargs="*", default=["bfloat16", "float16"])
    wrong = 0
    for dtype in parser.parse_args().types:
        body = BODIES[f"product_of_{dtype}"]
        core = VerilatedDatapath(arranged("vector", (body,), (0,), body.dst.shape, stage_depth=8))
        begin, here = time.time(), 0
        for first in range(0, NUMBERS, 16):
            here += differing(core, dtype, np.arange(first, first + 16))
            if first % 4096 == 0:
                print(f"{dtype}: {first + 16} factors, {here} differ, "
                      f"{time.time() - begin:.0f} s", flush=True)
        print(f"{dtype}: {NUMBERS ** 2} products, {here} differ, {time.time() - begin:.0f} s")
        wrong += here
    return wrong > 0


if __name__ == "__main__":
    raise SystemExit(main())
