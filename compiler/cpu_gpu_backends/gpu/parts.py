"""Long sums of few results in parts, each computed by blocks of its own.

::

    for part (blockIdx.z), rows, columns:           a kernel, in tiles
      for k: c_rf[part, i, j] += a[i, part*f + k] * b[j, part*f + k]
    for i, j (blockIdx.x, threadIdx.x):             another one, a thread for each element
      alloc local c[1]
      for part: c += c_rf[part, i, j]
      y[i, j] = f(c)

The partial sums are a workspace in global memory. They are added in one order, so the result does
not change from run to run; sums of integers are the same to the bit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from compiler.cpu_gpu_backends.gpu.stages import fused, write_of
from compiler.ir import Update
from compiler.schedule import Schedule

MULTIPROCESSORS = 108       # of an A100; an H100 has 132
QUARTERS = 4                # of a multiprocessor, each of which works for warps of its own
MOST = 32                   # parts
LEAST_STEPS = 4             # of a part: those before are copied while nothing is computed


@dataclass(frozen=True, slots=True)
class Parts:
    """The division of a sum: its loop over `depth` into as many parts, and its outermost `loops`,
    the taps of a window, into their iterations.
    """

    depth: int = 1
    loops: int = 0

    def count(self, extents: Sequence[int]) -> int:
        return self.depth * prod(extents[:self.loops])


WHOLE = Parts()


@dataclass(frozen=True, slots=True)
class Rates:
    """Products that a multiprocessor makes while an element of an operand is `copied`, a `partial`
    sum stored and loaded, and another `kernel` started.
    """

    copied: int
    partial: int
    kernel: int


BY_TENSOR_CORES, BY_THREADS = Rates(32, 256, 1 << 20), Rates(8, 16, 1 << 17)


@dataclass(frozen=True, slots=True)
class TiledWork:
    """A product of `results` elements in so many `blocks`, each `rows` x `columns` for so many
    `warps`. Their sums have `steps` of `terms` for each iteration of loops of these `extents`.
    """

    results: int
    blocks: int
    rows: int
    columns: int
    warps: int
    steps: int
    terms: int
    extents: tuple[int, ...] = ()
    rates: Rates = BY_TENSOR_CORES

    def cost(self, parts: Parts = WHOLE) -> int:
        """The work of a multiprocessor in sequence, in products: its blocks, their operands
        on their way, and where there are parts, storing and adding them. The products of a block of
        few warps take as long as if it had a warp for each quarter.
        """
        count, rates = parts.count(self.extents), self.rates
        blocks = -(-self.blocks * count // MULTIPROCESSORS)
        terms = -(-self.steps // parts.depth) * self.terms * prod(self.extents[parts.loops:])
        cost = terms * (max(blocks, QUARTERS // self.warps) * self.rows * self.columns
                        + blocks * rates.copied * (self.rows + self.columns))
        if count == 1:
            return cost
        return cost + rates.kernel + rates.partial * -(-self.results * count // MULTIPROCESSORS)


def cost_by_rows(results: int, terms: int, rates: Rates) -> int:
    """The cost of blocks that each sum one result: nobody else reads its operands, of which every
    thread loads an element at a time.
    """
    return -(-results // MULTIPROCESSORS) * terms * 4 * rates.copied


def divisions(work: TiledWork) -> Iterator[Parts]:
    """The ways to divide it, the whole first, which is the only one where blocks are enough. Parts
    have `LEAST_STEPS` at least, and none lies beyond the sum as a whole.
    """
    yield WHOLE
    if work.blocks >= MULTIPROCESSORS:
        return
    for loops in range(len(work.extents) + 1):
        rest = prod(work.extents[loops:])
        for depth in range(1 if loops else 2, min(work.steps, MOST) + 1):
            parts, steps = Parts(depth, loops), -(-work.steps // depth)
            if (-(-work.steps // steps) == depth and steps * rest >= LEAST_STEPS
                    and parts.count(work.extents) <= MOST):
                yield parts


def divide(s: Schedule, total: str, loops: Sequence[str], depth: str, parts: Parts) -> str:
    """Sums of a stage as partial sums in a stage before, whose name it returns. It reduces over
    `loops`, and `depth`, a multiple of the parts.
    """
    outer = list(loops[:parts.loops])
    if parts.depth > 1:
        outer.append(s[total].split(depth, nparts=parts.depth)[0])
    update = write_of(s.program, total)
    assert isinstance(update, Update)
    rest = [axis.name for axis in update.axes if axis.name not in outer]
    s[total].reorder(*outer, *rest, reassociate=True)
    return s[total].rfactor(fused(s, total, outer, "part"), reassociate=True).name
