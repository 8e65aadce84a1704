"""Views, copies and choices of elements. Views become values: exported programs are functional."""

from math import prod

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value, axes_of
from compiler.frontend.onnx.operators import movement as onnx
from compiler.frontend.pytorch.aten.registry import aten, numbers, promoted, refuse

INT64_MAX = 2**63 - 1


@aten("clone", "contiguous", "detach", "detach_copy", "alias", "alias_copy", "lift_fresh",
      "lift_fresh_copy", "resolve_conj", "resolve_neg", "view_of")
def same(t, x, *arguments, **options):
    return x


@aten("to", "_to_copy", "type_as")
def to(t, x, *arguments, dtype=None, **options):
    """Converts to the first argument that is an element type; devices are ignored."""
    kinds = [dtype, *arguments]
    like = next((kind.dtype for kind in kinds if isinstance(kind, Value)), None)
    kind = next((kind for kind in kinds if isinstance(kind, str)), like)
    return x if kind is None else x.astype(kind)


@aten("copy")
def copy(t, x, source, non_blocking=False):
    return source.astype(x.dtype).expand(*x.shape)


# Shapes

@aten("view.default", "reshape", "_unsafe_view", "view_copy", "_reshape_alias_copy")
def view(t, x, size):
    extents = list(size)
    if -1 in extents:
        rest = prod(extent for extent in extents if extent != -1)
        extents[extents.index(-1)] = x.size // max(rest, 1)
    return x.reshape(*extents)


refuse("view.dtype", "as_strided", "as_strided_copy",
       why="it shows the memory of a tensor otherwise than by its shape")


@aten("view_as", "reshape_as")
def view_as(t, x, other):
    return x.reshape(*other.shape)


@aten("flatten.using_ints")
def flatten(t, x, start_dim=0, end_dim=-1):
    if x.rank == 0:
        return x.reshape(1)
    first, last = axes_of((start_dim, end_dim), x.rank)
    return x.reshape(*x.shape[:first], prod(x.shape[first:last + 1]), *x.shape[last + 1:])


@aten("unflatten.int")
def unflatten(t, x, dim, sizes):
    axis, = axes_of((dim,), x.rank)
    rest = prod(size for size in sizes if size != -1)
    parts = [x.shape[axis] // rest if size == -1 else size for size in sizes]
    return x.reshape(*x.shape[:axis], *parts, *x.shape[axis + 1:])


@aten("squeeze", "squeeze_copy")
def squeeze(t, x, dim=None):
    """Removes axes of extent 1; others stay."""
    dims = range(x.rank) if dim is None else numbers(dim, 1)
    places = axes_of(tuple(dims), max(x.rank, 1))
    return x.reshape(*(extent for axis, extent in enumerate(x.shape)
                       if extent != 1 or axis not in places))


@aten("unsqueeze", "unsqueeze_copy")
def unsqueeze(t, x, dim):
    return x.unsqueeze(dim)


@aten("permute", "permute_copy")
def permute(t, x, dims):
    return x.transpose(*axes_of(dims, x.rank))


@aten("transpose.int", "swapaxes", "swapdims", "transpose_copy.int")
def transpose(t, x, dim0, dim1):
    if x.rank == 0:
        return x
    perm = list(range(x.rank))
    a, b = axes_of((dim0, dim1), x.rank)
    perm[a], perm[b] = b, a
    return x.transpose(*perm)


@aten("t", "numpy_T", "t_copy")
def turned(t, x):
    return x.transpose(*reversed(range(x.rank)))


@aten("mT")
def matrices_turned(t, x):
    return transpose(t, x, -1, -2)


@aten("movedim.int", "movedim.intlist")
def movedim(t, x, source, destination):
    places = zip(axes_of(numbers(destination, 1), x.rank), axes_of(numbers(source, 1), x.rank),
                 strict=True)
    moved = dict(places)
    rest = iter(axis for axis in range(x.rank) if axis not in moved.values())
    return x.transpose(*(moved[axis] if axis in moved else next(rest) for axis in range(x.rank)))


@aten("expand", "expand_copy")
def expand(t, x, size, *, implicit=False):
    """-1 keeps an extent; new dimensions stand in front."""
    more = len(size) - x.rank
    return x.expand(*(x.shape[axis - more] if extent == -1 else extent
                      for axis, extent in enumerate(size)))


@aten("expand_as")
def expand_as(t, x, other):
    return x.expand(*other.shape)


@aten("broadcast_to")
def broadcast_to(t, x, size):
    return expand(t, x, size)


@aten("repeat", "tile")
def repeat(t, x, repeats):
    count = max(len(repeats), x.rank)
    wide = x.reshape(*(1,) * (count - x.rank), *x.shape)
    times = (1,) * (count - len(repeats)) + tuple(repeats)
    if all(count == 1 for count in times):
        return wide
    return onnx.tile(t, wide, t.constant(np.array(times, np.int64)))


@aten("repeat_interleave.self_int")
def repeat_interleave(t, x, repeats, dim=None, *, output_size=None):
    """Repeats each element; without an axis, the elements of the flattened tensor."""
    x = x.reshape(x.size) if dim is None else x
    axis, = axes_of((dim or 0,), x.rank)
    wide = x.unsqueeze(axis + 1)
    shape = list(wide.shape)
    shape[axis + 1] = repeats
    repeated = wide.expand(*shape)
    return repeated.reshape(*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1:])


# Joining and cutting

@aten("cat", "concat", "concatenate")
def cat(t, tensors, dim=0):
    """Concatenates tensors; those of shape (0,) are ignored, whatever the others' shapes are."""
    full = [tensor for tensor in tensors if tensor.shape != (0,)] or [tensors[0]]
    kind = promoted(*tensors)
    full = [tensor.astype(kind) for tensor in full]
    if len(full) == 1:
        return full[0]
    return onnx.concat(t, *full, axis=dim)


@aten("stack")
def stack(t, tensors, dim=0):
    axis, = axes_of((dim,), tensors[0].rank + 1)
    return cat(t, [tensor.unsqueeze(axis) for tensor in tensors], axis)


def _cut(x: Value, axis: int, sizes) -> tuple[Value, ...]:
    if sum(sizes) != x.shape[axis] or min(sizes, default=0) < 0:
        raise NodeRefused(f"its parts must divide the extent {x.shape[axis]}, not {list(sizes)}")
    starts = [sum(sizes[:part]) for part in range(len(sizes))]
    return tuple(x.cut(axis, start, start + size)
                 for start, size in zip(starts, sizes, strict=True))


@aten("split_with_sizes", "split.sizes", "split_with_sizes_copy")
def split_with_sizes(t, x, split_sizes, dim=0):
    return _cut(x, axes_of((dim,), x.rank)[0], split_sizes)


@aten("split.Tensor", "split_copy.Tensor")
def split(t, x, split_size, dim=0):
    axis, = axes_of((dim,), x.rank)
    starts = range(0, x.shape[axis], split_size)
    return _cut(x, axis, [min(split_size, x.shape[axis] - start) for start in starts])


@aten("chunk", "tensor_split.sections")
def chunk(t, x, chunks, dim=0):
    return split(t, x, -(-x.shape[dim] // chunks), dim)


refuse("tensor_split", why="operator is not supported; use split or chunk")


@aten("unbind.int", "unbind_copy.int")
def unbind(t, x, dim=0):
    return tuple(select(t, x, dim, index) for index in range(x.shape[dim]))


@aten("slice.Tensor", "slice_copy.Tensor")
def slice_(t, x, dim=0, start=None, end=None, step=1):
    axis, = axes_of((dim,), x.rank)
    begin, stop, step = slice(start, end, step).indices(x.shape[axis])
    return x.cut(axis, begin, max(begin, stop), step)


@aten("narrow")
def narrow(t, x, dim, start, length):
    return slice_(t, x, dim, start, start + length)


@aten("select.int", "select_copy.int")
def select(t, x, dim, index):
    axis, = axes_of((dim,), x.rank)
    place = index % x.shape[axis]
    slice_ = x.cut(axis, place, place + 1)
    return slice_.reshape(*x.shape[:axis], *x.shape[axis + 1:])


@aten("slice_scatter")
def slice_scatter(t, x, source, dim=0, start=None, end=None, step=1):
    """Returns x with the source in place of a slice."""
    axis, = axes_of((dim,), x.rank)
    begin, stop, step = slice(start, end, step).indices(x.shape[axis])
    if step != 1:
        raise NodeRefused(f"step must be 1, not {step}")
    parts = [x.cut(axis, 0, begin), source, x.cut(axis, max(begin, stop), x.shape[axis])]
    return cat(t, [part for part in parts if part.shape[axis]], axis)


@aten("select_scatter")
def select_scatter(t, x, source, dim, index):
    axis, = axes_of((dim,), x.rank)
    place = index % x.shape[axis]
    return slice_scatter(t, x, source.unsqueeze(axis), axis, place, place + 1)


@aten("flip")
def flip(t, x, dims):
    return t.emit("reverse", x, axes=tuple(sorted(axes_of(dims, x.rank)))) if len(dims) else x


@aten("roll")
def roll(t, x, shifts, dims=()):
    """Without axes the tensor is rolled as if it were flat."""
    if not len(dims):
        return roll(t, x.reshape(x.size), shifts, (0,)).reshape(*x.shape)
    for axis, shift in zip(axes_of(dims, x.rank), shifts, strict=True):
        place = -shift % max(x.shape[axis], 1)
        if place:
            x = cat(t, [x.cut(axis, place, x.shape[axis]), x.cut(axis, 0, place)], axis)
    return x


# Padding: pairs of numbers, the last axis first

def _padded(t, x: Value, pad, mode: str, value=0.0) -> Value:
    before, after = [0] * x.rank, [0] * x.rank
    for place, (low, high) in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        before[x.rank - 1 - place], after[x.rank - 1 - place] = low, high
    if not any((*before, *after)):
        return x
    inputs = (x, x.like(value)) if mode == "constant" else (x,)
    return t.emit("pad", *inputs, mode=mode, before=before, after=after)


@aten("pad")
def pad(t, x, pad, mode="constant", value=None):
    """Pads; negative numbers crop first, and circular padding takes from what is left."""
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    if mode == "circular":
        x = _padded(t, x, [min(width, 0) for width in pad], "constant")
        pad = [max(width, 0) for width in pad]
    return _padded(t, x, pad, modes[mode], value or 0.0)


@aten("constant_pad_nd")
def constant_pad(t, x, pad, value=0):
    return _padded(t, x, pad, "constant", value)


for _rank in (1, 2, 3):
    aten(f"reflection_pad{_rank}d")(lambda t, x, padding: _padded(t, x, padding, "reflect"))
    aten(f"replication_pad{_rank}d")(lambda t, x, padding: _padded(t, x, padding, "edge"))


# Elements by index

@aten("embedding")
def embedding(t, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return t.emit("gather", weight, indices, axis=0)


@aten("index_select")
def index_select(t, x, dim, index):
    return t.emit("gather", x, index, axis=axes_of((dim,), x.rank)[0])


@aten("gather")
def gather(t, x, dim, index, *, sparse_grad=False):
    """The index may have smaller extents than the input."""
    axis, = axes_of((dim,), x.rank)
    for place in range(x.rank):
        x = x if place == axis else x.cut(place, 0, index.shape[place])
    return t.emit("gather_elements", x, index, axis=axis)


@aten("index.Tensor")
def index(t, x, indices):
    """Indexes some axes with tensors. These broadcast; their dimensions replace neighbouring axes
    in the result, and come first otherwise.
    """
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    chosen = [index for index in indices if index is not None]
    if any(index.dtype == "bool" for index in chosen):
        raise NodeRefused("its result depends on computed elements in number; use where")
    if len(axes) == 1 and chosen[0].rank <= 1:
        picked = t.emit("gather", x, chosen[0].reshape(chosen[0].size), axis=axes[0])
        return picked if chosen[0].rank else picked.reshape(
            *x.shape[:axes[0]], *x.shape[axes[0] + 1:])
    rest = [axis for axis in range(x.rank) if axis not in axes]
    shape = np.broadcast_shapes(*(index.shape for index in chosen))
    places = [index.astype("int64").expand(*shape).unsqueeze(len(shape)) for index in chosen]
    at = places[0] if len(places) == 1 else t.emit("concat", *places, axis=len(shape))
    picked = t.emit("gather_nd", x.transpose(*axes, *rest), at, batch_dims=0)
    if axes != list(range(axes[0], axes[0] + len(axes))) or axes[0] == 0:
        return picked
    front = range(len(shape), len(shape) + axes[0])
    return picked.transpose(*front, *range(len(shape)), *range(len(shape) + axes[0], picked.rank))


@aten("tril")
def tril(t, x, diagonal=0):
    return onnx.trilu(t, x, t.constant(np.array(diagonal)), upper=0)


@aten("triu")
def triu(t, x, diagonal=0):
    return onnx.trilu(t, x, t.constant(np.array(diagonal)), upper=1)


@aten("one_hot")
def one_hot(t, x, num_classes=-1):
    if num_classes < 0:
        raise NodeRefused("num_classes must be told")
    numbers = t.constant(np.arange(num_classes))
    return x.unsqueeze(x.rank).equal(numbers).astype("int64")
