"""Conversions of float16 without instructions for them, alone in a process."""

import subprocess
import sys

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.llvm import build
from compiler.cpu_gpu_backends.llvm.machine import host
from compiler.cpu_gpu_backends.llvm.objects.kernel import Kernel
from compiler.ir import lower

BARE = host().without(*{"f16c", "avx512fp16"} & {*host().features})
SIZE = 1 << 16


def conversion(source: str, target: str, size: int = SIZE) -> Kernel:
    x = te.placeholder((size,), source, "x")
    return build(lower([te.compute((size,), lambda i: x[i].astype(target), "y")], "cast"), BARE)


def assert_converted(x: np.ndarray, target: str) -> None:
    with np.errstate(all="ignore"):
        expected = x.astype(target)
    found = conversion(str(x.dtype), target, len(x)).compute({"x": x})["y"]
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    number = ~np.isnan(expected)
    unsigned = f"uint{8 * expected.itemsize}"
    np.testing.assert_array_equal(found[number].view(unsigned), expected[number].view(unsigned))


def halves() -> np.ndarray:
    """All of them."""
    return np.arange(SIZE, dtype=np.uint16).view(np.float16)


@pytest.mark.parametrize("target", ["float32", "float64"])
def test_every_half(target: str) -> None:
    assert_converted(halves(), target)


@pytest.mark.parametrize("source", ["float32", "float64"])
def test_rounds_once_half_to_even(source: str) -> None:
    """At each half, midway between it and the next, and beside both; 65520 and more is infinite."""
    ends = halves()[: 0x7C00].astype(source)
    middle = (ends + np.append(ends[1:], 65536).astype(source)) / 2
    for exact in (ends, middle):
        for x in (exact, np.nextafter(exact, np.inf, dtype=source),
                  np.nextafter(exact, 0, dtype=source)):
            assert_converted(np.concatenate([x, -x]), "float16")
    finfo = np.finfo(source)
    assert_converted(np.array([finfo.max, finfo.tiny, finfo.smallest_subnormal, 1e5, np.inf,
                               -np.inf, np.nan, -np.nan], source), "float16")


ALONE = """
import numpy as np
from compiler import te
from compiler.cpu_gpu_backends.llvm import build
from compiler.ir import lower

x = te.placeholder((3,), "float64", "x")
kernel = build(lower([te.compute((3,), lambda i: x[i].astype("float16"), "y")], "cast"))
print(*kernel.compute({"x": np.array([1 / 3, -2.5, 1e6])})["y"])
"""


@pytest.mark.parametrize("without", ["", "f16c"])
def test_alone_in_a_process(without: str, monkeypatch) -> None:
    """Nothing else has brought the run-time library of a compiler along."""
    if without not in ("", *host().features):
        pytest.skip(f"this processor has no {without}")
    monkeypatch.setenv("LOCKSTEP_CPU_WITHOUT", without)
    said = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True,
                          timeout=120)
    assert said.stdout == "0.3333 -2.5 inf\n", said.stderr
