"""Object files that are whole, and those that are not."""

import pytest

from compiler import te
from compiler.cpu_gpu_backends.llvm import MACHINES, compile_object, host
from compiler.cpu_gpu_backends.llvm.objects.elf import ObjectError, require_object
from compiler.ir import lower


def code(machine=None) -> bytes:
    x = te.placeholder((50,), "float32", "x")
    return compile_object({"f": lower([te.compute((50,), lambda i: te.exp(x[i]), "y")], "f")},
                          machine or host())


@pytest.mark.parametrize("name", ["x86-64", "x86-64-v4", "aarch64", "riscv64"])
def test_what_was_compiled_is_whole(name: str) -> None:
    require_object(code(MACHINES[name]))


def test_what_is_cut_off_is_refused() -> None:
    whole = code()
    for length in range(len(whole)):
        with pytest.raises(ObjectError):
            require_object(whole[:length])


def test_a_refusal_says_why() -> None:
    whole = code()
    for data, reason in ((b"", "has 0 bytes, fewer than a header"),
                         (b"\0asm" + whole[4:], "is no relocatable ELF file of 64 bits"),
                         (whole[:-1], "is cut off before its table of sections ends")):
        with pytest.raises(ObjectError) as refusal:
            require_object(data)
        assert str(refusal.value) == reason
