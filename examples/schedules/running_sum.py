"""A recurrence over time: the cumulative sum of every column."""

import numpy as np

from compiler import te
from compiler.schedule import Schedule

from .example import Example

TIMES, COLUMNS = 12, 20


def algorithm():
    """A time adds its row to the sums of the time before."""
    x = te.placeholder((TIMES, COLUMNS), "int32", name="x")

    def step(total, t):
        return te.compute((COLUMNS,), lambda j: total[t - 1, j] + x[t, j], name="next")

    return [te.scan((TIMES, COLUMNS), init=lambda j: x[0, j], step=step, name="total")]


def schedule(s: Schedule):
    """Columns do not depend on each other: vectors of 8 of them. Times do: `parallel` would refuse
    the loop over time."""
    for loop in ("total_j", "next_j"):
        _, lanes = s["total"].split(loop, 8)
        s["total"].vectorize(lanes)


EXAMPLES = (Example("running_sum", algorithm, schedule,
                    lambda x: {"total": np.cumsum(x["x"], axis=0)}),)
