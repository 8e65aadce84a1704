"""A reduction of one's own with two results: the largest element of each row, and where it is."""


from compiler import te
from compiler.schedule import Schedule

from .example import Example

ROWS, COLUMNS = 6, 40


def larger(left, right):
    """Returns the pair (value, place) with the larger value; the first of two that are equal."""
    better = te.any_of(right[0] > left[0], te.all_of(right[0].equal(left[0]), right[1] < left[1]))
    return te.select(better, right[0], left[0]), te.select(better, right[1], left[1])


def algorithm():
    """`best` is the largest element of each row of `x`, `where` its column."""
    argmax = te.reducer("argmax", larger, identity=(
        te.const(-2**31, "int32"), te.const(2**63 - 1, "int64")))
    x, k = te.placeholder((ROWS, COLUMNS), "int32", name="x"), te.reduce_axis(COLUMNS, name="k")
    return te.compute((ROWS,), lambda i: argmax((x[i, k], k), axis=k), name=("best", "where"))


def schedule(s: Schedule):
    """Eight partial results a row, one for each lane of a vector; then the best of them."""
    _, lane = s["best"].split("k", 8)
    partial = s["best"].rfactor(lane)
    partial.vectorize(lane)


def reference(x):
    return {"best": x["x"].max(1), "where": x["x"].argmax(1)}


EXAMPLES = (Example("argmax", algorithm, schedule, reference),)
