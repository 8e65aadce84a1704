"""Products that nothing quantizes, and dynamic ones, on an accelerator and the host."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import lockstep
from compiler.frontend import convert
from compiler.graph import Graph, optimize, standard_passes
from compiler.graph.division.partition import ACCEL, HOST
from runtime.driver.auto import choose
from runtime.driver.costs import Pricing
from runtime.driver.targets import Targets, accelerator
from runtime.pricing.link import Link
from tests.support.machines import TINY

Array = np.ndarray


def dynamic(rng: np.random.Generator) -> onnx.ModelProto:
    """What quantizers write for a convolution and a dense layer whose data has no scale yet."""
    constants = {
        "k": rng.integers(-127, 128, (6, 3, 3, 3)).astype(np.int8), "k_scale": np.float32(0.01),
        "k_bias": rng.normal(size=(6, 1, 1)).astype(np.float32), "axes": np.array([2, 3]),
        "w": rng.integers(0, 256, (6, 10)).astype(np.uint8), "w_zero": np.uint8(128),
        "w_scale": rng.uniform(0.01, 0.02, 10).astype(np.float32)}
    nodes = [
        ("DynamicQuantizeLinear", "x", "xq xs xz", {}),
        ("ConvInteger", "xq k xz", "sums", {"pads": [1, 1, 1, 1]}),
        ("Cast", "sums", "real", {"to": 1}), ("Mul", "xs k_scale", "s", {}),
        ("Mul", "real s", "scaled", {}), ("Add", "scaled k_bias", "c", {}),
        ("Relu", "c", "r", {}), ("ReduceMean", "r axes", "m", {"keepdims": 0}),
        ("DynamicQuantizeLinear", "m", "mq ms mz", {}),
        ("MatMulInteger", "mq w mz w_zero", "rows", {}), ("Cast", "rows", "real_rows", {"to": 1}),
        ("Mul", "ms w_scale", "row_scale", {}), ("Mul", "real_rows row_scale", "y", {})]
    return model([helper.make_node(op, inputs.split(), outputs.split(), outputs.split()[0], **attrs)
                  for op, inputs, outputs, attrs in nodes], (1, 3, 5, 6), constants)


def unquantized(rng: np.random.Generator) -> onnx.ModelProto:
    """A last layer without a quantization behind it."""
    constants = {"s": np.float32(0.02), "z": np.int8(-7), "ws": np.float32(0.01),
                 "wz": np.int8(0), "w": rng.integers(-127, 128, (40, 10)).astype(np.int8),
                 "b": rng.normal(size=10).astype(np.float32)}
    nodes = [("QuantizeLinear", "x s z", "q"), ("DequantizeLinear", "q s z", "d"),
             ("DequantizeLinear", "w ws wz", "wd"), ("Gemm", "d wd b", "y")]
    return model([helper.make_node(op, inputs.split(), [output], output)
                  for op, inputs, output in nodes], (3, 40), constants)


def model(nodes: list, shape: tuple[int, ...], constants: dict) -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, 1, extents)
            for name, extents in (("x", shape), ("y", None)))
    graph = helper.make_graph(nodes, "sums", [x], [y], [
        numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)])


def on_the_accelerator(module) -> set[str]:
    return {node.name for segment in module.partition.segments if segment.target == ACCEL
            for node in segment.nodes}


@pytest.mark.parametrize(("make", "layers", "largest"), [
    (dynamic, {"sums", "rows"}, 0.0), (unquantized, {"y"}, 1e-5)])
def test_sums_of_the_accelerator(rng, make, layers: set[str], largest: float) -> None:
    """Dynamic products are those of the network in int32, to the bit."""
    proto = make(rng)
    real = lockstep.compile(proto, "cpu", integerize=False)
    module = lockstep.compile(proto, "accel:tiny-1x4x4")
    x = rng.normal(size=module.graph.values["x"].shape).astype(np.float32)
    assert on_the_accelerator(module) >= layers
    for other in (module, lockstep.compile(proto, "cpu")):
        np.testing.assert_allclose(other({"x": x})["y"], real({"x": x})["y"], rtol=0, atol=largest)


def pricing(graph: Graph, seconds: float, link: Link | None = None) -> Pricing:
    """A segment of the host takes so long for each of its nodes."""
    def measure(what: str, run) -> float:
        return seconds * int(what.split()[2]) if what.startswith("segment") else 0.0
    return Pricing(graph, Targets([accelerator(TINY, link=link or Link())]), measure)


def test_the_price_decides(rng) -> None:
    graph = optimize(convert(unquantized(rng)), standard_passes(sums=True))
    slow, fast = (choose(pricing(graph, seconds)) for seconds in (1.0, 1e-7))
    assert ACCEL in {segment.target for segment in slow.price.partition.segments}
    assert {segment.target for segment in fast.price.partition.segments} == {HOST}
    for choice in (slow, fast):
        assert choice.price.seconds <= choice.candidates["host"]
