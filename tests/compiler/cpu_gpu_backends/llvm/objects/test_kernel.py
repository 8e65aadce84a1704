"""Kernels: calling conventions, refusals, what can be looked at, threads."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.llvm import Kernel, assembly, build, emit, optimized
from compiler.cpu_gpu_backends.llvm.objects.jit import library
from compiler.ir import Program, Seq, lower
from compiler.schedule import Schedule, parallel

GOLDEN = """\
; 'scale'
define i32 @kernel(ptr noalias readonly %x.1, ptr noalias %y.2) nounwind {
entry:
  br label %start
start:
  br label %y_i.loop.3
y_i.loop.3:
  %y_i.7 = phi i64 [ 0, %start ], [ %y_i.next.6, %latch.4 ]
  %v.8 = getelementptr inbounds float, ptr %x.1, i64 %y_i.7
  %v.9 = load float, ptr %v.8, align 4
  %v.10 = fmul float %v.9, 0x4000000000000000
  %v.11 = getelementptr inbounds float, ptr %y.2, i64 %y_i.7
  store float %v.10, ptr %v.11, align 4
  br label %latch.4
latch.4:
  %y_i.next.6 = add nuw nsw i64 %y_i.7, 1
  %v.12 = icmp ult i64 %y_i.next.6, 64
  br i1 %v.12, label %y_i.loop.3, label %done.5
done.5:
  ret i32 0
}
"""


def scale() -> Program:
    x = te.placeholder((64,), "float32", "x")
    return lower([te.compute((64,), lambda i: x[i] * 2.0, "y")], "scale")


X = np.arange(64, dtype=np.float32)


def test_text():
    assert emit(scale()) == build(scale()).text == GOLDEN


def test_what_llvm_makes_of_it_can_be_looked_at():
    assert "x float>" in optimized(GOLDEN)              # vectors
    assert "kernel:" in assembly(GOLDEN)


def test_equal_texts_are_compiled_once():
    assert library(GOLDEN) is library(emit(scale()))


@pytest.mark.parametrize("kind", ["serial", "parallel"])
def test_code_is_all_that_a_kernel_needs(kind):
    s = Schedule(scale())
    if kind == "parallel":
        s.apply(parallel, "y_i")
    kernel = build(s.program)
    restored = Kernel.restored(replace(scale(), body=Seq(())), kernel.code)
    assert restored.code == kernel.code and restored.text == ""
    assert (b"GOMP_parallel" in kernel.code) == (kind == "parallel")
    np.testing.assert_array_equal(restored.compute({"x": X})["y"], X * 2)


def test_call_fills_outputs():
    y = np.zeros(64, np.float32)
    assert build(scale())(X, y) is None
    np.testing.assert_array_equal(y, 2 * X)


def test_compute_takes_any_layout():
    wide = np.repeat(X, 2)
    np.testing.assert_array_equal(build(scale()).compute({"x": wide[::2]})["y"], 2 * X)


class Foreign:
    """An array of another library, in the host's memory or on another device."""

    def __init__(self, array: np.ndarray, device: int = 1):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0


def test_arrays_of_other_libraries_are_used_where_they_are():
    y = np.zeros(64, np.float32)
    build(scale())(Foreign(X), Foreign(y))
    np.testing.assert_array_equal(y, 2 * X)
    np.testing.assert_array_equal(build(scale()).compute({"x": Foreign(X)})["y"], 2 * X)


def test_tensors_of_torch_are_used_where_they_are():
    torch = pytest.importorskip("torch")
    x, y = torch.arange(64, dtype=torch.float32), torch.zeros(64)
    build(scale())(x, y)
    assert torch.equal(y, 2 * x)
    with pytest.raises(ValueError, match="^Array x cannot be taken as it is: .*grad"):
        build(scale())(x.clone().requires_grad_(), y)
    with pytest.raises(ValueError, match="^Array x must be dense, aligned and in row-major order$"):
        build(scale())(torch.zeros(128)[::2], y)


@pytest.mark.parametrize(("x", "message"), [
    (Foreign(X, device=2), "Array x must be in the host's memory, not on a device of DLPack's "
                           "type 2"),
    (X.tolist(), "Array x must be of NumPy or of a library with DLPack, not list"),
    (Foreign(X.astype(np.float64)), "Array x must be float32[64], not float64[64]"),
    (Foreign(np.zeros(128, np.float32)[::2]),
     "Array x must be dense, aligned and in row-major order"),
])
def test_arrays_that_cannot_be_taken_are_refused(x, message):
    y = np.full(64, 7, np.float32)
    with pytest.raises(ValueError) as refusal:      # noqa: PT011 - the whole message is compared
        build(scale())(x, y)
    assert str(refusal.value) == message and (y == 7).all()


def test_threads_share_a_kernel():
    kernel = build(scale())
    with ThreadPoolExecutor(4) as pool:
        results = pool.map(lambda n: kernel.compute({"x": X + n})["y"], range(50))
        for number, y in enumerate(results):
            np.testing.assert_array_equal(y, 2 * (X + number))


def read_only() -> np.ndarray:
    y = np.zeros(64, np.float32)
    y.flags.writeable = False
    return y


@pytest.mark.parametrize(("arrays", "message"), [
    ((X,), "Arrays of scale must be x, y, not 1 arrays"),
    ((X, X[:32]), "Array y must be float32[64], not float32[32]"),
    ((X.astype(np.float64), X), "Array x must be float32[64], not float64[64]"),
    ((np.repeat(X, 2)[::2], X), "Array x must be dense, aligned and in row-major order"),
    ((X, read_only()), "Array y must be writeable"),
])
def test_arrays_wrong(arrays, message):
    with pytest.raises(ValueError) as refusal:      # noqa: PT011 - the whole message is compared
        build(scale())(*arrays)
    assert str(refusal.value) == message


def test_inputs_wrong():
    with pytest.raises(ValueError, match=r"^Inputs of scale must hold 'x', not only \['z'\]$"):
        build(scale()).compute({"z": X})


# Holes of one page, with 4 GiB that are taken below: constants fit into a hole, code does not.
APART = """
import mmap
from compiler import te
from compiler.cpu_gpu_backends.llvm import build
from compiler.ir import lower

def program(size):
    x = te.placeholder((size,), "float32", "x")
    def element(i):
        value = x[i]
        for turn in range(30):
            value = te.exp(value * (0.1 * turn + 0.37)) - 0.01 * turn
        return value
    return lower([te.compute((size,), element, "y")], "program")

build(program(100))
private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
pages = [mmap.mmap(-1, mmap.PAGESIZE, private, turn % 2 and mmap.PROT_READ) for turn in range(4000)]
large = mmap.mmap(-1, (4 << 30) + mmap.PAGESIZE, private, 0)     # not aligned to large pages
for page in pages[::2]:
    page.close()
for size in range(101, 104):
    build(program(size))
print("linked")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs mmap's flags of Linux")
def test_parts_of_a_library_may_lie_far_apart() -> None:
    done = subprocess.run([sys.executable, "-c", APART], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "linked\n"), done.stderr
