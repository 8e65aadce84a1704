"""Products by groups of warps whose operands the TMA copies: what they compute, what waits for
what, and what is refused.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.gpu.emulate import EmulationError
from compiler.cpu_gpu_backends.gpu.group_tiles import (OFFERED_GROUPS, GroupTiles,
                                                        copied_by_tma, tile_groups)
from compiler.cpu_gpu_backends.gpu.nvrtc import compile_cuda
from compiler.cpu_gpu_backends.gpu.schedule import own_schedule
from tests.support.gpu_schedules import matmul_tensor_cores
from compiler.cpu_gpu_backends.gpu.segment import GpuSegment
from compiler.cpu_gpu_backends.gpu.target import GpuTarget
from compiler.cpu_gpu_backends.gpu.tensor_tiles import tensor_product_of
from compiler.cpu_gpu_backends.intrinsics.gpu import (MMA, TENSOR_CORES, WARP_GROUPS,
                                                      tile_copy, wgmma)
from compiler.cpu_gpu_backends.simt.generate import generate
from compiler.cpu_gpu_backends.simt.kernels import SimtError, SimtProgram
from compiler.cpu_gpu_backends.simt.lowering import lower
from tests.support.races import find_races, run_kernels
from compiler.cpu_gpu_backends.simt.units import BeginUnits, TokenSignal, TokenWait
from compiler.graph import Graph
from compiler.graph.reference import evaluate
from compiler.ir import Program, Seq, Stmt, replace_stmt, walk_stmts
from compiler.ir import lower as lower_te
from compiler.plans import Recorder, Table
from compiler.schedule import Schedule
from compiler.te import numpy_dtype
from runtime.devices.emulated import EmulatedDevice
from tests.support.effort import Effort
from tests.support.kernels import compute
from tests.support.float_graphs import FloatNet, inputs_of
from tests.support.gpu_cases import random_inputs
from tests.support.nvrtc import require_nvrtc

INTRINSICS = (*TENSOR_CORES, *WARP_GROUPS)
LOWERED = {"shuffles": True, "asynchronous": True, "intrinsics": True}
# rows, columns, terms, how many products, kind, tiles
CASES = {
    "whole": (256, 256, 256, None, "f16", GroupTiles(128, 128)),
    "ragged": (250, 196, 264, None, "f16", GroupTiles(128, 256)),
    "bf16, several": (100, 200, 168, 3, "bf16", GroupTiles(128, 256)),
    "s8, one group": (70, 204, 336, 2, "s8", GroupTiles(64, 256)),
    "few columns": (70, 9, 72, None, "f16", GroupTiles()),
    "in turns": (512, 600, 264, None, "f16", GroupTiles(128, 128, 5)),
    "in turns, one group": (300, 300, 264, 2, "f16", GroupTiles(64, 128, 7)),
    "many rows of blocks": (1100, 64, 192, None, "f16", GroupTiles(64, 64)),
}


def product(m: int, n: int, k: int, count: int | None = None, kind: str = "f16") -> Program:
    """``max(a [.., m, k] * b [.., n, k], 0)``."""
    leading = (count,) if count else ()
    a, b = (te.placeholder((*leading, rows, k), MMA[kind].dtype, name)
            for rows, name in ((m, "a"), (n, "b")))
    axis, total = te.reduce_axis(k, "k"), MMA[kind].total

    def terms(*indices):
        *outer, i, j = indices
        return te.sum(a[(*outer, i, axis.var)].astype(total)
                      * b[(*outer, j, axis.var)].astype(total), axis)

    c = te.compute((*leading, m, n), terms, "c")
    return Schedule([te.compute(c.shape, lambda *i: te.maximum(c[i], 0), "d")], "p").program


def scheduled(program: Program, tiles: GroupTiles = OFFERED_GROUPS[2]) -> Schedule:
    s = Schedule(program)
    found = tensor_product_of(program)
    assert found and copied_by_tma(program, found)
    tile_groups(s, found, tiles)
    return s


def case(name: str) -> Schedule:
    *shape, tiles = CASES[name]
    return scheduled(product(*shape), tiles)


def wanted(inputs: dict[str, np.ndarray]) -> np.ndarray:
    """Exact: floats are small integers."""
    a, b = (array.astype(np.float64) for array in inputs.values())
    return np.maximum(a @ b.swapaxes(-1, -2), 0)


@pytest.mark.slow
def test_a_product_with_nothing_behind_it(rng) -> None:
    """By the schedule that is chosen."""
    for shape in ((70, 600, 264), (256, 196, 256))[:1 if Effort.quick else 2]:
        program = lower_te([matmul_tensor_cores(*shape, "f16")], "p")
        chosen = own_schedule(program, ("f16",), groups=True)
        assert "wgmma" in chosen.text() and "mma_m16" not in chosen.text()
        inputs = random_inputs(program, rng)
        found = compute(EmulatedDevice(), generate(chosen.program), inputs)["c"]
        np.testing.assert_array_equal(found, inputs["a"].astype(float) @ inputs["b"].T)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", [
    name if name in ("ragged", "s8, one group", "in turns, one group")
    else pytest.param(name, marks=pytest.mark.slow) for name in CASES])
def test_products_are_exact(name: str, rng) -> None:
    program = case(name).program
    inputs = random_inputs(program, rng)
    found = compute(EmulatedDevice(), generate(program), inputs)["d"]
    np.testing.assert_array_equal(found, wanted(inputs))


def test_what_a_kernel_is_made_of() -> None:
    program = case("in turns").program
    launch, = generate(program).launches
    assert (launch.grid, launch.block) == ((5, 1, 1), (32, 4, 3))
    assert [(one.buffer.name, one.box) for one in launch.maps] == [("a", (128, 64)),
                                                                  ("b", (128, 64))]
    assert launch.shared_bytes == 4 * (128 + 128) * 128
    assert [buffer.name for buffer in launch.arguments] == ["d"]


@pytest.mark.slow
def test_nvrtc_compiles_it_without_spills() -> None:
    for name in ("in turns", "s8, one group", "bf16, several"):
        text = generate(case(name).program).text
        require_nvrtc()
        taken = compile_cuda(text, "sm_90a").resources["k0_p"]
        assert (taken.spill_bytes, taken.local_bytes) == (0, 0)


def test_plans_are_replayed() -> None:
    s = case("ragged")
    again = Schedule.replay(product(*CASES["ragged"][:-1]), s.text(), INTRINSICS)
    assert again.program == s.program


# Races

SMALL = GroupTiles(64, 8, 2)


def small() -> tuple[SimtProgram, dict[str, np.ndarray], Program]:
    """A product of several tiles for each block, with steps that do not divide by the copies."""
    program = scheduled(product(64 * 5, 8, 64 * 3), SMALL).program
    return lower(program, **LOWERED), random_inputs(program, np.random.default_rng(0)), program


def without_tokens(kernels: SimtProgram) -> Iterator[tuple[Stmt, SimtProgram]]:
    kernel, = kernels.kernels
    for stmt in walk_stmts(kernel.body):
        if isinstance(stmt, TokenWait | TokenSignal):
            yield stmt, replace(kernels, kernels=(replace(
                kernel, body=replace_stmt(kernel.body, stmt, Seq(()))),))


def test_units_do_not_race() -> None:
    kernels, inputs, _ = small()
    assert find_races(kernels, inputs) == []
    np.testing.assert_array_equal(run_kernels(kernels, inputs)["d"], wanted(inputs))


def test_every_missing_token_is_found() -> None:
    kernels, inputs, _ = small()
    found = 0
    for _, fewer in without_tokens(kernels):
        try:
            assert find_races(fewer, inputs)
        except ValueError as error:
            assert "must not wait for each other for ever" in str(error)
        found += 1
    assert found == 3


def test_more_copies_under_way_than_there_are_is_found() -> None:
    """A wait for the token of one turn less."""
    kernels, inputs, _ = small()
    kernel, = kernels.kernels
    body = kernel.body
    for stmt in list(walk_stmts(body)):
        if isinstance(stmt, TokenWait | TokenSignal) and stmt.counter.name == "free":
            more = replace(stmt.counter, depth=stmt.counter.depth + 1)
            body = replace_stmt(body, stmt, replace(stmt, counter=more))
    begin = next(s for s in walk_stmts(body) if isinstance(s, BeginUnits))
    body = replace_stmt(body, begin, replace(begin, counters=tuple(
        replace(one, depth=one.depth + (one.name == "free")) for one in begin.counters)))
    assert "touch" in str(find_races(replace(kernels, kernels=(replace(
        kernel, body=body),)), inputs)[0])


# Refusals


def refused(program: Program, reason: str) -> None:
    with pytest.raises(SimtError, match=reason):
        lower(program, **LOWERED)


def steps_without(s: Schedule, word: str, program: Program) -> Program:
    """The schedule without the steps that mention a word."""
    text = "\n".join(line for line in s.text().splitlines() if word not in line)
    return Schedule.replay(program, text, INTRINSICS).program


def test_groups_must_be_in_a_specialized_loop() -> None:
    program = product(64, 64, 128)
    s = scheduled(program, GroupTiles(64, 64))
    refused(steps_without(s, "warp_specialize", program), "must be in a specialized loop")


def test_copies_must_be_by_the_tma() -> None:
    program = product(64, 64, 128)
    s = scheduled(program, GroupTiles(64, 64))
    refused(steps_without(s, "tensorize(a_shared_0", program),
            "statements of unit 0 must be copies by the TMA")


def test_copies_by_threads_that_multiply() -> None:
    program = product(64, 64, 128)
    text = scheduled(program, GroupTiles(64, 64)).text()
    text = text.replace("warp_specialize(k_step, 0, 0, 1", "warp_specialize(k_step, 1, 0, 1")
    refused(Schedule.replay(program, text, INTRINSICS).program,
            "copies by the TMA must be in unit 0")


def test_there_is_room_for_so_many_copies() -> None:
    program = product(128, 256, 1024)
    s = scheduled(program, GroupTiles(128, 256))
    text = s.text().replace("copies=4", "copies=5")
    refused(Schedule.replay(program, text, INTRINSICS).program,
            "what a block shares must have at most 231424 bytes, not 245760")


def test_tiles_must_be_swizzled() -> None:
    program = product(64, 64, 128)
    s = scheduled(program, GroupTiles(64, 64))
    refused(steps_without(s, "swizzle(a_shared", program),
            "a_shared must be swizzled and have rows of 128 bytes, for the TMA")


def test_rows_of_arrays_must_be_aligned() -> None:
    """`copied_by_tma` says so before; a schedule by hand is refused."""
    program = product(64, 64, 132)
    found = tensor_product_of(program)
    assert found and not copied_by_tma(program, found)
    s = Schedule(program)
    tile_groups(s, found, GroupTiles(64, 64))
    refused(s.program, "rows of a must begin at multiples of 16 bytes, for the TMA")


def test_four_warps_must_have_the_rows_of_one_product() -> None:
    program = product(64, 64, 128)
    text = scheduled(program, GroupTiles(64, 64)).text()
    text = text.replace("bind(group, threadIdx.z)", "bind(wi, threadIdx.z)", 1)
    text = text.replace("bind(wi, threadIdx.y)", "bind(group, threadIdx.y)", 1)
    refused(Schedule.replay(program, text, INTRINSICS).program,
            "the 4 warps along threadIdx.y must multiply 16 rows of a_shared each, that follow")


def test_other_dialects_have_no_tma() -> None:
    with pytest.raises(SimtError, match="threads must not meet in a_shared where no barrier"):
        generate(scheduled(product(64, 64, 128), GroupTiles(64, 64)).program, "opencl")


@pytest.mark.parametrize(("make", "reason"), [
    (lambda: wgmma("tf32", 64), "wgmma must be of f16, bf16, s8 and have 8, 16, .* columns, not "
                                "'tf32' and 64"),
    (lambda: wgmma("f16", 24), "not 'f16' and 24"),
    (lambda: tile_copy("float16", 500), "Rows of a tile must be one of 8, .*, not 500")])
def test_instructions_that_there_are_not(make, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        make()


def test_types_of_a_kind_are_those_of_mma() -> None:
    for one in WARP_GROUPS:
        assert one.needs == ("sm_90a",) and all(
            numpy_dtype(operand.dtype) for operand in one.operands)


# What the emulation finds


@pytest.mark.slow
@pytest.mark.parametrize(("line", "reason"), [
    ("barrier_wait(&free", "a barrier must not have more signals than it waits for"),
    ("products_end();", None),
    *(pytest.param(*one, marks=pytest.mark.slow) for one in (
        ("barrier_arrive(", "of 256 threads wait at a barrier that the others do not reach"),
        ("barrier_wait(&full", "a barrier must not have more signals than it waits for"),
        ("barrier_expect(", "threads wait at a barrier that the others do not reach"),
        ("barrier_begin(&free", "a barrier must be set up before it is used")))])
def test_a_kernel_without_one_of_its_lines(line: str, reason: str | None, rng) -> None:
    """It would hang, or computes something else."""
    program = scheduled(product(128, 8, 64 * 12), SMALL).program
    inputs = random_inputs(program, rng)
    code = generate(program)
    fewer = "\n".join(one for one in code.text.splitlines() if line not in one)
    assert fewer.count("\n") < code.text.count("\n")
    if reason:
        with pytest.raises(EmulationError, match=reason):
            compute(EmulatedDevice(), replace(code, text=fewer), inputs)
    else:
        found = compute(EmulatedDevice(), replace(code, text=fewer), inputs)["d"]
        assert not np.array_equal(found, wanted(inputs))


# In networks


def network() -> Graph:
    """Two layers of tokens, the second with a residual sum."""
    net = FloatNet(1, 96, 128)
    first = net.op("relu", net.op("matmul", "x", net.constant(128, 192)))
    second = net.op("matmul", first, net.constant(192, 128))
    return net.finish([net.op("add", net.op("add", second, net.constant(128)), "x")])


def compiled(graph: Graph, *archs: str) -> GpuSegment:
    require_nvrtc()
    return GpuTarget("cuda", "cuda", precision="f16", archs=archs).compile(graph)


@pytest.mark.slow           # test_flat_inputs.py has layers on one
def test_layers_of_networks_on_one_architecture() -> None:
    graph = network()
    inputs = inputs_of(graph)
    result, = evaluate(graph, inputs).values()
    for archs, instruction in ((("sm_90a",), "wgmma_m64n64k16_f16"), ((), "mma_m16n8k16_f16"),
                               (("sm_80", "sm_90a"), "mma_m16n8k16_f16")):
        segment = compiled(graph, *archs)
        assert segment.text[0].count(instruction) >= 3          # a helper, and two products
        assert ("wgmma" in segment.text[0]) == (archs == ("sm_90a",))
        found, = segment.on(EmulatedDevice())(inputs).values.values()
        error = np.abs(found - result).max() / np.abs(result).max()
        assert 1e-7 < error < 2**-9


def test_a_gpu_that_is_here_has_its_architecture() -> None:
    target = GpuTarget("cuda", "cuda")
    assert target.on_arch("sm_90").archs == ("sm_90a",)
    assert target.on_arch("sm_80") == target.on_arch("sm_100") == target


def test_plans_of_groups_are_replayed() -> None:
    recorder = Recorder()
    graph = network()
    options = {"precision": "f16", "archs": ("sm_90a",)}
    require_nvrtc()
    text = GpuTarget("cuda", "cuda", plans=recorder, **options).compile(graph).text
    plans = Table({task.digest: plan for task, plan in recorder.recorded.items()})
    assert any("warp_specialize(k_step" in plan for plan in recorder.recorded.values())
    assert GpuTarget("cuda", "cuda", plans=plans, **options).compile(graph).text == text
