"""Objects and shared libraries for C, for this computer and for others."""

import ctypes
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.llvm import (MACHINES, ExportError, Processor, MachineError,
                                            compile_object, header, host, link_shared)
from compiler.cpu_gpu_backends.llvm import machine as machines
from compiler.cpu_gpu_backends.llvm.emitting.emit import LlvmFunction, emit_functions
from compiler.cpu_gpu_backends.llvm.machine import WITHOUT
from compiler.ir import Program, lower
from compiler.native import BuildError

PIXEL = te.record("pixel", level="int16", alpha="float32", on="bool")

needs_c = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler (gcc)")


def product(rows: int = 3, inner: int = 5, columns: int = 4) -> Program:
    a = te.placeholder((rows, inner), "float32", "a")
    b = te.placeholder((inner, columns), "float32", "b")
    k = te.reduce_axis(inner, "k")
    return lower([te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], k), "c")],
                 "product")


def softened() -> Program:
    """Needs scratch on the heap and a function of the library."""
    x = te.placeholder((20000,), "float32", "double")
    e = te.compute((20000,), lambda i: te.exp(x[i]), "e")
    return lower([te.compute((20000,), lambda i: e[19999 - i] + 1.0, "y")], "softened")


def brightened() -> Program:
    p = te.placeholder((4,), PIXEL, "p")
    return lower([te.compute((4,), lambda i: te.select(p[i].on, p[i].alpha, 0.0), "y")], "bright")


PROGRAMS = {"product": product(), "softened": softened(), "bright": brightened()}

HEADER = """\
/* Arrays are dense, in row-major order, aligned to their elements; no output
   overlaps another array. Functions return 0, or 1 when there is no memory for
   their local buffers, or 2 when the operating system refuses the tile registers of
   AMX; what the outputs hold then is not defined. */
#ifndef KERNELS_H
#define KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct pixel {
    int16_t level;
    float alpha;
    bool on;
    uint8_t padding_[1];
} __attribute__((packed));

/* (a: float32[3, 5], b: float32[5, 4]) -> c: float32[3, 4] */
int32_t product(const float *a, const float *b, float *c);

/* (double_: float32[20000]) -> y: float32[20000] */
int32_t softened(const float *double_, float *y);

/* (p: pixel[4]) -> y: float32[4] */
int32_t bright(const struct pixel *p, float *y);

#ifdef __cplusplus
}
#endif

#endif
"""

MAIN = r"""
#include <stdio.h>
#include "kernels.h"
int main(void) {
    float a[15], b[20], c[12], x[20000], y[20000];
    struct pixel p[4] = {{1, 0.5f, true}, {2, 0.25f, false}, {3, 2.0f, true}, {4, 1.0f, false}};
    for (int i = 0; i < 15; i++) a[i] = i;
    for (int i = 0; i < 20; i++) b[i] = i % 7;
    for (int i = 0; i < 20000; i++) x[i] = i == 0;
    if (product(a, b, c) || softened(x, y)) return 1;
    for (int i = 0; i < 12; i++) printf("%g ", c[i]);
    printf("%.4f %.4f ", y[0], y[19999]);
    if (bright(p, y)) return 1;
    for (int i = 0; i < 4; i++) printf("%g ", y[i]);
    return 0;
}
"""


def expected() -> str:
    a = np.arange(15).reshape(3, 5)
    c = a @ (np.arange(20) % 7).reshape(5, 4)
    return " ".join(map(str, c.ravel())) + " 2.0000 3.7183 0.5 0 2 0 "


def test_the_header():
    assert header(PROGRAMS, "KERNELS_H") == HEADER


@needs_c
def test_a_c_program_calls_an_object(tmp_path):
    (tmp_path / "kernels.o").write_bytes(compile_object(PROGRAMS))
    (tmp_path / "kernels.h").write_text(header(PROGRAMS))
    (tmp_path / "main.c").write_text(MAIN)
    subprocess.run(["gcc", "-Wall", "-Werror", "main.c", "kernels.o", "-lm", "-o", "main"],
                   cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    assert said.stdout == expected()


@needs_c
def test_a_shared_library(tmp_path):
    path = tmp_path / "kernels.so"
    link_shared(PROGRAMS, path)
    assert path.with_suffix(".h").read_text() == HEADER
    c = np.zeros((3, 4), np.float32)
    a, b = np.ones((3, 5), np.float32), np.ones((5, 4), np.float32)
    loaded = ctypes.CDLL(str(path))
    assert loaded.product(*(ctypes.c_void_p(x.ctypes.data) for x in (a, b, c))) == 0
    assert (c == 5).all()


@needs_c
def test_the_header_serves_cpp(tmp_path):
    (tmp_path / "kernels.h").write_text(header(PROGRAMS))
    (tmp_path / "main.cpp").write_text('#include "kernels.h"\nint main() { return 0; }\n')
    subprocess.run(["gcc", "-Wall", "-Werror", "-c", "main.cpp"], cwd=tmp_path, check=True)


@pytest.mark.parametrize("name", ["2nd", "a-b", "double", "", "class"])
def test_names_wrong(name):
    with pytest.raises(ExportError) as refusal:
        compile_object({name: product()})
    assert str(refusal.value) == f"Name of a function must be an identifier of C, not {name!r}"


def test_no_compiler_to_link_with(tmp_path, monkeypatch):
    from compiler import native

    monkeypatch.setenv("CXX", "no-such-compiler")
    native.compiler.cache_clear()
    with pytest.raises(BuildError, match="^A C[+][+] compiler must be installed to build native "
                                         "code; none of no-such-compiler was found"):
        link_shared({"product": product()}, tmp_path / "kernels.so")
    native.compiler.cache_clear()
    assert not (tmp_path / "kernels.so").exists()


CROSS_COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"


def cross_compile(folder, program: str) -> None:
    """Link ``folder/PROGRAM.c`` with ``folder/kernels.o`` for AArch64, or skip the test."""
    if not (shutil.which(CROSS_COMPILER) and shutil.which(EMULATOR)):
        pytest.skip(f"needs {CROSS_COMPILER} and {EMULATOR}")
    if subprocess.run([CROSS_COMPILER, "-x", "c", "-E", "-"], input="#include <stdio.h>",
                      capture_output=True, text=True).returncode:
        pytest.skip(f"needs the C library of {CROSS_COMPILER} (libc6-dev-arm64-cross)")
    subprocess.run([CROSS_COMPILER, "-static", f"{program}.c", "kernels.o", "-lm", "-o", program],
                   cwd=folder, check=True)


@pytest.mark.cross
def test_aarch64_objects_run_in_emulation(tmp_path):
    (tmp_path / "kernels.o").write_bytes(compile_object(PROGRAMS, MACHINES["aarch64"]))
    (tmp_path / "kernels.h").write_text(header(PROGRAMS))
    (tmp_path / "main.c").write_text(MAIN)
    cross_compile(tmp_path, "main")
    said = subprocess.run([EMULATOR, tmp_path / "main"], capture_output=True, text=True,
                          check=True, timeout=60)
    assert said.stdout == expected()


ELF_MACHINES = {"x86-64": 62, "x86-64-v3": 62, "x86-64-v4": 62, "aarch64": 183, "riscv64": 243}


@pytest.mark.parametrize("name", ELF_MACHINES)
def test_elf_objects_say_what_they_are_for(name):
    code = compile_object(PROGRAMS, MACHINES[name])
    assert code[:6] == b"\x7fELF\x02\x01"                               # 64 bits, little-endian
    assert int.from_bytes(code[16:18], "little") == 1                   # relocatable
    assert int.from_bytes(code[18:20], "little") == ELF_MACHINES[name]
    assert all(f"\0{function}\0".encode() in code for function in PROGRAMS)
    if name == "riscv64":
        assert int.from_bytes(code[48:52], "little") & 0x6 == 0x4       # floats in double registers


def test_webassembly_objects_say_what_they_are():
    code = compile_object(PROGRAMS, MACHINES["wasm32"])
    assert code[:8] == b"\0asm\1\0\0\0"
    sections, place = [], 8
    while place < len(code):
        kind, place = code[place], place + 1
        size, shift = 0, 0
        while True:
            byte, place = code[place], place + 1
            size, shift = size | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                break
        sections.append((kind, code[place:place + size]))
        place += size
    assert place == len(code)
    assert {1, 2, 3, 10} <= {kind for kind, _ in sections}              # types to code
    linking = next(body for kind, body in sections if body[1:8] == b"linking")
    assert all(function.encode() in linking for function in PROGRAMS)


def test_an_unknown_machine_wrong():
    with pytest.raises(MachineError, match="^Triple must be one that LLVM knows, "
                                           "not 'pdp11-unknown-unknown': "):
        compile_object({"f": product()}, Processor("pdp11-unknown-unknown", "generic"))


@pytest.mark.parametrize("name, tiles, model", [
    ("rocketlake", True, "sapphirerapids"), ("rocketlake", False, "rocketlake"),
    ("graniterapids", True, "graniterapids")])
def test_a_processor_is_no_older_than_its_features(name: str, tiles: bool, model: str,
                                                   monkeypatch) -> None:
    features = {"avx512f": True, "amx-int8": tiles}
    monkeypatch.setattr(machines.llvm, "get_host_cpu_name", lambda: name)
    monkeypatch.setattr(machines.llvm, "get_host_cpu_features", lambda: features)
    assert machines._host.__wrapped__().cpu == model


def test_doing_without_features(monkeypatch):
    machine = Processor("x86_64-unknown-linux-gnu", "x86-64",
                        ("avx2", "avx512f", "avx512vnni", "fma", "sse2"))
    assert machine.without("avx512f").features == ("avx2", "fma", "sse2")
    assert machine.without("avx512f").without("avx512f") == machine.without("avx512f")
    assert machine.without("avx2").features == ("fma", "sse2")
    assert machine.has("avx2", "fma") and not machine.without("fma").has("avx2", "fma")
    some = host().features[0]
    monkeypatch.setenv(WITHOUT, some)
    assert not host().has(some) and some in host().absent


def test_doing_without_what_is_not_known_wrong(monkeypatch):
    machine = Processor("x86_64-unknown-linux-gnu", "x86-64", ("avx2", "sse2"))
    with pytest.raises(MachineError) as refusal:
        machine.without("neon")
    assert str(refusal.value) == ("Feature to do without must be one that this processor has "
                                  "(avx2, sse2), not 'neon'")
    monkeypatch.setenv(WITHOUT, "flux")
    with pytest.raises(MachineError, match=f"^{WITHOUT}: Feature to do without must be one"):
        host()


MANY = """
from tests.compiler.cpu_gpu_backends.llvm.objects.test_export import product
from compiler.cpu_gpu_backends.llvm import build
from compiler.cpu_gpu_backends.llvm.objects import jit
made = jit._object_code
jit._object_code = lambda *given: print("compiled") or made(*given)
import numpy as np
for columns in (4, 5, 6):
    c = build(product(columns=columns)).compute({"a": np.ones((3, 5), np.float32),
                                                 "b": np.ones((5, columns), np.float32)})["c"]
    assert (c == 5).all()
"""


def test_processes_share_what_is_compiled(tmp_path):
    environment = {**os.environ, "LOCKSTEP_CACHE": str(tmp_path)}
    with ThreadPoolExecutor(3) as pool:
        said = list(pool.map(lambda _: subprocess.run(
            [sys.executable, "-c", MANY], env=environment, text=True, capture_output=True,
            check=True, timeout=60).stdout, range(3)))
    assert "".join(said).count("compiled") == 3
    assert len([path for path in (tmp_path / "kernels").iterdir() if path.is_dir()]) == 3


def test_without_a_cache_that_can_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path / "file"))
    assert compile_object({"f": product(7)})[:4] == b"\x7fELF"


def test_a_damaged_object_is_not_linked(tmp_path, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path))
    whole = compile_object({"f": product(8)})
    path, = tmp_path.glob("kernels/*/kernel.o")
    for damaged in (whole[:100], whole[:200] + bytes([whole[200] ^ 1]) + whole[201:], b""):
        path.write_bytes(damaged)
        assert compile_object({"f": product(8)}) == whole == path.read_bytes()


def test_internal_functions_allocate_nothing() -> None:
    functions = {"softened": LlvmFunction(softened())}
    for machine in MACHINES.values():
        assert "aligned_alloc" in emit_functions(functions, machine).text()
        assert "aligned_alloc" not in emit_functions(functions, machine, "internal").text()
