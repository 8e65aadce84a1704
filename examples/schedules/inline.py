"""Before and after `compute_inline`: a stage that is cheaper to compute twice than to store."""

import numpy as np

from compiler import te
from compiler.schedule import Schedule

from .example import Example

N = 10


def algorithm():
    """`b` doubles `a`; `c` adds neighbours of `b`; `d` is the distance of `c` from 7."""
    a = te.placeholder((N + 2,), "int32", name="a")
    b = te.compute((N + 2,), lambda i: a[i] * 2, name="b")
    c = te.compute((N,), lambda i: b[i] + b[i + 2], name="c")
    return [te.compute((N,), lambda i: te.abs(c[i] - 7), name="d")]


def schedule(s: Schedule):
    """First `b` disappears in `c`, which computes each of its elements twice; then `d` moves into
    the loop of `c`, which it replaces."""
    s["b"].compute_inline()
    s["d"].reverse_inline()


def reference(x):
    b = x["a"] * 2
    return {"d": np.abs(b[:-2] + b[2:] - 7)}


EXAMPLES = (Example("inline", algorithm, schedule, reference),)
