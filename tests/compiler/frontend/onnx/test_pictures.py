"""ONNX's ImageDecoder: images in files, and bytes that are no image."""

import builtins
import io

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from compiler.frontend import ImportRefused, convert

RGB = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) * 9


def decoded(data: bytes, pixel_format: str = "RGB"):
    """The result, as a constant of the network."""
    graph = helper.make_graph(
        [helper.make_node("ImageDecoder", ["file"], ["image"], "n", pixel_format=pixel_format),
         helper.make_node("Shape", ["image"], ["shape"])], "g", [],
        [helper.make_tensor_value_info("shape", TensorProto.INT64, None),
         helper.make_tensor_value_info("image", TensorProto.UINT8, None)][:1 + len(data) // 40],
        [numpy_helper.from_array(np.frombuffer(data, np.uint8), "file")])
    return convert(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), "m"
                   ).constants


def file_of(kind: str) -> bytes:
    pillow, file = pytest.importorskip("PIL.Image"), io.BytesIO()
    pillow.fromarray(RGB).save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "BMP", "PPM", "TIFF"])
def test_formats_without_loss(kind: str) -> None:
    data = file_of(kind).ljust(40, b"\0")
    assert np.array_equal(decoded(data)["image"], RGB)
    assert np.array_equal(decoded(data, "BGR")["image"], RGB[:, :, ::-1])
    assert decoded(data, "Grayscale")["image"].shape == (2, 3, 1)


def test_bytes_that_are_no_image() -> None:
    pytest.importorskip("PIL")
    assert decoded(b"no image")["shape"].tolist() == [0, 0, 3]
    assert decoded(file_of("PNG")[:30])["shape"].tolist() == [0, 0, 3]


def test_refusals(monkeypatch) -> None:
    with pytest.raises(ImportRefused, match="pixel_format must be RGB, BGR, Grayscale, not CMYK"):
        decoded(b"", "CMYK")
    real = builtins.__import__

    def without(name: str, *arguments):
        if name == "PIL":
            raise ImportError(name)
        return real(name, *arguments)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportRefused, match=r"n \(ImageDecoder\): it needs Pillow, which is not "
                                            r"installed; install lockstep-hw\[images\]"):
        decoded(b"any")
