"""Files besides the one that names a model: weights beside an ONNX file, all files of a folder."""

from collections.abc import Iterator
from os import PathLike
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, Message


def external_files(path: str | PathLike[str]) -> list[Path]:
    """Paths that tensors of the model at `path` refer to; none if it is no ONNX file. Nothing but
    the model is read. Of a folder, its files.
    """
    if Path(path).is_dir():
        return sorted(file for file in Path(path).rglob("*") if file.is_file())
    try:
        model = onnx.load(path, format="protobuf", load_external_data=False)
    except (OSError, DecodeError):
        return []
    names = {entry.value for tensor in _tensors(model)
             if tensor.data_location == onnx.TensorProto.EXTERNAL
             for entry in tensor.external_data if entry.key == "location"}
    return [Path(path).parent / name for name in sorted(names) if "\0" not in name]


def _tensors(message: Message) -> Iterator[onnx.TensorProto]:
    """All tensors of the model, wherever they stand."""
    waiting = [message]
    while waiting:
        message = waiting.pop()
        if isinstance(message, onnx.TensorProto):
            yield message
            continue
        for field, value in message.ListFields():
            if field.message_type is not None:
                waiting.extend([value] if isinstance(value, Message) else value)
