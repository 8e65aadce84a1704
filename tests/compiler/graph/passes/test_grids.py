"""Float weights of few bits with numbers for groups of inputs become integers of 16 bits."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from compiler.frontend.onnx.importing import convert
from compiler.graph import Graph, evaluate, optimize, standard_passes
from compiler.graph.passes.grids import in_groups
from compiler.graph.passes.weights_on_grids import on_grid

DEPTH, CHANNELS, ROWS = 96, 9, 5


def weight_of(rng, size: int, scales: np.ndarray, bits: int = 4, depth: int = DEPTH) -> np.ndarray:
    """float32 [channels, depth]: random integers times the scales [channels, groups]."""
    end = 1 << bits - 1
    integers = rng.integers(-end, end, (len(scales), depth))
    return (integers * np.repeat(scales.astype(np.float32), size, axis=1)[:, :depth]
            ).astype(np.float32)


def multiples(rng, size: int, most: int, depth: int = DEPTH) -> np.ndarray:
    return (rng.integers(1, most + 1, (CHANNELS, -(-depth // size)))
            * rng.uniform(0.001, 0.01, (CHANNELS, 1)))


@pytest.mark.parametrize("size, most, depth", [(16, 127, 96), (32, 255, 96), (32, 2000, 90),
                                               (64, 4000, 300), (128, 90, 512)])
@pytest.mark.parametrize("axis", [0, 1])
def test_multiples_of_a_number_are_exact(size, most, depth, axis, rng) -> None:
    weight = weight_of(rng, size, multiples(rng, size, most, depth), depth=depth)
    assert on_grid(weight, 0) is None
    found = in_groups(np.moveaxis(weight, 0, axis), axis, None)
    assert found is not None and found.integers.dtype == np.int16 and not found.zero.any()
    assert found.axes() == (axis,)
    np.testing.assert_allclose(np.moveaxis(found.numbers(), axis, 0), weight, rtol=3e-7, atol=0)


def test_other_scales_are_the_nearest_within_a_bound(rng) -> None:
    weight = weight_of(rng, 32, rng.uniform(0.01, 0.1, (CHANNELS, 3)))
    assert in_groups(weight, 0, None) is None
    found = in_groups(weight, 0, 1.0)
    assert found is not None
    off = np.abs(found.numbers() - weight).sum(axis=1)
    assert 0 < off.max() < 0.01
    assert in_groups(weight, 0, float(off.max()) * 1.01) is not None
    assert in_groups(weight, 0, float(off.max()) / 1.01) is None


def test_rounded_factors_leave_sums_room(rng) -> None:
    weight = weight_of(rng, 16, rng.uniform(0.09, 0.1, (CHANNELS, 256)), depth=4096)
    found = in_groups(weight, 0, 1e6)
    assert found is not None
    assert 128 * np.abs(found.integers.astype(np.int64)).sum(axis=1).max() <= 1.01 * 2**29


@pytest.mark.parametrize("change", ["random", "wider", "one off", "window", "zeros",
                                    "not a number", "nothing"])
def test_other_weights_stay(change, rng) -> None:
    weight = weight_of(rng, 32, multiples(rng, 32, 100))
    match change:
        case "random": weight = rng.normal(size=weight.shape).astype(np.float32)
        case "wider": weight = weight_of(rng, 32, multiples(rng, 32, 100), 8)
        case "one off": weight[3, 40] *= np.float32(1.001)
        case "window": weight = weight.reshape(CHANNELS, DEPTH // 3, 3)
        case "zeros": weight = np.zeros((3, 4), np.float32)
        case "not a number": weight[2, 3] = np.nan
        case "nothing": weight = weight[:0]
    assert in_groups(weight, 0, 1.0) is None


# In networks


def model_of(rng, size: int, scales: np.ndarray, spelling: str):
    """x -> uint8 -> product -> uint8, the weight as a tool has it."""
    points = rng.integers(0, 16, (DEPTH, CHANNELS)).astype(np.uint8)
    blocks = (DEPTH // size, CHANNELS)
    constants = {"xs": np.float32(0.02), "xz": np.uint8(120), "ys": np.float32(0.1),
                 "yz": np.uint8(128)}
    if spelling == "DequantizeLinear":
        weights = [helper.make_tensor("w", TensorProto.UINT4, points.shape, points.reshape(-1)),
                   helper.make_tensor("z", TensorProto.UINT4, blocks, [8] * int(np.prod(blocks)))]
        constants["s"] = scales.T.astype(np.float32)
        nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wf"], axis=0,
                                  block_size=size),
                 helper.make_node("MatMul", ["xd", "wf"], ["m"])]
    else:
        packed = points.T.reshape(CHANNELS, DEPTH // size, size // 2, 2)
        constants |= {"w": packed[..., 0] | packed[..., 1] << 4,
                      "s": scales.astype(np.float32).reshape(-1)}
        weights = []
        nodes = [helper.make_node("MatMulNBits", ["xd", "w", "s"], ["m"], domain="com.microsoft",
                                  K=DEPTH, N=CHANNELS, bits=4, block_size=size)]
    nodes = [helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
             helper.make_node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]), *nodes,
             helper.make_node("QuantizeLinear", ["m", "ys", "yz"], ["yq"]),
             helper.make_node("DequantizeLinear", ["yq", "ys", "yz"], ["y"])]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "m", [info("x", TensorProto.FLOAT, [ROWS, DEPTH])],
        [info("y", TensorProto.FLOAT, [ROWS, CHANNELS])],
        weights + [numpy_helper.from_array(np.asarray(array), name)
                   for name, array in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21),
                                                   helper.make_opsetid("com.microsoft", 1)])


def floats_of(graph: Graph) -> Graph:
    return optimize(graph, standard_passes(False))


@pytest.mark.parametrize("spelling", ["DequantizeLinear", "MatMulNBits"])
@pytest.mark.parametrize("exact", [True, False])
def test_products_between_quantizations_are_integers(spelling, exact, rng) -> None:
    scales = multiples(rng, 32, 90) if exact else rng.uniform(0.01, 0.1, (CHANNELS, 3))
    graph = convert(model_of(rng, 32, scales, spelling), "m")
    integers = optimize(graph)
    dense, = (node for node in integers.nodes if node.op == "qdense")
    assert integers.constants[dense.inputs[1]].dtype == np.int16
    x = rng.normal(size=(ROWS, DEPTH)).astype(np.float32)
    found, wanted = (evaluate(one, {"x": x})["y"] for one in (integers, floats_of(graph)))
    assert np.abs(found - wanted).max() <= (0.1 if exact else 0.2) * 1.001
    assert np.abs(wanted).max() > 1
