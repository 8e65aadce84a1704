"""Operations of ML programs that move elements, or make tensors of shapes and numbers."""

import numpy as np
import onnx

from compiler.frontend.building.values import NodeRefused
from compiler.frontend.core_ml.registry import operation

END = np.iinfo(np.int64).max


@operation("concat")
def concat(op):
    if op.flag("interleave"):
        raise NodeRefused("its parts must follow each other, not interleave")
    return op.node("Concat", op.values("values"), axis=op.integer("axis"))


@operation("stack")
def stack(op):
    axis = op.integer("axis")
    return op.node("Concat", [op.node("Unsqueeze", [value, op.write.integers(axis)])
                              for value in op.values("values")], axis=axis)


@operation("split")
def split(op):
    axis, count = op.integer("axis"), len(op.outputs)
    inputs = [op.value("x")]
    if op.has("split_sizes"):
        return op.write.several("Split", [*inputs, op.write.integers(
            *op.integers("split_sizes"))], count, axis=axis)
    return op.write.several("Split", inputs, count, axis=axis, num_outputs=count)


@operation("reshape")
def reshape(op):
    shape = op.names("shape")[0]
    if shape in op.program.constants:
        return op.node("Reshape", [op.value("x"), op.write.integers(*op.integers("shape"))])
    return op.node("Reshape", [op.value("x"), op.node("Cast", [op.value("shape")],
                                                      to=onnx.TensorProto.INT64)])


@operation("squeeze")
def squeeze(op):
    inputs = [op.value("x")]
    if op.has("axes"):
        inputs.append(op.write.integers(*op.integers("axes")))
    return op.node("Squeeze", inputs)


@operation("expand_dims")
def expand_dims(op):
    return op.node("Unsqueeze", [op.value("x"), op.write.integers(*op.integers("axes"))])


@operation("flatten2d")
def flatten(op):
    return op.node("Flatten", [op.value("x")], axis=op.integer("axis", 1))


@operation("transpose")
def transpose(op):
    rank = op.rank("x")
    return op.node("Transpose", [op.value("x")],
                   perm=[axis % rank for axis in op.integers("perm")])


@operation("slice_by_index")
def slice_by_index(op):
    begin, end = op.integers("begin"), op.integers("end")
    rank = len(begin)
    steps = op.integers("stride", [1] * rank)
    masks = {name: [bool(bit) for bit in np.asarray(op.known(f"{name}_mask", [False] * rank))]
             for name in ("begin", "end", "squeeze")}
    for axis in range(rank):
        forward = steps[axis] > 0
        if masks["squeeze"][axis]:
            end[axis] = begin[axis] + 1 if begin[axis] != -1 else END
            steps[axis] = 1
            continue
        if masks["begin"][axis]:
            begin[axis] = 0 if forward else END
        if masks["end"][axis]:
            end[axis] = END if forward else -END - 1
    made = op.node("Slice", [op.value("x"), op.write.integers(*begin), op.write.integers(*end),
                             op.write.integers(*range(rank)), op.write.integers(*steps)])
    gone = [axis for axis in range(rank) if masks["squeeze"][axis]]
    return op.node("Squeeze", [made, op.write.integers(*gone)]) if gone else made


@operation("slice_by_size")
def slice_by_size(op):
    begin, size = op.integers("begin"), op.integers("size")
    ends = [END if extent == -1 else start + extent for start, extent in zip(begin, size)]
    return op.node("Slice", [op.value("x"), op.write.integers(*begin), op.write.integers(*ends)])


@operation("pad")
def pad(op):
    mode = op.known("mode", "constant")
    pads = op.integers("pad")
    pads = [0] * (2 * op.rank("x") - len(pads)) + pads
    if mode not in ("constant", "reflect", "replicate"):
        raise NodeRefused(f"its mode must be constant, reflect or replicate, not {mode}")
    inputs = [op.value("x"), op.write.integers(*pads[0::2], *pads[1::2])]
    if mode == "constant":
        inputs.append(op.scalar(op.number("constant_val", 0.0), "x"))
    return op.node("Pad", inputs, mode="edge" if mode == "replicate" else mode)


@operation("crop")
def crop(op):
    sides = [op.integers(f"crop_{name}") for name in ("height", "width")]
    ends = [-after if after else END for _, after in sides]
    return op.node("Slice", [op.value("x"), op.write.integers(*(before for before, _ in sides)),
                             op.write.integers(*ends), op.write.integers(-2, -1)])


@operation("gather")
def gather(op):
    if op.known("batch_dims", 0):
        raise NodeRefused("its number of batch dimensions must be 0")
    return op.node("Gather", [op.value("x"), op.value("indices")], axis=op.integer("axis", 0))


@operation("gather_along_axis")
def gather_along_axis(op):
    return op.node("GatherElements", [op.value("x"), op.value("indices")],
                   axis=op.integer("axis", 0))


@operation("tile")
def tile(op):
    return op.node("Tile", [op.value("x"), op.write.integers(*op.integers("reps"))])


@operation("reverse")
def reverse(op):
    axes = op.integers("axes", list(range(op.rank("x"))))
    count = len(axes)
    return op.node("Slice", [op.value("x"), op.write.integers(*[-1] * count), op.write.integers(
        *[-END - 1] * count), op.write.integers(*axes), op.write.integers(*[-1] * count)])


@operation("depth_to_space", "space_to_depth", "pixel_shuffle")
def depth_and_space(op):
    if op.type == "space_to_depth":
        return op.node("SpaceToDepth", [op.value("x")], blocksize=op.integer("block_size"))
    if op.type == "pixel_shuffle":
        return op.node("DepthToSpace", [op.value("x")], blocksize=op.integer("upscale_factor"),
                       mode="CRD")
    return op.node("DepthToSpace", [op.value("x")], blocksize=op.integer("block_size"))


@operation("shape")
def shape(op):
    return op.node("Cast", [op.node("Shape", [op.value("x")])], to=onnx.TensorProto.INT32)


@operation("fill")
def fill(op):
    value = np.asarray(op.known("value", 0.0))
    return np.full(op.integers("shape"), value.reshape(()), value.dtype)
