"""Random small computations and random steps of schedules, for Hypothesis."""

from dataclasses import dataclass

from hypothesis import strategies as st

from compiler import te
from compiler.ir import (Alloc, For, If, Program, Stmt, loops, lower, program_text, walk_stmts)
from compiler.schedule import (ScheduleError, cache_read, cache_write, compute_at, compute_inline,
                               fuse, reorder, set_scope, split, tile, unroll, virtual_thread)
from compiler.te import Tensor

__all__ = ["Scheduled", "computations", "scheduled"]

EXTENTS = st.integers(1, 7)


@st.composite
def computations(draw) -> Program:
    """Two to four stages in two dimensions, each of which reads the one before it."""
    last = te.placeholder((draw(st.integers(4, 7)), draw(st.integers(4, 7))), "int32", "x")
    for depth in range(draw(st.integers(2, 4))):
        last = draw(st.sampled_from(KINDS))(draw, last, f"t{depth}")
    return lower([last], "random")


def _elementwise(draw, x: Tensor, name: str) -> Tensor:
    factor = draw(st.integers(-3, 3))
    return te.compute(x.shape, lambda i, j: x[i, j] * factor + x[i, j], name)


def _padded(draw, x: Tensor, name: str) -> Tensor:
    (h, w), low, high = x.shape, draw(st.integers(0, 2)), draw(st.integers(0, 2))

    def body(i, j):
        inside = te.all_of(i >= low, i < h + low, j >= low, j < w + low)
        return te.select(inside, x[i - low, j - low], 9)

    return te.compute((h + low + high, w + low + high), body, name)


def _window(draw, x: Tensor, name: str) -> Tensor:
    """Sum or maximum over windows, with a stride."""
    stride, kernel = draw(st.integers(1, 2)), draw(st.integers(1, min(3, *x.shape)))
    reduce = draw(st.sampled_from([te.sum, te.max]))
    shape = tuple((extent - kernel) // stride + 1 for extent in x.shape)
    k, l = te.reduce_axis(kernel, f"{name}_k"), te.reduce_axis(kernel, f"{name}_l")
    return te.compute(shape, lambda i, j: reduce(x[i * stride + k, j * stride + l], (k, l)), name)


def _product(draw, x: Tensor, name: str) -> Tensor:
    """Product of matrices with a new input."""
    columns, k = draw(EXTENTS), te.reduce_axis(x.shape[1], f"{name}_k")
    y = te.placeholder((x.shape[1], columns), "int32", f"{name}_y")
    return te.compute((x.shape[0], columns), lambda i, j: te.sum(x[i, k] * y[k, j], k), name)


def _enlarged(draw, x: Tensor, name: str) -> Tensor:
    """Every element twice, in both directions."""
    return te.compute((x.shape[0] * 2, x.shape[1] * 2), lambda i, j: x[i // 2, j // 2] + 1, name)


def _turned(draw, x: Tensor, name: str) -> Tensor:
    """Transposed, one direction reversed, and one row added that all share."""
    h, w = x.shape
    return te.compute((w, h), lambda i, j: x[h - 1 - j, i] + x[0, i], name)


KINDS = (_elementwise, _padded, _window, _product, _enlarged, _turned)


@dataclass(repr=False)
class Scheduled:
    """Programs after each step, printed readably when a test fails."""

    program: Program
    steps: list[tuple[str, Program]]

    def __repr__(self) -> str:
        parts = [f"\n{program_text(self.program)}"]
        parts += [f"{step}\n{program_text(after)}" for step, after in self.steps]
        return "\n".join(parts)


@st.composite
def scheduled(draw, most: int = 10) -> Scheduled:
    """A computation and legal steps on it: those that are refused are left out."""
    first = program = draw(computations())
    done = []
    for _ in range(draw(st.integers(1, most))):
        primitive, args = draw(_step(program))
        try:
            program = primitive(program, *args)
        except ScheduleError:
            continue
        done.append((f"{primitive.__name__}{args}", program))
    return Scheduled(first, done)


@st.composite
def _step(draw, program: Program):
    names = st.sampled_from([loop.var.name for loop in loops(program.body)])
    allocated = [s.buffer.name for s in walk_stmts(program.body) if isinstance(s, Alloc)]
    buffers = st.sampled_from(allocated or ["none"])
    everything = st.sampled_from([b.name for b in (*program.inputs, *program.outputs)] + allocated)
    factors = st.integers(1, 4)
    scope = st.sampled_from(["near", "global"])
    arguments = {
        split: (names, factors), tile: (names, names, factors, factors),
        unroll: (names,), virtual_thread: (names,), compute_at: (buffers, names),
        compute_inline: (buffers,), cache_read: (everything, scope),
        cache_write: (everything, scope), set_scope: (buffers, scope),
    }
    nest = _nest(draw(st.sampled_from(list(loops(program.body)))))
    if len(nest) > 1 and draw(st.booleans()):
        if draw(st.booleans()):
            return fuse, tuple(nest[:2])
        return reorder, tuple(draw(st.permutations(nest))[:draw(st.integers(2, len(nest)))])
    primitive = draw(st.sampled_from([*arguments, compute_at, compute_at, compute_at]))
    return primitive, tuple(draw(one) for one in arguments[primitive])


def _nest(loop: Stmt) -> list[str]:
    """Loops that are directly nested, with guards between them perhaps."""
    names = []
    while isinstance(loop, For | If):
        names += [loop.var.name] if isinstance(loop, For) else []
        loop = loop.body
    return names
