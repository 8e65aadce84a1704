"""`lockstep compile --emit`: kernels as text, and what the host does with them."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lockstep
from compiler.errors import ArgumentError
from lockstep.cli import main, make_parser
from runtime.devices.device import DeviceMissing
from runtime.driver.emitted import KINDS, NETWORKS, emitted
from tests.support.integer_graphs import Net

INT8 = Path(__file__).parents[3] / "examples" / "digits" / "digits-int8.onnx"
TARGETS = {"cuda": "cuda:emulated", "ptx": "cuda:emulated", "opencl": "opencl", "metal": "metal",
           "llvm": "cpu", "asm": "cpu"}
KERNELS = {"cuda": r"__global__", "ptx": r"\.visible \.entry", "opencl": r"__kernel",
           "metal": r"kernel void",
           "llvm": r"define i32 @", "asm": r"\.globl"}


@pytest.fixture(scope="module")
def module():
    return {target: lockstep.compile(INT8, target, cache=False)
            for target in ("cuda:emulated", "opencl", "metal", "cpu")}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", TARGETS)
def test_kernels_buffers_and_launches(kind: str, module) -> None:
    """Every value that a call names is a buffer; those of one block that a kernel of a GPU uses do
    not overlap.
    """
    text = emitted(module[TARGETS[kind]], kind)
    begin = re.escape(KINDS[kind])
    assert text.startswith(f"{KINDS[kind]} Segment 0 on ") and len(re.findall(KERNELS[kind], text))
    buffers = {match[1]: match for match in re.finditer(
        rf"^{begin}   (\S+): \w+\[[\d,]*\], ([\d,]+) bytes, (.*)$", text, re.MULTILINE)}
    assert buffers["image"][3] == "input" and buffers["logits"][3] == "output"
    calls = re.findall(rf"^{begin}   \w+(?: grid \(.*\) block \(.*\))?: (.*)$", text, re.MULTILINE)
    calls = [call.split(", ") for call in calls if not re.match(r"\w+\[", call)]
    assert len(calls) >= 9
    for names in calls:
        lying = [range(first := int(buffers[name][3][3:].replace(",", "")),
                       first + int(buffers[name][2].replace(",", "")))
                 for name in names if buffers[name][3].startswith("at ")]
        assert kind in ("llvm", "asm") or all(
            not set(one) & set(other) for place, one in enumerate(lying)
            for other in lying[:place])


def test_every_kind_is_tried_and_offered() -> None:
    assert {*TARGETS, "loops", "program", "timeloop"} == KINDS.keys()
    offered = make_parser().parse_args
    for kind in (*KINDS, *NETWORKS):
        assert offered(["compile", str(INT8), "--emit", kind]).emit == kind


def test_words_of_an_accelerator_have_their_assembly_and_origin() -> None:
    """Between comments stand all words of the program; loops name the words that perform them."""
    net = Net(3)
    graph = net.graph(net.conv(net.input(1, 4, 2, 2), 4, (1, 1)))
    module = lockstep.compile(graph, "accel:tiny-1x4x4", cache=False)
    (program,) = (segment.program for segment in module.accelerated)
    text = emitted(module, "program")
    heading = text.splitlines()[:3]
    assert heading == ["# Segment 0 on accel", "#",
                       f"# {program.count} words of 64 bytes for machine {program.machine}"]
    numbers = list(map(int, re.findall(r"^ {4,}(\d+) [a-z]", text, re.MULTILINE)))
    assert numbers == list(range(program.count))
    loops = emitted(module, "loops")
    performed = re.findall(r"(\w+)(?: begin\(.*\))?  # words? ([\d., ]+)$", loops, re.MULTILINE)
    assert [name for name, _ in performed] == ["load", "load", "gemm", "load", "requantize",
                                               "store"]
    named = [number for _, runs in performed for run in runs.split(", ")
             for number in range(int(run.split("..")[0]), int(run.split("..")[-1]) + 1)]
    assert sorted(named) == list(range(program.count - 1))


def test_launches_are_those_of_the_device(module) -> None:
    """In order, with the grids that are launched."""
    text, segment = emitted(module["opencl"], "opencl"), module["opencl"].steps[0].compiled
    wanted = [f"{launch.kernel} grid {launch.grid} block {launch.block}"
              for step in segment.steps if step.code for launch in step.code.launches]
    assert re.findall(r"(\w+ grid \(.*?\) block \(.*?\)):", text) == wanted


def test_the_command_prints_it_or_writes_it(tmp_path, capsys) -> None:
    options = ["compile", str(INT8), "--target", "opencl", "--emit", "opencl"]
    assert main(options) == 0
    out = capsys.readouterr().out
    assert main([*options, "-o", str(tmp_path / "net.cl")]) == 0
    assert (tmp_path / "net.cl").read_text() == out and not capsys.readouterr().out
    assert out.startswith("// Segment 0 on opencl\n")


def test_a_network_in_c_is_a_file_and_its_header(tmp_path, capsys) -> None:
    """Without ``--target``, it is the processor's."""
    path = tmp_path / "net-1.c"
    assert main(["compile", str(INT8), "--emit", "c", "-o", str(path), "--weights", "apart"]) == 0
    assert path.read_text().count('#include "net-1.h"') == 1
    header, weights = path.with_suffix(".h").read_text(), path.with_suffix(".bin").read_bytes()
    assert "int32_t net_1_init(struct net_1 *self, const void *weights);" in header
    assert f"#define NET_1_WEIGHTS_BYTES {len(weights)}\n" in header
    assert f'"{weights[:32].hex()}"' in header
    assert main(["compile", str(INT8), "--emit", "c"]) == 0
    alone = capsys.readouterr().out
    assert '#include "' not in alone and "digits_int8_run(" in alone and "const_conv1" in alone


def test_what_is_text_alone(module) -> None:
    with pytest.raises(DeviceMissing, match="^Kernels in Metal must be compiled and run by a "
                                            "program of yours: --emit metal writes them$"):
        module["metal"]({"image": np.zeros((1, 1, 8, 8), np.float32)})


def test_ptx_of_an_architecture() -> None:
    net = Net(3)
    graph = net.graph(net.dense(net.input(4, 8), 8))
    module = lockstep.compile(graph, "cuda:emulated", cache=False)
    assert ".target sm_90\n" in emitted(module, "ptx", "sm_90")


@pytest.mark.parametrize(("options", "message"), [
    (["--target", "cpu", "--emit", "cuda"], "emit cuda must come with a target whose segments have "
     "such text; those of this network are on host"),
    (["--target", "cpu", "--emit", "program"], "emit program must come with a target whose "
     "segments have such text; those of this network are on host"),
    (["--target", "opencl", "--emit", "c"], "emit c must come with target cpu, which computes the "
     "whole network; segments of this one are on opencl"),
    (["--emit", "c", "-o", "net.txt"], "-o FILE must end in .c with --emit c, which writes a "
     "header of the same name beside it, not 'net.txt'"),
    (["--emit", "c", "--weights", "apart"], "--weights apart must come with -o FILE.c, beside "
     "which they lie"),
    (["--weights", "apart", "-o", "net.lockstep"], "--weights must come with --emit c"),
    (["--target", "cpu"], "-o FILE must be given, or --emit, which writes to standard output")])
def test_wrong_requests(options: list[str], message: str, capsys) -> None:
    assert main(["compile", str(INT8), *options]) == 2
    assert " ".join(capsys.readouterr().err.split()) == f"lockstep: error: {message}"


@pytest.mark.slow
def test_bytes_on_the_device_are_those_that_are_allocated(module) -> None:
    """What the emulation has allocated after a call, without what rounds up its addresses."""
    one = module["cuda:emulated"]
    one({"image": np.zeros((1, 1, 8, 8), np.float32)})
    memory = one.steps[0].execute.device._memory.values()
    assert one.device_bytes == {"cuda:emulated": sum(room.size - 256 for room in memory)}
    assert module["cpu"].device_bytes == {}


def test_a_part_of_ones_own_is_emitted() -> None:
    """Whatever can be read is; what has no text of the kind, or none at all, is passed over."""
    class Own:
        def emitted(self, kind: str, comment: str, arch: str) -> str | None:
            return f"{comment} code for {arch}\n" if kind == "ptx" else None

        def listing(self):
            yield from ("Buffers: none", "Results: y")

    steps = [SimpleNamespace(compiled=compiled, segment=SimpleNamespace(target="own"))
             for compiled in (object(), Own())]
    module: Any = SimpleNamespace(steps=steps, partition=SimpleNamespace(
        segments=[step.segment for step in steps]))
    assert emitted(module, "ptx", "sm_90") == (
        "// Segment 1 on own\n//\n// Buffers: none\n// Results: y\n\n// code for sm_90\n")
    with pytest.raises(ArgumentError, match="^emit llvm must come with a target whose segments "
                                            "have such text; those of this network are on own$"):
        emitted(module, "llvm")
