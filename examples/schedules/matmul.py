"""Blocked matrix product for a CPU, step by step."""

from compiler import te
from compiler.schedule import Schedule

from .example import Example

M, N, K = 40, 36, 24


def algorithm():
    """``c = a @ b``."""
    a = te.placeholder((M, K), "float32", name="a")
    b = te.placeholder((K, N), "float32", name="b")
    k = te.reduce_axis(K, name="k")
    return [te.compute((M, N), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")]


def schedule(s: Schedule):
    """Threads share blocks of 8 rows; a block has 16 columns, the last one fewer. It is summed up
    in a buffer of its own, four steps of `k` at a time, along rows of `b` in vectors, and then
    copied out. Zeros are stored ahead, so that the inner loops have nothing to do but add."""
    acc = s["c"].cache_write("local", name="acc")
    rows, columns, _, lanes = s["c"].tile("i", "j", 8, 16)
    acc.compute_at(columns)
    steps, step = acc.split("k", 4)
    acc.reorder(steps, "i", step, "j")
    acc.decompose_reduction(steps)
    acc.unroll(step)
    for loop in ("j", "j_init"):
        acc.vectorize(loop)
    s["c"].vectorize(lanes)
    s["c"].parallel(rows)


EXAMPLES = (Example("matmul", algorithm, schedule, lambda x: {"c": x["a"] @ x["b"]}),)
