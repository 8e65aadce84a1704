"""Int8 operators on blocked activations, as a GEMM accelerator sees them.

Activations are stored as ``[N/B][H][W][B][C]`` with C padded to whole blocks, and viewed with C cut
into blocks of whatever size the reader wants: the same bytes. Inside the computation, tiles are
innermost: ``[N/B][H][W][C/block][B][block]``, so that one tile is one entry of an on-chip buffer.
The network's input may be *plain* instead: ``[N][H][W][C]``, not padded to anything.

Every function returns a `BlockedOperator`: its stages by role, in order of computation. The names
of the stages begin with the name of the operator.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import lcm, prod
from typing import Any

from accel.machine.config import padded_channels, read_channels
from accel.machine.intrinsics import shift_amount
from compiler import te
from compiler.ops.records.stored_floats import carrier
from compiler.ops.integers.arithmetic import PARAM, requantize
from compiler.te import Axis, Expr, Read, Tensor, Var, rewrite
from compiler.tensorize import Intrinsic

_NUMBERED = re.compile(r"[tn][0-9]+").fullmatch       # roles of what steps compute into acc

AROUND = "ngjklm"
"""Roles of axes that are loops around all tiles: images and groups of channels, or leading
dimensions.
"""

TILE = "nyxcbo"
"""Roles of the axes of a tile: images, rows, columns, blocks of channels, and in a block images and
channels. With phases, `p` and `q` are the rows and columns of one position; sums that stay as they
are have an axis `s` of the elements that they are cut into, those of groups an axis `u` of these.
"""


@dataclass(frozen=True)
class Product:
    """A product of gemm that takes the weights of a block in a form of its own
    (`accel.mapping.memory.weights`)."""

    body: Intrinsic

    @property
    def entry(self) -> tuple[int, ...]:
        """The shape of weights in an entry."""
        return self.body.operands[1].shape

    @property
    def terms(self) -> int:
        """The terms of its sum."""
        (_, extent), = self.body.reduce_axes
        return extent

    def term(self, pixel: Callable[..., Expr], weight: Callable[..., Expr], b: Expr, o: Expr,
             i: Expr) -> Expr:
        """A term of the sum, of functions that read a block of inputs, and an entry."""
        (term, _), = self.body.reduce_axes
        lanes = dict(zip((*(axis.var for axis in self.body.axes), term), (b, o, i), strict=True))
        reads = dict(zip((operand.name for operand in self.body.operands), (pixel, weight),
                         strict=True))

        def placed(node: Expr) -> Expr | None:
            if isinstance(node, Read):
                return reads[node.buffer.name](*node.indices)
            return lanes.get(node) if isinstance(node, Var) else None

        assert isinstance(self.body.value, te.Reduce)
        return rewrite(self.body.value.value, placed)


@dataclass(frozen=True, slots=True)
class Blocks:
    """Extents of one block product. Channels in memory are padded to whole blocks of inputs, and
    these to whole blocks of outputs. Activations are `element`s, as vector reads and writes them
    and gemm takes them; weights are what gemm takes, and what acc holds is of type `accumulator`.
    `product` takes constant weights; None takes a matrix [block_out, block_in] as it is. The
    weights of a block are in `passes` entries, whose products with the same inputs are summed.
    Windows of few channels are packed where `packs`; along an axis at most so many `phases` of a
    transposed convolution are one layer.
    """

    batch: int
    block_in: int
    block_out: int
    element: str = "int8"
    weight: str = "int8"
    product: Product | None = None
    passes: int = 1
    accumulator: str = "int32"
    packs: bool = True
    phases: int = 1 << 16

    @property
    def carried(self) -> str:
        """The type of a graph that carries elements."""
        return carrier(self.element)

    @property
    def entry(self) -> tuple[int, ...]:
        """The last dimensions of packed weights: passes where there are several, and an entry."""
        several = (self.passes,) if self.passes > 1 else ()
        matrix = (self.block_out, self.block_in)
        return (*several, *(self.product.entry if self.product else matrix))

    def reduced(self, name: str) -> dict[str, Axis]:
        """The axes of a block product's sum, by role: ``passes`` where there are several, and
        ``lanes``."""
        extent = self.product.terms if self.product else self.block_in
        lanes = {"lanes": te.reduce_axis(extent, f"{name}_ri")}
        if self.passes == 1:
            return lanes
        return {"passes": te.reduce_axis(self.passes, f"{name}_rp"), **lanes}

    def term(self, axes: Mapping[str, Axis], pixel: Callable[..., Expr],
             weight: Callable[..., Expr], b: Expr, o: Expr) -> Expr:
        """A term of the sum over these axes, of functions that read a block of inputs, and what
        lies behind the other indices of packed weights."""
        i, several = axes["lanes"].var, (axes["passes"].var,) if "passes" in axes else ()
        if self.product:
            return self.product.term(pixel, lambda *at: weight(*several, *at), b, o, i)
        factors = pixel(b, i), weight(*several, o, i)
        return factors[0].astype(self.accumulator) * factors[1].astype(self.accumulator)

    def own(self) -> dict[str, Any]:
        """The fields of an operator that say by which product it is computed."""
        if self.product is None:
            return {}
        return {"by": {"acc": self.product.body.name}, "weights": prod(self.product.entry)}

    @property
    def channels(self) -> int:
        """The least number of channels that are whole blocks of both sides."""
        return lcm(self.block_in, self.block_out)

    def read(self, channels: int) -> int:
        """The channels that gemm reads of so many."""
        return read_channels(channels, self.block_in)

    def padded(self, channels: int) -> int:
        """The channels that so many take in memory."""
        return padded_channels(channels, self.block_in, self.block_out)


@dataclass(frozen=True, slots=True)
class Activation:
    """A tensor of logical shape NCHW in memory; `plain` is NHWC without padding."""

    n: int
    c: int
    h: int
    w: int
    plain: bool = False

    def stored_shape(self, blocks: Blocks) -> tuple[int, ...]:
        """Shape of the elements in memory, row-major."""
        if self.plain:
            return (self.n, self.h, self.w, self.c)
        groups = -(-self.n // blocks.batch)
        return (groups, self.h, self.w, blocks.batch, blocks.padded(self.c))

    def channel_blocks(self, blocks: Blocks, size: int) -> int:
        """Blocks of channels of a size: those of inputs that gemm reads, or all of outputs."""
        return (blocks.read if size == blocks.block_in else blocks.padded)(self.c) // size


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding window; `pads` are top, left, bottom, right. A negative pad cuts pixels off."""

    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)

    @property
    def reach(self) -> tuple[int, int]:
        """Rows and columns from the first tap to the last, both counted."""
        height, width = ((size - 1) * step + 1
                         for size, step in zip(self.kernel, self.dilations, strict=True))
        return height, width

    @property
    def seen(self) -> "Window":
        """The window over the stage ``input``, which leaves out rows (or columns) that windows of
        one row (or column) skip.
        """
        sh, sw = (1 if reach == 1 else stride
                  for stride, reach in zip(self.strides, self.reach, strict=True))
        return replace(self, strides=(sh, sw))

    def outputs(self, x: Activation) -> tuple[int, int]:
        return ((x.h + self.pads[0] + self.pads[2] - self.reach[0]) // self.strides[0] + 1,
                (x.w + self.pads[1] + self.pads[3] - self.reach[1]) // self.strides[1] + 1)


@dataclass(frozen=True, slots=True)
class Quantization:
    """Output zero point and clamp bounds. With `below` what is below zero has parameters of its
    own, ``params_1``, and the result is the greater of two. With `planes` sums stay as they are,
    cut into so many elements."""

    zp: int
    lo: int = -128
    hi: int = 127
    below: bool = False
    planes: int = 0


@dataclass(frozen=True)
class Streamed:
    """The way in which an instruction of a stream unit computes the rows of ``quantized``.

    name : of the instruction.
    buffers : of the stages ``input``, ``quantized`` and, where there is one, ``table``.
    fields : its immediates.
    cycles : from one row to the next.
    repeats : each entry of a row reads the first entry of the input's.
    """

    name: str
    buffers: Mapping[str, str]
    fields: Mapping[str, int]
    cycles: int
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class BlockedOperator:
    """An operator as the accelerator computes it.

    stages : by role; ``output`` is the one that writes memory.
    window : the window of each output pixel over the stage ``input``.
    axes : for each stage that computes tiles, the roles of its axes in order (see `TILE` and
        `AROUND`); schedules call an axis by its role.
    reduced : the axes that ``acc`` sums products over: ``depth`` (blocks of channels, where an
        output block reads several), ``rows``, ``columns``, ``passes`` (entries of weights for a
        block, where there are several) and ``lanes``.
    by : for stages of which it is known, the instruction that computes them, by name.
    repeated : inputs of one pixel, which all pixels of an image read.
    row : where ``input`` has the windows themselves (see `packed_convolution`), how many of their
        elements lie together in memory; else 0. `step`: how many elements further those of the
        next window lie.
    weight_bits : bits of an element of ``w`` in memory.
    weights : elements of ``w`` in an entry of wgt where the product of `by` takes them in a form of
        its own; else 0.
    rows : whether a tile holds all channels of its pixels, or all results of a tile come after its
        totals; stages without `c` among their axes have an entry a row.
    totals : inputs, and steps on the way, that one total alone reads, with its role: where no whole
        row fits, or rows lie across lanes.
    across : of rows across lanes, how many elements of an entry lie together in memory; else 0.
    sharers : units of vector that take tiles in turn.
    stream : the instruction of a stream unit that computes whole rows.
    """

    stages: dict[str, Tensor]
    window: Window
    axes: Mapping[str, str]
    reduced: Mapping[str, Axis] = field(default_factory=dict)
    row: int = 0
    step: int = 0
    by: Mapping[str, str] = field(default_factory=dict)
    repeated: tuple[str, ...] = ()
    weight_bits: int = 8
    weights: int = 0
    rows: bool = False
    totals: Mapping[str, str] = field(default_factory=dict)
    across: int = 0
    sharers: int = 1
    stream: Streamed | None = None

    @property
    def output(self) -> Tensor:
        return self.stages["output"]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The stages that hold the tensors that vector reads, or gemm as its input."""
        return tuple(role for role in self.stages if role.partition("_")[0] == "input")

    @property
    def residuals(self) -> tuple[str, ...]:
        """The stages that hold what vector reads beside the sums of products."""
        return tuple(role for role in self.stages if role == "residual")

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters of channels or pixels."""
        return tuple(role for role in self.stages if role.partition("_")[0] == "params")

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables, which the whole layer reads."""
        return tuple(role for role in self.stages if role.partition("_")[0] == "table")

    @property
    def accumulators(self) -> tuple[str, ...]:
        """The stages in acc, in order of computation."""
        return tuple(role for role in self.stages
                     if role in self.axes and role not in ("quantized", "output"))

    @property
    def sums(self) -> int:
        """The accumulators of an output, of which those of groups have one for each."""
        return sum(self.extents(role).get("u", 1)
                   for role in self.accumulators if role not in self.numbers)

    @property
    def scales(self) -> int:
        """The entries of res that hold the factors of groups, for a block of outputs."""
        return prod(self.stages["factors"].shape[1:3]) if "factors" in self.stages else 0

    @property
    def numbers(self) -> tuple[str, ...]:
        """The accumulators that have one number a row."""
        return tuple(role for role in self.accumulators if "c" not in self.axes[role]
                     ) if self.rows else ()

    def __getitem__(self, role: str) -> Tensor:
        return self.stages[role]

    def extents(self, role: str) -> dict[str, int]:
        """The extent of each axis of a stage, by the axis's role."""
        return dict(zip(self.axes[role], self.stages[role].shape, strict=True))


def convolution(name: str, x: Activation, channels: int, window: Window, pad_value: int,
                q: Quantization, blocks: Blocks) -> BlockedOperator:
    """``requantize(sum over kernel and channels of x · w)``; a dense layer is a 1x1 convolution.

    Stages: ``x``, ``w`` [co][kh][kw][ci][block_out][block_in], ``params`` [co][block_out],
    ``input`` (padded, blocked), ``acc``, ``quantized``, ``output``.
    """
    source, padded = windowed(name, x, window, pad_value, blocks, blocks.block_in)
    acc, w, reduced = window_sums(name, padded, window.outputs(x), channels, window.seen, blocks)
    stages = {"x": source, "w": w, "input": padded, "acc": acc}
    return replace(finished(name, stages, window.seen, acc, q, blocks), reduced=reduced,
                   **blocks.own())


def window_sums(name: str, padded: Tensor, size: tuple[int, int], channels: int, window: Window,
                blocks: Blocks) -> tuple[Tensor, Tensor, Mapping[str, Axis]]:
    """The sums of products over each window of `padded`, the weights, and the reduced axes."""
    kernel, (sh, sw), (dh, dw) = window.kernel, window.strides, window.dilations
    ci, co = padded.shape[3], blocks.padded(channels) // blocks.block_out
    w = te.placeholder((co, *kernel, ci, *blocks.entry), blocks.weight, f"{name}_w")
    kh, kw = (te.reduce_axis(size, f"{name}_k{axis}")
              for size, axis in zip(kernel, "hw", strict=True))
    rc, block = te.reduce_axis(ci, f"{name}_rc"), blocks.reduced(name)

    def products(n, y, x, c, b, o):
        pixel = (n, y * sh + kh.var * dh, x * sw + kw.var * dw, rc.var)
        return te.sum(blocks.term(block, lambda *at: padded[*pixel, *at],
                                  lambda *at: w[c, kh.var, kw.var, rc.var, *at], b, o),
                      (rc, kh, kw, *block.values()))

    shape = (padded.shape[0], *size, co, blocks.batch, blocks.block_out)
    return (te.compute(shape, products, f"{name}_acc"), w,
            {"depth": rc, "rows": kh, "columns": kw, **block})


def packed_blocks(x: Activation, window: Window, blocks: Blocks) -> int:
    """Blocks of input channels of a `packed_convolution`; 0 where it is impossible, or needs as
    many products as a `convolution`.

    The elements of a window's row must lie together, in memory and in an entry: a plain image, one
    to an entry.
    """
    taps = window.kernel[0] * window.kernel[1]
    packed = -(-taps * x.c // blocks.block_in)
    other = taps * x.channel_blocks(blocks, blocks.block_in)
    whole = blocks.packs and x.plain and blocks.batch == 1 and window.dilations == (1, 1)
    return packed if whole and packed < other else 0


def packed_convolution(name: str, x: Activation, channels: int, window: Window, pad_value: int,
                       q: Quantization, blocks: Blocks) -> BlockedOperator:
    """A `convolution` of few channels, in which a product takes elements of several pixels of the
    window.

    The window of an output pixel is ``[kh][kw][channels]`` without gaps, padded to whole blocks: a
    pixel of the stage ``input``. Stages are those of a 1x1 `convolution`; ``w`` [co][1][1][block of
    the window][block_out][block_in].
    """
    source, packed = packed_windows(name, x, window, pad_value, blocks)
    single = Window((1, 1))
    acc, w, reduced = window_sums(name, packed, window.outputs(x), channels, single, blocks)
    stages = {"x": source, "w": w, "input": packed, "acc": acc}
    return replace(finished(name, stages, single, acc, q, blocks), reduced=reduced,
                   row=window.kernel[1] * x.c, step=window.strides[1] * x.c, **blocks.own())


def packed_windows(name: str, x: Activation, window: Window, pad_value: int, blocks: Blocks
                   ) -> tuple[Tensor, Tensor]:
    """The stored tensor, and its windows as a `packed_convolution` reads them."""
    (height, width), (oh, ow) = window.kernel, window.outputs(x)
    (sh, sw), (top, left) = window.strides, window.pads[:2]
    size, count = blocks.block_in, packed_blocks(x, window, blocks)
    row, used = width * x.c, height * width * x.c
    source = te.placeholder((x.n, x.h, x.w * x.c), blocks.element, f"{name}_x")

    def element(n, h, w, c, b, i):
        place = c * size + i
        line, byte = h * sh + place // row - top, w * (sw * x.c) + place % row - left * x.c
        conditions = [place < used] if used < count * size else []
        conditions += _edges(line, top, (oh - 1) * sh + height, x.h)
        conditions += _edges(byte, left * x.c, ((ow - 1) * sw + width) * x.c, x.w * x.c)
        read = source[n, line, byte]
        return te.select(te.all_of(*conditions), read, pad_value) if conditions else read

    return source, te.compute((x.n, oh, ow, count, 1, size), element, f"{name}_input")


def depthwise(name: str, x: Activation, window: Window, pad_value: int, q: Quantization,
              blocks: Blocks, body: Intrinsic) -> BlockedOperator:
    """A convolution of each channel alone, by an instruction of vector that multiplies and
    accumulates, a tap at a time: its `a` is the pixel, its `b` the bias of a record.

    Stages: ``x``, ``params_taps`` [co][kh][kw][block_out], ``params``, ``input`` (padded),
    ``acc``, ``quantized``, ``output``.
    """
    source, padded = windowed(name, x, window, pad_value, blocks, blocks.block_out)
    (sh, sw), (dh, dw) = window.seen.strides, window.dilations
    kh, kw = (te.reduce_axis(size, f"{name}_k{axis}")
              for size, axis in zip(window.kernel, "hw", strict=True))
    groups, _, _, count, batch, lanes = padded.shape
    taps = te.placeholder((count, *window.kernel, lanes), PARAM, f"{name}_params_taps")

    def element(n, y, x, c, b, o):
        pixel = padded[n, y * sh + kh.var * dh, x * sw + kw.var * dw, c, b, o]
        reads = {"a": pixel.astype(blocks.accumulator),
                 "b": taps[c, kh.var, kw.var, o].bias.astype(blocks.accumulator)}

        def placed(node: Expr) -> Expr | None:
            return reads[node.buffer.name] if isinstance(node, Read) else None

        return te.sum(rewrite(body.value, placed), (kh, kw))

    acc = te.compute((groups, *window.outputs(x), count, batch, lanes), element, f"{name}_acc")
    stages = {"x": source, "params_taps": taps, "input": padded, "acc": acc}
    return replace(finished(name, stages, window.seen, acc, q, blocks), by={"acc": body.name})


def rescale(name: str, x: Activation, q: Quantization, blocks: Blocks,
            channels: int | None = None) -> BlockedOperator:
    """Changes scale and zero point of the first `channels`, with zeros for those that `x` lacks.

    Stages: ``x``, ``params``, ``input``, ``quantized``, ``output``.
    """
    count = None if channels is None else -(-channels // blocks.block_out)
    source, copied = windowed(name, x, Window((1, 1)), 0, blocks, blocks.block_out, count=count)
    return finished(name, {"x": source, "input": copied}, Window((1, 1)), copied, q, blocks)


def windowed(name: str, x: Activation, window: Window, pad_value: int, blocks: Blocks,
             size: int, divided: int = 1, count: int | None = None) -> tuple[Tensor, Tensor]:
    """The stored tensor and its padded, blocked form, as large as the windows reach:
    [n][h][w][c][b][i], or [n][g][h][w][c][b][i] where channels are `divided`. It has `count` blocks
    of channels (None: all that hold some).
    """
    groups, whole = -(-x.n // blocks.batch), blocks.padded(x.c)
    count = x.channel_blocks(blocks, size) if count is None else count
    height, width = ((outs - 1) * stride + reach for outs, stride, reach
                     in zip(window.outputs(x), window.seen.strides, window.reach, strict=True))
    (top, left), (down, across) = window.pads[:2], (
        stride // kept for stride, kept in zip(window.strides, window.seen.strides, strict=True))
    shape = (groups, height, width, count, blocks.batch, size)
    in_blocks = not x.plain and whole % size == 0
    stored = ((groups, x.h, x.w, blocks.batch, whole // size, size) if in_blocks
              else x.stored_shape(blocks))
    source = te.placeholder(stored, blocks.element, f"{name}_x")

    def pixel(n, h, w, c, b, i):
        row, column = h * down - top, w * across - left
        if x.plain:
            image, channel = n * blocks.batch + b, c * size + i
            read = source[image, row, column, channel]
            extra = inside([(image, shape[0] * blocks.batch, x.n),
                            (channel, count * size, x.c)])
        else:
            channel = (c, i) if in_blocks else (c * size + i,)
            read = source[(n, row, column, b, *channel)]
            extra = inside([(c, count, whole // size)])
        conditions = (extra + _edges(row, top, (height - 1) * down + 1, x.h)
                      + _edges(column, left, (width - 1) * across + 1, x.w))
        return te.select(te.all_of(*conditions), read, pad_value) if conditions else read

    if divided == 1:
        return source, te.compute(shape, pixel, f"{name}_input")
    depth = count // divided
    return source, te.compute(
        (groups, divided, height, width, depth, blocks.batch, size),
        lambda n, g, h, w, c, b, i: pixel(n, h, w, g * depth + c, b, i), f"{name}_input")


def inside(indices: list[tuple[Expr, int, int]]) -> list[Expr]:
    """Conditions that hold indices below `size` where they run over `reach` values."""
    return [index < size for index, reach, size in indices if reach > size]


def _edges(index: Expr, before: int, reach: int, size: int) -> list[Expr]:
    conditions: list[Expr] = [index >= 0] if before > 0 else []
    return conditions + ([index < size] if reach - before > size else [])


def finished(name: str, stages: dict[str, Tensor], window: Window, acc: Tensor,
              q: Quantization, blocks: Blocks, pixelwise: bool = False) -> BlockedOperator:
    """Requantizes acc, with the parameters of a channel or of a pixel, and writes the result; or
    writes its planes."""
    if q.planes:
        return in_planes(name, stages, window, acc, q.planes, blocks)
    places = acc.shape[1:3] if pixelwise else acc.shape[3:4]

    def scaled(role: str) -> Callable[..., Expr]:
        stages[role] = params = te.placeholder((*places, blocks.block_out), PARAM,
                                               f"{name}_{role}")

        def lane(n, y, x, c, b, o):
            p = params[y, x, o] if pixelwise else params[c, o]
            return requantize(acc[n, y, x, c, b, o].astype(blocks.accumulator), p.bias, p.mult,
                              p.shift, q.zp, q.lo, q.hi)
        return lane

    stages = dict(stages)
    lane = scaled("params")
    if q.below:
        def held(role: str, one: Callable[..., Expr]) -> Tensor:
            return te.compute(acc.shape, lambda n, y, x, c, b, o: one(n, y, x, c, b, o).astype(
                blocks.accumulator), f"{name}_{role}")

        above, below = held("t0", lane), held("t1", scaled("params_1"))
        stages |= {"t0": above, "t1": below}
        lane = lambda n, y, x, c, b, o: te.maximum(above[n, y, x, c, b, o],         # noqa: E731
                                                   below[n, y, x, c, b, o])
    return written(name, stages, window, acc.shape, lambda n, y, x, c, b, o: lane(
        n, y, x, c, b, o).astype(blocks.element))


def in_planes(name: str, stages: Mapping[str, Tensor], window: Window, acc: Tensor, planes: int,
              blocks: Blocks) -> BlockedOperator:
    """Writes the elements that the sums in acc are cut into, the lowest of all channels first. The
    bias of ``params`` [planes][block_out] says how far down each is shifted.
    """
    shifts = te.placeholder((planes, blocks.block_out), PARAM, f"{name}_params")
    groups, height, width, count, batch, size = acc.shape
    quantized = te.compute(
        (groups, height, width, planes, count, batch, size), lambda n, y, x, s, c, b, o: shifted(
            acc[n, y, x, c, b, o], shifts[s, o], blocks), f"{name}_quantized")
    output = te.compute(
        (groups, height, width, batch, planes, count, size),
        lambda n, y, x, b, s, c, o: quantized[n, y, x, s, c, b, o], f"{name}_output")
    stages = {**stages, "params": shifts, "quantized": quantized, "output": output}
    return BlockedOperator(stages, window, {"acc": TILE, "quantized": "nyxscbo",
                                            "output": "nyxbsco"})


def shifted(total: Expr, record: Any, blocks: Blocks) -> Expr:
    """The element that begins so many bits above the lowest of a sum."""
    return (total >> shift_amount(record.bias.astype(blocks.accumulator))).astype(blocks.element)


def written(name: str, stages: dict[str, Tensor], window: Window, shape: tuple[int, ...],
            lane: Callable[..., Expr]) -> BlockedOperator:
    """The tile of results, and its copy into memory with the batch outside the channels."""
    quantized = te.compute(shape, lane, f"{name}_quantized")
    groups, height, width, count, batch, size = shape
    output = te.compute((groups, height, width, batch, count, size),
                        lambda n, y, x, b, c, o: quantized[n, y, x, c, b, o], f"{name}_output")
    stages = stages | {"quantized": quantized, "output": output}
    tiles = {role: TILE for role in stages if role in ("acc", "quantized") or _NUMBERED(role)}
    return BlockedOperator(stages, window, {**tiles, "output": "nyxbco"})
