"""Networks in C: the same numbers as what the programs of its groups mean, and as native code."""

import ctypes
import platform
import shutil
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lockstep
from compiler.cpu_gpu_backends.c.kernels import CError
from compiler.cpu_gpu_backends.c.network import CNetwork, network_files
from compiler.graph import Builder, Graph, TensorType
from compiler.graph.reference import evaluate_node
from compiler.ir import Alloc, Program, interpret
from lockstep.testing import zoo
from tests.support.c_text import STRICT, build_c, call_network, compile_c, needs_c
from tests.support.float_graphs import assert_near, inputs_of, random_graph

pytestmark = needs_c

DIGITS = Path(__file__).parents[4] / "examples" / "digits"
CXX = ("g++", "-std=c++17", "-x", "c++", "-Wall", "-Wextra", "-Werror", "-pedantic")
CROSS, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"

Arrays = Mapping[str, np.ndarray]


def meant(graph: Graph, given: Arrays) -> dict[str, np.ndarray]:
    """What the programs of the groups mean, by the interpreter."""
    net = CNetwork(graph, "net", "net.h", False)
    values = {**net.graph.constants, **given}
    for step in net.steps:
        inputs = [values[value] for value in step.group.inputs]
        if step.program is None:
            values[step.group.output] = evaluate_node(step.group.nodes[0], inputs)
            continue
        of = {buffer.name: np.asarray(array).reshape(buffer.shape)
              for buffer, array in zip(step.program.inputs, inputs, strict=True)}
        result = interpret(whole(step.program), of)[step.program.outputs[0].name]
        values[step.group.output] = result.reshape(net.graph.values[step.group.output].shape)
    return {name: values[name] for name in graph.outputs}


def whole(program: Program) -> Program:
    """The program with the workspaces that it is given."""
    result, *workspaces = program.outputs
    body = program.body
    for buffer in workspaces:
        body = Alloc(buffer, body)
    return replace(program, outputs=(result,), body=body)


def found(graph: Graph, given: Arrays, folder: Path, *flags: str, apart: bool = False,
          command=("gcc", *STRICT)) -> dict[str, np.ndarray]:
    files = network_files(graph, "net", apart=apart)
    return call_network(compile_c(files.alone, folder, *flags, command=command), files, graph,
                        given)


def assert_equal(found: Arrays, wanted: Arrays) -> None:
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array, name)


@pytest.mark.parametrize("model", ["digits-int8",
                                   pytest.param("digits-float", marks=pytest.mark.slow)])
def test_digits(model: str, tmp_path: Path) -> None:
    """On held-out images, the network of integers to the bit what native code gives."""
    module = lockstep.compile(DIGITS / f"{model}.onnx", "cpu")
    files = network_files(module.graph, "net")
    library = compile_c(files.alone, tmp_path, "-O1")
    images = np.load(DIGITS / "held_out.npz")
    images = images[images.files[0]].astype(np.float32).reshape(-1, 1, 1, 8, 8)[:20]
    for image in images:
        logits = call_network(library, files, module.graph, {"image": image})["logits"]
        wanted = module({"image": image})["logits"]
        if model == "digits-int8":
            np.testing.assert_array_equal(logits, wanted)
        else:
            np.testing.assert_allclose(logits, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", [
    seed if seed in (3, 8) else pytest.param(seed, marks=pytest.mark.slow) for seed in range(24)])
def test_random_networks(seed: int, tmp_path: Path) -> None:
    """Branches, views, several outputs; constants inside, and apart."""
    graph = random_graph(seed)
    given = inputs_of(graph, seed)
    assert_equal(found(graph, given, tmp_path, "-O1", apart=bool(seed % 2)), meant(graph, given))


def test_outputs_that_no_kernel_writes(tmp_path: Path) -> None:
    """An input, a constant, two views of one result, a part of one, and a view of an input."""
    net = Builder("net")
    net.add_input("x", TensorType((2, 6), "float32"))
    net.add_constant("k", np.arange(3, dtype=np.int64))
    net.emit("relu", "r", ["x"], "r")
    for name, of, shape in (("flat", "r", (12,)), ("tall", "r", (4, 3)), ("seen", "x", (3, 4))):
        net.emit("reshape", name, [of], name, shape=shape)
    net.emit("slice", "part", ["r"], "part", begin=(1, 0), end=(2, 6), step=(1, 1))
    net.emit("add", "sum", ["r", "r"], "sum")
    graph = net.finish(["x", "k", "tall", "flat", "part", "seen", "sum"])
    given = {"x": np.arange(-6, 6, dtype=np.float32).reshape(2, 6)}
    assert_equal(found(graph, given, tmp_path, apart=True), meant(graph, given))


def evil(name: str) -> Graph:
    net = Builder(f"net {name}")
    net.add_input(name, TensorType((3,), "float32"))
    net.add_constant(f"{name}.k", np.ones(3, np.float32))
    net.emit("add", f"{name}.node", [name, f"{name}.k"], f"{name}.y")
    return net.finish([f"{name}.y"])


@pytest.mark.parametrize("name", [
    "*/ int main(void) { return 1; } /*", "memcpy", "inputs", "??/\n", "é\\", "1", "NET_DONE"])
def test_names_of_networks_are_no_text(name: str, tmp_path: Path) -> None:
    graph = evil(name)
    ones = np.ones(3, np.float32)
    assert_equal(found(graph, {name: ones}, tmp_path), {f"{name}.y": ones + 1})


@pytest.mark.parametrize("name", ["int", "1net", "a-b", "memcpy", ""])
def test_name_wrong(name: str) -> None:
    with pytest.raises(CError, match=f"^Name of a network in C must be an identifier that nothing "
                                     f"else has, not '{name}'$"):
        network_files(evil("x"), name)


def test_misaligned_memory_is_refused(tmp_path: Path) -> None:
    graph = random_graph(3)
    files = network_files(graph, "net", apart=True)
    library = compile_c(files.alone, tmp_path)
    assert library.net_init(bytes(8), None) == 4
    other = np.zeros(4096, np.uint8)
    begin = other.ctypes.data + -other.ctypes.data % 64
    assert library.net_init(bytes(8), ctypes.c_void_p(begin)) == 5
    assert library.net_init(bytes(8), ctypes.c_void_p(begin + 1)) == 4
    assert library.net_run(bytes(8), bytes(64), bytes(64), None) == 3


def test_the_same_network_has_the_same_text() -> None:
    assert network_files(random_graph(5), "net") == network_files(random_graph(5), "net")


def test_equal_groups_share_a_function(tmp_path: Path) -> None:
    net = Builder("net")
    net.add_input("x", TensorType((2, 8), "float32"))
    value = "x"
    for place in range(3):
        net.add_constant(f"k{place}", np.full((8, 8), place + 1, np.float32))
        value = net.emit("matmul", f"product{place}", [value, f"k{place}"], f"y{place}")
    graph = net.finish([value])
    text = network_files(graph, "net").source
    assert text.count("static void k") == 1 and text.count("k0_product0(") == 4
    given = {"x": np.ones((2, 8), np.float32)}
    assert_equal(found(graph, given, tmp_path), meant(graph, given))


@pytest.mark.slow
def test_several_threads_have_an_arena_each(tmp_path: Path) -> None:
    graph = random_graph(4)
    files = network_files(graph, "net")
    library = compile_c(files.alone, tmp_path)
    samples = [inputs_of(graph, seed) for seed in range(16)]
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda given: call_network(library, files, graph, given), samples))
    for given, outputs in zip(samples, made):
        assert_equal(outputs, meant(graph, given))


@pytest.mark.slow
@pytest.mark.parametrize("flags", ["-O3 -march=native", "-O2 -std=gnu99", "-O0"])
@pytest.mark.parametrize("seed", range(3))
def test_every_way_to_compile_gives_the_same_bits(flags: str, seed: int, tmp_path: Path) -> None:
    """Also where the processor has an instruction for a product and a sum, which compilers take
    unless they are told not to.
    """
    graph = random_graph(seed)
    given = inputs_of(graph, seed)
    assert_equal(found(graph, given, tmp_path, *flags.split()), meant(graph, given))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler (g++)")
def test_it_is_cpp_too(tmp_path: Path) -> None:
    graph = random_graph(6)
    given = inputs_of(graph)
    assert_equal(found(graph, given, tmp_path, "-O2", command=CXX), meant(graph, given))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs a compiler for x86-64")
def test_a_processor_with_halves_is_no_reason_to_refuse(tmp_path: Path) -> None:
    """FLT_EVAL_METHOD is 16 there, unless the standard is that of ISO; 2 is still refused."""
    text = network_files(evil("x"), "net").alone
    build_c(text, tmp_path, command=("gcc", "-std=gnu11", "-mavx512fp16"))
    with pytest.raises(AssertionError, match="floats must be computed as IEEE 754 says"):
        build_c(text, tmp_path, command=("gcc", "-std=gnu11", "-mfpmath=387"))


MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "net.h"
int main(void) {
  struct net net;
  static float image[NET_INPUT_IMAGE_ELEMENTS], logits[NET_OUTPUT_LOGITS_ELEMENTS];
  net_inputs inputs = {image};
  net_outputs outputs = {logits};
  void *arena = aligned_alloc(64, (NET_ARENA_BYTES + 63) / 64 * 64);
  if (net_init(&net, NULL) != 0) return 2;
  while (fread(image, sizeof image, 1, stdin) == 1) {
    if (net_run(&net, &inputs, &outputs, arena) != 0) return 3;
    fwrite(logits, sizeof logits, 1, stdout);
  }
  free(arena);
  return 0;
}
"""


def program(folder: Path, files, command: list[str]) -> None:
    (folder / "net.c").write_text(files.source)
    (folder / "net.h").write_text(files.header)
    (folder / "main.c").write_text(MAIN)
    subprocess.run([*command, "net.c", "main.c", "-o", "main", "-lm"], cwd=folder, check=True)


def said(command: list[str], images: np.ndarray) -> np.ndarray:
    done = subprocess.run(command, input=images.tobytes(), capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.float32).reshape(len(images), -1)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["digits-int8", "digits-float"])
def test_no_access_outside_of_arrays_and_nothing_undefined(model: str, tmp_path: Path) -> None:
    module = lockstep.compile(DIGITS / f"{model}.onnx", "cpu")
    files = network_files(module.graph, "net")
    program(tmp_path, files, ["gcc", "-std=c11", *STRICT[1:], "-g", "-O1",
                              "-fsanitize=undefined,address", "-fno-sanitize-recover"])
    images = np.random.default_rng(0).random((9, 1, 1, 8, 8)).astype(np.float32)
    logits = said([str(tmp_path / "main")], images)
    assert_equal({"logits": logits[:1]}, meant(module.graph, {"image": images[0]}))


@pytest.mark.slow
@pytest.mark.cross
@pytest.mark.skipif(shutil.which(CROSS) is None or shutil.which(EMULATOR) is None,
                    reason=f"needs {CROSS} and {EMULATOR}")
def test_another_processor_gives_the_same_bits(tmp_path: Path) -> None:
    """AArch64 has an instruction for a product and a sum, which its compiler takes by itself."""
    module = lockstep.compile(DIGITS / "digits-float.onnx", "cpu")
    program(tmp_path, network_files(module.graph, "net"), [
        CROSS, "-static", "-std=gnu11", *STRICT[1:], "-O2"])
    images = np.random.default_rng(0).random((5, 1, 1, 8, 8)).astype(np.float32)
    logits = said([EMULATOR, str(tmp_path / "main")], images)
    assert_equal({"logits": logits[:1]}, meant(module.graph, {"image": images[0]}))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size", "int8"), [
    ("keywords", None, False), ("keywords", None, True), ("mobilenet_v2", 64, True),
    ("vit_small", 32, False), ("lstm", 32, False)])
def test_networks_of_the_zoo(name: str, size: int | None, int8: bool, tmp_path: Path) -> None:
    """Integers to the bit what native code gives, floats but for the order of sums."""
    model = tmp_path / "model.onnx"
    model.write_bytes(zoo.build(name, size, int8=int8).SerializeToString())
    module = lockstep.compile(model, "cpu")
    given = inputs_of(module.graph, 1)
    for output, wanted in module(given).items():
        made = found(module.graph, given, tmp_path, "-O2")[output]
        if int8:
            np.testing.assert_array_equal(made, wanted)
        else:
            assert_near(made, wanted)
