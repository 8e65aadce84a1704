"""Networks of the package: each name gives its model, the same every time; wheels have them."""

import shutil
import warnings
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest

import lockstep
from compiler.errors import RequestError
from lockstep import testing
from lockstep.testing import zoo
from lockstep.testing.networks import decoders, parameters
from lockstep.testing.networks.decoders import DecoderSizes

ROOT = Path(__file__).parents[2]


def test_every_network_of_the_zoo_has_a_function() -> None:
    for name in zoo.NETWORKS:
        assert getattr(testing, name).__name__ == name


def test_a_function_builds_the_network_of_its_name() -> None:
    model = testing.squeezenet(32, batch=2, seed=3, int8=True)
    wanted = zoo.build("squeezenet", 32, 2, 3, int8=True)
    assert model.SerializeToString(deterministic=True) == wanted.SerializeToString(
        deterministic=True)
    assert model != testing.squeezenet(32, batch=2, int8=True)


@pytest.mark.parametrize("int8", [True, False])
def test_digits_are_those_of_the_example(int8: bool) -> None:
    name = "digits-int8.onnx" if int8 else "digits-float.onnx"
    assert testing.digits(int8) == onnx.load(ROOT / "examples" / "digits" / name)


def test_a_model_is_compiled_as_it_is() -> None:
    image = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)
    module = lockstep.compile(testing.digits(), "cpu")
    assert module({"image": image})["logits"].shape == (1, 10)


def test_a_size_that_is_none_is_refused() -> None:
    with pytest.raises(RequestError, match="^size must be 32 to 1024, not 8$"):
        testing.resnet18(8)


@pytest.mark.slow
def test_a_wheel_has_the_networks(tmp_path: Path) -> None:
    """Built from a copy, because a build writes beside its sources."""
    backend = pytest.importorskip("setuptools.build_meta")
    source = tmp_path / "source"
    for folder in ("lockstep", "fpga", "runtime", "accel", "compiler"):
        shutil.copytree(ROOT / folder, source / folder,
                        ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")         # of the tool, on what it reads
        patch.chdir(source)
        name = backend.build_wheel(str(tmp_path))
    with zipfile.ZipFile(tmp_path / name) as wheel:
        names = set(wheel.namelist())
    assert {"lockstep/testing/zoo.py", "lockstep/testing/networks/convolutional.py",
            "lockstep/testing/digits-int8.onnx", "lockstep/testing/digits-float.onnx"} <= names


@pytest.mark.parametrize("kind", ["gpt", "llama"])
def test_a_long_decoder_is_made_from_a_short_one(monkeypatch, kind: str) -> None:
    """What is computed for its ranges does not grow with the tokens; all parameters are there, and
    a step has those of the whole.
    """
    monkeypatch.setattr(decoders, "LONG", 16)
    monkeypatch.setattr(decoders, "SHORT", 8)
    sizes, seen = DecoderSizes(1, 16, 2, 1, 32, 12), []
    softmax = parameters.MEANING["Softmax"]
    monkeypatch.setitem(parameters.MEANING, "Softmax", lambda attributes, x: (
        seen.append(x.shape[-2:]) or softmax(attributes, x)))
    filled = {}
    for step in (False, True):
        net = zoo.ZooNetwork(f"{kind}_small{'_step' * step}", 40)
        getattr(decoders, kind)(net, sizes, step)
        filled[step] = zoo.fill(net.finish())
        onnx.checker.check_model(zoo.float_model(net, filled[step]), full_check=True)
        onnx.checker.check_model(zoo.int8_model(zoo.float_model(net, filled[step]), net,
                                                filled[step], 0), full_check=True)
    assert set(seen) == {(8, 8)}
    if kind == "gpt":
        assert filled[False].parameters["positions.bias"].shape == (40, 16)
    drawn = [name for name in filled[True].parameters if name.endswith((".weight", ".bias"))]
    for name in drawn:
        np.testing.assert_array_equal(filled[True].parameters[name], filled[False].parameters[name])
