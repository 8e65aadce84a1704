"""ONNX Runtime beside ours: its sessions, and its own quantizer."""

import logging
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, numpy_helper

__all__ = ["Peer", "bound", "quantized_by_onnx_runtime"]

Array = np.ndarray
Values = Mapping[str, Array]


class Peer:
    """A model in ONNX Runtime, on one thread; a call takes inputs and returns outputs by name."""

    def __init__(self, model: ModelProto):
        import onnxruntime

        onnxruntime.set_default_logger_severity(3)      # errors: some models have idle tensors
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        self.inputs = {value.name for value in self.session.get_inputs()}
        self.outputs = [value.name for value in self.session.get_outputs()]

    def __call__(self, values: Values) -> dict[str, Array]:
        given = {name: array for name, array in values.items() if name in self.inputs}
        made = self.session.run(self.outputs, given)
        return dict(zip(self.outputs, map(np.asarray, made), strict=True))


def bound(model: ModelProto, values: Mapping[str, Array]) -> ModelProto:
    """With constants in place of these inputs."""
    made = ModelProto()
    made.CopyFrom(model)
    for value in list(made.graph.input):
        if value.name in values:
            made.graph.input.remove(value)
            made.graph.initializer.append(numpy_helper.from_array(values[value.name], value.name))
    return made


def quantized_by_onnx_runtime(model: ModelProto, samples: Sequence[Values]) -> ModelProto:
    """Static, QDQ, int8, a scale for each output channel, after ONNX Runtime's own preparation."""
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            names = {value.name for value in model.graph.input}
            self.rest = iter([{name: array for name, array in one.items() if name in names}
                              for one in samples])

        def get_next(self) -> Any:
            return next(self.rest, None)

    logging.getLogger().setLevel(logging.ERROR)     # it warns in the root's name
    with tempfile.TemporaryDirectory() as folder:
        plain, ready, made = (Path(folder, name) for name in ("a.onnx", "b.onnx", "c.onnx"))
        onnx.save(model, plain)
        quant_pre_process(str(plain), str(ready), skip_symbolic_shape=True)
        quantize_static(str(ready), str(made), Reader(), per_channel=True,
                        activation_type=QuantType.QInt8, weight_type=QuantType.QInt8)
        return onnx.load(made)
