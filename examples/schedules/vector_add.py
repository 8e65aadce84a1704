"""Vector addition: one loop, in blocks of threads."""

from compiler import te
from compiler.schedule import Schedule

from .example import Example

N = 100


def algorithm():
    """Every element of `c` is the sum of one of `a` and one of `b`."""
    a, b = (te.placeholder((N,), "float32", name=name) for name in "ab")
    return [te.compute((N,), lambda i: a[i] + b[i], name="c")]


def schedule(s: Schedule):
    """32 threads a block; the last block is ragged, a guard keeps its threads in bounds."""
    block, thread = s["c"].split("i", 32)
    s["c"].bind(block, "blockIdx.x")
    s["c"].bind(thread, "threadIdx.x")


EXAMPLES = (Example("vector_add", algorithm, schedule, lambda x: {"c": x["a"] + x["b"]}),)
