"""Reads the signs of a file of any kind that is imported."""

from os import PathLike
from pathlib import Path

from compiler.frontend import kinds
from compiler.frontend.spellings.signs import FileSigns


def read_signs(path: str | PathLike[str]) -> FileSigns:
    """Reads the signs of a file of any kind that is imported. Raises ImportRefused for another, and
    for one that is damaged. What only the framework itself can read says its kind alone.
    """
    path = Path(path)
    match kinds.kind_of(path):
        case kinds.TFLITE:
            from compiler.frontend.spellings import tflite_files as reader
        case kinds.CORE_ML | kinds.CORE_ML_PACKAGE:
            from compiler.frontend.spellings import core_ml_files as reader
        case kinds.TORCH:
            from compiler.frontend.spellings import torch_files as reader
        case kinds.KERAS:
            return FileSigns.of(kinds.KERAS, ["Keras"], ())
        case kinds.SAVED_MODEL:
            return FileSigns.of(kinds.SAVED_MODEL, ["TensorFlow"], ())
        case (kinds.GGUF | kinds.HUB) as kind:
            return FileSigns.of(kind, [], ())
        case _:
            from compiler.frontend.spellings import onnx_files as reader
    return reader.read(path)
