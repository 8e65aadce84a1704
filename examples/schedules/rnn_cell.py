"""A recurrent network: a matrix product inside of every time."""

import numpy as np

from compiler import te
from compiler.schedule import Schedule

from .example import Example

TIMES, N = 5, 12


def algorithm():
    """``h[t] = tanh(x[t] + h[t - 1] @ w)``, from zeros."""
    x, w = te.placeholder((TIMES, N), "float32", "x"), te.placeholder((N, N), "float32", "w")
    k = te.reduce_axis(N, name="k")

    def step(h, t):
        z = te.compute((N,), lambda i: te.sum(h[t - 1, k] * w[k, i], axis=k), name="z")
        return te.compute((N,), lambda i: te.tanh(z[i] + x[t, i]), name="next")

    return [te.scan((TIMES, N), init=lambda i: te.const(0, "float32"), step=step, name="h")]


def schedule(s: Schedule):
    """The product walks rows of `w`, in vectors of 4; its zeros are stored ahead. Times follow each
    other as they must."""
    tiles, lanes = s["z"].split("i", 4)
    s["z"].reorder("k", tiles, lanes)
    s["z"].decompose_reduction("k")
    for loop in (lanes, f"{lanes}_init"):
        s["z"].vectorize(loop)


def reference(x):
    h = np.zeros((TIMES, N), np.float32)
    for t in range(1, TIMES):
        h[t] = np.tanh(x["x"][t] + h[t - 1] @ x["w"])
    return {"h": h}


EXAMPLES = (Example("rnn_cell", algorithm, schedule, reference),)
