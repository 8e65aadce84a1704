"""Operators that move elements."""

import numpy as np
import onnx

from compiler.frontend.building.values import NodeRefused
from compiler.frontend.tflite.converter import FIRST, DividedImage, axis_of
from compiler.frontend.tflite.dynamic_products import is_dynamic
from compiler.frontend.tflite.registry import operator

VALID = 1
ENDS = (np.iinfo(np.int64).max, np.iinfo(np.int64).min)


@operator("RESHAPE")
def reshape(c, op):
    if op.input(1) >= 0:
        if c.tensor(op.outputs[0]).is_open and c.array(op.input(1)) is None:
            shape = c.shape(op.input(1))
        else:
            shape = c.write.integers(*c.extents(op.outputs[0]))
    else:
        shape = c.write.integers(*c.extents(op.outputs[0]))
    c.through(op.input(0), op.outputs[0], lambda x: c.write.node("Reshape", [x, shape]))


@operator("SQUEEZE", "EXPAND_DIMS")
def as_shaped(c, op):
    shape = c.write.integers(*c.extents(op.outputs[0]))
    c.through(op.input(0), op.outputs[0], lambda x: c.write.node("Reshape", [x, shape]))


@operator("TRANSPOSE")
def transpose(c, op):
    perm = c.integers(op.input(1), "permutation")
    c.through(op.input(0), op.outputs[0], lambda x: c.write.node("Transpose", [x], perm=perm))


@operator("CONCATENATION")
def concatenation(c, op):
    first = c.is_first(*op.inputs)
    axis = axis_of(op.option("Axis"), c.rank(op.outputs[0]), first)
    if op.option("FusedActivationFunction"):
        raise NodeRefused("its activation must be none")
    parts = [c.real(place, first) for place in op.inputs]
    c.define(op.outputs[0], c.write.node("Concat", parts, axis=axis), first)


@operator("PAD", "PADV2")
def pad(c, op):
    x = op.input(0)
    first = c.is_first(x)
    pads = _pads(c, op, first)
    inputs = [c.write.integers(*pads)]
    if op.code == "PADV2" and op.input(2) >= 0:
        inputs.append(c.real(op.input(2)))
        scalar = c.write.node("Reshape", [inputs[1], c.write.integers()])
        inputs[1] = scalar
    c.define(op.outputs[0], c.write.node("Pad", [c.real(x, first), *inputs]), first)


@operator("MIRROR_PAD")
def mirror_pad(c, op):
    first = c.is_first(op.input(0))
    pads = c.write.integers(*_pads(c, op, first))
    if op.option("Mode"):
        raise NodeRefused("its mode must be REFLECT, not SYMMETRIC")
    c.through(op.input(0), op.outputs[0],
              lambda x: c.write.node("Pad", [x, pads], mode="reflect"), first)


def _pads(c, op, first):
    """All that come before, then all that come behind."""
    told = np.reshape(c.integers(op.input(1), "padding"), (-1, 2))
    return (told[list(FIRST)] if first else told).T.reshape(-1).tolist()


@operator("SLICE")
def slice_(c, op):
    begin, size = c.integers(op.input(1), "begin"), c.integers(op.input(2), "size")
    ends = [ENDS[0] if extent == -1 else start + extent
            for start, extent in zip(begin, size, strict=True)]
    _sliced(c, op, begin, ends, [1] * len(begin), lambda x: x)


@operator("STRIDED_SLICE")
def strided_slice(c, op):
    """A mask has one bit for each entry of `begin`; an ellipsis stands for all axes that are
    left, a new axis for none.
    """
    begins, ends, steps = (c.integers(op.input(place), role)
                           for place, role in ((1, "begin"), (2, "end"), (3, "strides")))
    masks = {name: op.option(f"{name}Mask")
             for name in ("Begin", "End", "Ellipsis", "NewAxis", "ShrinkAxis")}
    if op.option("Offset"):
        ends = [begin + end for begin, end in zip(begins, ends, strict=True)]
    rank = c.rank(op.input(0))
    taken = sum(not masks["NewAxis"] >> place & 1 and not masks["Ellipsis"] >> place & 1
                for place in range(len(begins)))
    low, high, step, gone = [], [], [], []
    for place, (begin, end, stride) in enumerate(zip(begins, ends, steps, strict=True)):
        has = {name: bool(mask >> place & 1) for name, mask in masks.items()}
        if has["Ellipsis"]:
            left = rank - taken
            low, high, step = low + [0] * left, high + [ENDS[0]] * left, step + [1] * left
        elif has["NewAxis"]:
            continue
        elif has["ShrinkAxis"]:
            gone.append(len(low))
            low.append(begin)
            high.append(begin + 1 if begin != -1 else ENDS[0])
            step.append(1)
        else:
            low.append((0 if stride > 0 else ENDS[0]) if has["Begin"] else begin)
            high.append(ENDS[stride < 0] if has["End"] else end)
            step.append(stride)
    reshaped = gone or masks["NewAxis"]
    shape = c.extents(op.outputs[0]) if reshaped else []
    _sliced(c, op, low, high, step, (lambda x: c.write.node(
        "Reshape", [x, c.write.integers(*shape)])) if reshaped else lambda x: x)


def _sliced(c, op, begins, ends, steps, finish):
    axes = [axis for axis, sides in enumerate(zip(begins, ends, steps))
            if sides != (0, ENDS[0], 1)]
    first = c.is_first(op.input(0)) and c.rank(op.outputs[0]) == 4
    sides = [c.write.integers(*(side[axis] for axis in axes)) for side in (begins, ends)]
    places = c.write.integers(*(axis_of(axis, 4, True) if first else axis for axis in axes))
    step = c.write.integers(*(steps[axis] for axis in axes))
    c.through(op.input(0), op.outputs[0], lambda x: finish(c.write.node(
        "Slice", [x, *sides, places, step]) if axes else c.write.node("Identity", [x])), first)


@operator("SPLIT", "SPLIT_V")
def split(c, op):
    x, axis = (op.input(1), op.input(0)) if op.code == "SPLIT" else (op.input(0), op.input(2))
    first = c.is_first(x)
    place = axis_of(c.integers(axis, "axis")[0], c.rank(x), False)
    sizes = c.write.integers(*(c.tensor(target).shape[place] for target in op.outputs))
    parts = c.write.several("Split", [c.real(x, first), sizes], len(op.outputs),
                            axis=axis_of(place, c.rank(x), first))
    for target, part in zip(op.outputs, parts):
        c.define(target, part, first)


@operator("PACK")
def pack(c, op):
    axis = op.option("Axis")
    parts = [c.write.node("Unsqueeze", [c.real(place), c.write.integers(axis)])
             for place in op.inputs]
    c.define(op.outputs[0], c.write.node("Concat", parts, axis=axis))


@operator("UNPACK")
def unpack(c, op):
    x, axis = op.input(0), op.option("Axis")
    sizes = c.write.integers(*[1] * len(op.outputs))
    parts = c.write.several("Split", [c.real(x), sizes], len(op.outputs), axis=axis)
    for target, part in zip(op.outputs, parts):
        c.define(target, c.write.node("Squeeze", [part, c.write.integers(axis)]))


@operator("GATHER")
def gather(c, op):
    if op.option("BatchDims"):
        raise NodeRefused("its number of batch dimensions must be 0")
    places = c.value(op.input(1))
    c.through(op.input(0), op.outputs[0],
              lambda x: c.write.node("Gather", [x, places], axis=op.option("Axis")))


@operator("EMBEDDING_LOOKUP")
def embedding_lookup(c, op):
    places = c.value(op.input(0))
    c.through(op.input(1), op.outputs[0], lambda x: c.write.node("Gather", [x, places], axis=0))


@operator("GATHER_ND")
def gather_nd(c, op):
    places = c.write.node("Cast", [c.value(op.input(1))], to=onnx.TensorProto.INT64)
    c.through(op.input(0), op.outputs[0], lambda x: c.write.node("GatherND", [x, places]))


@operator("TILE")
def tile(c, op):
    counts = c.shape(op.input(1))
    c.through(op.input(0), op.outputs[0], lambda x: c.write.node("Tile", [x, counts]))


@operator("BROADCAST_TO")
def broadcast_to(c, op):
    shape = c.shape(op.input(1))
    c.through(op.input(0), op.outputs[0], lambda x: c.write.node("Expand", [x, shape]))


@operator("REVERSE_V2")
def reverse(c, op):
    axes = c.integers(op.input(1), "axes")
    sides = [c.write.integers(*[number] * len(axes)) for number in (-1, ENDS[1])]
    places, steps = c.write.integers(*axes), c.write.integers(*[-1] * len(axes))
    c.through(op.input(0), op.outputs[0],
              lambda x: c.write.node("Slice", [x, *sides, places, steps]))


@operator("DEPTH_TO_SPACE", "SPACE_TO_DEPTH")
def depth_and_space(c, op):
    name = "DepthToSpace" if op.code == "DEPTH_TO_SPACE" else "SpaceToDepth"
    c.through(op.input(0), op.outputs[0], lambda x: c.write.node(
        name, [x], blocksize=op.option("BlockSize")), True)


@operator("SPACE_TO_BATCH_ND")
def space_to_batch(c, op):
    """Pads, divides each of the first axes into blocks, and makes the places in a block images."""
    if (blocks := _around_convolution(c, op)) is not None:
        c.dilated[op.outputs[0]] = blocks
        return
    blocks = c.integers(op.input(1), "block")
    pads, count = np.reshape(c.integers(op.input(2), "padding"), (-1, 2)), len(blocks)
    rest = c.rank(op.input(0)) - 1 - count
    sides = [[0, *side.tolist(), *[0] * rest] for side in pads.T]
    x = c.write.node("Pad", [c.real(op.input(0)), c.write.integers(*sides[0], *sides[1])])
    images, extents, others = _extents(c, x, count)
    within = c.write.node("Div", [extents, c.write.integers(*blocks)])
    parts = c.write.node("Concat", [images, within, c.write.integers(*blocks), others], axis=0)
    order = [0, *(place for axis in range(count) for place in (1 + axis, 1 + count + axis)),
             *range(1 + 2 * count, 1 + 2 * count + rest)]
    perm = [*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count + 1, 2),
            *range(2 * count + 1, len(order))]
    x = c.write.node("Reshape", [x, c.write.node("Gather", [parts, c.write.integers(*order)])])
    x = c.write.node("Transpose", [x], perm=perm)
    c.define(op.outputs[0], _shaped(c, x, c.write.integers(-1), within, others))


@operator("BATCH_TO_SPACE_ND")
def batch_to_space(c, op):
    """Undoes `space_to_batch`: `crops` are its pads."""
    if op.input(0) in c.dilated:
        c.alias(op.outputs[0], op.input(0))
        return
    blocks = c.integers(op.input(1), "block")
    crops = np.reshape(c.integers(op.input(2), "crops"), (-1, 2)).tolist()
    count, given = len(blocks), c.real(op.input(0))
    _, extents, others = _extents(c, given, count)
    perm = [count, *(axis for place in range(count) for axis in (count + 1 + place, place)),
            *range(2 * count + 1, c.rank(op.input(0)) + count)]
    x = _shaped(c, given, c.write.integers(*blocks, -1), extents, others)
    x = c.write.node("Transpose", [x], perm=perm)
    wide = c.write.node("Mul", [extents, c.write.integers(*blocks)])
    x = _shaped(c, x, c.write.integers(-1), wide, others)
    c.define(op.outputs[0], c.write.node("Slice", [
        x, c.write.integers(*(before for before, _ in crops)),
        c.write.integers(*(-after or ENDS[0] for _, after in crops)),
        c.write.integers(*range(1, count + 1))]))


def _extents(c, x, count):
    """The extents of the images, of their first axes, and of those that follow."""
    return [c.write.node("Shape", [x], start=start, end=end)
            for start, end in ((0, 1), (1, 1 + count), (1 + count, ENDS[0]))]


def _shaped(c, x, *extents):
    return c.write.node("Reshape", [x, c.write.node("Concat", extents, axis=0)])


def _around_convolution(c, op):
    """The blocks where a convolution alone reads what is divided, and what it makes is put together
    again: so TensorFlow writes a dilated one. None elsewhere, and where each block is quantized by
    itself.
    """
    product = c.only_reader(op.outputs[0])
    if product is None or product.code not in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        return None
    back = c.only_reader(product.outputs[0])
    steps = [product.option(f"Stride{axis}") for axis in "HW"] + [
        product.option(f"Dilation{axis}Factor", 1) for axis in "HW"]
    if back is None or back.code != "BATCH_TO_SPACE_ND" or steps != [1] * 4 \
            or product.option("Padding") != VALID or is_dynamic(c, op.input(0), product.input(1)):
        return None
    block, again = (c.integers(each.input(1), "block") for each in (op, back))
    pads, crops = (np.reshape(c.integers(each.input(2), "padding"), (-1, 2)) for each in (op, back))
    ends = pads[:, 1] - crops[:, 1]
    if block != again or len(block) != 2 or crops[:, 0].any() or (ends < 0).any():
        return None
    return DividedImage(op.input(0), tuple(block), (*pads[:, 0].tolist(), *ends.tolist()))


@operator("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def resize(c, op):
    sizes = c.integers(op.input(1), "size")
    linear = op.code == "RESIZE_BILINEAR"
    place = "align_corners" if op.option("AlignCorners") else (
        "half_pixel" if op.option("HalfPixelCenters") else "asymmetric")
    how = {"mode": "linear"} if linear else {
        "mode": "nearest", "nearest_mode": "floor" if place == "asymmetric" else
        "round_prefer_ceil"}
    made = c.write.node("Resize", [c.real(op.input(0), True), "", "", c.write.integers(*sizes)],
                        axes=(2, 3), coordinate_transformation_mode=place, **how)
    c.define(op.outputs[0], made, True)
