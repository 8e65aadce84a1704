"""Networks as libraries for C: they compute what the module does, and promise what headers say."""

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from signal import SIGILL

import numpy as np
import pytest

import lockstep
from bench.support.cortex_m import CC, EMULATOR
from bench.exports.programs import RUNNERS
from bench.exports.boards import digits_samples, measured_cortex_m as measured
from compiler.cpu_gpu_backends.cpu import calls
from compiler.cpu_gpu_backends.cpu.arrays import aligned
from compiler.cpu_gpu_backends.exports import side_by_side
from compiler.cpu_gpu_backends.llvm import MACHINES
from compiler.errors import ArgumentError
from compiler.exports import ExportError
from compiler.exports.interface import STATUSES
from compiler.exports.objects import missing_symbols
from compiler.graph import Builder, TensorType
from runtime.exporting.export import export, exported_code
from runtime.exporting.ports import random_inputs
from tests.support.exported import WARNINGS, Called, needs_c, run_test_program
from tests.support.float_graphs import FloatNet
from tests.support.integer_graphs import Net as IntegerNet

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits-int8.onnx"
STATUS = {end: number for number, (end, _) in enumerate(STATUSES)}
OWN = {"memcpy", "memmove", "memset"}


def built(net: Builder, *outputs: str):
    return lockstep.compile(net.finish(outputs), "cpu", cache=False)


def small(seed: int = 0):
    """A network with constants and a value in between."""
    net = FloatNet(4, 6)
    net.rng = np.random.default_rng(seed)
    y = net.op("mul", net.op("exp", net.op("add", "x", net.constant(6))), net.constant(6))
    for axis in (1, 0):
        y = net.op("sub", y, net.op("reduce_max", y, axes=(axis,), keepdims=1))
    return built(net, y)


@pytest.fixture(scope="module")
def digits():
    return lockstep.compile(str(DIGITS), "cpu")


def assert_same(module, called: Called, seed: int = 1) -> None:
    given = random_inputs(module.graph, seed)
    wanted, found = module(given), called(given)
    assert list(found) == list(wanted)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


@needs_c
@pytest.mark.parametrize("apart", [False, True])
def test_it_computes_what_the_module_does(tmp_path, apart: bool) -> None:
    module = small()
    assert_same(module, Called(module, tmp_path, apart=apart))


@needs_c
def test_kernels_that_several_functions_call(monkeypatch, tmp_path) -> None:
    module = small()
    monkeypatch.setattr(calls, "MOST_CALLS", 2)
    assert "@net.kernels.1" in exported_code(module, "net").text
    assert_same(module, Called(module, tmp_path))


@needs_c
@pytest.mark.parametrize("inside", [False, True])
def test_outputs_that_show_inputs_constants_and_parts(tmp_path, inside: bool) -> None:
    net = FloatNet(2, 3, 4)
    net.add_constant("c", np.arange(6, dtype=np.float32))
    flat = net.op("reshape", "x", shape=(6, 4))
    y = net.op("exp", "x")
    whole = net.op("reshape", y, shape=(24,))
    z = net.op("reduce_max", net.op("neg", "x"), axes=(2,), keepdims=1)
    other = net.op("sub", "x", z)
    part = net.op("slice", z, begin=(1, 0, 0), end=(2, 3, 1), step=(1, 1, 1))
    module = built(net, flat, "c", y, whole, other, part, "x")
    called = Called(module, tmp_path, inside=inside)
    assert called.interface.arena_bytes >= 24         # where the whole lies that a part shows
    assert_same(module, called)


@needs_c
def test_arrays_in_the_arena(tmp_path) -> None:
    """Inputs and outputs that lie there are not copied; the outputs are right, and the arena is
    smaller than with the arrays apart.
    """
    module = small()
    called, apart = Called(module, tmp_path, inside=True), exported_code(module)
    (given,), (made,) = called.interface.inputs, called.interface.outputs
    assert called.interface.arena_bytes < (apart.interface.arena_bytes + given.size_bytes
                                           + made.size_bytes)
    values = random_inputs(module.graph, 3)
    x, y = (called.arena[offset:offset + array.size_bytes].view(np.float32)
            for array in (given, made) if (offset := array.offset) is not None)
    assert called.init(None) == 0
    for _ in range(2):
        x[:] = values[given.name].reshape(-1)
        status = called.library.net_run(
            ctypes.byref(called.self), (ctypes.c_void_p * 1)(x.ctypes.data),
            (ctypes.c_void_p * 1)(y.ctypes.data), ctypes.c_void_p(called.arena.ctypes.data))
        assert status == 0
        np.testing.assert_array_equal(y.reshape(made.shape), module(values)[made.name])
    text = (tmp_path / "net.h").read_text()
    assert f"#define NET_OUTPUT_{called.interface.output_members[0].upper()}_OFFSET " in text


@needs_c
@pytest.mark.parametrize("dtype", ["float64", "float16", "int64", "int8", "uint8", "bool"])
def test_types_of_elements(tmp_path, dtype: str) -> None:
    net = Builder("net")
    net.add_input("x", TensorType((3, 5), dtype))
    if dtype == "bool":
        y = net.emit("not", "op", ("x",), "y")
    else:
        y = net.emit("add", "op", ("x", "x"), "y")
    module = built(net, y)
    assert_same(module, Called(module, tmp_path))


@needs_c
@pytest.mark.slow
def test_threads_share_a_network_where_they_are_asked_for(tmp_path) -> None:
    net = FloatNet(1 << 20)
    graph = net.finish((net.op("exp", "x"),))
    module = lockstep.compile(graph, "cpu:2", cache=False)
    called = Called(module, tmp_path, threads=2)
    assert b"GOMP_parallel" in called.made.exported.code
    assert_same(module, called)
    assert b"GOMP_parallel" not in exported_code(module).code


@needs_c
def test_an_arena_that_is_missing_or_not_aligned_is_refused(tmp_path) -> None:
    module = small()
    called, given = Called(module, tmp_path), random_inputs(module.graph, 0)
    assert called.init(None) == 0
    for arena in (None, called.arena.ctypes.data + 4):
        status, outputs = called.run(given, arena)
        assert (called.interface.arena_bytes > 0, status) == (True, STATUS["ARENA"])
        assert not any(array.any() for array in outputs.values())


@needs_c
def test_weights_that_are_missing_not_aligned_or_of_others_are_refused(tmp_path) -> None:
    apart, inside = (Called(small(), tmp_path / str(apart), apart=apart)
                     for apart in (True, False))
    other = Called(small(1), tmp_path / "other", apart=True)
    assert apart.weights is not None and other.weights is not None
    at = apart.weights.ctypes.data
    assert [apart.init(weights) for weights in (None, at + 4, other.weights.ctypes.data, at)] == [
        STATUS["WEIGHTS"], STATUS["WEIGHTS"], STATUS["OTHER_WEIGHTS"], 0]
    assert [inside.init(weights) for weights in (at, None)] == [STATUS["WEIGHTS"], 0]


@needs_c
def test_two_instances_have_weights_of_their_own_and_runs_their_arenas(tmp_path) -> None:
    module = small()
    called, given = Called(module, tmp_path, apart=True), random_inputs(module.graph, 0)
    wanted = called(given)
    assert called.weights is not None
    copy = called.weights.copy()
    called.weights[64:] = 0                 # those of the other instance
    again = Called(module, tmp_path, apart=True)
    for name, array in again(given).items():
        np.testing.assert_array_equal(array, wanted[name])
    called.weights[:] = copy


@needs_c
@pytest.mark.parametrize("kind", ["object", "static"])
def test_the_test_program_runs_and_finds_what_differs(tmp_path, kind: str) -> None:
    files = small().export(tmp_path, kind=kind, bound=0.0).files
    names = [file.name for file in files]
    code = "net.o" if kind == "object" else "libnet.a"
    assert names == ["net.h", code, "net_test.c"]
    assert run_test_program(tmp_path, "net", code).returncode == 0
    program = tmp_path / "net_test.c"
    text = program.read_text()
    at = text.index("output_0_0[24] = {") + len("output_0_0[24] = {\n    ")
    end = text.index(",", at)
    program.write_text(f"{text[:at]}{text[at:end]} + 1.0f{text[end:]}")
    done = run_test_program(tmp_path, "net", code)
    assert done.returncode == 1
    assert "1 of 24 elements differ" in done.stdout


@needs_c
def test_the_test_program_reads_weights_that_are_apart(tmp_path) -> None:
    small().export(tmp_path, apart=True)
    done = run_test_program(tmp_path, "net", "net.o")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "net: 0 of 1 samples are wrong")
    (tmp_path / "net.bin").write_bytes(bytes((tmp_path / "net.bin").stat().st_size))
    done = run_test_program(tmp_path, "net", "net.o")
    assert (done.returncode, done.stdout) == (1, f"net_init: status {STATUS['OTHER_WEIGHTS']}\n")
    (tmp_path / "net.bin").unlink()
    done = run_test_program(tmp_path, "net", "net.o")
    assert (done.returncode, done.stdout) == (1, "net.bin: cannot be read\n")


@needs_c
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="needs an x86-64 processor")
def test_an_arena_needs_no_more_than_its_alignment(tmp_path) -> None:
    module = small()
    called, given = Called(module, tmp_path, machine="x86-64"), random_inputs(module.graph, 0)
    wanted = called(given)
    assert called.interface.arena_alignment == 16
    arena = aligned((called.interface.arena_bytes + 64,), "uint8")
    for offset in (16, 32, 48):
        status, found = called.run(given, arena.ctypes.data + offset)
        assert status == 0
        for name, array in found.items():
            np.testing.assert_array_equal(array, wanted[name])


@needs_c
@pytest.mark.parametrize("command", [("gcc", "-std=c99", "-x", "c"),
                                     ("g++", "-std=c++17", "-x", "c++")])
def test_headers_have_no_warnings(tmp_path, command: tuple[str, ...]) -> None:
    small().export(tmp_path, apart=True)
    subprocess.run([*command, *WARNINGS, "-fsyntax-only", tmp_path / "net.h"], check=True)


@pytest.mark.parametrize("machine", [name for name in MACHINES if name != "wasm32"])
def test_code_calls_nothing_but_copies_of_memory(machine: str) -> None:
    """Local buffers, rounded floats and functions of float32 included."""
    net = FloatNet(4, 6)
    y = net.op("tanh", net.op("ceil", net.op("rint", "x")))
    module = built(net, net.op("mean", net.op("floor", y), axes=(1,), keepdims=1))
    code = exported_code(module, machine=machine).code
    assert {name for name in missing_symbols(code) if not name.startswith("__")} <= OWN
    arithmetic = {name for name in missing_symbols(code) if name.startswith("__")}
    assert not arithmetic or "float32" not in MACHINES[machine].floats


@pytest.mark.slow
def test_the_same_network_gives_the_same_bytes_in_another_process(tmp_path, digits) -> None:
    code = (f"import lockstep; m = lockstep.compile({str(DIGITS)!r}, 'cpu', cache=False); "
            f"m.export({str(tmp_path / 'other')!r}, 'digits', machine='aarch64', apart=True)")
    subprocess.run([sys.executable, "-c", code], check=True, env={
        **os.environ, "PYTHONHASHSEED": "7", "LOCKSTEP_CACHE": str(tmp_path / "cache"),
        "PYTHONPATH": str(DIGITS.parents[2])})
    files = digits.export(tmp_path / "one", "digits", machine="aarch64", apart=True).files
    assert len(files) == 4
    for file in files:
        assert file.read_bytes() == (tmp_path / "other" / file.name).read_bytes()


@pytest.fixture
def quantized():
    """A network whose input and output are quantized, as it is imported."""
    net = Builder("net")
    net.add_input("x", TensorType((4,), "int8"))
    for name, value in (("scale", np.float32(0.25)), ("zero", np.int8(-3))):
        net.add_constant(name, np.array(value))
    x = net.emit("dequantizelinear", "d", ("x", "scale", "zero"), "f", axis=0)
    y = net.emit("quantizelinear", "q", (net.emit("relu", "r", (x,), "g"), "scale", "zero"), "y",
                 axis=0)
    return net.finish((y,))


def test_scales_of_quantized_inputs_and_outputs_are_in_the_header(tmp_path, quantized) -> None:
    lockstep.compile(quantized, "cpu", cache=False).export(tmp_path, "net")
    lines = (tmp_path / "net.h").read_text().splitlines()
    for array in ("INPUT_X", "OUTPUT_Y"):
        assert f"#define NET_{array}_SCALE 0.25" in lines
        assert f"#define NET_{array}_ZERO_POINT -3" in lines


def test_a_module_gives_the_same_files_wherever_it_comes_from(tmp_path, monkeypatch, quantized
                                                              ) -> None:
    """Just compiled, from the cache, and from a file."""
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path / "cache"))
    fresh = lockstep.compile(quantized, "cpu")
    fresh.save(tmp_path / "net.lockstep")
    modules = [fresh, lockstep.compile(quantized, "cpu"), lockstep.load(tmp_path / "net.lockstep")]
    assert modules[1].steps[0].compiled is not fresh.steps[0].compiled      # it was read
    texts = []
    for number, module in enumerate(modules):
        files = module.export(tmp_path / str(number), "net", machine="aarch64").files
        texts.append({file.name: file.read_bytes() for file in files})
    assert texts[0] == texts[1] == texts[2]
    assert b"#define NET_OUTPUT_Y_SCALE 0.25" in texts[0]["net.h"]


def test_a_network_that_the_processor_does_not_compute_alone_is_refused(tmp_path) -> None:
    module = small()
    (step,) = module.steps
    module.steps = (step, replace(step, segment=replace(step.segment, target="accel")))
    with pytest.raises(ExportError) as refusal:
        module.export(tmp_path)
    assert str(refusal.value) == ("net must be compiled for cpu to be exported: parts of it are on "
                                  "accel")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"name": "a-b"}, ExportError, "Name of a network must be an identifier of C, not 'a-b'"),
    ({"machine": "vax"}, ArgumentError, f"machine must be one of {', '.join(MACHINES)}, not 'vax'"),
    ({"kind": "tar"}, ArgumentError,
     "kind must be object, static, shared for this computer, not 'tar'"),
    ({"kind": "shared", "machine": "cortex-m7"}, ArgumentError,
     "kind must be object, static for cortex-m7, not 'shared'"),
    ({"threads": 2, "machine": "cortex-m7"}, ArgumentError,
     "threads must be 1 for cortex-m7, which has no libgomp, not 2")])
def test_options_wrong(tmp_path, options, error, message: str) -> None:
    with pytest.raises(error) as refusal:
        export(small(), tmp_path, **options)
    assert str(refusal.value) == message
    assert not list(tmp_path.iterdir())


@pytest.mark.cross
@pytest.mark.slow
@pytest.mark.parametrize("machine", RUNNERS)
def test_code_for_other_machines_runs_in_emulation(tmp_path, digits, machine: str) -> None:
    done = emulated(tmp_path, digits, machine, *RUNNERS[machine])
    assert done.returncode == 0, done.stdout


@pytest.mark.cross
@pytest.mark.slow
def test_older_cores_refuse_what_newer_ones_have(tmp_path, digits) -> None:
    assert emulated(tmp_path, digits, "aarch64", *RUNNERS["armv8-a"]).returncode == -SIGILL


def emulated(folder: Path, module, machine: str, cc: str, runner: Sequence[str]):
    if missing := [tool for tool in (cc, runner[0]) if shutil.which(tool) is None]:
        pytest.skip(f"needs {missing[0]}")
    module.export(folder, "digits", machine=machine, bound=0.0)
    return run_test_program(folder, "digits", "digits.o", *runner, cc=cc)


@pytest.mark.cross
@pytest.mark.slow
def test_a_microcontroller_computes_all_held_out_digits_to_the_bit(tmp_path, digits) -> None:
    if missing := [tool for tool in (CC, EMULATOR) if shutil.which(tool) is None]:
        pytest.skip(f"needs {missing[0]}")
    figures = measured(tmp_path, digits, "digits", digits_samples())
    assert figures["right"] == figures["samples"] == 360
    assert figures["code"] < 12_000
    assert 96 < figures["stack"] < 400
    assert figures["inside"] < figures["ram"] < 2_000


@pytest.mark.cross
@pytest.mark.slow
@pytest.mark.parametrize("net", ["bytes", "floats"])
def test_a_microcontroller_computes_results_over_operands(tmp_path, net: str) -> None:
    """In place, over what they are computed from, and in parts of larger places."""
    if missing := [tool for tool in (CC, EMULATOR) if shutil.which(tool) is None]:
        pytest.skip(f"needs {missing[0]}")
    graph = residual_bytes() if net == "bytes" else residual_floats()
    figures = measured(tmp_path, lockstep.compile(graph, "cpu", cache=False), "net")
    assert figures["right"] == figures["samples"] > 0


@needs_c
def test_what_a_part_shows_is_kept_to_the_end(tmp_path) -> None:
    """The arena has no other place for what is computed later, unless a copy is due."""
    net = FloatNet(8, 16)
    first = net.op("relu", net.op("matmul", "x", net.constant(16, 16)))
    part = net.op("slice", first, begin=(1, 0), end=(2, 16), step=(1, 1))
    last = first
    for _ in range(4):
        last = net.op("tanh", net.op("matmul", last, net.constant(16, 16)))
    module = built(net, part, net.op("matmul", last, net.constant(16, 4)))
    assert_same(module, Called(module, tmp_path))


def test_constants_lie_side_by_side_at_their_alignment() -> None:
    arrays = {"a": np.arange(3, dtype=np.int8), "b": np.arange(2.0), "c": np.array(7, ">i4")}
    offsets, data = side_by_side(arrays, 16)
    assert offsets == {"a": 0, "b": 16, "c": 32}
    assert data == b"\0\1\2" + bytes(13) + arrays["b"].tobytes() + b"\7\0\0\0"


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("machine", "instruction"), [
    ("aarch64", "llvm.aarch64.neon.sdot"), ("x86-64-v3", "llvm.x86.avx2.pmadd.wd"),
    *(pytest.param(*one, marks=pytest.mark.slow) for one in (
        ("wasm32", "llvm.wasm.dot"), ("x86-64", "llvm.x86.sse2.pmadd.wd"),
        ("x86-64-v4", "llvm.x86.avx512.pmaddw")))])
def test_sums_of_bytes_take_the_processors_instruction(digits, machine: str, instruction: str
                                                       ) -> None:
    assert f"@{instruction}" in exported_code(digits, machine=machine).text


def test_requantization_takes_no_arithmetic_of_float64(digits) -> None:
    """Nor of float32, beside what turns inputs and outputs."""
    code = exported_code(digits, machine="cortex-m7").code
    assert set(missing_symbols(code)) <= {"__aeabi_memclr8", "__aeabi_memcpy", "__aeabi_memclr4"}
    code = exported_code(digits, machine="riscv32")
    assert not [name for name in missing_symbols(code.code) if "df" in name]
    assert "double" not in code.text
    kernels = {part.split("(")[0].split(".")[-1]: part for part in code.text.split("define ")}
    assert {name for name, text in kernels.items() if " float" in text} == {
        "quantize", "qdense_dequantize"}


def test_processors_without_vectors_are_given_none(digits) -> None:
    for machine in ("cortex-m7", "riscv32"):
        assert " x i8>" not in exported_code(digits, machine=machine).text


@pytest.mark.slow
def test_armv8_a_has_no_instruction_of_later_ones(digits) -> None:
    assert "@llvm.aarch64" not in exported_code(digits, machine="armv8-a").text


def residual_bytes():
    """A residual block, a depthwise convolution and a longer image, in int8."""
    net = IntegerNet()
    x = net.conv(net.input(1, 3, 24, 20), 8, (3, 3), (2, 2), (0, 0, 1, 1), pad_value=-3)
    y = net.conv(net.conv(x, 8, pads=(1,) * 4, pad_value=2), 8, pads=(1,) * 4, pad_value=4)
    z = net.conv(net.add(y, x), 8, pads=(1,) * 4, pad_value=1, group=8)
    return net.graph(net.dense(net.flatten(net.average(net.conv(z, 24, (1, 1)))), 5))


def residual_floats():
    """The same of floats, with operators that a kernel computes row by row."""
    net = FloatNet(1, 3, 16, 12)
    x = net.op("relu", net.conv("x", 8, stride=2))
    y = net.op("relu", net.op("add", net.conv(net.op("relu", net.conv(x, 8)), 8), x))
    z = net.op("globalavgpool", net.op("tanh", net.conv(net.conv(y, 8, group=8), 12, 1)))
    row = net.op("reshape", z, shape=(1, 12))
    e = net.op("exp", net.op("sub", row, net.op("reduce_max", row, axes=(1,), keepdims=1)))
    return net.finish([net.op("div", e, net.op("reduce_sum", e, axes=(1,), keepdims=1))])


def test_an_arena_of_a_microcontroller_holds_little_more_than_the_largest_result() -> None:
    """A residual block needs two images; all else lies over what it is computed from. The largest
    result is the last image of 24 channels.
    """
    module = lockstep.compile(residual_bytes(), "cpu", cache=False)
    image, largest = 12 * 10 * 8, 12 * 10 * 24
    found = exported_code(module, machine="cortex-m7")
    assert found.interface.arena_bytes <= largest + 2 * 64
    assert found.live_bytes == max(2 * image, largest)
    given = 24 * 20 * 3
    inside = exported_code(module, machine="cortex-m7", inside=True)
    assert inside.interface.arena_bytes < found.interface.arena_bytes + given
