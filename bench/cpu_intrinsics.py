"""How fast are matrix products by the processor's tile instructions, on one thread?

Each kind of `tests.support.product_templates` that this processor has, of size 1024
x 1024 x 1024 by default, is checked first, then timed in turns with NumPy's BLAS on float32, so
that other load on the machine affects all alike. The best processor time of all rounds counts.
Prints ``name value`` lines:

- ``cpu_KIND_tmacs``: 10**12 multiply-accumulates a second, with b packed in panels beforehand, as
  weights are; ``cpu_KIND_packing_tmacs``: packing b is part of it;
- ``cpu_KIND_over_blas``: the same, divided by what NumPy's BLAS does on float32 in this run;
- ``cpu_fp32_ratio``: time of NumPy's BLAS divided by that of the fastest float32 kind, b packed
  beforehand; ``cpu_fp32_packing_ratio``: packing is part of it.

Arrays begin at cache lines. Exit status 2 if a kind was asked for by name that the processor lacks.
"""

import argparse
import os
import subprocess
import sys

import numpy as np

from bench.support.timing import Run, best_times
from compiler.cpu_gpu_backends.cpu.arrays import aligned
from tests.support.product_templates import TEMPLATES, in_panels, product
from compiler.cpu_gpu_backends.llvm import MachineError, build

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(TEMPLATES)} (all that there are)")
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=40)
    args = parser.parse_args()
    if any(os.environ.get(name) != "1" for name in ONE_THREAD):     # BLAS reads them when loaded
        return subprocess.run([sys.executable, "-m", "bench.cpu_intrinsics", *sys.argv[1:]],
                              env={**os.environ, **ONE_THREAD}).returncode
    runs: dict[str, Run] = {"blas": _blas(args.size)}
    for kind in args.kinds or TEMPLATES:
        try:
            for suffix, packed in (("", True), ("_packing", False)):
                runs[kind + suffix] = _ours(kind, args.size, packed)
        except (MachineError, ValueError) as error:
            print(f"{kind}: {error}", file=sys.stderr)
            if args.kinds:
                return 2
    _report(best_times(runs, args.rounds), args.size ** 3)
    return 0


def _blas(size: int) -> Run:
    a, b, c = (aligned((size, size), "float32") for _ in range(3))
    a[:], b[:] = 1, 2
    return lambda: np.matmul(a, b, out=c)


def _ours(kind: str, size: int, packed: bool) -> Run:
    """Computes a product of random operands; raises ArithmeticError if it is wrong."""
    way, rng = TEMPLATES[kind], np.random.default_rng(0)
    kernel = build(product(kind, size, size, size, packed), contract=True, strict=True)
    a, b, c = (aligned((size, size), dtype) for dtype in (way.a, way.b, way.c))
    for array in (a, b):
        low = 0 if array.dtype.kind == "u" else -100
        array[:] = rng.integers(low, 100, array.shape)
    arrays = a, in_panels(kind, b) if packed else b, c
    kernel(*arrays)
    exact = a.astype(np.float64) @ b.astype(np.float64)     # below 2^53
    bound = (size + 1) * np.finfo(np.float32).eps * 1e4 * size if way.c == "float32" else 0
    if (abs(c - exact) > bound).any():
        raise ArithmeticError(f"{kind} must compute the product of its operands")
    return lambda: kernel(*arrays)


def _report(best: dict[str, float], work: int) -> None:
    for name, seconds in best.items():
        print(f"cpu_{name}_tmacs", f"{work / seconds / 1e12:.4f}")
        print(f"cpu_{name}_over_blas", f"{best['blas'] / seconds:.2f}")
    for suffix in ("", "_packing"):
        ours = [best[name + suffix] for name in TEMPLATES
                if TEMPLATES[name].a == "float32" and name + suffix in best]
        if ours:
            print(f"cpu_fp32{suffix}_ratio", f"{best['blas'] / min(ours):.3f}")


if __name__ == "__main__":
    sys.exit(main())
