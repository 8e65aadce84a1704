"""`lockstep run`: one line with exit status 2 for every wrong request."""

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from accel.machine.config import preset
from tests.support.spoiled.arrays import zeros_archive
from compiler.cpu_gpu_backends.gpu.target import PRECISIONS
from lockstep.cli import main
from tests.support.operator_models import operator_model

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits-int8.onnx"
TINY = ["--target", "accel:tiny-1x4x4"]


def run(*args) -> int:
    return main(["run", *map(str, args)])


def refused(capsys, message: str, *args) -> None:
    assert run(*args) == 2
    assert capsys.readouterr() == ("", f"lockstep: error: {message}\n")


def test_a_model_that_is_not_there(capsys, tmp_path) -> None:
    path = tmp_path / "none.onnx"
    refused(capsys, f"{path}: no such file; give the path of an ONNX model", path)


def test_a_host_that_is_not_there_before_anything_is_compiled(capsys, monkeypatch) -> None:
    monkeypatch.setattr("lockstep.running.here.run_here", None)
    refused(capsys, "Host must be table, this or a .toml file, not 'me'", DIGITS, "--host", "me")


def test_a_file_that_is_no_model(capsys, tmp_path) -> None:
    path = tmp_path / "text.onnx"
    path.write_text("this is no model")
    refused(capsys, f"{path}: is not an ONNX file; give a model in .onnx format", path)


def test_an_operator_that_is_not_supported(capsys, tmp_path) -> None:
    path = operator_model(tmp_path / "m.onnx", "ImageDecoder", [1, 3])
    assert run(path) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1
    assert err.startswith(f"lockstep: error: {path}: cannot import ") and "ImageDecoder" in err


def test_a_dimension_without_a_value(capsys, tmp_path) -> None:
    path = operator_model(tmp_path / "m.onnx", "Relu", ["N", 3])
    assert run(path) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1
    assert err.startswith(f"lockstep: error: {path}: no value for dimension ") and "N" in err


def test_dimensions_of_the_arrays_and_a_bound_input(capsys, tmp_path) -> None:
    x, scale = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                for name, shape in (("x", ["?", "?"]), ("scale", [])))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("Mul", ["x", "scale"], ["y"])], "g", [x, scale],
                              [y])
    path, given, out = (str(tmp_path / name) for name in ("m.onnx", "x.npz", "y.npz"))
    onnx.save(helper.make_model(graph, ir_version=10,
                                opset_imports=[helper.make_opsetid("", 17)]), path)
    np.savez(given, x=np.ones((2, 3), np.float32))
    assert run(path, "--target", "cpu", "--input", given, "--bind", "scale=2.5", "--output",
               out) == 0
    with np.load(out) as made:
        assert made["y"].tolist() == [[2.5] * 3] * 2
    capsys.readouterr()
    refused(capsys, f"{path}: --bind scale must have the input's shape [], not [2]", path,
            "--target", "cpu", "--input", given, "--bind", "scale=[1,2]")
    assert run(path, "--target", "cpu", "--bind", "scale=fast") == 2
    assert ("argument --bind: must be NAME=VALUE with a number or a list of numbers, not "
            "'scale=fast'") in capsys.readouterr().err


def test_an_impossible_geometry(capsys, tmp_path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(preset("tiny-1x4x4").to_toml().replace("batch = 1", "batch = 17"))
    refused(capsys, f"Configuration {path}: batch must be from 1 to 16, not 17: none that "
            f"are larger have been compared with the RTL", DIGITS,
            "--target", f"accel:{path}")


def test_a_geometry_that_is_not_toml(capsys, tmp_path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("batch: 1")
    assert run(DIGITS, "--target", f"accel:{path}") == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1
    assert err.startswith(f"lockstep: error: Configuration {path} cannot be read: ")


@pytest.mark.parametrize("target", ["accelerator", "accel:", "cpu:two", "tpu"])
def test_an_unknown_target(capsys, target: str) -> None:
    refused(capsys, f"Target must be accel:MACHINE, auto:MACHINE, cpu, cpu:THREADS, cpu:plain, "
                    f"cuda, opencl, metal, or "
                    "a list of "
                    f"targets, not {target!r}; a machine is a preset or a file",
            DIGITS, "--target", target)


def test_an_unknown_preset(capsys) -> None:
    refused(capsys, "Machine must be one of ecp5-1x16x16, ecp5-1x2x2, ecp5-1x8x8, pynq-1x16x16, "
            "tiny-1x4x4, a .toml or .py file or a folder with __init__.py, not 'pynk'",
            DIGITS, "--target", "accel:pynk")


@pytest.mark.parametrize(("arrays", "message"), [
    ({"picture": np.zeros(3, np.float32)}, "Input must be one of image, not 'picture'"),
    ({}, "Input image must be set before the network runs"),
    ({"image": np.zeros((1, 8, 8), np.float32)},
     "Input image must be float32 of shape (1, 1, 8, 8), not float32 of shape (1, 8, 8)"),
    ({"image": np.zeros((1, 1, 8, 8))},
     "Input image must be float32 of shape (1, 1, 8, 8), not float64 of shape (1, 1, 8, 8)"),
])
def test_inputs_that_do_not_fit(capsys, tmp_path, arrays, message: str) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, **arrays)
    refused(capsys, message, DIGITS, *TINY, "--input", path)


def contents(tmp_path: Path) -> dict[str, bytes]:
    np.savez(tmp_path / "whole.npz", image=np.arange(64.0))
    np.save(tmp_path / "one.npy", np.zeros(3))
    np.savez(tmp_path / "objects.npz", image=np.array([{}], object))
    whole = (tmp_path / "whole.npz").read_bytes()
    return {"text": b"image = 1", "nothing": b"", "one array": (tmp_path / "one.npy").read_bytes(),
            "objects": (tmp_path / "objects.npz").read_bytes(), "cut short": whole[:-60]}


NUMBERS = "must be an .npz archive or an .npy array of numbers"


@pytest.mark.parametrize(("kind", "reason"), [
    ("text", f"{NUMBERS}: it begins as neither"), ("nothing", f"{NUMBERS}: it begins as neither"),
    ("objects", f"{NUMBERS}: an array must hold numbers, not |O"),
    ("cut short", f"{NUMBERS}: File is not a zip file"),
    ("one array", "must be an .npz archive of named arrays")])
def test_a_file_that_holds_no_arrays(capsys, tmp_path, kind: str, reason: str) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(contents(tmp_path)[kind])
    refused(capsys, f"{str(path)!r} {reason}", DIGITS, *TINY, "--input", path)


@pytest.mark.parametrize(("option", "value", "message"), [
    ("--input", "no.npz", "'no.npz' must be a file that exists"),
    ("--output", "no/y.npz", "'no/y.npz' must name a file in a folder that exists"),
    ("--json", "no/r.json", "'no/r.json' must name a file in a folder that exists"),
    ("--bus-bytes", "3", "bus_bytes must be a power of two, not 3: the bits "
                          "of an address are a beat, and a byte in it"),
    ("--shape", "N=2", f"{DIGITS}: --shape N=2 names no dimension of the inputs; the symbolic "
                       f"ones are: none"),
    *((option, value, f"argument {option}: must be an integer of at least {low}, not {value!r} "
                      f"(see lockstep run --help)")
      for option, low in (("--seed", 0), ("--stall-seed", 0), ("--bus-bytes", 1))
      for value in ("-1", "x", "1.5")),
    *((option, value, f"argument --{name}/--dram-{name}: must be an integer of at least {low}, "
                      f"not {value!r} (see lockstep run --help)")
      for name, low in (("latency", 0), ("outstanding", 1))
      for option in (f"--{name}", f"--dram-{name}") for value in ("-1", "x", "1.5")),
    ("--latency", "1048577", "latency of the memory must be an integer from 0 to 1048576, "
                             "not 1048577"),
    *(("--bytes-per-cycle", value, f"argument --bytes-per-cycle: must be a number of bytes above "
                                   f"0, not {value!r} (see lockstep run --help)")
      for value in ("0", "-1", "x", "inf", "nan")),
    ("--bytes-per-cycle", "9", "bytes_per_cycle of the memory must be at most the 8 bytes of the "
                               "bus of pynq-1x16x16, not 9.0"),
    *(("--row-buffer", value, f"argument --row-buffer: must be BYTES[,MISS[,BANKS]], not {value!r} "
                              f"(see lockstep run --help)")
      for value in ("", "x", "1024,", "1024,1,1,1", "-1")),
    ("--row-buffer", "100", "row_bytes of the memory must be a power of two, not 100"),
    ("--row-buffer", "1024,5,0", "banks of the memory must be an integer from 1 to 65536, not 0"),
    *(("--memory", value, f"argument --memory: must be board:NAME or board:NAME@MHZ, not {value!r} "
                          f"(see lockstep run --help)")
      for value in ("", "ulx3s-85f", "board:", "board:ulx3s-85f@", "board:ulx3s-85f@fast")),
    ("--memory", "board:de10", "Board must be one of ulx3s-12f, ulx3s-25f, ulx3s-45f, ulx3s-85f, "
                               "ecpix5-85f, not 'de10'"),
    ("--memory", "board:ulx3s-85f@125",
     "Memory of ulx3s-85f cannot be that of pynq-1x16x16: Clock of SDRAM of the ULX3S must be "
     "slower than 125 MHz: data before the core's edge there are -0.9 ns left"),
    *(("--refresh", value, f"argument --refresh: must be INTERVAL,CYCLES, not {value!r} "
                           f"(see lockstep run --help)") for value in ("", "9", "9,x", "9,1,1")),
    ("--refresh", "8,8", "refresh_cycles of the memory must be less than its refresh_interval of "
                         "8, not 8"),
    *(("--shape", value, f"argument --shape: must be NAME=N with N at least 1, not {value!r} "
                         f"(see lockstep run --help)") for value in ("N", "N=0", "=3", "N=x")),
])
def test_wrong_options(capsys, option: str, value: str, message: str) -> None:
    refused(capsys, message, DIGITS, option, value)


@pytest.mark.parametrize(("options", "message"), [
    (["--trace", "no/t.json", "--sim", "verilator"],
     "'no/t.json' must name a file in a folder that exists"),
    (["--trace", "t.txt", "--sim", "verilator"],
     "Trace 't.txt' must end in one of .json, .json.gz, .vcd"),
    (["--trace", "t.json", "--sim", "functional"],
     "--trace must come with --sim cycle, slice or verilator: functional has no cycles"),
    (["--trace", "t.json", "--target", "cpu"],
     "--trace must be left out with --target cpu: the host has no cycles"),
    (["--waves", "conv1", "--sim", "cycle"],
     "--waves must come with --sim verilator, not cycle: the RTL alone has signals"),
    (["--waves", "conv1", "--target", "cpu"],
     "--waves must be left out with --target cpu: the host has no cycles"),
    (["--waves", "conv1", "--on", "tcp://nowhere:1"],
     "--waves must be left out with --on: the network runs elsewhere"),
    (["--waves", "conv1,no/w.fst"], "'no/w.fst' must name a file in a folder that exists"),
    (["--waves", "conv9", *TINY],
     "--waves must name a layer that runs on the accelerator (conv1, conv2, conv3, conv4 + add, "
     "pool, conv5 + average, dense), not 'conv9'"),
    (["--no-values", "--target", "cpu"],
     "--no-values must be left out with --target cpu: the host has no cycles"),
    (["--no-values", "--sim", "verilator"],
     "--no-values must come with --sim cycle or slice, not verilator"),
    (["--no-values", "--sim", "cycle", "--output", "y.npz"],
     "--output must be left out with --no-values: there are none"),
])
def test_options_that_do_not_go_together(capsys, options, message: str) -> None:
    refused(capsys, message, DIGITS, *options)
    assert not Path("t.json").exists() and not Path("y.npz").exists()


def test_a_trace_larger_than_the_disk(capsys, tmp_path, monkeypatch) -> None:
    """Refused before anything runs."""
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage._replace(free=100))
    monkeypatch.setattr("runtime.Module.run", lambda module: pytest.fail("it ran"))
    path = tmp_path / "t.json"
    assert run(DIGITS, *TINY, "--sim", "verilator", "--trace", path) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"lockstep: error: Trace {str(path)!r} needs more than ")
    assert len(err.splitlines()) == 1 and not list(tmp_path.iterdir())


@pytest.mark.parametrize(("options", "message"), [
    (["--pin", "conv9=host"], "Pin must name a layer or an operator of the network, not 'conv9'; "
     "its operators are dequantize, qadd, qconv2d, qdense, qglobalavgpool, qmaxpool, quantize, "
     "reshape"),
    (["--pin", "quantize=accel"], "image_QuantizeLinear (quantize) must not be pinned to accel: "
     "the accelerator has no operator quantize"),
    (["--pin", "conv1"], "argument --pin: must be NAME=host or NAME=accel, not 'conv1' "
     "(see lockstep run --help)"),
    (["--link", "1e6"], "--link must come with --target auto:PRESET: nothing else weighs copies"),
    (["--link", "fast"], "argument --link: must be BYTES[,LATENCY[,START]], bytes a second above 0 "
     "and seconds, not 'fast' (see lockstep run --help)"),
])
def test_pins_and_links_that_cannot_be(capsys, options: list[str], message: str) -> None:
    refused(capsys, message, DIGITS, *TINY, *options)


@pytest.mark.parametrize(("name", "shape", "line"), [
    ("other", (1 << 28,), "Input must be one of image, not 'other'"),
    ("image", (1 << 28,), "Input image must be float32 of shape (1, 1, 8, 8), not float32 of "
                          "shape (268435456,)")])
def test_inputs_are_judged_before_they_are_read(capsys, tmp_path, monkeypatch, name: str, shape,
                                                line: str) -> None:
    from compiler.frontend.building.arrays import ArrayFile

    monkeypatch.setattr(ArrayFile, "__getitem__", None)
    zeros_archive(tmp_path / "a.npz", f"{name}.npy", shape, 1024)
    refused(capsys, line, DIGITS, *TINY, "--input", str(tmp_path / "a.npz"))


def test_less_precision_without_a_gpu_wrong(capsys) -> None:
    assert run(DIGITS, "--target", "cpu", "--precision", "f16") == 2
    assert "precision must come with a target cuda, not cpu" in capsys.readouterr().err


def test_an_unknown_precision_wrong(capsys) -> None:
    assert run(DIGITS, "--target", "cuda:emulated", "--precision", "f8") == 2
    said = capsys.readouterr().err
    assert all(name in said for name in (*PRECISIONS, "'f8'"))


def test_the_host_alone_has_no_memory_of_a_board(tmp_path, capsys) -> None:
    board = ("--memory", "board:ulx3s-85f")
    refused(capsys, "--memory must be left out with --target cpu: it has no accelerator", DIGITS,
            "--target", "cpu", *board)
    module = tmp_path / "host.lockstep"
    assert main(["compile", str(DIGITS), "--target", "cpu", "-o", str(module)]) == 0
    capsys.readouterr()
    refused(capsys, f"--memory must be left out for {str(module)!r}: it is compiled for the host "
                    f"alone", module, *board)


def test_a_layer_that_cannot_be_mapped_by_a_defect(capsys, monkeypatch) -> None:
    """With --strict the command ends with status 3 and one line; else the host computes it."""
    def broken(node, *rest):
        raise KeyError(node.name)

    monkeypatch.delenv("LOCKSTEP_STRICT")
    monkeypatch.setattr("accel.mapping.target.build_layers", broken)
    arguments = [DIGITS, *TINY, "--no-cache", "--sim", "functional"]
    assert run(*arguments, "--strict") == 3
    assert capsys.readouterr() == ("", "lockstep: conv1 (qconv2d): this is a defect, please report "
                                       "it: KeyError: 'conv1'\n")
    assert run(*arguments, "--verbose") == 0
    assert "conv1 (this is a defect, please report it: KeyError: 'conv1')" in " ".join(
        capsys.readouterr().out.split())
