"""Inputs that decide about shapes: what the model declares of its results takes their place, and
what does not depend on shapes is computed from them.
"""

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.frontend import ImportRefused, convert
from compiler.graph import evaluate, verify

X = np.arange(12, dtype=np.float32).reshape(3, 4) % 5


def parsed(text: str, opset: int = 20) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{text}')


def check(text: str, *others: dict, x: np.ndarray = X, opset: int = 20) -> tuple[str, ...]:
    """Compares with ONNX's reference, and returns the notes."""
    model = parsed(text, opset)
    graph = verify(convert(model, "m"))
    compiled = CpuTarget().compile(graph)
    for other in others:
        inputs = {"x": x} | {name: np.array(value) for name, value in other.items()}
        inputs = {name: array for name, array in inputs.items() if name in text}
        wanted = ReferenceEvaluator(model).run(None, inputs)
        inputs = {name: inputs[name] for name in graph.inputs}
        for found in (evaluate(graph, inputs), compiled(inputs)):
            for value, expected in zip(found.values(), wanted, strict=True):
                np.testing.assert_allclose(value, expected, 1e-6, 1e-6)
    return graph.notes


SHAPES = [
    ("g (float[3,4] x, int64[2] n) => (float[2,6] y) { y = Reshape(x, n) }", [2, 6]),
    ("g (float[3,4] x, int64[3] n) => (float[2,3,4] y) { y = Expand(x, n) }", [2, 1, 4]),
    ("g (float[3,4] x, int64[2] n) => (float[6,4] y) { y = Tile(x, n) }", [2, 1]),
    ("g (float[3,4] x, int64[2] n) => (float[1,3,4,1] y) { y = Unsqueeze(x, n) }", [0, -1]),
    ("""g (float[3,4] x, int64[1] n) => (float[3,4] y) {
        k = Constant<value_ints=[0]>() z = Unsqueeze(x, k) y = Squeeze(z, n) }""", [0]),
    ("g (float[3,4] x, int64[2] n) => (float[3,1] y, float[3,3] z) { y, z = Split<axis=1>(x, n) }",
     [1, 3]),
    ("g (float[3,4] x, int64[1] n) => (float[3,2] y, int64[3,2] z) { y, z = TopK(x, n) }", [2]),
    ("g (int64[3,4] i, int64 n, float[2] v) => (float[3,4,6] y) { y = OneHot(i, n, v) }", 6),
    ("g (int64[2] n) => (float[2,3] y) { y = ConstantOfShape(n) }", [2, 3]),
    ("g (float[3,4] x, int64[2] n) => (float[6,2] y) { y = Resize(x, , , n) }", [6, 2]),
    ("g (int32 n) => (float[6] y) { y = HannWindow(n) }", np.int32(6)),
]


@pytest.mark.parametrize(("text", "number"), SHAPES)
def test_the_declared_shape_says_it(text: str, number) -> None:
    more = {"i": X.astype(np.int64), "v": np.array([0, 3], np.float32)} if "OneHot" in text else {}
    notes = check(text, {"n": number, **more})
    assert notes and all("has the declared shape [" in note for note in notes)


@pytest.mark.parametrize(("text", "number"), SHAPES)
def test_without_a_declared_shape_it_is_refused(text: str, number) -> None:
    model = parsed(text)
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    with pytest.raises(ImportRefused, match=r"'n' must be a constant"):
        convert(model, "m")


def test_the_note_says_what_is_taken_for_granted() -> None:
    assert check(SHAPES[0][0]) == (
        "Reshape_0: its result has the declared shape [2, 6], whatever 'n' (shape) holds",)


def test_a_declared_shape_of_bound_names_follows_backwards() -> None:
    model = parsed("""g (float[B,4] x, int64[2] n) => (float[2,B2] y) {
        a = Reshape(x, n) b = Abs(a) y = Sqrt(b) }""")
    with pytest.raises(ImportRefused, match="its shape 'n' must be a constant"):
        convert(model, "m", {"B": 3})
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_param = "B"
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 4
    assert convert(model, "m", {"B": 3}).values["y"].shape == (4, 3)


def test_shapes_that_cannot_be() -> None:
    for text, reason in (
            (SHAPES[2][0].replace("[6,4]", "[5,4]"), "its result must be a multiple of (3, 4), not "
                                                     "(5, 4)"),
            (SHAPES[3][0].replace("[1,3,4,1]", "[1,4,3,1]"), "its result must have the extents of "
                                                             "(3, 4) but for 1, not (1, 4, 3, 1)")):
        with pytest.raises(ImportRefused) as refused:
            convert(parsed(text), "m")
        assert reason in str(refused.value)


def test_a_range_from_a_computed_start() -> None:
    check("g (int64 a, int64 b, int64 c) => (int64[3] y) { y = Range(a, b, c) }",
          {"a": 2, "b": 8, "c": 2}, {"a": 9, "b": 0, "c": -3})


@pytest.mark.parametrize("upper", [0, 1])
def test_triangles_from_any_diagonal(upper: int) -> None:
    check(f"g (float[3,4] x, int64 k) => (float[3,4] y) {{ y = Trilu<upper={upper}>(x, k) }}",
          *({"k": k} for k in (-4, -1, 0, 2, 9)))


CUBE = np.arange(18, dtype=np.float32).reshape(3, 2, 3) - 4


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceL2", "ReduceMax", "ReduceMean"])
def test_reductions_along_axes_that_data_choose(op: str) -> None:
    """All that give the declared shape are computed; where one alone does, it is taken."""
    check(f"g (float[3,3,3] x, int64[1] a) => (float[3,3] y) {{ y = {op}<keepdims=0>(x, a) }}",
          *({"a": [a]} for a in (0, 1, 2, -1, -3)),
          x=np.arange(27, dtype=np.float32).reshape(3, 3, 3) - 9)
    check(f"g (float[3,2,3] x, int64[2] a) => (float[1,2,1] y) {{ y = {op}(x, a) }}",
          {"a": [2, 0]}, x=CUBE)
    check(f"g (float[3,2,3] x, int64[0] a) => (float[1,1,1] y) {{ y = {op}(x, a) }}",
          {"a": np.zeros(0, np.int64)}, x=CUBE)


def test_reductions_whose_shape_nobody_says() -> None:
    with pytest.raises(ImportRefused, match="its axes 'a' must be a constant"):
        convert(parsed("g (float[3,2] x, int64[1] a) => (float[N] y) { y = ReduceSum<keepdims=0>"
                       "(x, a) }"), "m", {})


@pytest.mark.parametrize("op", ["CumSum", "CumProd"])
def test_running_totals_along_any_axis(op: str) -> None:
    check(f"g (float[3,2,3] x, int64 a) => (float[3,2,3] y) {{ y = {op}(x, a) }}",
          *({"a": a} for a in (0, 1, -1)), x=CUBE, opset=26 if op == "CumProd" else 20)


def test_an_input_without_elements_is_known() -> None:
    graph = convert(parsed("""g (float[2,0] e, float[2,3] x) => (float[2,3] y) {
        y = Concat<axis=1>(x, e) }"""), "m")
    assert graph.inputs == ("x",)
    found = evaluate(graph, {"x": np.ones((2, 3), np.float32)})
    assert found["y"].tolist() == [[1] * 3] * 2
