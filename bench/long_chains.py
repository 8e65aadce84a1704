"""How long does the first call of a long network take, with nothing in the cache?

    python -m bench.long_chains [--nodes N,N,...] [--target T]

Networks are chains of products with matrices of 8 by 8, no two of which are fused, or of sums with
vectors, 64 of which are. Prints for each chain, in seconds of processor time:

- ``chain_KIND_N_compile_seconds``: of `lockstep.compile`;
- ``chain_KIND_N_first_seconds``: of the first call, which makes what calls the kernels;
- ``chain_KIND_N_second_seconds``: of the next one;
- ``chain_KIND_N_ratio``: the first two together by those of the chain before it, and by how much
  longer that chain is; 1 where time grows in proportion.

Each chain has an empty cache of its own.
"""

import argparse
import os
import sys
import tempfile
import time

import numpy as np

import lockstep
from compiler.graph import Builder, Graph, TensorType

WIDTH = 8
SHAPES = {"product": ("matmul", (WIDTH, WIDTH)), "sum": ("add", (WIDTH,))}


def chain(kind: str, count: int) -> Graph:
    """`count` operators, each with a constant of its own."""
    rng, (op, shape) = np.random.default_rng(0), SHAPES[kind]
    net = Builder("chain")
    value = net.add_input("x", TensorType((1, WIDTH), "float32"))
    for number in range(count):
        constant = net.add_constant(f"c{number}", rng.standard_normal(shape).astype(np.float32))
        value = net.emit(op, f"n{number}", [value, constant], f"v{number}")
    return net.finish([value])


def seconds(graph: Graph, target: str) -> list[float]:
    """Processor time of compiling, of the first call and of the second, with an empty cache."""
    x = {"x": np.zeros((1, WIDTH), np.float32)}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LOCKSTEP_CACHE"] = folder
        moments = [time.process_time()]
        module = lockstep.compile(graph, target)
        for _ in range(3):
            moments.append(time.process_time())
            module(x)
    return np.diff(moments).tolist()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="300,1250,5000", help="lengths (default %(default)s)")
    parser.add_argument("--target", default="cpu", help="(default %(default)s)")
    args = parser.parse_args()
    for kind in SHAPES:
        seconds(chain(kind, 2), args.target)            # what is done once a process
        before = None
        for count in map(int, args.nodes.split(",")):
            times = seconds(chain(kind, count), args.target)
            for name, figure in zip(("compile", "first", "second"), times, strict=True):
                print(f"chain_{kind}_{count}_{name}_seconds", f"{figure:.3f}")
            per_node = sum(times[:2]) / count
            if before:
                print(f"chain_{kind}_{count}_ratio", f"{per_node / before:.2f}", flush=True)
            before = per_node
    return 0


if __name__ == "__main__":
    sys.exit(main())
