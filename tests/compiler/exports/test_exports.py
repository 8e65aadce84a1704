"""Headers and test programs of C from one description, and what object files hold."""

import shutil
import subprocess
from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.llvm import MACHINES, compile_object
from compiler.exports import CArray, CInterface, ExportError, Sample, check_program, header
from compiler.exports.names import identifier_from
from compiler.exports.objects import missing_symbols, section_bytes
from compiler.ir import Program, lower
from tests.support.exported import WARNINGS, needs_c

INTERFACE = CInterface(
    "net", "ab12", (CArray("x.1", "int8", (1, 4), 0.5, 3), CArray("X_1", "bfloat16", ())),
    (CArray("y", "float16", (2,)), CArray("z", "int64", (2,)), CArray("w", "float32", (4,)),
     CArray("none", "uint8", (0,))), 128, title="a /* b **// c", notes=("Calls memcpy.",))
SAMPLE = Sample(
    {"x.1": np.arange(4, dtype=np.int8).reshape(1, 4), "X_1": np.array(1, ml_dtypes.bfloat16)},
    {"y": np.array([1.5, -np.inf], np.float16), "z": np.array([-2 ** 63, 2 ** 63 - 1]),
     "w": np.array([0.1, np.nan, -np.inf, 2.0 ** -149], np.float32), "none": np.empty(0, np.uint8)})
FAKE = """
#include <math.h>
#include "net.h"
int32_t net_init(struct net *self, const void *weights)
{
    self->weights = weights;
    return NET_DONE;
}
int32_t net_run(const struct net *self, const net_inputs *inputs, const net_outputs *outputs,
                void *arena)
{
    if (self->weights || !arena || inputs->x_1[3] != 3 || *inputs->X_1_ != 0x3f80)
        return NET_ARENA;
    outputs->y[0] = 0x3e00;
    outputs->y[1] = 0xfc00;
    outputs->z[0] = INT64_MIN;
    outputs->z[1] = INT64_MAX;
    outputs->w[0] = (float)FIRST;
    outputs->w[1] = NAN;
    outputs->w[2] = -INFINITY;
    outputs->w[3] = 0x1p-149f;
    return NET_DONE;
}
"""


def test_a_header() -> None:
    text = header(INTERFACE)
    for line in ('#define NET_HASH "ab12"', "#define NET_ARENA_BYTES 128",
                 "#define NET_INPUT_X_1_SHAPE {1, 4}", "#define NET_INPUT_X_1_SCALE 0.5",
                 "#define NET_INPUT_X_1_ZERO_POINT 3", "#define NET_INPUT_X_1__RANK 0",
                 "#define NET_INPUT_X_1__SHAPE {1}", "#define NET_INPUT_X_1__BYTES 2",
                 "#define NET_OUTPUT_W_TYPE float", "#define NET_OUTPUT_NONE_ELEMENTS 0",
                 "    const int8_t *x_1;    /* int8[1, 4] */", "/* a / b // c",
                 "   Calls memcpy. */"):
        assert line in text.splitlines()
    assert "NET_OUTPUT_Y_SCALE" not in text


def test_names_that_c_or_the_header_have() -> None:
    of = CInterface("net", "", (CArray("_Bool", "bool", (1,)),), (CArray("y", "int8", (1,)),), 0)
    assert of.input_members == ("_Bool_",)
    of = CInterface("net", "", (CArray("NET_HASH", "bool", (1,)),), of.outputs, 0)
    assert of.input_members == ("NET_HASH_",)


@needs_c
@pytest.mark.parametrize(("first", "status"), [
    ("0.1", 0), ("0.10001", 0), ("0.1002", 1), ("NAN", 1), ("INFINITY", 1)])
def test_the_program_tells_right_from_wrong(tmp_path, first: str, status: int) -> None:
    (tmp_path / "net.h").write_text(header(INTERFACE))
    (tmp_path / "net_test.c").write_text(check_program(INTERFACE, [SAMPLE]))
    (tmp_path / "fake.c").write_text(FAKE)
    subprocess.run(["gcc", "-std=c99", *WARNINGS, f"-DFIRST={first}", "net_test.c", "fake.c", "-lm",
                    "-o", "test"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "test"], capture_output=True, check=False
                          ).returncode == status


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler (g++)")
def test_header_and_program_are_cpp_too(tmp_path) -> None:
    (tmp_path / "net.h").write_text(header(INTERFACE))
    (tmp_path / "net_test.c").write_text(check_program(INTERFACE, [SAMPLE]))
    subprocess.run(["g++", "-std=c++17", "-x", "c++", *WARNINGS, "-fsyntax-only", "net_test.c"],
                   cwd=tmp_path, check=True)


@pytest.mark.parametrize(("name", "wanted"), [
    ("digits-int8", "digits_int8"), ("2nd net", "net_2nd_net"), ("--", "net"), ("int", "int_"),
    ("größe", "gr_e")])
def test_identifiers_of_networks(name: str, wanted: str) -> None:
    assert identifier_from(name) == wanted


@pytest.mark.parametrize(("make", "message"), [
    (lambda: CArray("x", "int24", (2,)), "Type of an array must be one that C has, not int24"),
    (lambda: CArray("x", "int8", cast(Any, ("n",))), "Shape of x must be known, not ('n',)"),
    (lambda: CArray("x", "int8", (2,), 0.5),
     "Scale and zero point of x must both be given, or neither"),
    (lambda: CInterface("int", "", (), (), 0),
     "Name of a network must be an identifier of C, not 'int'"),
    (lambda: CInterface("net", "", (), (), 0, 24),
     "Alignment of the arena must be a power of two, not 24"),
    (lambda: section_bytes(b"\0asm"), "Object must be ELF of 32 or 64 bits, little-endian")])
def test_descriptions_wrong(make, message: str) -> None:
    with pytest.raises(ExportError) as refusal:
        make()
    assert str(refusal.value) == message


def powers() -> Program:
    x = te.placeholder((9,), "float64", "x")
    return lower([te.compute((9,), lambda i: te.exp(x[i]), "y")], "powers")


@pytest.mark.parametrize("machine", ["x86-64", "armv7"])
def test_what_objects_hold_and_need(machine: str) -> None:
    code = compile_object({"powers": powers()}, MACHINES[machine])
    assert missing_symbols(code) == ["exp"]
    sizes = section_bytes(code)
    assert 20 < sizes.code < 1000
    assert sizes.variables == 0
