"""Loops of kernels in C: written out, chosen outside, of which compilers make vectors."""

import re
from pathlib import Path

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.c.helpers import BEGIN, helper_texts
from compiler.cpu_gpu_backends.c.kernels import function, kernels_text
from compiler.cpu_gpu_backends.c.network import CNetwork, network_files
from compiler.cpu_gpu_backends.c.schedule import scheduled
from compiler.graph import Builder, Graph, TensorType
from compiler.graph.reference import evaluate_node
from compiler.ir import Program, interpret, lower, verify
from compiler.ops.integers.arithmetic import requantize
from tests.compiler.cpu_gpu_backends.c.test_network import assert_equal, found, meant
from tests.support.c_text import call, compile_c, needs_c

pytestmark = needs_c

RNG = np.random.default_rng(7)


def convolution(inputs: int, outputs: int, size: int, kernel: int = 3, stride: int = 1,
                group: int = 1, *, shifts: tuple[int, int] = (20, 30)) -> Graph:
    """A convolution of int8 with pads around, requantized for each channel."""
    net = Builder("net")
    net.add_input("x", TensorType((1, inputs, size, size), "int8"))
    for name, array in {
            "w": RNG.integers(-128, 128, (outputs, inputs // group, kernel, kernel), np.int8),
            "bias": RNG.integers(-9999, 9999, outputs, np.int32),
            "mult": RNG.integers(1 << 15, 1 << 16, outputs, np.int32),
            "shift": RNG.integers(shifts[0], shifts[1], outputs, np.int32)}.items():
        net.add_constant(name, array)
    pad = kernel // 2
    net.emit("qconv2d", "conv", ["x", "w", "bias", "mult", "shift"], "y", strides=(stride, stride),
             pads=(pad,) * 4, group=group, pad_value=-5, zp=3, lo=-100, hi=127)
    return net.finish(["y"])


def given(graph: Graph) -> dict[str, np.ndarray]:
    return {name: RNG.integers(-128, 128, graph.values[name].shape, np.int8)
            for name in graph.inputs}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape", [
    (3, 10, 5, 3, 2), (4, 6, 7, 1), (33, 33, 2), (16, 16, 5, 3, 1, 16), (8, 8, 4, 3, 1, 2),
    (3, 3, 7), (3, 2, 4), (8, 64, 3), *(pytest.param(shape, marks=pytest.mark.slow) for shape in (
        (8, 16, 4), (1, 7, 3), (20, 1, 1, 1), (5, 5, 4, 3, 2, 5)))])
def test_convolutions_of_int8(shape: tuple[int, ...], tmp_path: Path) -> None:
    """Any numbers of pixels and channels give what the programs mean, and what NumPy gives."""
    graph = convolution(*shape)
    x = given(graph)
    made = found(graph, x, tmp_path, "-O3", "-march=native")
    assert_equal(made, meant(graph, x))
    wanted = evaluate_node(graph.nodes[0], [x["x"], *(graph.constants[name] for name in (
        "w", "bias", "mult", "shift"))])
    assert_equal(made, {"y": wanted})


def test_a_convolution_is_products_of_rows() -> None:
    """Golden text of its inner loops: eight products of six numbers, no condition inside."""
    text = network_files(convolution(4, 16, 3, 4), "net").source
    kernel = text[text.index("/* qconv2d_last conv"):text.index("int32_t net_init")]
    assert """\
    int32_t y_acc[4][16];
    for (int y_acc_c_o = 0; y_acc_c_o < 8; ++y_acc_c_o) {
      int32_t y_acc_tile[4][2] = {0};
      for (int y_kh_all = 0; y_kh_all < 64; ++y_kh_all) {
        y_acc_tile[0][0] += y_pixels[0][y_kh_all] * x1[y_acc_c_o * 2 * 64 + y_kh_all];
        y_acc_tile[0][1] += y_pixels[0][y_kh_all] * x1[(y_acc_c_o * 2 + 1) * 64 + y_kh_all];
        y_acc_tile[1][0] += y_pixels[1][y_kh_all] * x1[y_acc_c_o * 2 * 64 + y_kh_all];
""" in kernel
    assert kernel.count("} else {") == 1 and "?" not in kernel and "int64" not in kernel
    assert "scaled_small(y_acc[y_row_i][y_c_i] +" in kernel
    assert "x4[y_c_i]) + 3, -100, 127)" in kernel


def test_rows_are_as_long_as_vectors() -> None:
    """72 terms become 80, with zeros around them; the last of 16 channels begin 8 terms ahead."""
    kernel = network_files(convolution(8, 16, 4), "net").source
    assert "int16_t y_pixels[4][88] = {0};" in kernel
    assert "y_pixels_kh * 24 + y_pixels_kw * 8 + y_pixels_c + 8] =\n" in kernel
    assert """\
      for (int y_kh_all = 0; y_kh_all < 80; ++y_kh_all) {
        y_acc_tile[0][0] += y_pixels[0][y_kh_all - y_acc_c_o / 7 * 8 + 8] * x1[y_acc_c_o * 144 +
            y_kh_all - y_acc_c_o / 7 * 8];
        y_acc_tile[0][1] += y_pixels[0][y_kh_all - y_acc_c_o / 7 * 8 + 8] * x1[y_acc_c_o * 144 +
            y_kh_all - y_acc_c_o / 7 * 8 + 72];
""" in kernel


@pytest.mark.parametrize(("shape", "terms"), [
    ((4, 16, 4), 36), ((1, 16, 4), 9), ((3, 2, 4), 27), ((40, 16, 4, 1), 48), ((3, 16, 4), 32)])
def test_rows_stay_where_many_terms_are_missing(shape: tuple[int, ...], terms: int) -> None:
    """Or where a tile has all channels: no row of weights lies before."""
    text = network_files(convolution(*shape), "net").source
    assert re.findall(r"\+\+\w+\) \{\n *y_acc_tile", text) and f"< {terms}; ++y" in text.split(
        "y_acc_tile[0][0] +=")[0].splitlines()[-2]


def test_channels_by_themselves_lie_side_by_side() -> None:
    """64 channels are four vectors of AVX-512."""
    text = network_files(convolution(64, 64, 3, 3, 1, 64), "net").source
    assert "int32_t y_acc[64] = {0};" in text and "y_acc_c < 64; ++y_acc_c" in text


def test_shifts_of_a_few_bits_are_done_in_64() -> None:
    """`scaled` shifts by 17 at least."""
    text = network_files(convolution(8, 16, 4, shifts=(16, 17)), "net").source
    assert "scaled" not in text and "rshift_rne(" in text


@pytest.mark.parametrize(("shifts", "most", "function_name"), [
    ((17, 47), 2**31, "scaled"), ((17, 47), 2**30, "scaled_small"), ((12, 17), 2**31, "rshift_rne"),
    ((17, 47), 3 * 2**29 + 24577, "scaled_small"), ((17, 47), 3 * 2**29 + 24578, "scaled")])
def test_every_shift_rounds_to_even(shifts: tuple[int, int], most: int, function_name: str,
                                    tmp_path: Path) -> None:
    """Also of the largest numbers and of ties, by the functions for 32 bits and by the other one.
    """
    count = 4096
    x, bias, mult, shift = (te.placeholder((count,), "int32", name)
                            for name in ("x", "bias", "mult", "shift"))
    y = te.compute((count,), lambda i: requantize(x[i], bias[i], mult[i], shift[i], 0, -2**15,
                                                  2**15 - 1).astype("int32"), "y")
    program = lower([y], "f")
    wide = RNG.integers(-2**30, 2**30, count, np.int32) >> RNG.integers(0, 31, count)
    arrays = {"x": wide.astype(np.int32), "bias": np.zeros(count, np.int32),
              "mult": np.where(np.arange(count) % 3 == 0, 1 << 15,
                               RNG.integers(0, 1 << 16, count)).astype(np.int32),
              "shift": RNG.integers(*shifts, count).astype(np.int32)}
    arrays["x"][:4], arrays["mult"][:2] = (most - 1, -most, 2**15, -2**15), 2**16 - 1
    arrays["shift"][:2] = shifts[1] - 1
    ends = {name: (int(array.min()), int(array.max())) for name, array in arrays.items()}
    made = function(program, "f", words="", given=ends)
    assert function_name in made.used
    text = "\n".join([BEGIN, *helper_texts(made.used), made.text])
    library = compile_c(text, tmp_path, "-O2", "-fsanitize=undefined",
                        "-fsanitize-undefined-trap-on-error", command=("gcc", "-std=c99"))
    found = call(library, "f", program, arrays)["y"]
    np.testing.assert_array_equal(found, interpret(program, arrays)["y"])


def choices(inside) -> Program:
    x = te.placeholder((6, 40), "float32", "x")
    return lower([te.compute((8, 40), lambda h, c: te.select(inside(h, c), x[h - 1, c], 2.0), "y")],
                 "f")


def test_choices_stand_outside_of_loops(tmp_path: Path) -> None:
    program = choices(lambda h, c: te.all_of(h >= 1, h < 7))
    text = kernels_text({"f": program})
    assert text[text.index(") {\n  for"):] == """\
) {
  for (int y_h = 0; y_h < 8; ++y_h) {
    if (y_h >= 1 && y_h < 7) {
      ONE_BY_ONE;
      for (int y_c = 0; y_c < 40; ++y_c) y[y_h * 40 + y_c] = x[(y_h - 1) * 40 + y_c];
    } else {
      for (int y_c = 0; y_c < 40; ++y_c) y[y_h * 40 + y_c] = 2.0f;
    }
  }
}
"""
    check(program, text, tmp_path)


def test_a_choice_that_depends_on_the_loop_stays(tmp_path: Path) -> None:
    """What does not depend on it goes outside alone."""
    program = choices(lambda h, c: te.all_of(h >= 1, h < 7, c < 30))
    text = kernels_text({"f": program})
    assert "y[y_h * 40 + y_c] = y_c < 30 ? x[(y_h - 1) * 40 + y_c] : 2.0f;" in text
    assert "} else {" in text
    check(program, text, tmp_path)
    inside = choices(lambda h, c: te.any_of(h < 1, c < 30).equal(False))
    assert "} else {" not in kernels_text({"f": inside})


def test_many_choices_stay() -> None:
    parts = [te.placeholder((2, 40), "float32", f"x{place}") for place in range(4)]

    def part(h, c, place: int = 0):
        read = parts[place][h - 2 * place, c]
        return read if place == 3 else te.select(h < 2 * place + 2, read, part(h, c, place + 1))

    y = te.compute((8, 40), lambda h, c: part(h, c), "y")
    text = kernels_text({"f": lower([y], "f")})
    assert "} else {" not in text and text.split("void f")[-1].count(" ? ") == 3


def check(program: Program, text: str, folder: Path) -> None:
    arrays = {"x": RNG.normal(size=(6, 40)).astype(np.float32)}
    made = call(compile_c(text, folder, "-O3", "-march=native"), "f", program, arrays)
    assert (made["y"] == interpret(program, arrays)["y"]).all()


def test_rows_of_int8_without_a_window(tmp_path: Path) -> None:
    """Five rows: a tile of five, and of six channels two at a time."""
    x, w = te.placeholder((5, 24), "int8", "x"), te.placeholder((6, 24), "int8", "w")
    k = te.reduce_axis(24, "k")
    y = te.compute((5, 6), lambda i, j: te.sum(
        x[i, k].astype("int32") * w[j, k].astype("int32"), k), "y")
    program = scheduled(lower([y], "f"))
    text = kernels_text({"f": program})
    assert "y_sum_tile[4][1] += x_rows[4][k] * w[" in text
    arrays = {name: RNG.integers(-128, 128, shape, np.int8)
              for name, shape in (("x", (5, 24)), ("w", (6, 24)))}
    made = call(compile_c(text, tmp_path, "-O3"), "f", program, arrays)["y"]
    np.testing.assert_array_equal(made, arrays["x"].astype(np.int32) @ arrays["w"].T.astype(
        np.int32))


@pytest.mark.parametrize("both", [False, True])
def test_a_row_of_weights_is_read_beyond_its_end(both: bool, tmp_path: Path) -> None:
    """Also where the weights are the rows, too; nothing is read beyond the last."""
    x, w = (te.placeholder((6, 40), "int8", name) for name in "xw")
    k = te.reduce_axis(40, "k")
    rows = te.compute((6, 40), lambda i, j: (w if both else x)[5 - i, j], "rows")
    y = te.compute((6, 6), lambda i, j: te.sum(
        rows[i, k].astype("int32") * w[j, k].astype("int32"), k), "y")
    program = scheduled(lower([y], "f"))
    arrays = {name: RNG.integers(-128, 128, (6, 40), np.int8) for name in "xw"}
    given = {buffer.name: arrays[buffer.name].reshape(buffer.shape) for buffer in program.inputs}
    text = kernels_text({"f": program})
    assert "k < 48; ++k" in text
    verify(program)
    wanted = arrays["w" if both else "x"][::-1].astype(np.int32) @ arrays["w"].T.astype(np.int32)
    made = call(compile_c(text, tmp_path, "-O3", "-march=native"), "f", program, given)["y"]
    np.testing.assert_array_equal(made, wanted)
    np.testing.assert_array_equal(interpret(program, given)["y"], wanted)


def test_rows_of_weights_that_are_computed_stay(tmp_path: Path) -> None:
    x, w = (te.placeholder((6, 40), "int8", name) for name in "xw")
    turned = te.compute((6, 40), lambda i, j: w[5 - i, j], "turned")
    k = te.reduce_axis(40, "k")
    y = te.compute((6, 6), lambda i, j: te.sum(
        x[i, k].astype("int32") * turned[j, k].astype("int32"), k), "y")
    program = scheduled(lower([y], "f"))
    arrays = {name: RNG.integers(-128, 128, (6, 40), np.int8) for name in "xw"}
    made = call(compile_c(kernels_text({"f": program}), tmp_path), "f", program, arrays)["y"]
    np.testing.assert_array_equal(made, arrays["x"].astype(np.int32) @ arrays["w"][::-1].astype(
        np.int32).T)


def test_rows_of_which_some_terms_count_stay(tmp_path: Path) -> None:
    x, w = (te.placeholder((6, 40), "int8", name) for name in "xw")
    k = te.reduce_axis(40, "k")
    y = te.compute((6, 6), lambda i, j: te.sum(te.select(k.var < 37, x[i, k], 3).astype("int32")
                                               * w[j, k].astype("int32"), k), "y")
    program = scheduled(lower([y], "f"))
    arrays = {name: RNG.integers(-128, 128, (6, 40), np.int8) for name in "xw"}
    text = kernels_text({"f": program})
    made = call(compile_c(text, tmp_path, "-O3"), "f", program, arrays)["y"]
    rows = np.where(np.arange(40) < 37, arrays["x"], 3).astype(np.int32)
    np.testing.assert_array_equal(made, rows @ arrays["w"].T.astype(np.int32))


def test_floats_lie_in_blocks_of_channels() -> None:
    """A tile of pixels is written out in the loop over 16 channels."""
    net = Builder("net")
    net.add_input("x", TensorType((1, 16, 4, 4), "float32"))
    net.add_constant("w", RNG.normal(size=(16, 16, 3, 3)).astype(np.float32))
    net.emit("conv2d", "conv", ["x", "w"], "y", strides=(1, 1), pads=(1, 1, 1, 1))
    net = CNetwork(net.finish(["y"]), "net", "net.h", False)
    assert [step.group.nodes[-1].op for step in net.steps if step.function][1] == "conv2d_blocks"
    lanes = net.files.source.split("for (int y_sum_c = 0; y_sum_c < 16; ++y_sum_c) {")[1]
    assert re.findall(r"y_sum\[(\d)\]\[y_sum_c\] \+= y_padded", lanes.split("}")[0]) == [*"0123"]
