"""Networks that take and give numbers of types that no processor computes with: by every way."""

import io
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import lockstep
from compiler.cpu_gpu_backends.c.network import network_files
from compiler.graph import Builder, TensorType, evaluate
from compiler.graph.graph import Graph
from runtime.module import InputError
from tests.support.c_text import call_network, compile_c, needs_c
from tests.support.exported import Called

CODES = np.arange(256, dtype=np.uint8).reshape(4, 64)
X, Y = "float8_e4m3fn", "uint4"


def network() -> Graph:
    """All inputs are outputs, too: as they are, moved, and with only the bits that they have."""
    net = Builder("net")
    net.add_input("x", TensorType((4, 64), X))
    net.add_input("y", TensorType((4, 64), Y))
    net.add_constant("mask", np.array(15, np.uint8))
    net.add_constant("c", CODES[:1].view(X))
    for name in "xy":
        net.emit("bitcast", f"{name}_codes", [name], f"{name}_codes", to="uint8")
    net.emit("transpose", "t", ["x_codes"], "t", perm=(1, 0))
    net.emit("and", "low", ["y_codes", "mask"], "low")
    net.emit("reshape", "whole", ["low"], "whole", shape=(256,))
    net.emit("slice", "part", ["whole"], "part", begin=(100,), end=(203,), step=(1,))
    for name, of, dtype in (("same", "x_codes", X), ("turned", "t", X), ("cut", "part", Y)):
        net.emit("bitcast", name, [of], name, to=dtype)
    return net.finish(["same", "turned", "cut", "c"])


GIVEN = {"x": CODES.view(X), "y": CODES.view(Y)}
WANTED = {"same": CODES, "turned": CODES.T, "cut": CODES.reshape(-1)[100:203] & 15,
          "c": CODES[:1]}


def assert_wanted(found) -> None:
    assert list(found) == list(WANTED)
    for name, wanted in WANTED.items():
        assert found[name].dtype.name == (Y if name == "cut" else X)
        np.testing.assert_array_equal(found[name].view(np.uint8), wanted, name)


@pytest.fixture(scope="module")
def module():
    return lockstep.compile(network(), "cpu", cache=False)


def test_by_the_reference() -> None:
    assert_wanted(evaluate(network(), GIVEN))


def test_on_the_processor(module) -> None:
    assert_wanted(module(GIVEN))
    module.profile(GIVEN)


def test_on_a_gpu() -> None:
    assert_wanted(lockstep.compile(network(), "cuda:emulated,cpu", cache=False)(GIVEN))


def test_from_a_file_of_a_module(module, tmp_path: Path) -> None:
    module.save(tmp_path / "net")
    assert_wanted(lockstep.load(tmp_path / "net")(GIVEN))


@needs_c
@pytest.mark.parametrize("apart", [False, True])
def test_in_c(apart: bool, tmp_path: Path) -> None:
    files = network_files(network(), "net", apart=apart)
    assert_wanted(call_network(compile_c(files.alone, tmp_path), files, network(), GIVEN))


@needs_c
def test_as_a_library(module, tmp_path: Path) -> None:
    assert_wanted(Called(module, tmp_path)(GIVEN))
    assert "const uint8_t *y;    /* uint8[4, 64], codes of uint4 */" in (
        tmp_path / "net.h").read_text()


def test_arrays_from_a_file(module) -> None:
    """NumPy writes such types without their name."""
    file = io.BytesIO()
    np.savez(file, x=GIVEN["x"], y=GIVEN["y"])
    file.seek(0)
    arrays = np.load(file)
    assert arrays["x"].dtype == np.dtype("V1")
    module.set_input(**arrays)
    module.run()
    assert_wanted({name: module.get_output(name) for name in WANTED})


@pytest.mark.parametrize("array", [
    CODES, CODES.view(ml_dtypes.float8_e5m2), np.zeros((4, 64), "V2"), CODES[:2].view("V1"),
    CODES.view([("a", "u1")])])
def test_arrays_of_another_type(module, array: np.ndarray) -> None:
    with pytest.raises(InputError) as refused:
        module.set_input("x", array)
    assert str(refused.value).startswith("Input x must be float8_e4m3fn of shape (4, 64), not ")
