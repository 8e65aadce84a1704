"""Micro-operations in the place of loops: kernels counted by hand, in buffers of several sizes."""

import pytest

from accel.machine.program import AccelProgram, Instruction, finish
from bench.support.micro_code import kernels, loaded_bytes
from tests.support.machines import TINY


def gemm(*extents: int, dst: int = 0) -> Instruction:
    """Loops of these extents; the first operand's entry is `dst`."""
    return Instruction("gemm", "gemm", {"base": {"dst": dst}, "loops": [
        {"extent": extent, "a": 1} for extent in extents]})


LOAD = Instruction("load", "load", {"run": 8})
VECTOR = Instruction("add", "vector", {"loops": [{"extent": 2}, {"extent": 3}, {"extent": 4}]})


def program(*stream: Instruction) -> AccelProgram:
    return AccelProgram.assemble(TINY, [*stream, finish()])


def test_the_two_longest_loops_stay_and_others_are_unrolled() -> None:
    found = [size for _, size in kernels(TINY, program(
        gemm(7), LOAD, gemm(5, 2, 9, 3), VECTOR, gemm(2, 2, 2, 2, 2, 2)))]
    assert found == [4, 4 * 2 * 3, 4 * 2, 4 * 2**4]


def test_a_kernel_is_known_again_by_its_loops_and_entries() -> None:
    some = [kernel for kernel, _ in kernels(TINY, program(
        gemm(5, 2, 9), gemm(5, 2, 9), gemm(5, 2, 9, dst=1), gemm(5, 9, 2)))]
    assert [some.index(kernel) for kernel in some] == [0, 0, 2, 3]


@pytest.mark.parametrize("capacity, loaded", [
    (64, 8 + 16 + 24), (40, 8 + 16 + 24), (24, 8 + 16 + 24 + 8), (16, 8 + 16 + 8 + 24 + 8)])
def test_what_makes_room_is_loaded_again(capacity: int, loaded: int) -> None:
    two, four, six = gemm(9, 9, 2), gemm(9, 9, 2, 2), gemm(9, 9, 2, 3)
    assert loaded_bytes(TINY, program(two, four, two, six, two), capacity) == loaded
