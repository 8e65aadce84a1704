"""Graphs as native code against the reference of graphs."""

import threading

import numpy as np
import pytest

from compiler.cpu_gpu_backends.cpu import target as cpu
from compiler.cpu_gpu_backends.cpu.target import CpuTarget, kernel_program
from compiler.cpu_gpu_backends.llvm import build
from compiler.frontend import load
from compiler.graph import Builder, Graph, Node, TensorType, evaluate, optimize, standard_passes
from compiler.ops.registry import OPERATORS
from examples.digits import data
from tests.support.integer_graphs import sums
from tests.support.operator_cases import CASES, OperatorCase, assert_same
from tests.support.slow_cases import some_of_each


def graph_of(case: OperatorCase) -> tuple[Graph, dict[str, np.ndarray]]:
    """The operator alone, its parameters as constants; and the inputs."""
    builder, inputs = Builder("one"), {}
    for position, (name, array) in enumerate(zip(case.node.inputs, case.inputs, strict=True)):
        if position and OPERATORS[case.op].parameters:
            builder.add_constant(name, array)
        else:
            builder.add_input(name, TensorType.of(array))
            inputs[name] = array
    return builder.finish([builder.add(case.node)]), inputs


def small_graph() -> Graph:
    """relu(x) + x, and relu(x), where x [2,3] is float32."""
    builder = Builder("small")
    builder.add_input("x", TensorType((2, 3), "float32"))
    builder.emit("relu", "relu", ["x"], "r")
    builder.emit("add", "add", ["r", "x"], "y")
    return builder.finish(["y", "r"])


@some_of_each(12, "case", CASES, kind=lambda case: case.op)
def test_an_operator_equals_the_reference(case: OperatorCase) -> None:
    graph, inputs = graph_of(case)
    assert_same(case.op, CpuTarget().compile(graph)(inputs)["y"], evaluate(graph, inputs)["y"])


def test_a_last_column_is_stored_alone() -> None:
    """Rows of 5 bytes in tiles of 4, cut from 64 bits: of the second tile one lane is stored."""
    case = next(case for case in CASES if str(case) == "qconv2d-2x4x5x5-12x1x3x3-12-12-12")
    graph, _ = graph_of(case)
    group, = CpuTarget().groups(graph).groups
    program = kernel_program(graph, group)
    assert program is not None
    kernel = build(program)
    result, = kernel.program.outputs
    size = int(np.prod(result.shape))
    block = np.full(size + 64, 99, np.int8)
    kernel(*(np.ascontiguousarray(array, buffer.dtype) for array, buffer
             in zip(case.inputs, kernel.program.inputs, strict=True)),
           block[:size].reshape(result.shape))
    assert (block[size:] == 99).all()


@pytest.fixture(scope="module")
def digits() -> np.ndarray:
    return data.held_out()[0][:8]


@pytest.fixture(scope="module")
def digits_int8() -> Graph:
    return optimize(load(data.HERE / "digits-int8.onnx"))


def test_an_integer_network_equals_the_reference_to_the_bit(digits, digits_int8) -> None:
    segment = CpuTarget().compile(digits_int8)
    for image in digits:
        inputs = {digits_int8.inputs[0]: image[None]}
        wanted = evaluate(digits_int8, inputs)
        for name, array in segment(inputs).items():
            np.testing.assert_array_equal(array, wanted[name])


def test_sums_of_integers_equal_the_reference_to_the_bit() -> None:
    """Those of 3x3 windows, too, of which Winograd's products would round some."""
    graph, inputs = sums()
    found, wanted = CpuTarget().compile(graph)(inputs), evaluate(graph, inputs)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("model", ["digits-float.onnx", "digits-int8.onnx"])
def test_a_float_network_is_near_the_reference(digits, model) -> None:
    graph = optimize(load(data.HERE / model), standard_passes(integerize=False))
    segment = CpuTarget().compile(graph)
    for image in digits[:4]:
        inputs = {graph.inputs[0]: image[None]}
        wanted = evaluate(graph, inputs)
        for name, array in segment(inputs).items():
            np.testing.assert_allclose(array, wanted[name], atol=1e-4)


def test_every_output_is_returned_and_calls_do_not_share_arrays() -> None:
    segment = CpuTarget().compile(small_graph())
    x = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
    first, second = segment({"x": x}), segment({"x": -x})
    assert list(first) == ["y", "r"]
    assert first["r"].tolist() == [[1, 0, 3], [0, 5, 0]]
    assert first["y"].tolist() == [[2, -2, 6], [-4, 10, -6]]
    assert second["r"].tolist() == [[0, 2, 0], [4, 0, 6]]


def test_arrays_of_any_memory_layout_are_taken() -> None:
    x = np.arange(-3, 3, dtype=np.float32).reshape(3, 2)
    unaligned = np.zeros(25, np.uint8)[1:].view(np.float32).reshape(2, 3)
    unaligned[:] = x.T
    segment = CpuTarget().compile(small_graph())
    for array in (x.T, unaligned):
        assert segment({"x": array})["r"].tolist() == [[0, 0, 1], [0, 0, 2]]


def test_an_input_or_a_constant_may_be_an_output() -> None:
    builder = Builder("views")
    builder.add_input("x", TensorType((2,), "int8"))
    builder.add_constant("k", np.array([3, 4], np.int8))
    made = CpuTarget().compile(builder.finish(["x", "k"]))({"x": np.array([1, 2], np.int8)})
    assert {name: array.tolist() for name, array in made.items()} == {"x": [1, 2], "k": [3, 4]}


def test_a_segment_may_be_called_by_several_threads(digits, digits_int8) -> None:
    segment, value, found = CpuTarget().compile(digits_int8), digits_int8.inputs[0], {}

    def work(position: int) -> None:
        for _ in range(20):
            found[position] = segment({value: digits[position][None]})

    threads = [threading.Thread(target=work, args=(position,)) for position in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for position, made in found.items():
        wanted = segment({value: digits[position][None]})
        assert all(np.array_equal(made[name], wanted[name]) for name in wanted)


def test_equal_nodes_are_compiled_once(monkeypatch) -> None:
    built = []

    def build(program, *args, **options):
        built.append(program.name)
        return compiled(program, *args, **options)

    compiled = cpu.build
    monkeypatch.setattr(cpu, "build", build)
    builder = Builder("twins")
    builder.add_input("x", TensorType((3, 1, 4, 1, 5), "float32"))
    for position, source in enumerate(["x", "v0", "v1"]):
        builder.emit("relu", f"relu{position}", [source], f"v{position}")
    graph = builder.finish(["v2"])
    CpuTarget(fusion=False).compile(graph)
    CpuTarget(fusion=False).compile(graph)
    assert built == ["relu"]
    CpuTarget().compile(graph)
    assert built == ["relu", "relu_relu_relu"]


def test_wrong_inputs_are_refused() -> None:
    segment = CpuTarget().compile(small_graph())
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(ValueError, match=r"^input 'x' must be given$"):
        segment({})
    with pytest.raises(ValueError, match=r"^input must be one of x, not 'z'$"):
        segment({"x": x, "z": x})
    with pytest.raises(ValueError, match=r"^input 'x' must be float32\[2,3\], not int8\[2,3\]$"):
        segment({"x": x.astype(np.int8)})


def test_operators_without_an_expression_are_refused() -> None:
    node = Node("softmax", "last", ("x",), ("y",))
    types = dict.fromkeys("xy", TensorType((2,), "float32"))
    graph = Graph("g", ("x",), ("y",), (node,), types)
    reason = f"operator must be one of {', '.join(OPERATORS)}, not 'softmax'"
    assert CpuTarget().refusal(graph, node) == reason
    assert CpuTarget().refusal(small_graph(), small_graph().node("relu")) is None
    with pytest.raises(ValueError, match=f"^last: {reason}$"):
        CpuTarget().compile(graph)
