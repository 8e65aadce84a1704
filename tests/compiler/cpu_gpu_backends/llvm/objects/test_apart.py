"""Code is generated in a child process, so that a defect of LLVM ends that and nothing else."""

import os
import signal
import socket

import pytest

from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.cpu_gpu_backends.llvm.machine import MACHINES
from compiler.cpu_gpu_backends.llvm.objects import apart as children
from compiler.cpu_gpu_backends.llvm.objects import jit
from compiler.cpu_gpu_backends.llvm.objects.apart import apart
from compiler.graph import Builder, TensorType

AVX2 = MACHINES["x86-64-v3"]
NOT_SPLIT = """\
%V = type <16 x float>
define void @f(ptr %x) {
  %v = load %V, ptr %x
  %r = call %V @llvm.x86.avx512.rcp14.ps.512(%V %v, %V zeroinitializer, i16 -1)
  store %V %r, ptr %x
  ret void
}
declare %V @llvm.x86.avx512.rcp14.ps.512(%V, %V, i16)
"""
PLAIN = "define i32 @{}(i32 %x) {{\n  %y = add i32 %x, {}\n  ret i32 %y\n}}\n"


def test_a_child_that_ends_gives_nothing_and_the_next_one_works() -> None:
    assert apart(os.strerror, 1) == os.strerror(1)
    assert apart(os.abort) is None
    assert apart(os._exit, 3) is None
    assert apart(os.strerror, 2) == os.strerror(2)


def test_an_exception_of_the_work_is_raised() -> None:
    with pytest.raises(TypeError, match="integer"):
        apart(os.strerror, "one")


def test_a_child_without_work_ends_and_another_one_follows(monkeypatch: pytest.MonkeyPatch
                                                          ) -> None:
    apart(os._exit, 1)
    monkeypatch.setattr(children, "IDLE_SECONDS", 0.01)
    first = apart(os.getpid)
    child = children._child
    assert child is not None and child.number == first
    os.waitid(os.P_PID, child.number, os.WEXITED | os.WNOWAIT)
    assert apart(os.getpid) != first
    apart(os._exit, 1)


def test_a_child_has_no_files_of_its_parent() -> None:
    apart(os._exit, 1)
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        files = apart(os.listdir, "/proc/self/fd")
        assert files is not None
        assert len(files) == 3 + 2 + 1                  # pipes, and that of the list


def test_where_llvm_ends_one_sentence_is_left() -> None:
    with pytest.raises(jit.CodeError, match=r"^LLVM [\d.]+ ends while it generates code of f for "
                                            r"x86-64-v3, a defect of LLVM; give another target$"):
        jit._object_code(NOT_SPLIT, AVX2)
    assert jit._object_code(PLAIN.format("g", 1), AVX2)


def test_a_product_of_tiny_matrices_has_code() -> None:
    """LLVM 22.1 ends in the first way: it joins statements to what it has no instructions for."""
    net = Builder("net")
    for name, shape in (("a", (4, 6, 5)), ("b", (4, 5, 2)), ("c", (4, 6, 2))):
        net.add_input(name, TensorType(shape, "float32"))
    net.emit("matmul", "product", ["a", "b"], "p")
    net.emit("add", "sum", ["p", "c"], "y")
    step, = CpuTarget(machine=AVX2).compile(net.finish(["y"])).steps
    assert step.kernel is not None
    assert jit._object_code(step.kernel.text, AVX2)


def _killed(*_: object) -> bytes:
    os.kill(os.getpid(), signal.SIGKILL)
    return b""


def test_a_child_that_somebody_kills_is_no_defect_of_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    apart(os._exit, 1)
    monkeypatch.setattr(jit, "_emitted", _killed)
    with pytest.raises(jit.CodeError, match="^The process that generates code was killed by "
                                            "SIGKILL$"):
        jit._object_code(PLAIN.format("l", 1), AVX2)


def _ends_at_first(text: str, machine: object, kind: str, way: object) -> bytes:
    if way == jit.WAYS[0]:
        os.abort()
    return jit._optimized(text, AVX2).name.encode() or b"code"


def test_another_way_follows_where_the_first_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    apart(os._exit, 1)                          # the next child knows this module
    monkeypatch.setattr(jit, "_emitted", _ends_at_first)
    assert jit._object_code(PLAIN.format("h", 1), AVX2)


@pytest.mark.parametrize("way", jit.WAYS)
def test_every_way_gives_code(way: object) -> None:
    code = jit._emitted(PLAIN.format("k", 2), AVX2, "assembly", way)        # type: ignore[arg-type]
    assert b"k:" in code and b"2" in code


def test_what_is_not_llvm_is_an_exception() -> None:
    with pytest.raises(RuntimeError, match="expected"):
        jit._object_code("define nothing", AVX2)


def test_code_that_is_kept_is_not_generated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    text = PLAIN.format("kept", os.getpid())
    first = jit.object_code(text, AVX2)
    monkeypatch.setattr(jit, "apart", None)
    assert jit.object_code(text, AVX2) == first
