"""The kinds of model files: told by how it begins, else by its name.

One table has the kinds that are read and those that are known and refused, each with the way to a
kind that is read. A file of no kind in the table may be ONNX, which has no beginning of its own.
"""

import os
import stat
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from compiler.frontend.building.refusal import ImportRefused

BEGINNING = 4096
SAVED_MODEL_FILE = "saved_model.pb"
ONNX_WAY = "export it to ONNX"


@dataclass(frozen=True, slots=True)
class FileKind:
    """`name` stands in messages. `way` leads from a kind that is refused to one that is read, and
    is empty for those that are read. `begins` looks at the first bytes; `holds` at the names of a
    zip archive or a folder.
    """

    name: str
    suffixes: tuple[str, ...] = ()
    way: str = ""
    begins: Callable[[bytes], bool] | None = None
    holds: Callable[[set[str]], bool] | None = None


def _at(place: int, *magics: bytes) -> Callable[[bytes], bool]:
    return lambda data: data[place:].startswith(magics)


def _last(*names: str) -> Callable[[set[str]], bool]:
    """A test of an archive: it has all of these, in whatever folder."""
    return lambda members: set(names) <= {member.rpartition("/")[2] for member in members}


def _text(*parts: bytes) -> Callable[[bytes], bool]:
    """A test of bytes: they are text with all of these."""
    return lambda data: b"\0" not in data and all(part in data for part in parts)


def _is_safetensors(data: bytes) -> bool:
    length = int.from_bytes(data[:8], "little")
    return data[8:10] in (b'{"', b"{}") and 2 <= length < 1 << 32


def _is_pickle(data: bytes) -> bool:
    return data[:1] == b"\x80" and data[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")


def _is_mxnet(data: bytes) -> bool:
    return (data[:8] == b"\x12\1\0\0\0\0\0\0" or _text(b'"arg_nodes"', b'"heads"')(data)
            or _text(b'"nodes"', b'"op": "null"')(data))


TORCH_WAY = ("load it in PyTorch, and give what torch.export.save writes of "
             "torch.export.export(model, inputs)")
WEIGHTS = "it holds weights and no network; build the network around them, and export that to ONNX"

KERAS = FileKind("a Keras 3 model", (".keras",),
                 holds=_last("config.json", "metadata.json", "model.weights.h5"))
SAVED_MODEL = FileKind("a TensorFlow SavedModel", holds=_last(SAVED_MODEL_FILE))
TFLITE = FileKind("a TensorFlow Lite model", (".tflite", ".lite"), begins=_at(4, b"TFL3"))
TORCH = FileKind("a PyTorch program", (".pt2",), holds=_last("archive_format", "model.json"))
CORE_ML = FileKind("a Core ML model", (".mlmodel",))
CORE_ML_PACKAGE = FileKind("a Core ML package", (".mlpackage",),
                           holds=_last("Manifest.json", "model.mlmodel"))
ONNX = FileKind("an ONNX model", (".onnx",))
GGUF = FileKind("a GGUF file", (".gguf",), begins=_at(0, b"GGUF", b"FUGG"))

HUB = FileKind("a folder of the Hugging Face hub", holds=lambda names: (
    "config.json" in names and any(name.endswith(".safetensors") for name in names)))

READ = (TFLITE, GGUF, HUB, TORCH, KERAS, SAVED_MODEL, CORE_ML_PACKAGE, CORE_ML, ONNX)

REFUSED = (
    FileKind("an HDF5 file, such as Keras 2 wrote", (".h5", ".hdf5"),
             "load it in Keras 3 and save it as .keras", _at(0, b"\x89HDF\r\n\x1a\n")),
    FileKind("a TorchScript archive", (".ptl", ".torchscript"),
             "make a torch.export program of the module that it was made of, or give what "
             "torch.onnx.export writes",
             holds=lambda names: (_last("data.pkl")(names)
                                  and any("/code/" in name for name in names))),
    FileKind("a checkpoint of PyTorch", (".pth", ".pt", ".ckpt", ".bin.index.json"), TORCH_WAY,
             holds=_last("data.pkl")),
    FileKind("a pickle", (".pkl", ".pickle"),
             f"it may run code when it is loaded; {TORCH_WAY}, or give an ONNX file", _is_pickle),
    FileKind("safetensors", (".safetensors",),
             "of a Llama or GPT-2, give the folder that has its config.json, too; of another, "
             f"{ONNX_WAY} from the framework that it came from", _is_safetensors),
    FileKind("an archive of NumPy arrays", (".npz",), WEIGHTS,
             holds=lambda names: bool(names) and all(name.endswith(".npy") for name in names)),
    FileKind("an ONNX Runtime model", (".ort",), "give the ONNX file that it was made of",
             _at(4, b"ORTM")),
    FileKind("an ExecuTorch program", (".pte",),
             "give the torch.export program that it was made of", _at(4, b"ET12")),
    FileKind("an OpenVINO network", (".xml",),
             f"{ONNX_WAY} from the framework that it came from", _text(b"<net ", b"version=")),
    FileKind("a TensorRT engine", (".engine", ".plan", ".trt"),
             "it holds code for one GPU; give the ONNX file that it was built from",
             _at(0, b"ftrt", b"ptrt")),
    FileKind("a Darknet network", (".cfg", ".weights"),
             f"{ONNX_WAY} by pytorch-YOLOv4 or another converter", _text(b"[net]")),
    FileKind("an MXNet network", (".params",), f"{ONNX_WAY} by mxnet.onnx.export_model", _is_mxnet),
    FileKind("a TensorFlow.js model", (), f"{ONNX_WAY} by tf2onnx --tfjs",
             _text(b'"modelTopology"')),
    FileKind("an ncnn network", (), f"{ONNX_WAY} from the framework that it came from",
             _at(0, b"7767517\n")),
    FileKind("a PaddlePaddle program", (".pdmodel", ".pdiparams"), f"{ONNX_WAY} by paddle2onnx",
             _text(b'"base_code"', b'"pir"')),
    FileKind("a CNTK model", (".cntk", ".dnn", ".cmf"),
             f"{ONNX_WAY} by CNTK's save with ModelFormat.ONNX", _at(0, b"B\0C\0N\0")),
    FileKind("a Caffe network", (".caffemodel", ".prototxt"),
             f"{ONNX_WAY} by caffe2onnx, or make a Core ML model of it",
             _text(b"layer", b"bottom")),
    FileKind("a Core ML model that is compiled", (".mlmodelc",),
             "give the .mlmodel or .mlpackage that it was made of",
             holds=_last("coremldata.bin")),
    FileKind("a file of weights alone, such as OpenVINO's", (".bin",), WEIGHTS),
    FileKind("an MNN model", (".mnn",), f"{ONNX_WAY} from the framework that it came from"),
    FileKind("an RKNN model", (".rknn",), "give the ONNX file that it was made of",
             _at(0, b"RKNN")),
    FileKind("a Caffe2 network or a frozen graph of TensorFlow", (".pb", ".pbtxt"),
             f"{ONNX_WAY}: Caffe2's by caffe2.python.onnx, TensorFlow's by tf2onnx --graphdef"),
)


def kind_of(path: str | PathLike[str]) -> FileKind | None:
    """The kind that is read, by what a file or folder holds, else by its suffix; None for ONNX and
    what may be that. Of a pipe, which can be read once, by its suffix alone. Raises ImportRefused
    for what begins as a kind that is known and not read.
    """
    kind = _by_content(Path(path))
    if kind is not None and kind.way:
        raise _refused(path, kind)
    return kind or _by_suffix(path, READ)


def is_no_module(path: str | PathLike[str]) -> bool:
    """True if an archive is of a kind in the table, not a compiled module, whose name may end in
    anything but the suffixes of kinds that are archives.
    """
    return _by_content(Path(path)) is not None or _by_suffix(path, (TORCH, KERAS)) is not None


def names_model(name: str) -> bool:
    """True if a text names a file of a kind that is read, there or not, and not a network of the
    examples.
    """
    return _by_suffix(name, READ) is not None or _by_content(Path(name)) is not None


def require_onnx_name(path: str | PathLike[str]) -> None:
    """Raises ImportRefused for a file that is no ONNX and whose name is that of a known kind."""
    kind = _by_suffix(path, REFUSED)
    if kind is not None and os.path.isfile(path):
        raise _refused(path, kind)


def _refused(path: str | PathLike[str], kind: FileKind) -> ImportRefused:
    return ImportRefused(f"{os.fspath(path)}: is {kind.name}, which Lockstep does not read; "
                         f"{kind.way} (docs/frontends.md)")


def _by_suffix(path: str | PathLike[str], table: tuple[FileKind, ...]) -> FileKind | None:
    name = os.fspath(path).lower().rstrip("/")
    return next((kind for kind in table if kind.suffixes and name.endswith(kind.suffixes)), None)


def _by_content(path: Path) -> FileKind | None:
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            return _held({str(member.relative_to(path)) for member in path.glob("*")}
                         | {str(member.relative_to(path)) for member in path.glob("Data/*/*")})
        if not stat.S_ISREG(mode):
            return None
        if path.name == SAVED_MODEL_FILE:
            return SAVED_MODEL
        with open(path, "rb") as file:
            data = file.read(BEGINNING)
        if data.startswith(b"PK\3\4"):
            with zipfile.ZipFile(path) as archive:
                return _held(set(archive.namelist()))
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return None
    return next((kind for kind in (*READ, *REFUSED) if kind.begins is not None
                 and kind.begins(data)), None)


def _held(names: set[str]) -> FileKind | None:
    return next((kind for kind in (*READ, *REFUSED) if kind.holds is not None
                 and kind.holds(names)), None)
