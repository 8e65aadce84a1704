"""`lockstep export`."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lockstep.cli import main

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits-int8.onnx"


def call(*args) -> int:
    return main([str(arg) for arg in args])


@pytest.fixture
def model(tmp_path) -> Path:
    """The greatest of each column, less each element, times two."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in (("x", [4, 6]), ("y", [4, 6])))
    graph = helper.make_graph(
        [helper.make_node("ReduceMax", ["x"], ["most"], axes=[0]),
         helper.make_node("Sub", ["most", "x"], ["apart"]),
         helper.make_node("Mul", ["apart", "two"], ["y"])], "apart", [x], [y],
        [numpy_helper.from_array(np.full(6, 2, np.float32), "two")])
    path = tmp_path / "apart.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)
    return path


def test_it_writes_and_says_what(tmp_path, model, capsys) -> None:
    assert call("export", model, "--machine", "aarch64", "--name", "digits", "--weights", "apart",
                "-o", tmp_path / "new" / "folder") == 0
    folder = tmp_path / "new" / "folder"
    assert sorted(path.name for path in folder.iterdir()) == [
        "digits.bin", "digits.h", "digits.o", "digits_test.c"]
    said = capsys.readouterr()
    assert "digits: arena of 32 bytes, weights apart" in said.out + said.err
    assert (folder / "digits.o").read_bytes()[18:20] == b"\xb7\0"       # EM_AARCH64


def test_arrays_have_places_in_the_arena_where_they_are_asked_for(tmp_path, model) -> None:
    for arrays in ("inside", "apart"):
        assert call("export", model, "--machine", "cortex-m7", "--name", "net", "--arrays", arrays,
                    "-o", tmp_path / arrays) == 0
        text = (tmp_path / arrays / "net.h").read_text()
        for end in ("INPUT_X_OFFSET", "OUTPUT_Y_OFFSET"):
            assert (f"#define NET_{end} " in text) == (arrays == "inside")


@pytest.mark.parametrize(("options", "message"), [
    (["--target", "cuda:emulated"], "--target must be cpu, cpu:THREADS, cpu:plain or accel:MACHINE "
                                    "for an export, not cuda:emulated"),
    (["--target", "accel:tiny-1x4x4"],
     "Network on a board must have segments of one accelerator, not of none"),
    (["--target", "accel:tiny-1x4x4", "--arrays", "inside"],
     "--arrays must be left out with an accelerator, whose driver copies inputs and outputs"),
    (["--machine", "vax"], "machine must be one of "),
    (["--name", "1x"], "Name of a network must be an identifier of C, not '1x'"),
    (["--machine", "wasm32", "--kind", "shared"],
     "kind must be object, module for wasm32, not 'shared'")])
def test_requests_wrong(tmp_path, model, capsys, options: list[str], message: str) -> None:
    assert call("export", model, *options, "-o", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("target", "written"), [
    ("cpu", ["net.h", "net.o", "net_test.c"]),
    ("accel:tiny-1x4x4", ["lockstep_board.c", "lockstep_board.h", "net.c", "net.h", "net_host0.c",
                          "net_host0.h", "net_host2.c", "net_host2.h"])])
def test_a_compiled_file_gives_what_its_network_gives(tmp_path, target: str, written: list[str]
                                                      ) -> None:
    assert call("compile", DIGITS, "--target", target, "-o", tmp_path / "net.lockstep") == 0
    for number, model in enumerate(((DIGITS, "--target", target), (tmp_path / "net.lockstep",))):
        assert call("export", *model, "--name", "net", "-o", tmp_path / str(number)) == 0
    one, other = ({path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()}
                  for folder in "01")
    assert sorted(one) == written and one == other


def test_a_compiled_file_leaves_out_what_it_was_compiled_with(tmp_path, model, capsys) -> None:
    file = tmp_path / "net.lockstep"
    assert call("compile", model, "--target", "cpu", "-o", file) == 0
    capsys.readouterr()
    assert call("export", file, "--target", "cpu:2", "-o", tmp_path / "out") == 2
    assert capsys.readouterr().err == (f"lockstep: error: --target must be left out for "
                                       f"'{file}': it is compiled\n")
