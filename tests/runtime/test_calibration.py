"""Float models with calibration samples: quantized, then compiled."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import lockstep
from compiler.frontend import convert
from compiler.graph import evaluate, optimize
from compiler.quantize import QuantizeRefused, quantize
from runtime import Module
from runtime.driver.pipeline import IN_FLOAT

TINY = "accel:tiny-1x4x4"
SAMPLES = np.random.default_rng(2).standard_normal((4, 3, 4, 4), np.float32)


def model() -> onnx.ModelProto:
    """Two convolutions and a Relu between; the batch has a name."""
    rng = np.random.default_rng(1)
    constants = [numpy_helper.from_array(rng.standard_normal((4, depth, 1, 1), np.float32), name)
                 for name, depth in (("w1", 3), ("w2", 4))]
    nodes = [helper.make_node("Conv", ["x", "w1"], ["a"], "first"),
             helper.make_node("Relu", ["a"], ["b"], "relu"),
             helper.make_node("Conv", ["b", "w2"], ["y"], "second")]
    typed = [helper.make_tensor_value_info(name, 1, ("N", depth, 4, 4))
             for name, depth in (("x", 3), ("y", 4))]
    return helper.make_model(helper.make_graph(nodes, "two", typed[:1], typed[1:], constants),
                             opset_imports=[helper.make_opsetid("", 17)])


def compiled(given=SAMPLES, source=None, target: str = TINY, **options) -> Module:
    return lockstep.compile(source or model(), target, shapes={"N": 1}, calibration=given,
                            cache=False, **options)


def on_accelerator(module: Module) -> list[str]:
    return [node.op for one in module.partition.segments if one.target == "accel"
            for node in one.nodes]


def test_a_float_model_goes_to_the_accelerator(tmp_path) -> None:
    module = compiled()
    assert on_accelerator(module) == ["qconv2d", "qconv2d"]
    assert IN_FLOAT.format("int8") not in module.graph.notes
    wanted = optimize(convert(quantize(model(), SAMPLES).model, shapes={"N": 1}))
    given = {"x": SAMPLES[:1]}
    np.testing.assert_array_equal(module(given)["y"], evaluate(wanted, given)["y"])


def named_file(folder) -> str:
    np.savez(folder / "s.npz", x=SAMPLES)
    return str(folder / "s.npz")


def two_files(folder) -> list:
    for number in range(2):
        np.save(folder / f"{number}.npy", SAMPLES[2 * number:2 * number + 2])
    return [folder / "0.npy", folder / "1.npy"]


@pytest.mark.parametrize("form", [
    lambda folder: {"x": SAMPLES}, lambda folder: iter([SAMPLES[:3], SAMPLES[3:]]),
    lambda folder: ({"x": one[None]} for one in SAMPLES), named_file, two_files,
], ids=["by name", "batches", "batches by name", "npz", "npy"])
def test_forms_of_a_calibration_set(tmp_path, form: Callable) -> None:
    made, wanted = (quantize(model(), given) for given in (form(tmp_path), SAMPLES))
    assert made.model == wanted.model and made.samples == 4


def test_options_of_the_quantizer_go_through(tmp_path) -> None:
    path = tmp_path / "named.onnx"
    onnx.save(model(), path)
    module = compiled(source=path, keep_float=["second"], observer="mse")
    assert on_accelerator(module) == ["qconv2d"] and module.graph.name == "named"
    assert any(note.startswith("second (conv2d) stays in float") for note in module.graph.notes)


def test_the_host_computes_integers_too() -> None:
    module = compiled(target="cpu")
    assert {"qconv2d"} < {node.op for node in module.graph.nodes} and not module.accelerated


@pytest.mark.parametrize(("arguments", "message"), [
    ({"calibration": None, "keep_float": ["a"]}, "keep_float must come with calibration samples"),
    ({"calibration": [SAMPLES, {"x": SAMPLES}]},
     "calibration samples must all be arrays by name, as .npz archives have them, or all be plain "
     "arrays, as .npy files are, not both"),
    ({"calibration": "none.npz"},
     "'none.npz' must be an .npz archive or an .npy array of numbers: No such file or directory"),
    ({"calibration": []}, "calibration samples must fit together: "
                          "need at least one array to concatenate"),
    ({"calibration": [{"x": SAMPLES}, {"y": SAMPLES}]},
     "calibration samples must have arrays of the same names in every part, and one has no 'x'"),
])
def test_refusals(arguments: dict, message: str) -> None:
    with pytest.raises(QuantizeRefused) as refusal:
        lockstep.compile(model(), TINY, shapes={"N": 1}, **arguments)
    assert str(refusal.value) == message


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(QuantizeRefused, match=r"^model must be an ONNX file or model to be "
                                              r"quantized, not dict$"):
        lockstep.quantize({}, SAMPLES)
