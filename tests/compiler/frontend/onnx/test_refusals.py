"""What the importer refuses, and the whole line that it says."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from compiler.frontend import ImportRefused, convert, load
from compiler.frontend.building import values
from compiler.frontend.onnx.operators import control

SUPPORTED = "(docs/onnx.md says what is supported)"
NEWEST = onnx.defs.onnx_opset_version()
X4, X2 = [1, 3, 8, 8], [2, 6]


def constant(name: str, *shape: int, value: float = 1, dtype: str = "float32"):
    return numpy_helper.from_array(np.full(shape, value, dtype), name)


W = constant("w", 4, 3, 3, 3)


def model(*nodes, shape=X4, constants=(W,), opset=17, dtype=TensorProto.FLOAT, outputs=("y",)):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        list(constants))
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", opset)])


def refusal(made: onnx.ModelProto, shapes: dict | None = None) -> str:
    with pytest.raises(ImportRefused) as refused:
        convert(made, "m", shapes)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def refused_node(op: str, *inputs: str, outputs=("y",), domain: str = "", attrs=None,
                 **changes) -> str:
    node = helper.make_node(op, inputs, outputs, "n", domain=domain, **(attrs or {}))
    line = refusal(model(node, **changes))
    start, end = f"m: cannot import n ({op}): ", f"; replace these in the model {SUPPORTED}"
    assert line.startswith(start) and line.endswith(end), line
    return line.removeprefix(start).removesuffix(end)


def test_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "none.onnx"
    with pytest.raises(ImportRefused) as refused:
        load(path)
    assert str(refused.value) == f"{path}: no such file; give the path of an ONNX model"


def test_folder(tmp_path: Path) -> None:
    with pytest.raises(ImportRefused) as refused:
        load(tmp_path)
    assert str(refused.value) == f"{tmp_path}: cannot be read: Is a directory"


@pytest.mark.parametrize("content", [b"\xff\xfe not protobuf", b"PK\x03\x04zip", b"# a script\n"])
def test_not_onnx(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.onnx"
    path.write_bytes(content)
    with pytest.raises(ImportRefused) as refused:
        load(path)
    assert str(refused.value) == f"{path}: is not an ONNX file; give a model in .onnx format"


@pytest.mark.parametrize("content", [b"", onnx.ModelProto(ir_version=8).SerializeToString()])
def test_no_graph(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.onnx"
    path.write_bytes(content)
    with pytest.raises(ImportRefused) as refused:
        load(path)
    assert str(refused.value) == (
        f"{path}: is not an ONNX model with a graph; give a model in .onnx format")


def test_missing_external_data(tmp_path: Path) -> None:
    made = model(helper.make_node("Conv", ["x", "w"], ["y"]))
    path = tmp_path / "a.onnx"
    onnx.save(made, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(ImportRefused) as refused:
        load(path)
    line = str(refused.value)
    assert line.startswith(f"{path}: is not a valid ONNX model: ") and "w.bin" in line
    assert "\n" not in line


def test_file_is_named_in_every_refusal(tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    onnx.save(model(helper.make_node("Mystery", ["x"], ["y"], "soft")), path)
    with pytest.raises(ImportRefused) as refused:
        load(path)
    assert str(refused.value) == (
        f"{path}: cannot import soft (Mystery): operator is not supported; replace these in the "
        f"model {SUPPORTED}")


def test_a_refusal_is_one_line_whatever_the_names() -> None:
    assert refusal(model(helper.make_node("Soft\nmax", ["x"], ["y"], "two\n lines"))) == (
        "m: cannot import two lines (Soft max): operator is not supported; replace these in the "
        f"model {SUPPORTED}")


@pytest.mark.parametrize("place", ["node", "operator", "value", "attribute", "dimension", "weight",
                                   "branch"])
def test_names_that_are_no_text(place: str) -> None:
    def name(here: str, otherwise: str) -> str:
        return "QUEER" if here == place else otherwise

    value = helper.make_tensor_value_info
    inner = helper.make_graph([helper.make_node("Identity", ["x"], ["z"], name("branch", "i"))],
                              "inner", [], [value("z", TensorProto.FLOAT, [2])])
    nodes = [helper.make_node(name("operator", "Relu"), ["x"], [name("value", "y")],
                              name("node", "relu")),
             helper.make_node("If", ["c"], ["w"], then_branch=inner, else_branch=inner)]
    model = helper.make_model(helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, [name("dimension", "n")])],
        [value("w", TensorProto.FLOAT, [2])],
        [numpy_helper.from_array(np.zeros(1, bool), name("weight", "c"))]))
    model.graph.node[0].attribute.append(helper.make_attribute(name("attribute", "alpha"), 1))
    text = model.SerializeToString().replace(b"QUEER", b"QU\xb2ER")
    with pytest.raises(ImportRefused) as refusal:
        convert(onnx.ModelProto.FromString(text), "m")
    assert str(refusal.value) == ("m: names must be UTF-8, not b'QU\\xb2ER'; export the model "
                                  "again")


def test_every_offending_node_is_listed() -> None:
    """Nodes behind a refused one are judged by the type that ONNX infers for it, or not at all;
    what is fine is not listed.
    """
    line = refusal(model(
        helper.make_node("Clip", ["x", "w"], ["a"], "soft"),
        helper.make_node("Relu", ["a"], ["b"], "fine"),
        helper.make_node("Relu", ["b"], ["also"], "fine_as_well"),
        helper.make_node("Relu", ["also"], ["fine"], "fine_still"),
        helper.make_node("Conv", ["b", "w"], ["c"], "spread", dilations=[2]),
        helper.make_node("Foo", ["c"], ["d"], domain="com.acme"),
        helper.make_node("Conv", ["x", "w"], ["e"], "fine_too"),
        helper.make_node("Conv", ["d", "w"], ["f"], "unknown", dilations=[2]),
        helper.make_node("MaxPool", ["e"], ["y"], "pool", kernel_shape=[2])))
    assert line == (
        "m: cannot import soft (Clip): its min must be one number, not 108; spread (Conv): "
        "dilations must have 2 numbers, not 1; Foo_5 (com.acme.Foo): operator is not supported; "
        "pool (MaxPool): kernel_shape must have 2 numbers, not 1; replace these in the model "
        f"{SUPPORTED}")


@pytest.mark.parametrize("opset", [0, NEWEST + 1])
def test_opset(opset: int) -> None:
    assert refusal(model(helper.make_node("Relu", ["x"], ["y"]), opset=opset)) == (
        f"m: opset must be 1 to {NEWEST}, not {opset}; convert the model with "
        "onnx.version_converter")


def test_unbound_dimensions() -> None:
    relu = helper.make_node("Relu", ["x"], ["y"])
    assert refusal(model(relu, shape=["N", 3, None, 8])) == (
        "m: no value for dimension 'N' of input 'x', 'x.2' of input 'x'; bind each with "
        "--shape NAME=N, for example --shape N=1 --shape x.2=1")
    assert refusal(model(relu, shape=["N", 3]), {"N": 0}) == (
        "m: --shape N=N must have an integer N of at least 1, not 0")
    assert refusal(model(relu, shape=["N", 3]), {"N": 1, "M": 4}) == (
        "m: --shape M=4 names no dimension of the inputs; the symbolic ones are: N")
    assert refusal(model(relu), {"M": 4}) == (
        "m: --shape M=4 names no dimension of the inputs; the symbolic ones are: none")


def test_input_types() -> None:
    relu = helper.make_node("Relu", ["x"], ["y"])
    assert refusal(model(relu, dtype=TensorProto.STRING)) == (
        "m: input 'x' cannot be used: dtype must be one of float32, int8, uint8, int32, int64, "
        "bool, float16, bfloat16, float64, int16, uint16, uint32, uint64, int4, uint4, int2, "
        "uint2, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu, "
        "float4_e2m1fn, not 'string'; change its type in the model")
    assert refusal(model(relu, shape=None)) == (
        "m: input 'x' must be a tensor with a shape; declare its type and shape in the model")


def test_output_without_a_node() -> None:
    assert refusal(model(helper.make_node("Relu", ["x"], ["y"]), outputs=("y", "z"))) == (
        "m: output 'z' is made by no node; export the model again")


def test_value_before_its_node() -> None:
    assert refused_node("Add", "x", "later") == "input 'later' must be defined before its use"


def test_value_defined_twice() -> None:
    line = refusal(model(helper.make_node("Relu", ["x"], ["y"], "a"),
                         helper.make_node("Relu", ["x"], ["y"], "b")))
    assert line.startswith("m: cannot import b (Relu): output 'y' must be defined once; ")


def test_sparse_initializer() -> None:
    made = model(helper.make_node("Relu", ["x"], ["y"]))
    sparse = helper.make_sparse_tensor(constant("s", 1), constant("i", 1, dtype="int64"), [4])
    made.graph.sparse_initializer.append(sparse)
    assert refusal(made) == (
        "m: sparse initializers are not supported; store 's' as a dense tensor")


CONV = [
    ({"group": 3}, "input channels must equal the weight's 3 in each of 3 groups, not 3"),
    ({"group": 0}, "group must be at least 1, not 0"),
    ({"dilations": [2]}, "dilations must have 2 numbers, not 1"),
    ({"dilations": [1, 0]}, "dilations must be 2 integers of at least 1, not (1, 0)"),
    ({"dilations": [1, 4]}, "kernel must fit the padded input, not (3, 3) in float32[1,3,8,8] with "
                            "pads (0, 0, 0, 0) and dilations (1, 4)"),
    ({"kernel_shape": [3]}, "kernel_shape must have 2 numbers, not 1"),
    ({"kernel_shape": [5, 5]}, "kernel_shape must be the weight's (3, 3), not (5, 5)"),
    ({"strides": [1]}, "strides must have 2 numbers, not 1"),
    ({"pads": [1, 1]}, "pads must have 4 numbers, not 2"),
    ({"auto_pad": "SAME"}, "auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, not SAME"),
    ({"strides": [0, 1]}, "strides must be 2 integers of at least 1, not (0, 1)"),
    ({"pads": [0, 0, 1 << 31, 0]},
     "pads must be integers of at most 2,147,483,647, not (0, 0, 2147483648, 0)"),
    ({"mystery": 1}, "attribute 'mystery' is not supported"),
]


@pytest.mark.parametrize(("attrs", "reason"), CONV, ids=[next(iter(row[0])) for row in CONV])
def test_conv(attrs: dict, reason: str) -> None:
    assert refused_node("Conv", "x", "w", attrs=attrs) == reason


def test_conv_shapes() -> None:
    assert refused_node("Conv", "x", "w", shape=[1, 2, 8, 8]) == (
        "input channels must equal the weight's 3, not 2")
    assert refused_node("Conv", "x", "w", shape=[1, 3, 8]) == (
        "input must have 4 dimensions, not float32[1,3,8]")
    assert refused_node("Conv", "x") == "must have 2 to 3 inputs, not 1"


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("shape", [(), (4,), (4, 3)])
def test_weights_without_an_axis_to_move_along(op: str, shape: tuple[int, ...]) -> None:
    line = refused_node(op, "x", "w", attrs={"dilations": [1, 1]},
                        constants=[constant("w", *shape)])
    told = ",".join(map(str, shape))
    assert line == f"its weight must have 3 dimensions at least, not float32[{told}]"


CONV_TRANSPOSE = [
    ({"group": 3}, "input channels must be a multiple of the group 3, not 4"),
    ({"group": 0}, "group must be at least 1, not 0"),
    ({"kernel_shape": [5, 5]}, "kernel_shape must be the weight's (3, 3), not (5, 5)"),
    ({"dilations": [2]}, "dilations must have 2 numbers, not 1"),
    ({"output_padding": [1]}, "output_padding must have 2 numbers, not 1"),
    ({"output_padding": [0, -1]}, "output_padding must be 2 integers of at least 0, not (0, -1)"),
    ({"output_shape": [1, 3, 8]}, "output_shape must have 2 numbers, not 3"),
    ({"pads": [5, 0, 5, 0]}, "pads must leave an output, not (5, 0, 5, 0), which leave (0, 10)"),
    ({"pads": [0, 0, -1, 0]}, "pads must be 4 integers of at least 0, not (0, 0, -1, 0)"),
    ({"strides": [1, 4], "auto_pad": "SAME_UPPER"},
     "kernel must be no shorter than the stride 4 for auto_pad SAME_UPPER"),
    ({"mystery": 1}, "attribute 'mystery' is not supported"),
]


@pytest.mark.parametrize(("attrs", "reason"), CONV_TRANSPOSE)
def test_conv_transpose(attrs: dict, reason: str) -> None:
    assert refused_node("ConvTranspose", "x", "w", attrs=attrs, shape=[1, 4, 8, 8]) == reason


def test_conv_transpose_shapes() -> None:
    assert refused_node("ConvTranspose", "x", "w", shape=[1, 2, 8, 8]) == (
        "input channels must equal the weight's 4, not 2")
    assert refused_node("ConvTranspose", "x", "w", shape=[1, 4, 8]) == (
        "input must have 4 dimensions, not float32[1,4,8]")


MAXPOOL = [
    ({}, "kernel_shape must be given"),
    ({"kernel_shape": [2, 2], "dilations": [2]}, "dilations must have 2 numbers, not 1"),
    ({"kernel_shape": [2, 2], "strides": [0, 1]},
     "strides must be 2 integers of at least 1, not (0, 1)"),
    ({"kernel_shape": [9, 9]},
     "kernel must fit the padded input, not (9, 9) in float32[1,3,8,8] with pads (0, 0, 0, 0)"),
]


@pytest.mark.parametrize(("attrs", "reason"), MAXPOOL)
def test_maxpool(attrs: dict, reason: str) -> None:
    assert refused_node("MaxPool", "x", attrs=attrs) == reason


AVERAGES = [
    ({}, "kernel_shape must be given"),
    ({"kernel_shape": [2, 2], "dilations": [2, 2]}, "attribute 'dilations' is not supported"),
    ({"kernel_shape": [2, 2], "count_include_pad": 2}, "include_pad must be 0 or 1, not 2"),
]


@pytest.mark.parametrize(("attrs", "reason"), AVERAGES)
def test_average_pool(attrs: dict, reason: str) -> None:
    assert refused_node("AveragePool", "x", attrs=attrs) == reason


def test_too_many_outputs() -> None:
    assert refused_node("Relu", "x", outputs=["y", "i"]) == "must have 1 to 1 outputs, not 2"


def test_gemm() -> None:
    assert refused_node("Gemm", "x", "w", shape=X2) == (
        "its B must have 2 dimensions, not w: float32[4, 3, 3, 3]")
    assert refused_node("Gemm", "x", "w", shape=X2, attrs={"transA": 1},
                        constants=[constant("w", 6, 4)]) == (
        "matmul inputs must agree in their inner and leading extents, not float32[6,2] and "
        "float32[6,4]")


def test_clip() -> None:
    assert refused_node("Clip", "x", "w") == "its min must be one number, not 108"
    assert refused_node("Clip", "x", "", "x") == "its max must be one number, not 192"
    assert refused_node("Clip", "x", "n", constants=[constant("n", value=np.nan)]) == (
        "lo must be a number, not nan")


def test_concat() -> None:
    assert refused_node("Concat", "x", "x") == "axis must be given"
    assert refused_node("Concat", "x", attrs={"axis": 4}) == "axis must be -4 to 3, not 4"
    assert refused_node("Concat", "x", "w", attrs={"axis": 1}) == (
        "input 'w' must be float32[1,3,8,8] but for axis 1, not float32[4,3,3,3]")
    assert refused_node("Concat", attrs={"axis": 1}) == "must have 1 to 2147483647 inputs, not 0"


def numbers(name: str, *values: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)


@pytest.mark.parametrize(("constants", "reason"), [
    ([numbers("s", 1), numbers("e", 2, 3)],
     "starts, ends, axes and steps must have as many numbers, not 1, 2, 1 and 1"),
    ([numbers("s", 1), numbers("e", 2), numbers("a", 4)], "axis must be -4 to 3, not 4"),
    ([numbers("s", 1), numbers("e", 2), numbers("a", 1), numbers("t", 0)],
     "steps must not be 0"),
])
def test_slice(constants: list, reason: str) -> None:
    assert refused_node("Slice", "x", *(one.name for one in constants),
                        constants=constants) == reason


def test_slice_of_a_computed_place() -> None:
    assert refused_node("Slice", "x", "x", "x") == "its starts 'x' must be a constant"


def scales(*values: float) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, np.float32), "k")


PLACES = [
    ({"mode": "area"}, scales(1, 1, 2, 2), "mode must be nearest, linear or cubic, not area"),
    ({"antialias": 1}, scales(1, 1, 2, 2), "attribute 'antialias' is not supported"),
    ({}, scales(1, 1, np.nan, np.inf), "scales must be positive numbers, not 1, 1, nan, inf"),
    ({}, scales(1, 1, 0, 2), "scales must be positive numbers, not 1, 1, 0, 2"),
    ({}, scales(1, 2, 2), "scales must have 4 numbers, not 3"),
    ({"nearest_mode": "up"}, scales(1, 1, 2, 2), "nearest_mode must be one of floor, ceil, "
     "round_prefer_floor, round_prefer_ceil, not up"),
    ({"coordinate_transformation_mode": "centre"}, scales(1, 1, 2, 2),
     "coordinate_transformation_mode must be one of half_pixel, half_pixel_symmetric, "
     "pytorch_half_pixel, align_corners, asymmetric, tf_crop_and_resize, not centre"),
]


def test_a_range_of_several_types() -> None:
    numbers = [constant("i", value=1, dtype="int64"), constant("c", value=1, dtype="complex64")]
    assert refused_node("Range", "i", "i", "c", constants=numbers) == (
        "delta must be int64 as start is, not complex64")


@pytest.mark.parametrize(("attrs", "scale", "reason"), PLACES)
def test_resize(attrs: dict, scale: onnx.TensorProto, reason: str) -> None:
    assert refused_node("Resize", "x", "", "k", constants=[scale], attrs=attrs) == reason


def test_resize_to_a_size() -> None:
    assert refused_node("Resize", "x", "", "", "n", constants=[numbers("n", 1, 3, 16)]) == (
        "sizes must have 4 numbers, not 3")
    assert refused_node("Resize", "x", "", "x") == "its scales 'x' must be a constant"


def test_flatten_axis() -> None:
    assert refused_node("Flatten", "x", attrs={"axis": 5}) == "axis must be -4 to 4, not 5"


@pytest.mark.parametrize(("shape", "reason"), [
    ([-1, -1], "shape must hold extents, 0 for a kept one and one -1, not (-1, -1)"),
    ([-2, 6], "shape must hold extents, 0 for a kept one and one -1, not (-2, 6)"),
    ([2, 6, 0], "shape must hold extents, 0 for a kept one and one -1, not (2, 6, 0)"),
    ([5, -1], "shape must keep the number of elements of float32[2,6], not (5, 2)"),
])
def test_reshape(shape: list[int], reason: str) -> None:
    data = numpy_helper.from_array(np.array(shape, np.int64), "s")
    assert refused_node("Reshape", "x", "s", shape=X2, constants=[data]) == reason


def test_reshape_of_a_computed_shape() -> None:
    assert refused_node("Reshape", "x", "x", shape=X2) == "its shape 'x' must be a constant"


SCALE, ZERO = constant("s", value=0.5), constant("z", value=3, dtype="uint8")


@pytest.mark.parametrize(("constants", "attrs", "reason"), [
    ([constant("s", value=0.0), ZERO], {}, "every scale must be positive and finite"),
    ([constant("s", value=np.inf), ZERO], {}, "every scale must be positive and finite"),
    ([constant("s", 3), constant("z", 3, dtype="uint8")], {},
     "scale must be a scalar or match axis 1 of float32[2,6], not float32[3]"),
    ([constant("s", 6), constant("z", 6, dtype="uint8")], {"axis": 2},
     "axis must be -2 to 1, not 2"),
    ([constant("s", 6), ZERO], {},
     "zero point must have the shape of the scale float32[6], not uint8[]"),
    ([SCALE, ZERO], {"block_size": 2}, "attribute 'block_size' is not supported"),
])
def test_quantize(constants: list, attrs: dict, reason: str) -> None:
    assert refused_node("QuantizeLinear", "x", "s", "z", shape=X2, constants=constants,
                        attrs=attrs) == reason


def test_constants() -> None:
    assert refused_node("Constant") == "value must be given"


def test_control_flow_that_data_decides() -> None:
    branch = helper.make_graph([helper.make_node("Relu", ["x"], ["b"])], "b", [], [
        helper.make_tensor_value_info("b", TensorProto.FLOAT, None)])
    assert refused_node("If", "x", attrs={"then_branch": branch, "else_branch": branch}) == (
        "its condition must be one bool, not x: float32[1, 3, 8, 8]")
    assert refused_node("NonZero", "x") == "its data 'x' must be a constant"


def test_a_refusal_within_a_branch_names_it() -> None:
    branch = helper.make_graph([helper.make_node("Mystery", ["x"], ["b"], "inner")], "b", [], [
        helper.make_tensor_value_info("b", TensorProto.FLOAT, None)])
    assert refused_node("If", "c", attrs={"then_branch": branch, "else_branch": branch},
                        constants=[constant("c", dtype="bool")]) == (
        "inner (Mystery): operator is not supported")


def test_what_contradicts_itself_in_a_way_nobody_looks_for() -> None:
    assert refused_node("Transpose", "x", attrs={"perm": [0, 1]}) == (
        "perm must order 0 to 3, not (0, 1)")
    several = helper.make_node("SequenceConstruct", ["x"], ["s"], "fine")
    line = refusal(model(several, helper.make_node("Relu", ["s"], ["y"], "n")))
    assert line.startswith("m: cannot import n (Relu): its inputs and attributes contradict each "
                           "other (AttributeError: ")


def test_a_constant_that_is_too_large() -> None:
    size = [numbers("n", 1 << 20, 1 << 20)]
    assert refused_node("ConstantOfShape", "n", constants=size) == (
        "its result must have 268,435,712 bytes at most and no extent below 0, not the shape "
        "(1048576, 1048576); LOCKSTEP_MEMORY, in GiB, sets how much")


def test_constants_that_are_too_large_together(monkeypatch) -> None:
    monkeypatch.setattr(values, "most_bytes", lambda: 800)
    monkeypatch.setattr(values, "GROWTH", 0)
    size, more = numbers("n", 15), numbers("m", 11)
    nodes = [helper.make_node("ConstantOfShape", ["n"], ["a"]),
             helper.make_node("ConstantOfShape", ["m"], ["b"], "second")]
    nodes.append(helper.make_node("Add", ["a", "x"], ["y"]))
    line = refusal(model(*nodes, constants=[size, more]))
    assert "second (ConstantOfShape): its result must have 40 bytes at most" in line


def test_loops_that_do_not_end(monkeypatch) -> None:
    """Each turn is three nodes, as loops are unrolled."""
    monkeypatch.setattr(values, "MOST_NODES", 100)
    monkeypatch.setattr(control, "MOST_TIMES", 50)
    body = helper.make_graph(
        [helper.make_node("Tanh", ["before"], ["after"]),
         helper.make_node("Neg", ["after"], ["b"]), helper.make_node("Neg", ["b"], ["c"]),
         helper.make_node("Identity", ["goes"], ["on"])], "body",
        [helper.make_tensor_value_info("n", TensorProto.INT64, []),
         helper.make_tensor_value_info("goes", TensorProto.BOOL, []),
         helper.make_tensor_value_info("before", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []),
         helper.make_tensor_value_info("c", TensorProto.FLOAT, [1])])
    known = [numpy_helper.from_array(np.array(1 << 40), "n"),
             numpy_helper.from_array(np.array(True), "t")]
    attrs = {"body": body}
    assert refused_node("Loop", "n", "t", "x", attrs=attrs, constants=known, shape=[1]) == (
        "Neg_1 (Neg): the network must have 100 operators at most, loops and sequences "
        "unrolled")
    assert refused_node("Loop", "n", "t", "w", attrs=attrs, shape=[1],
                        constants=[*known, constant("w", 1)]) == "must end after 50 times"


def test_initializers_whose_data_do_not_fit() -> None:
    """The message lists all of them, and the nodes that are wrong too."""
    short, strange = constant("short", 2), constant("strange", 2)
    short.dims[0] = 1 << 40
    strange.data_type = 99
    line = refusal(model(helper.make_node("Add", ["x", "short"], ["a"]),
                         helper.make_node("Mystery", ["a", "strange"], ["y"], "n"),
                         constants=[short, strange]))
    assert line.startswith(
        "m: cannot import initializer 'short': its data do not fit its type and shape (ValueError: "
        "cannot reshape array of size 2 into shape (1099511627776,)); initializer 'strange': ")
    assert "; n (Mystery): operator is not supported; " in line


def test_what_takes_the_square_of_an_extent() -> None:
    reason = ("every element is compared with all others of its axis, at most 17,179,869,184 "
              "pairs, not 1,099,511,627,776")
    place = numpy_helper.from_array(np.array(0), "k")
    for op, outputs in ("TopK", ("y", "places")), ("CumSum", ("y",)):
        line = refused_node(op, "x", "k", shape=[1 << 20], constants=[place],
                            outputs=outputs)
        assert line.endswith(reason), line


def test_adding_different_types() -> None:
    assert refused_node("Add", "x", "i", constants=[constant("i", 1, dtype="int32")]) == (
        "inputs of add must have one type, not float32 and int32")


def test_results_that_no_graph_can_have() -> None:
    text = numpy_helper.from_array(np.array(["a"], object), "s")
    made = model(helper.make_node("Identity", ["s"], ["y"]), constants=[text])
    assert refusal(made).startswith("m: output 'y' cannot be used: dtype must be one of float32")
    ends = [numbers("s", 1), numbers("e", 1)]
    made = model(helper.make_node("Slice", ["x", "s", "e"], ["y"]), constants=ends)
    assert refusal(made) == ("m: output 'y' cannot be used: shape must hold integers of at least "
                             "1, not (0, 3, 8, 8)")


def test_too_many_dimensions() -> None:
    shape = constant("s", 65, dtype="int64")
    assert refused_node("Reshape", "x", "s", constants=[shape], shape=[1]) == (
        "shape must have 64 dimensions at most, not 65")


def test_an_input_of_too_many_dimensions() -> None:
    made = model(helper.make_node("Relu", ["x"], ["y"]), shape=[1] * 65, constants=())
    assert refusal(made) == ("m: input 'x' cannot be used: shape must have 64 dimensions at most, "
                             "not 65; change its type in the model")


def test_a_refused_node_whose_result_has_a_type_that_nothing_has() -> None:
    made = model(helper.make_node("Unheard", ["x"], ["y"], "n"))
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 999, [1]))
    assert refusal(made) == ("m: cannot import n (Unheard): operator is not supported; replace "
                             f"these in the model {SUPPORTED}")


def test_a_split_into_many_parts_is_told_in_one_short_line() -> None:
    node = helper.make_node("Split", ["x"], [f"y{part}" for part in range(1000)], "split",
                            num_outputs=1000)
    model = helper.make_model(helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1500])],
        [helper.make_tensor_value_info("y0", TensorProto.FLOAT, None)]),
        opset_imports=[helper.make_opsetid("", 18)])
    with pytest.raises(ImportRefused) as refusal:
        convert(model, "m")
    assert ("split must divide the extent 1500, not 1,000 sizes such as -498"
            in str(refusal.value))


@pytest.mark.parametrize(("op", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize(("name", "shape", "dtype"), [
    ("W", (1, 2, 6), "float32"), ("R", (1, 8, 3), "float32"), ("B", (1,), "int64"),
    ("B", (1, 8), "float32"), ("B", None, "float64"), ("initial_h", (1, 1, 2), "float32"),
    ("sequence_lens", None, "int64"), ("sequence_lens", (1,), "int32")])
def test_operands_of_recurrent_layers(op: str, gates: int, name: str,
                                      shape: tuple[int, ...] | None, dtype: str) -> None:
    """Seven steps of three samples with six features; five hidden elements."""
    shapes = {"W": (1, gates * 5, 6), "R": (1, gates * 5, 5), "B": (1, gates * 10),
              "sequence_lens": (3,), "initial_h": (1, 3, 5)}
    types = dict.fromkeys(shapes, "float32") | {"sequence_lens": "int32"}
    wanted, shape = shapes[name], shape or shapes[name]
    constants = [constant(key, *its, dtype=types[key]) for key, its in shapes.items()
                 if key != name]
    line = refused_node(op, "x", *shapes, attrs={"hidden_size": 5}, shape=[7, 3, 6],
                        constants=[*constants, constant(name, *shape, dtype=dtype)])
    assert line == f"{name} must be {types[name]} of shape {wanted}, not {dtype} of shape {shape}"


@pytest.mark.parametrize("dtype", ["float32", "complex64", "bool"])
def test_places_and_extents_are_integers(dtype: str) -> None:
    told = constant("shape", 2, value=np.nan if dtype != "bool" else True, dtype=dtype)
    assert refused_node("Reshape", "x", "shape", constants=(told,), shape=X2) == (
        f"its shape 'shape' must hold integers, not {dtype}")
    assert refused_node("TopK", "x", "shape", outputs=("y", "z"), constants=(told,), shape=X2) == (
        f"its k 'shape' must hold integers, not {dtype}")


def test_one_number_is_one_element() -> None:
    told = constant("k", 2, dtype="int64")
    assert refused_node("TopK", "x", "k", outputs=("y", "z"), constants=(told,), shape=X2) == (
        "its k 'k' must have 1 element, not 2")
