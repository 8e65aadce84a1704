"""Files that store weights or activations in INT4, as ONNX has it, on the accelerator."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import lockstep
from accel.machine.loading import load_machine
from bench.accelerator.weights import with_bits

DEPTH, CHANNELS, BATCH = 64, 32, 8
MACHINE = with_bits(load_machine("pynq-1x16x16"), 4)
SCALES = {
    "tensor": ((), {}),
    "channels": ((CHANNELS,), {"axis": 1}),
    "blocks": ((DEPTH // 16, CHANNELS), {"axis": 0, "block_size": 16})}
"""Shapes of scales, and the attributes of DequantizeLinear."""


def file_of(rng, scales: np.ndarray, attributes, kind: int = TensorProto.INT8):
    """A product between quantizations to `kind`, its weight in INT4."""
    def pair(source: str, scale: str, result: str):
        return [helper.make_node("QuantizeLinear", [source, scale, "zero"], [f"{source}_q"]),
                helper.make_node("DequantizeLinear", [f"{source}_q", scale, "zero"], [result])]

    weight = rng.integers(-8, 8, (DEPTH, CHANNELS))
    constants = [
        numpy_helper.from_array(np.float32(0.25), "xs"), helper.make_tensor("zero", kind, (), [0]),
        numpy_helper.from_array(np.float32(2), "ys"),
        numpy_helper.from_array(scales.astype(np.float32), "ws"),
        helper.make_tensor("w", TensorProto.INT4, weight.shape, weight.reshape(-1).tolist())]
    nodes = [*pair("x", "xs", "xd"),
             helper.make_node("DequantizeLinear", ["w", "ws"], ["wd"], **attributes),
             helper.make_node("MatMul", ["xd", "wd"], ["m"]), *pair("m", "ys", "y")]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "m", [info("x", TensorProto.FLOAT, (BATCH, DEPTH))],
                              [info("y", TensorProto.FLOAT, (BATCH, CHANNELS))], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("kind", ["INT8", "INT4"])
@pytest.mark.parametrize("case", SCALES)
def test_products_are_the_references_from_packed_weights(case, kind, rng) -> None:
    """Scales are powers of two, so that nothing is rounded but results, and none lies halfway."""
    shape, attributes = SCALES[case]
    scales = 2.0 ** rng.integers(-6, 1, shape)
    model = file_of(rng, scales, attributes, getattr(TensorProto, kind))
    module = lockstep.compile(model, "accel,cpu", machine=MACHINE, sim="functional")
    (segment,) = [one for one in module.partition.segments if one.target == "accel"]
    assert [node.op for node in segment.nodes] == ["qdense"]
    (compiled,) = module.accelerated
    assert DEPTH * CHANNELS // 2 <= compiled.program.weights.size < DEPTH * CHANNELS
    feeds = {"x": (rng.standard_normal((BATCH, DEPTH)) * 4).astype(np.float32)}
    (wanted,) = ReferenceEvaluator(model).run(None, feeds)
    assert len(np.unique(wanted)) > 5
    np.testing.assert_array_equal(module(feeds)["y"], wanted)


def test_any_scales_of_blocks_are_a_step_off_at_most(rng) -> None:
    shape, attributes = SCALES["blocks"]
    model = file_of(rng, rng.uniform(0.05, 0.15, shape), attributes)
    module = lockstep.compile(model, "accel,cpu", machine=MACHINE, sim="functional")
    assert len(module.accelerated) == 1
    feeds = {"x": (rng.standard_normal((BATCH, DEPTH)) * 4).astype(np.float32)}
    (wanted,) = ReferenceEvaluator(model).run(None, feeds)
    off = np.abs(module(feeds)["y"] - wanted) / 2
    assert off.max() <= 1 and off.mean() < 0.1
