"""Reads Core ML's files: one .mlmodel, or the folder .mlpackage, whose weights lie beside it.

Their messages are those of coremltools (extra `coreml`), which is needed for nothing else. It runs
no network here: nothing but macOS can.
"""

import struct
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from compiler.frontend.building.refusal import ImportRefused
from compiler.frontend.core_ml.layers import NetworkConverter
from compiler.frontend.core_ml.messages import messages
from compiler.frontend.core_ml.program import ProgramConverter
from compiler.frontend.core_ml.weights import PackagedWeights
from compiler.frontend.onnx.nodes.writer import Loaded

INSIDE = Path("Data") / "com.apple.CoreML" / "model.mlmodel"
NEURAL_NETWORKS = ("neuralNetwork", "neuralNetworkClassifier", "neuralNetworkRegressor")


def convert(path: Path) -> Loaded:
    """The ONNX model. Raises ImportRefused for what is no such file, or holds another kind of model
    (trees, pipelines); what is not taken of a network stands in it, for the importer to refuse.
    """
    file, spec = _file_of(path), message_of(path)
    kind = spec.WhichOneof("Type")
    try:
        if kind == "mlProgram":
            return ProgramConverter(spec, path.stem, PackagedWeights(file.parent)).run()
        if kind in NEURAL_NETWORKS:
            return NetworkConverter(spec, getattr(spec, kind), path.stem).run()
    except ImportRefused as error:
        raise ImportRefused(f"{path}: {error}") from None
    except (ValueError, TypeError, LookupError, AttributeError, struct.error) as error:
        raise ImportRefused(f"{path}: is damaged: {type(error).__name__}: {str(error)[:100]}; "
                            "convert the model again") from None
    raise ImportRefused(f"{path}: must be an ML program or a neural network, not "
                        f"{kind or 'empty'}; convert the network itself with coremltools")


def message_of(path: Path) -> Any:
    """The file's message. Raises ImportRefused."""
    spec = _empty(path)
    try:
        spec.ParseFromString(_file_of(path).read_bytes())
    except FileNotFoundError:
        raise ImportRefused(f"{path}: no such file; give the path of a Core ML model") from None
    except OSError as error:
        raise ImportRefused(f"{path}: cannot be read: {error.strerror or error}") from None
    except DecodeError:
        raise ImportRefused(f"{path}: is not a Core ML model; give an .mlmodel or .mlpackage"
                            ) from None
    return spec


def _file_of(path: Path) -> Path:
    return path / INSIDE if path.is_dir() else path


def _empty(path: Path) -> Any:
    """The message of a file, to be read."""
    try:
        return messages("Model").Model()
    except ImportError:
        raise ImportRefused(f"{path}: a Core ML model needs coremltools, which is not installed; "
                            "install lockstep-hw[coreml]") from None
