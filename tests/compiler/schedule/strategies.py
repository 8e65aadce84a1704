"""Random small computations and random steps of schedules, for Hypothesis."""

from dataclasses import dataclass

from hypothesis import strategies as st

from compiler import te
from compiler.ir import (Alloc, Combine, For, If, Program, Stmt, Update, Write, buffers_of, loops,
                         lower, path_to, program_text, reads, unblock, walk_stmts, writes)
from compiler.schedule import (ScheduleError, annotate, bind, cache_read, cache_write, compute_at,
                               compute_inline, decompose_reduction, double_buffer, fuse, pad,
                               parallel, peel, pipeline, reorder, reverse_compute_at,
                               reverse_inline, rfactor, set_scope, split, storage_align, tile,
                               transform_layout, unroll, vectorize, virtual_thread)
from compiler.te import Buffer, Tensor
from tests.compiler.te.samples import argmax

__all__ = ["Scheduled", "computations", "scheduled"]

EXTENTS = st.integers(1, 7)


@st.composite
def computations(draw) -> Program:
    """Two to four stages in two dimensions, each of which reads the one before it.

    Sums of floats are exact where the inputs are small whole numbers.
    """
    dtype = draw(st.sampled_from(["int32", "int32", "float32"]))
    last = te.placeholder((draw(st.integers(4, 7)), draw(st.integers(4, 7))), dtype, "x")
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
    y = te.placeholder((x.shape[1], columns), x.dtype, f"{name}_y")
    return te.compute((x.shape[0], columns), lambda i, j: te.sum(x[i, k] * y[k, j], k), name)


def _enlarged(draw, x: Tensor, name: str) -> Tensor:
    """Every element twice, in both directions."""
    return te.compute((x.shape[0] * 2, x.shape[1] * 2), lambda i, j: x[i // 2, j // 2] + 1, name)


def _turned(draw, x: Tensor, name: str) -> Tensor:
    """Transposed, one direction reversed, and one row added that all share."""
    h, w = x.shape
    return te.compute((w, h), lambda i, j: x[h - 1 - j, i] + x[0, i], name)


def _gathered(draw, x: Tensor, name: str) -> Tensor:
    """Rows at places that are data."""
    where = te.placeholder((draw(EXTENTS),), "uint8", f"{name}_where")
    return te.compute((where.shape[0], x.shape[1]), lambda i, j: x[
        te.cast(where[i], te.INDEX) % x.shape[0], j], name)


def _largest(draw, x: Tensor, name: str) -> Tensor:
    """Largest element of each row, its place, and both together."""
    k = te.reduce_axis(x.shape[1], f"{name}_k")
    best, where = te.compute((x.shape[0],), lambda i: argmax(x.dtype)((x[i, k], k), axis=k),
                             (f"{name}_best", f"{name}_at"))
    return te.compute(x.shape, lambda i, j: te.select(
        where[i].equal(j), best[i] + 1, te.cast(where[i], x.dtype)), name)


def _pair(draw, x: Tensor, name: str) -> Tensor:
    """Two maps in one nest, one of which is read upside down."""
    one, other = te.compute(x.shape, lambda i, j: (x[i, j] + 1, x[i, j] * 2),
                            (f"{name}_one", f"{name}_other"))
    return te.compute(x.shape, lambda i, j: one[i, j] + other[x.shape[0] - 1 - i, j], name)


def _in_lanes(draw, x: Tensor, name: str) -> Tensor:
    """Sums of columns in lanes, next to each element."""
    k, lanes = te.reduce_axis(x.shape[0], f"{name}_k"), draw(st.sampled_from([2, 4, 8]))
    total = te.compute(x.shape[1:], lambda j: te.sum(x[k, j], k, lanes=lanes), f"{name}_total")
    return te.compute(x.shape, lambda i, j: x[i, j] + total[j], name)


def _running(draw, x: Tensor, name: str) -> Tensor:
    """Sum of each column down to each row, through a copy of the row."""
    def step(s, t):
        row = te.compute((x.shape[1],), lambda j: x[t, j] + s[t - 1, j], f"{name}_row")
        return te.compute((x.shape[1],), lambda j: row[x.shape[1] - 1 - j], f"{name}_next")

    return te.scan(x.shape, lambda j: x[0, j], step, name) if x.shape[0] > 1 else x


def _slanted(draw, x: Tensor, name: str) -> Tensor:
    """Each row from the one above, straight down or turned around, in one perfect nest."""
    width, turned = x.shape[1], draw(st.booleans())

    def step(s, t):
        return te.compute((width,), lambda j: x[t, j] + s[t - 1, width - 1 - j if turned else j],
                          f"{name}_next")

    return te.scan(x.shape, lambda j: x[0, j], step, name) if x.shape[0] > 1 else x


KINDS = (_elementwise, _padded, _window, _product, _enlarged, _turned, _gathered, _largest,
         _pair, _in_lanes, _running, _slanted)


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
def scheduled(draw, most: int = 14) -> Scheduled:
    """A computation and legal steps on it: those that are refused are left out."""
    first = program = draw(computations())
    done = []
    for _ in range(draw(st.integers(1, most))):
        primitive, args, options = draw(_step(program))
        try:
            program = primitive(program, *args, **options)
        except ScheduleError:
            continue
        shown = [*map(repr, args), *(f"{key}={value!r}" for key, value in options.items())]
        done.append((f"{primitive.__name__}({', '.join(shown)})", program))
    return Scheduled(first, done)


LAYOUTS = ("i, j -> j, i", "i, j -> i // 2, j, i % 2", "i, j -> i * 2 + j % 2, j // 2",
           "i, j, k -> k, i, j", "i, j, k -> j, i * 2 + k")
AXES = ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y")
SCOPES = st.sampled_from(["near", "global", "shared", "local"])
FACTORS = st.integers(1, 4)
PERMITTED = {"reassociate": True}       # all computations are exact, in whatever order


@st.composite
def _step(draw, program: Program):
    """Primitive, arguments and options, chosen where they have a chance to be legal."""
    kind = draw(st.sampled_from([_on_loop, _on_loop, _on_nest, _on_buffer, _on_stage, _on_stage,
                                 _on_consumer, _on_reduction, _on_block]))
    return kind(draw, program) or _on_loop(draw, program)


def _on_loop(draw, program: Program):
    name = draw(st.sampled_from(list(loops(program.body)))).var.name
    primitive = draw(st.sampled_from([split, split, unroll, virtual_thread, parallel, vectorize,
                                      bind, annotate, pad, peel]))
    args = {split: (FACTORS,), bind: (st.sampled_from(AXES),), pad: (st.integers(2, 9),),
            annotate: (st.sampled_from(["depth", "by"]), FACTORS)}.get(primitive, ())
    if primitive is split and draw(st.booleans()):
        return split, (name,), {"nparts": draw(FACTORS)}
    return primitive, (name, *map(draw, args)), PERMITTED if primitive is bind else {}


def _on_nest(draw, program: Program):
    names = _nest(draw(st.sampled_from(list(loops(program.body)))))
    if len(names) < 2:
        return None
    primitive = draw(st.sampled_from([fuse, reorder, reorder, tile]))
    if primitive is reorder:
        order = draw(st.permutations(names))[:draw(st.integers(2, len(names)))]
        return reorder, tuple(order), PERMITTED
    extra = (draw(FACTORS), draw(FACTORS)) if primitive is tile else ()
    return primitive, (*names[:2], *extra), {}


def _on_buffer(draw, program: Program):
    allocated = [s.buffer for s in walk_stmts(program.body) if isinstance(s, Alloc)]
    if not allocated:
        return None
    buffer = draw(st.sampled_from(allocated))
    layouts = [text for text in LAYOUTS if text.count(",", 0, text.index("-")) + 1 == len(
        buffer.shape)]
    primitive = draw(st.sampled_from([set_scope, storage_align, double_buffer, transform_layout]))
    args = {set_scope: (SCOPES,), storage_align: (st.integers(0, 1), FACTORS),
            transform_layout: (st.sampled_from(layouts or ["i -> i"]),)}.get(primitive, ())
    return primitive, (buffer.name, *map(draw, args)), {}


def _on_stage(draw, program: Program):
    buffer = draw(st.sampled_from(list(buffers_of(program).values())))
    primitive = draw(st.sampled_from([compute_at, compute_inline, cache_read, cache_write,
                                      reverse_inline]))
    args = {cache_read: (draw(SCOPES),), cache_write: (draw(SCOPES),)}.get(primitive, ())
    if primitive is compute_at:
        readers = [w for w in writes(program.body) if any(r.buffer == buffer for r in reads(w))]
        return _placed(draw, program, compute_at, buffer, readers)
    return primitive, (buffer.name, *args), {}


def _on_consumer(draw, program: Program):
    write = draw(st.sampled_from(list(writes(program.body))))
    sources = {read.buffer for read in reads(write)}
    made = [w for w in writes(program.body) if sources & set(w.buffers)]
    return _placed(draw, program, reverse_compute_at, write.buffers[0], made)


def _placed(draw, program: Program, primitive, buffer: Buffer, near: list[Write]):
    """The stage of the buffer at a loop around one of the statements."""
    around = [name for write in near for name in _around(program, write)]
    return (primitive, (buffer.name, draw(st.sampled_from(around))), {}) if around else None


def _on_reduction(draw, program: Program):
    found = [write for write in writes(program.body) if isinstance(write, Update | Combine)]
    if not found:
        return None
    write = draw(st.sampled_from(found))
    primitive = draw(st.sampled_from([rfactor, decompose_reduction]))
    return primitive, (write.buffers[0].name, draw(st.sampled_from(_around(program, write)))), (
        PERMITTED if primitive is rfactor else {})


def _on_block(draw, program: Program):
    blocks = {loop.var.name: len(unblock(loop.body)[1]) for loop in loops(program.body)}
    several = [name for name, count in blocks.items() if count > 1]
    if not several:
        return None
    name = draw(st.sampled_from(several))
    stages = [draw(st.integers(0, 2)) for _ in range(blocks[name])]
    if draw(st.booleans()):                     # what is computed first runs ahead
        stages = sorted(stage - min(stages) for stage in stages)
    return pipeline, (name, *stages), {}


def _around(program: Program, write: Write) -> list[str]:
    """Loops around a statement."""
    return [s.var.name for s in path_to(program.body, lambda s: s is write) if isinstance(s, For)]


def _nest(loop: Stmt) -> list[str]:
    """Loops that are directly nested, with guards between them perhaps."""
    names = []
    while isinstance(loop, For | If):
        names += [loop.var.name] if isinstance(loop, For) else []
        loop = loop.body
    return names
