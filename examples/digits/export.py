"""The digits network as ONNX files: float32, and int8 in the QDQ form.

    image [1,1,8,8] -> conv1 3x3, relu [16,8,8] -> conv2 3x3/2, relu [32,4,4]
      -> conv3 3x3, relu -> conv4 3x3 -> + (from conv2), relu [32,4,4]
      -> pool 3x3/2 [32,2,2] -> conv5 1x1, relu [48,2,2] -> average -> dense -> logits [1,10]

The quantized file has QuantizeLinear and DequantizeLinear around every operator: activations
uint8 with one scale and zero point a tensor, weights int8 with one scale an output channel and
zero point 0, biases int32 with scale = input scale x weight scale. Ranges are the minima and
maxima over the calibration images. No Relu is left in it: the QuantizeLinear behind one has zero
point 0 and clamps at 0 itself.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from lockstep.testing.zoo import IR_VERSION, OPSET

INPUT_SHAPE = (1, 1, 8, 8)
CLASSES = 10
# Pixels are multiples of 1/16: with this scale quantizing them is exact on every device,
# while 1/255 would put pixel 8 on a rounding tie.
INPUT_SCALE = 1 / 128
QUANTIZED_OPS = ["Conv", "Relu", "Add", "MaxPool", "GlobalAveragePool", "Flatten", "Gemm"]

Parameters = dict[str, tuple[np.ndarray, np.ndarray]]


def float_model(parameters: Parameters) -> onnx.ModelProto:
    """The float32 network; `parameters` maps conv1..conv5 and dense to (weight, bias).

    Weights are [Cout, Cin, Kh, Kw] for convolutions and [Cout, Cin] for dense, batch-norm
    already folded in.
    """
    def conv(name: str, source: str, stride: int = 1) -> onnx.NodeProto:
        kernel = parameters[name][0].shape[2]
        return helper.make_node(
            "Conv", [source, f"{name}.weight", f"{name}.bias"], [f"{name}.out"], name,
            kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4)

    def node(op: str, name: str, *sources: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(op, sources, [f"{name}.out"], name, **attributes)

    nodes = [
        conv("conv1", "image"),
        node("Relu", "relu1", "conv1.out"),
        conv("conv2", "relu1.out", stride=2),
        node("Relu", "relu2", "conv2.out"),
        conv("conv3", "relu2.out"),
        node("Relu", "relu3", "conv3.out"),
        conv("conv4", "relu3.out"),
        node("Add", "add", "conv4.out", "relu2.out"),
        node("Relu", "relu4", "add.out"),
        node("MaxPool", "pool", "relu4.out",
             kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        conv("conv5", "pool.out"),
        node("Relu", "relu5", "conv5.out"),
        node("GlobalAveragePool", "average", "relu5.out"),
        node("Flatten", "flatten", "average.out", axis=1),
        helper.make_node("Gemm", ["flatten.out", "dense.weight", "dense.bias"], ["logits"],
                         "dense", transB=1),
    ]
    graph = helper.make_graph(
        nodes, "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, INPUT_SHAPE)],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, (1, CLASSES))],
        initializers(parameters))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)],
                              ir_version=IR_VERSION, producer_name="lockstep-digits")
    return checked(model)


def initializers(parameters: Parameters) -> list[TensorProto]:
    """Every weight and bias as a named float32 tensor."""
    return [
        numpy_helper.from_array(array.astype(np.float32), f"{layer}.{part}")
        for layer, pair in parameters.items()
        for part, array in zip(("weight", "bias"), pair, strict=True)
    ]


def quantize(source: Path, target: Path, calibration: np.ndarray) -> None:
    """Write the QDQ form of the float file `source`, calibrated on images [N, 1, 8, 8]."""
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    class Images(CalibrationDataReader):
        def __init__(self) -> None:
            self.rest = iter(calibration)

        def get_next(self) -> dict[str, np.ndarray]:
            image = next(self.rest, None)
            return {} if image is None else {"image": image[None]}

    exact_pixels = {
        "quant_type": QuantType.QUInt8,
        "scale": np.array(INPUT_SCALE, np.float32),
        "zero_point": np.array(0, np.uint8),
    }
    quantize_static(
        str(source), str(target), Images(), quant_format=QuantFormat.QDQ,
        op_types_to_quantize=QUANTIZED_OPS, per_channel=True,
        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
        extra_options={"TensorQuantOverrides": {"image": [exact_pixels]}})
    model = onnx.load(str(target))
    model.ir_version = IR_VERSION
    onnx.save(checked(model), str(target))


def checked(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with every intermediate shape written in, once ONNX's checker accepts it."""
    onnx.checker.check_model(model, full_check=True)
    return onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True,
                                             data_prop=True)
