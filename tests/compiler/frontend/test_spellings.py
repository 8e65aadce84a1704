"""Spellings of quantization, as files of each kind write them, and the tools that they name."""

import json
import re
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from compiler.frontend.building.refusal import ImportRefused
from compiler.frontend.onnx.nodes.registry import OPERATORS as onnx_operators
from compiler.frontend.pytorch.aten.registry import OPERATORS as torch_operators
from compiler.frontend.spellings import read_signs
from compiler.frontend.spellings.signs import Spelled
from compiler.frontend.spellings.table import SPELLINGS, TOOLS, spelling_of, tool_of
import compiler.frontend.onnx.operators
import compiler.frontend.pytorch.aten.quantization  # noqa: F401  -- registers them
from tests.support.tflite_files import Given, one_operator

MODELS = Path(__file__).parents[2] / "models"
SIGNS = {
    "QDQ": "DequantizeLinear int8 constant per channel",
    "QDQ of com.microsoft": "com.microsoft.QuantizeLinear uint16",
    "QCDQ": "Clip of integers",
    "QOperator": "QLinearMatMul uint8",
    "QOperator of com.microsoft": "com.microsoft.QLinearAdd int8",
    "dynamic": "MatMulInteger int8",
    "dynamic of com.microsoft": "com.microsoft.DynamicQuantizeLSTM int8",
    "groups of weights": "com.microsoft.MatMulNBits uint8, 4 bits, blocks of 32",
    "QONNX": "qonnx.custom_op.general.BipolarQuant",
    "QDQ of AMD": "com.amd.quark.ExtendedQuantizeLinear uint16",
    "FakeQuantize": "org.openvinotoolkit.FakeQuantize",
    "TensorRT": "trt.TRT_FP8QuantizeLinear",
    "instructions of Lockstep": "lockstep.quantized_map",
    "TFLite weights of few bits": "CONV_2D float32, weights int4 per channel",
    "TFLite 16x8": "CONV_2D int16, weights int8 per channel",
    "TFLite dynamic range": "FULLY_CONNECTED float32, weights int8",
    "TFLite weights alone": "DEQUANTIZE constant int8 per channel",
    "TFLite integers": "ADD int8",
    "TFLite FAKE_QUANT": "FAKE_QUANT",
    "Core ML constants": "constexpr_lut_to_dense uint8",
    "Core ML activations": "quantize int8",
    "quantized_decomposed": "quantized_decomposed.quantize_per_tensor.default",
    "torch's quantized": "quantized.conv2d.new",
    "torch's fake_quantize": "aten.fake_quantize_per_tensor_affine.default",
    "torch's products of integers": "aten._int_mm.default",
    "torch's packed weights": "aten._weight_int4pack_mm.default",
    "torchao": "torchao.dequantize_affine.default",
}


@pytest.mark.parametrize("spelling", [name for name, _ in SPELLINGS])
def test_every_spelling_has_a_sign(spelling: str) -> None:
    assert spelling_of(SIGNS[spelling]) == spelling


def test_every_operator_that_front_ends_take_has_a_spelling() -> None:
    """Those whose names speak of quantization or integers."""
    operators = [*(f"{domain}.{name}" for domain, name in onnx_operators if "." in domain),
                 *(name.replace("::", ".") if "::" in name else f"aten.{name}"
                   for name in torch_operators)]
    said = re.compile(r"quant|integer|NBits|int\d+pack|\bQ[A-Z]", re.IGNORECASE)
    assert [name for name in operators if said.search(name) and not spelling_of(name)
            and "QuickGelu" not in name] == []


@pytest.mark.parametrize("sign", ["Conv", "Clip", "com.microsoft.FusedMatMul", "CONV_2D",
                                  "aten.conv2d.default", "const", "com.microsoft.QuickGelu"])
def test_operators_in_float_have_none(sign: str) -> None:
    assert spelling_of(sign) is None


def test_tools_by_what_they_call_themselves() -> None:
    assert tool_of("onnx.quantize 0.1.0") == "ONNX Runtime's quantizer"
    assert tool_of("lockstep 0.2.0") == "Lockstep's quantizer"
    assert tool_of("someone's own") == ""
    assert len({name for name, _ in TOOLS}) == len(TOOLS)


def saved(folder: Path, nodes, arrays, opsets=(("", 21),), **model) -> Path:
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()])
    path = folder / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[
        helper.make_opsetid(*opset) for opset in opsets], **model), path)
    return path


def test_types_and_channels_of_onnx(tmp_path: Path) -> None:
    """A constant's zero points are told, those of activations are not."""
    node = helper.make_node
    arrays = {"s": np.float32(0.1), "z": np.uint8(3), "w": np.ones((4, 4), np.int8),
              "ws": np.ones(4, np.float32), "wz": np.array([0, 1, 0, 0], np.int8),
              "q": np.ones((4, 1, 2), np.uint8), "low": np.uint8(0)}
    path = saved(tmp_path, [
        node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        node("Clip", ["xq", "low"], ["xc"]),
        node("DequantizeLinear", ["xc", "s", "z"], ["xd"]),
        node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=1),
        node("MatMul", ["xd", "wd"], ["m"]),
        node("MatMulNBits", ["m", "q", "ws"], ["y"], domain="com.microsoft", K=4, N=4, bits=4,
             block_size=4)], arrays, (("", 21), ("com.microsoft", 1)),
        producer_name="onnx.quantize", producer_version="0.1.0")
    signs = read_signs(path)
    assert signs.tools == ("ONNX Runtime's quantizer (onnx.quantize 0.1.0)",)
    assert signs.kind == "an ONNX model"
    assert signs.spelled == [
        Spelled("QDQ", "QuantizeLinear", "uint8", 1),
        Spelled("QCDQ", "Clip", "of integers", 1),
        Spelled("QDQ", "DequantizeLinear", "uint8", 1),
        Spelled("QDQ", "DequantizeLinear", "int8 constant per channel, zero points", 1),
        Spelled("groups of weights", "com.microsoft.MatMulNBits", "uint8, 4 bits, blocks of 4", 1)]


def test_a_network_in_float_has_none(tmp_path: Path) -> None:
    path = saved(tmp_path, [helper.make_node("Clip", ["x"], ["y"])], {})
    assert read_signs(path).spelled == [] and read_signs(path).tools == ()


@pytest.mark.parametrize(("data", "weights", "spelling", "types"), [
    (Given((1, 4), "int8", scale=0.1), np.int8, "TFLite integers", "int8, weights int8"),
    (Given((1, 4), "int16", scale=0.1), np.int8, "TFLite 16x8", "int16, weights int8"),
    (Given((1, 4)), np.int8, "TFLite dynamic range", "float32, weights int8"),
    (Given((1, 4)), np.float32, None, "")])
def test_kernels_of_tflite(tmp_path: Path, data, weights, spelling, types) -> None:
    scales = {} if weights is np.float32 else {"scale": 0.5}
    path = tmp_path / "net.tflite"
    path.write_bytes(one_operator(
        "FULLY_CONNECTED", [data, Given.of(np.ones((4, 4), weights), **scales), None],
        [data], kind="FullyConnectedOptions"))
    wanted = [] if spelling is None else [Spelled(spelling, "FULLY_CONNECTED", types, 1)]
    assert read_signs(path).spelled == wanted


def test_weights_in_blocks_are_not_per_channel(tmp_path: Path) -> None:
    weight = Given((4, 32), "int8", np.ones((4, 32), np.int8), bits=4, block=16,
                   block_scales=np.ones((4, 2), np.float16))
    path = tmp_path / "net.tflite"
    path.write_bytes(one_operator("FULLY_CONNECTED", [Given((1, 32)), weight, None],
                                  [Given((1, 4))], kind="FullyConnectedOptions"))
    assert [row.types for row in read_signs(path).spelled] == [
        "float32, weights int4 in blocks of 16"]


def test_the_converter_of_tflite_and_its_version() -> None:
    tool, = read_signs(MODELS / "series-int8.tflite").tools
    assert tool.startswith("TensorFlow's converter (MLIR Converted., TensorFlow 2.")


def test_operators_of_torch_are_read_without_it(tmp_path: Path) -> None:
    quantize = {"target": "torch.ops.quantized_decomposed.quantize_per_tensor.default",
                "inputs": []}
    program = {"torch_version": "2.13.0", "graph_module": {"graph": {"nodes": [
        quantize, quantize, {"target": "torch.ops.aten.relu.default", "inputs": []}]}}}
    path = tmp_path / "net.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net/archive_format", "pt2")
        archive.writestr("net/models/model.json", json.dumps(program))
        archive.writestr("net/data/weights/weight_0",
                         b"\x80\x02ctorchao.quantization\nInt8Tensor\n")
    signs = read_signs(path)
    assert signs.tools == ("PyTorch (torch 2.13.0)",)
    assert signs.spelled == [
        Spelled("torchao", "torchao.Int8Tensor", "constant", 1), Spelled(
            "quantized_decomposed", "quantized_decomposed.quantize_per_tensor.default", "", 2)]


def test_core_ml_names_its_writer() -> None:
    pytest.importorskip("coremltools.proto")
    assert read_signs(MODELS / "words.mlmodel").tools[0].startswith("coremltools (coremltools ")


def test_what_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "net.rknn").write_bytes(b"RKNN" + bytes(60))
    with pytest.raises(ImportRefused, match="is an RKNN model, which Lockstep does not read"):
        read_signs(tmp_path / "net.rknn")
