"""What share of the processor's peak do convolutions and products reach, without what is around
them?

    python -m bench.cpu_bodies [NAME ...] [--rounds N]

Convolutions of 3 x 3 and 1 x 1 and dense layers of `bench.inputs.cpu_operators` run on the target
`cpu:plain`, that is without Winograd's products, kernel by kernel; the one that adds products
counts, the best of all rounds. A round runs every operator and measures the peak in float32
(`bench.cpu.peak_gflops`), of which the best counts too; that of bytes is four times as high, which
instructions on vectors reach at most (tile registers may exceed it). Prints ``name value`` lines:
``body_NAME_DTYPE_share``, and ``body_DTYPE_least``.
"""

import argparse
import os
import sys

import numpy as np

import lockstep
from bench.cpu import peak_gflops
from bench.inputs.cpu_operators import OPERATORS, operator_model

NAMES = tuple(name for name, (op, *numbers) in OPERATORS.items()
              if op == "Conv" and numbers[5] == 1 and min(numbers[:2]) >= 64
              or op == "Dense" and numbers[0] > 1)

TIMES = 10              # an operator in a round


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=int, default=10, help="default 10")
    args = parser.parse_args()
    names = args.names or NAMES
    for name in names:
        if name not in NAMES:
            parser.error(f"NAME must be one of {', '.join(NAMES)}, not {name!r}")
    for dtype, factor in (("float32", 1), ("int8", 4)):
        runs, peak = {name: Body(name, dtype) for name in names}, 0.0
        for _ in range(args.rounds):
            for run in runs.values():
                run()
            peak_gflops.cache_clear()
            peak = max(peak, peak_gflops())
        shares = {name: products(name) / run.seconds / 5e8 / peak / factor
                  for name, run in runs.items()}
        for name, share in shares.items():
            print(f"body_{name}_{dtype}_share {share:.3f}")
        print(f"body_{dtype}_least {min(shares.values()):.3f}", flush=True)
    return 0


def products(name: str) -> int:
    """Multiply-accumulates of an operator."""
    op, *numbers = OPERATORS[name]
    if op == "Dense":
        rows, depth, columns = numbers
        return rows * depth * columns
    ci, co, k, size, stride, _ = numbers
    return ci * co * k * k * (-(-size // stride)) ** 2


class Body:
    """An operator; `seconds` are the least of its kernel that adds products."""

    def __init__(self, name: str, dtype: str):
        model = operator_model(name)
        rng = np.random.default_rng(0)
        samples = [{value.name: rng.standard_normal(
            [side.dim_value for side in value.type.tensor_type.shape.dim], np.float32)
            for value in model.graph.input} for _ in range(2)]
        if dtype == "int8":
            model = lockstep.quantize(model, samples).model
        self.module, self.sample = lockstep.compile(model, "cpu:plain"), samples[0]
        self.seconds = float("inf")

    def __call__(self) -> None:
        for _ in range(TIMES):
            row, = (row for row in self.module.profile(self.sample)
                    if any(op in row["op"] for op in ("conv2d", "packed_matmul")))
            self.seconds = min(self.seconds, row["seconds"])


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
