"""TensorFlow Lite files of one operator, and what LiteRT makes of files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
import tflite
from ai_edge_litert.interpreter import Interpreter, OpResolverType

__all__ = ["Given", "interpreted", "one_operator"]

KINDS = {"float32": "FLOAT32", "float16": "FLOAT16", "int8": "INT8", "uint8": "UINT8",
         "int16": "INT16", "int32": "INT32", "int64": "INT64", "bool": "BOOL"}
FEW_BITS = {4: 17, 2: 19}
"""The schema's numbers of the types INT4 and INT2."""

KERNELS = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES


@dataclass(frozen=True)
class Given:
    """A tensor of the file: a constant where it has an array. Quantized where it has scales, by
    several along `axis`. `signature` has -1 where a dimension is open. A variable begins as zeros.
    Elements of fewer `bits` than 8 are packed. Blocks have scales of float16, and perhaps zero
    points.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    array: Any = None
    scale: Any = None
    zero: int = 0
    axis: int = 0
    signature: tuple[int, ...] | None = None
    variable: bool = False
    bits: int = 8
    block: int = 0
    block_scales: Any = None
    block_zeros: Any = None

    @classmethod
    def of(cls, array: Any, **options: Any) -> "Given":
        array = np.asarray(array)
        return cls(array.shape, str(array.dtype), array, **options)


def one_operator(code: str, inputs: Sequence[Given | None], outputs: Sequence[Given],
                 options: Mapping[str, Any] | None = None, kind: str = "",
                 custom: str = "", deprecated: int | None = None) -> bytes:
    """A file whose one operator reads these; the inputs of the file are those without an array,
    its outputs all of the operator's. `kind` is the class of the options, `deprecated` what the
    old field of the operator's code has, if it is not the code.
    """
    build = flatbuffers.Builder(1024)
    present = [given for given in inputs if given is not None]
    every, beside = [*present, *outputs], {}
    for given in present:
        if given.block:
            parts = [Given.of(np.asarray(given.block_scales, np.float16))]
            if given.block_zeros is not None:
                parts.append(Given.of(np.asarray(given.block_zeros, np.int32)))
            beside[id(given)] = (len(every), len(every) + 1 if len(parts) == 2 else -1)
            every += parts
    tensors = [_tensor(build, number, given, *beside.get(id(given), ()))
               for number, given in enumerate(every)]
    buffers = [_buffer(build, given) for given in (None, *every)]
    places = iter(range(len(present)))
    read = [-1 if given is None else next(places) for given in inputs]
    made = [len(present) + number for number in range(len(outputs))]
    free = [number for number, given in enumerate(present)
            if given.array is None and not given.variable]
    operator = _operator(build, read, made, options or {}, kind)
    operators = _tables(build, [operator])
    graph = _table(build, "SubGraph", Tensors=_tables(build, tensors),
                   Inputs=_numbers(build, free), Outputs=_numbers(build, made),
                   Operators=operators)
    number = getattr(tflite.BuiltinOperator, "CUSTOM" if custom else code)
    entries = {"CustomCode": build.CreateString(custom)} if custom else {}
    code_table = _table(build, "OperatorCode", BuiltinCode=number, Version=_VERSIONS.get(code, 1),
                        DeprecatedBuiltinCode=min(number, 127) if deprecated is None else (
                            deprecated), **entries)
    model = _table(build, "Model", Version=3, OperatorCodes=_tables(build, [code_table]),
                   Subgraphs=_tables(build, [graph]), Buffers=_tables(build, buffers))
    build.Finish(model, file_identifier=b"TFL3")
    return bytes(build.Output())


_VERSIONS = {"FULLY_CONNECTED": 9, "CONV_2D": 6, "DEPTHWISE_CONV_2D": 6, "STRIDED_SLICE": 5,
             "BATCH_MATMUL": 4, "BROADCAST_TO": 2, "RESIZE_BILINEAR": 3,
             "RESIZE_NEAREST_NEIGHBOR": 3}


def _table(build: flatbuffers.Builder, name: str, **fields: Any) -> int:
    getattr(tflite, f"{name}Start")(build)
    for field, value in fields.items():
        getattr(tflite, f"{name}Add{field}")(build, value)
    return getattr(tflite, f"{name}End")(build)


def _tables(build: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    build.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        build.PrependUOffsetTRelative(offset)
    return build.EndVector()


def _numbers(build: flatbuffers.Builder, numbers: Sequence[int]) -> int:
    return build.CreateNumpyVector(np.array(numbers, np.int32))


def _tensor(build: flatbuffers.Builder, number: int, given: Given,
            scales_of_blocks: int = 0, zeros_of_blocks: int = -1) -> int:
    fields = {"Shape": _numbers(build, given.shape),
              "Name": build.CreateString(f"t{number}")}
    if given.signature is not None:
        fields["ShapeSignature"] = _numbers(build, given.signature)
    if given.scale is not None:
        scales = np.atleast_1d(np.asarray(given.scale, np.float32))
        scale = build.CreateNumpyVector(scales)
        zero = build.CreateNumpyVector(np.full(scales.shape, given.zero, np.int64))
        fields["Quantization"] = _table(build, "QuantizationParameters", Scale=scale,
                                        ZeroPoint=zero, QuantizedDimension=given.axis)
    if given.block:
        build.StartObject(4)                    # BlockwiseQuantization
        for slot, count in enumerate((scales_of_blocks, zeros_of_blocks, given.block)):
            build.PrependInt32Slot(slot, count, 0)
        fields["Quantization"] = _table(build, "QuantizationParameters", Details=build.EndObject(),
                                        DetailsType=2)
    return _table(build, "Tensor", Type=FEW_BITS.get(given.bits) or (
                      getattr(tflite.TensorType, KINDS[given.dtype])),
                  Buffer=number + 1, IsVariable=given.variable, **fields)


def _buffer(build: flatbuffers.Builder, given: Given | None) -> int:
    if given is None or given.array is None:
        return _table(build, "Buffer")
    array = np.ascontiguousarray(given.array, given.dtype)
    data = np.frombuffer(array.tobytes(), np.uint8) if given.bits == 8 else _packed(
        array, given.bits)
    return _table(build, "Buffer", Data=build.CreateNumpyVector(data))


def _packed(array: np.ndarray, bits: int) -> np.ndarray:
    """Elements of a few bits, the lowest of each byte first."""
    each = 8 // bits
    parts = np.zeros(-(-array.size // each) * each, np.uint8)
    parts[:array.size] = array.reshape(-1).view(np.uint8) & (1 << bits) - 1
    return (parts.reshape(-1, each) << np.arange(each) * bits).sum(1).astype(np.uint8)


def _operator(build: flatbuffers.Builder, inputs: Sequence[int], outputs: Sequence[int],
              options: Mapping[str, Any], kind: str) -> int:
    fields = {"Inputs": _numbers(build, inputs), "Outputs": _numbers(build, outputs)}
    if kind:
        values = {name: _numbers(build, value) if isinstance(value, tuple) else value
                  for name, value in options.items()}
        fields["BuiltinOptions"] = _table(build, kind, **values)
        fields["BuiltinOptionsType"] = getattr(tflite.BuiltinOptions, kind)
    return _table(build, "Operator", OpcodeIndex=0, **fields)


def interpreted(data: bytes, arrays: Sequence[np.ndarray], kernels: Any = KERNELS
                ) -> list[np.ndarray]:
    """The outputs that LiteRT computes for these inputs, in the file's order."""
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=kernels)
    for told, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.resize_tensor_input(told["index"], array.shape)
    interpreter.allocate_tensors()
    for told, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.set_tensor(told["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(told["index"]) for told in interpreter.get_output_details()]
