"""The signs of TensorFlow Lite files: of each operator the types of its activations and weights."""

import re
from collections.abc import Iterator
from pathlib import Path

from compiler.frontend import kinds
from compiler.frontend.spellings.signs import FileSigns, Sign
from compiler.frontend.tflite import schema

CONVERTER = b"CONVERSION_METADATA"
VERSION = re.compile(rb"\d+\.\d+\.\d[\w.+-]*")


def read(path: Path) -> FileSigns:
    graph = schema.read(path)
    return FileSigns.of(kinds.TFLITE, _producers(path), (
        _sign(operation, [graph.tensors[place] for place in operation.inputs if place >= 0])
        for operation in graph.operations))


def _producers(path: Path) -> Iterator[str]:
    """The file's words on its converter: a description, and a version among its metadata."""
    import tflite  # pyright: ignore[reportMissingImports]

    model = tflite.Model.GetRootAs(path.read_bytes(), 0)
    yield (model.Description() or b"").decode(errors="replace")
    for entry in filter(None, map(model.Metadata, range(model.MetadataLength()))):
        buffer = model.Buffers(entry.Buffer()) if entry.Name() == CONVERTER else None
        if buffer and (version := VERSION.search(bytes(buffer.DataAsNumpy()))):
            yield f"TensorFlow {version[0].decode()}"


def _sign(operation: schema.TfliteOperation, inputs: list[schema.TfliteTensor]) -> Sign:
    """``CONV_2D int8, weights int8 per channel``, ``FULLY_CONNECTED float32, weights int4``."""
    data = [tensor for tensor in inputs if tensor.array is None]
    constants = [tensor for tensor in inputs if tensor.array is not None
                 and tensor.quantization is not None and tensor.kind not in ("INT32", "INT64")]
    if operation.code == "DEQUANTIZE" and constants:
        return Sign(operation.code, f"constant {_text(constants[0])}")
    quantized = [tensor for tensor in data if tensor.quantization is not None]
    if not quantized and not constants:
        return Sign(operation.code)
    words = [(quantized or data or constants)[0].kind.lower()]
    words += [f"weights {_text(tensor)}" for tensor in constants[:1]]
    return Sign(operation.code, ", ".join(words))


def _text(tensor: schema.TfliteTensor) -> str:
    """The type of a constant, and whether it has a scale for each channel, or each block."""
    kind, scales = tensor.kind.lower(), tensor.quantization
    if scales is None or scales.per_tensor:
        return kind
    return f"{kind} in blocks of {scales.block}" if scales.block else f"{kind} per channel"
