"""ONNX Runtime's quantizers, static, dynamic and in blocks (see `cases`)."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime
from cases import Case, make_all
from networks import exported, network
from onnxruntime import quantization as q
from onnxruntime.quantization import matmul_nbits_quantizer as nbits
from onnxruntime.quantization.shape_inference import quant_pre_process

QDQ, QOP = q.QuantFormat.QDQ, q.QuantFormat.QOperator
U8, S8, U16, S16 = (q.QuantType.QUInt8, q.QuantType.QInt8, q.QuantType.QUInt16,
                    q.QuantType.QInt16)


class Samples(q.CalibrationDataReader):
    def __init__(self, arrays: list[np.ndarray]):
        self.left = iter(arrays)

    def get_next(self) -> dict[str, np.ndarray] | None:
        array = next(self.left, None)
        return None if array is None else {"x": array}


def static(form: q.QuantFormat, activations: q.QuantType, weights: q.QuantType, *,
           channels: bool = False, reduce: bool = False, **extra: bool) -> Callable[..., None]:
    """`reduce` keeps weights below 64: the runtime's integer kernels saturate without VNNI."""
    def make(source: Path, path: Path, arrays: list[np.ndarray]) -> None:
        q.quantize_static(source, path, Samples(arrays), form, activation_type=activations,
                          weight_type=weights, per_channel=channels, reduce_range=reduce,
                          extra_options=extra)
    return make


def dynamic(weights: q.QuantType) -> Callable[..., None]:
    def make(source: Path, path: Path, arrays: list[np.ndarray]) -> None:
        q.quantize_dynamic(source, path, weight_type=weights, reduce_range=True)
    return make


def blocks(form: q.QuantFormat) -> Callable[..., None]:
    def make(source: Path, path: Path, arrays: list[np.ndarray]) -> None:
        model = onnx.load(source)
        if form is QDQ:                     # 4 bits in blocks need opset 21
            model = onnx.version_converter.convert_version(model, 21)
        made = nbits.MatMulNBitsQuantizer(model, 4, 32, is_symmetric=True, quant_format=form)
        made.process()
        made.model.save_model_to_file(str(path))
    return make


CASES = {
    "qdq-s8s8-pc": static(QDQ, S8, S8, channels=True, ActivationSymmetric=True),
    "qdq-u8s8": static(QDQ, U8, S8),
    "qdq-u8u8": static(QDQ, U8, U8),
    "qdq-s8s8-wasym": static(QDQ, S8, S8, WeightSymmetric=False),
    "qdq-s16s8": static(QDQ, S16, S8, channels=True, ActivationSymmetric=True),
    "qdq-u16s8": static(QDQ, U16, S8, channels=True),
    "qdq-u8s4": static(QDQ, U8, q.QuantType.QInt4, channels=True),
    "qop-u8s8": static(QOP, U8, S8, reduce=True),
    "qop-u8u8": static(QOP, U8, U8, reduce=True),
    "qop-s8s8-pc": static(QOP, S8, S8, channels=True, reduce=True),
    "dynamic-s8": dynamic(S8),
    "dynamic-u8": dynamic(U8),
    "nbits-op": blocks(QOP),
    "nbits-qdq": blocks(QDQ),
}


def run(path: Path, x: np.ndarray) -> np.ndarray:
    """The first output, every node computed as ONNX defines it."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0]


def make(case: Case) -> None:
    path, plain = case.path(".onnx"), exported(case.network, case.size, case.folder)
    ready = plain.with_suffix("").with_suffix(".ready.onnx")
    _, samples = network(case.network, case.size)
    arrays = [sample.numpy() for sample in samples]
    if not ready.exists():
        quant_pre_process(plain, ready)
    # what prepares models makes Gemm of MatMul, which has no form in blocks
    CASES[case.mode](plain if case.mode.startswith("nbits") else ready, path, arrays)
    case.keep(arrays[0], run(path, arrays[0]), "ONNX Runtime")


if __name__ == "__main__":
    make_all("ort", make)
