"""What files are told by, and the line that each kind gets which is not read."""

import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest

from compiler.frontend import ImportRefused
from compiler.frontend.kinds import (CORE_ML, CORE_ML_PACKAGE, GGUF, KERAS, REFUSED, SAVED_MODEL,
                                     TFLITE, TORCH, kind_of, names_model)
from compiler.frontend.models import graph_of

BY_CONTENT = {
    "HDF5": b"\x89HDF\r\n\x1a\n" + bytes(100),
    "TensorRT": b"ftrt" + bytes(8),
    "safetensors": (2).to_bytes(8, "little") + b"{}", "pickle": b"\x80\x02}q\x00.",
    "ONNX Runtime": b"\x18\0\0\0ORTM", "ExecuTorch": b"\x18\0\0\0ET12",
    "OpenVINO": b'<?xml version="1.0"?>\n<net name="m" version="11">', "RKNN": b"RKNN\0\0\0\0",
    "Darknet": b"# comment\n[net]\nbatch=1\n", "ncnn": b"7767517\n75 83\n",
    "MXNet": b'{"nodes": [{"op": "null"}], "arg_nodes": [0], "heads": [[1, 0, 0]]}',
    "TensorFlow.js": b'{"format": "graph-model", "modelTopology": {}}',
    "PaddlePaddle": b'{"base_code": {"magic": "pir"}}', "CNTK": b"B\0C\0N\0\0\0",
    "Caffe": b'layer {\n  name: "conv"\n  bottom: "data"\n}',
}
BY_ARCHIVE = {
    "TorchScript": ["m/data.pkl", "m/code/__torch__/m.py"],
    "checkpoint": ["m/data.pkl", "m/data/0"], "NumPy": ["a.npy", "b.npy"],
}
BY_SUFFIX = {"Caffe2": "net.pb", "PaddlePaddle": "net.pdmodel", "Caffe": "net.caffemodel",
             "MNN": "net.mnn", "MXNet": "net.params", "OpenVINO": "net.bin",
             "Core ML": "net.mlmodelc", "Darknet": "net.weights"}


def refusal(path) -> str:
    with pytest.raises(ImportRefused) as refused:
        graph_of(path)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("name", BY_CONTENT)
def test_content_tells_whatever_the_name(name, tmp_path):
    path = tmp_path / "network.onnx"
    path.write_bytes(BY_CONTENT[name])
    text = refusal(path)
    assert text.startswith(f"{path}: is ") and name in text and "not an ONNX file" not in text
    assert "which Lockstep does not read; " in text


@pytest.mark.parametrize("name", BY_ARCHIVE)
def test_names_in_an_archive_tell(name, tmp_path):
    path = tmp_path / "network"
    with zipfile.ZipFile(path, "w") as archive:
        for member in BY_ARCHIVE[name]:
            archive.writestr(member, b"")
    assert name in refusal(path)


@pytest.mark.parametrize("name", BY_SUFFIX)
def test_a_suffix_tells_where_the_content_is_no_onnx(name, tmp_path):
    path = tmp_path / BY_SUFFIX[name]
    path.write_bytes(b"\xff\x01\x02")
    assert name in refusal(path)


def test_onnx_by_another_name_is_read(tmp_path):
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])
    other = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])
    model = onnx.helper.make_model(onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [value], [other]))
    path = tmp_path / "network.pb"
    path.write_bytes(model.SerializeToString())
    assert graph_of(path).outputs == ("y",)


def test_kinds_that_are_read(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"\x1c\0\0\0TFL3")
    assert kind_of(path) is TFLITE
    path.write_bytes(b"GGUF\3\0\0\0")
    assert kind_of(path) is GGUF
    for kind, members in ((KERAS, ["config.json", "metadata.json", "model.weights.h5"]),
                          (TORCH, ["m/archive_format", "m/models/model.json"])):
        with zipfile.ZipFile(path, "w") as archive:
            for member in members:
                archive.writestr(member, b"")
        assert kind_of(path) is kind
    saved = tmp_path / "saved"
    saved.mkdir()
    (saved / "saved_model.pb").write_bytes(b"")
    assert kind_of(saved) is SAVED_MODEL is kind_of(saved / "saved_model.pb")
    package = tmp_path / "package" / "Data" / "com.apple.CoreML"
    package.mkdir(parents=True)
    (package / "model.mlmodel").write_bytes(b"")
    (tmp_path / "package" / "Manifest.json").write_bytes(b"{}")
    assert kind_of(tmp_path / "package") is CORE_ML_PACKAGE
    assert kind_of("none.mlmodel") is CORE_ML


def test_what_is_of_no_kind_is_asked_for_as_onnx(tmp_path):
    path = tmp_path / "network.xyz"
    path.write_bytes(b"\xff\x01\x02")
    assert refusal(path) == f"{path}: is not an ONNX file; give a model in .onnx format"
    assert refusal(tmp_path / "none.caffemodel").endswith(
        "none.caffemodel: no such file; give the path of an ONNX model")


def test_every_kind_that_is_refused_has_a_way_round():
    assert all(kind.way and (kind.suffixes or kind.begins or kind.holds) for kind in REFUSED)


def test_names_of_examples_are_no_files():
    assert names_model("net.onnx") and names_model("NET.TFLITE") and names_model("a.mlpackage/")
    assert not names_model("resnet18")


def test_arrays_are_no_network(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.zeros(2))
    assert "an archive of NumPy arrays" in refusal(tmp_path / "x.npz")


def test_the_page_lists_what_is_taken_and_what_is_refused():
    from compiler.frontend import core_ml, tflite       # noqa: F401 - fill the tables
    from compiler.frontend.core_ml.registry import LAYERS, OPERATIONS
    from compiler.frontend.tflite.registry import OPERATORS

    page = " ".join((Path(__file__).parents[3] / "docs" / "frontends.md").read_text().split())
    for table in (OPERATORS, OPERATIONS, LAYERS):
        assert ", ".join(f"`{name}`" for name in sorted(table)) + "." in page
    for kind in REFUSED:
        suffixes = ", ".join(f"`{suffix}`" for suffix in kind.suffixes)
        named = f" Suffixes: {suffixes}." if suffixes else ""
        assert f"- **{kind.name}**.{named} Way round: {kind.way}." in page
