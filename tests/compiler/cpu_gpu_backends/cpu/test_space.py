"""Spaces of groups: what templates may decide, and that every plan computes the same bits."""

from functools import cache

import numpy as np
import pytest

from compiler.cpu_gpu_backends.cpu.arrays import far_copies
from compiler.cpu_gpu_backends.cpu.groups import group_program, own_plan
from compiler.cpu_gpu_backends.cpu.space import GroupSpace
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.cpu_gpu_backends.llvm.instruction_sets import AVX2, AVX512
from compiler.cpu_gpu_backends.groups import recipe_from
from compiler.cpu_gpu_backends.llvm import MACHINES, Kernel, build
from compiler.graph import Builder, Graph, TensorType
from compiler.plans import PlanRefused, Recorder, Task
from tests.support.attention import Heads
from tests.support.effort import Effort
from tests.support.integer_graphs import Net

KINDS = ("convolution", "few channels", "product", "attention", "bytes", "pool", "transpose")


def graph_of(kind: str) -> Graph:
    rng = np.random.default_rng(0)
    net = Builder(kind)

    def constant(*shape: int) -> str:
        array = rng.standard_normal(shape).astype(np.float32)
        return net.add_constant(f"w{len(net.constants)}", array)

    def given(*shape: int) -> str:
        net.add_input("x", TensorType(shape, "float32"))
        return "x"

    window = {"strides": (2, 2), "pads": (1, 1, 1, 1)}
    match kind:
        case "convolution":
            x = given(1, 32, 9, 13)
            y = net.emit("conv2d", "c", [x, constant(48, 32, 3, 3)], "c", **window)
            y = net.emit("relu", "r", [y], "y")
        case "few channels":
            x = given(1, 3, 17, 12)
            y = net.emit("conv2d", "c", [x, constant(32, 3, 3, 3)], "y", **window)
        case "product":
            y = net.emit("matmul", "m", [given(9, 40), constant(40, 70)], "y")
        case "attention":
            heads = Heads(1, 2, 20, 40, 24)
            return heads.finish([heads.attend()])
        case "pool":
            y = net.emit("conv2d", "c", [given(1, 16, 9, 9), constant(16, 16, 1, 1)], "c",
                         strides=(1, 1), pads=(0, 0, 0, 0))
            y = net.emit("maxpool", "p", [y], "y", kernel=(3, 3), **window)
        case "transpose":
            y = net.emit("transpose", "t", [given(1, 50, 70)], "y", perm=(0, 2, 1))
        case _:
            own = Net(5)
            x = own.conv(own.input(1, 32, 10, 9), 32, (3, 3), (2, 2), pads=(1, 1, 1, 1))
            return own.graph(x)
    return net.finish([y])


@cache
def tasks_of(kind: str, machine: str = "") -> tuple[Task, ...]:
    recorder = Recorder()
    CpuTarget(plans=recorder, machine=MACHINES.get(machine)).compile(graph_of(kind))
    return tuple(recorder.recorded)


def result(space: GroupSpace, plan: str) -> np.ndarray:
    kernel = build(group_program(space.recipe, space.vectors, plan))
    rng = np.random.default_rng(7)
    given = {}
    for buffer in kernel.program.inputs:
        numbers = (rng.standard_normal(buffer.shape) if buffer.dtype == "float32"
                   else rng.integers(0, 50, buffer.shape))
        given[buffer.name] = numbers.astype(buffer.dtype)
    return next(iter(kernel.compute(given).values()))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", KINDS)
def test_every_plan_computes_the_same(kind: str) -> None:
    """To the bit by the templates; the generic one may add terms in lanes where they do not."""
    rng, tried = np.random.default_rng(3), 0
    for task in tasks_of(kind):
        space = CpuTarget().space(task)
        assert isinstance(space, GroupSpace)
        own = space.candidate({})
        assert own.plan == own_plan(space.recipe, space.vectors)
        wanted = result(space, own.plan)
        for _ in range(2 if Effort.quick else 4):
            try:
                found = space.candidate({}, rng)
            except PlanRefused:
                continue
            if found.plan == own.plan:
                continue
            tried += 1
            computed = result(space, found.plan).reshape(wanted.shape)
            if found.point["template"] == "generic":
                np.testing.assert_allclose(computed, wanted, rtol=1e-4, atol=1e-4)
            else:
                np.testing.assert_array_equal(computed, wanted, str(found.point))
    assert tried >= (1 if kind == "transpose" or Effort.quick else 2)


def test_what_templates_decide() -> None:
    named = {kind: {decision.name for task in tasks_of(kind)
                    for decision in CpuTarget().space(task).candidate({}).decisions}
             for kind in KINDS}
    assert named["convolution"] >= {"template", "tile", "blocks of channels"}
    assert named["few channels"] >= {"tile", "unrolled window"}
    assert named["product"] >= {"tile", "columns of tiles"}
    assert named["attention"] >= {"tile", "tile 2", "bytes of scores"}
    assert named["transpose"] >= {"transposed in"}


def test_decisions_of_other_processors() -> None:
    """The space depends on the vectors: here tiles of bytes, which this processor may not have."""
    task = next(task for task in tasks_of("bytes", "aarch64") if "conv" in task.title)
    recipe = recipe_from(task.body)
    names = {vectors: [decision.name for decision in
                       GroupSpace(task, recipe, vectors).candidate({}).decisions]
             for vectors in (Vectors(AVX512, tiles=True), Vectors(AVX2))}
    tiles, vectors = names.values()
    assert tiles[:2] == ["template", "bytes in"] and "bytes in" not in vectors


def test_a_task_is_made_again_from_its_text() -> None:
    for kind in KINDS:
        for task in tasks_of(kind):
            assert recipe_from(task.body).text() == task.body
            assert str(recipe_from(task.body)) == task.title


@pytest.mark.parametrize("body", ["", "{}", "[1]", '{"operations": [{"op": "no", "attrs": {}, '
                                  '"inputs": [0]}], "types": [["int8", 1], ["int8", 1]], '
                                  '"overwritable": []}'])
def test_another_text_is_refused_as_a_task(body: str) -> None:
    with pytest.raises(PlanRefused, match="^Task must be a group of operators as JSON: "):
        CpuTarget().space(Task("", "", "", body))


def test_what_is_timed_is_the_plan() -> None:
    task = tasks_of("product")[0]
    space = CpuTarget().space(task)
    assert space.candidate({}).plan
    CpuTarget().measurable(task, space.candidate({}).plan, 0)()
    with pytest.raises(PlanRefused, match="^Plan of "):
        CpuTarget().measurable(task, "split(nowhere, 4)", 0)


def test_weights_come_from_far_when_a_plan_is_timed(monkeypatch) -> None:
    """Calls take copies of all inputs but the first in turns, which together leave the caches."""
    task = tasks_of("product")[0]
    kernel = CpuTarget().measurable(task, CpuTarget().space(task).candidate({}).plan, 0)
    given: list[list[int]] = []
    monkeypatch.setattr(Kernel, "__call__", lambda self, *arrays: given.append(
        [array.ctypes.data for array in arrays]))
    for _ in range(32):
        kernel()
    inputs = len(recipe_from(task.body).types)
    for place, seen in enumerate(zip(*given, strict=True)):
        far = 1 <= place < inputs
        assert len(set(seen)) == (16 if far else 1)
        assert seen[:16] == seen[16:]


@pytest.mark.parametrize(("megabytes", "copies"), [(1, 16), (16, 5), (40, 3), (100, 2), (0, 1)])
def test_as_many_copies_as_leave_the_caches(megabytes: int, copies: int) -> None:
    made = far_copies({"w": np.zeros(megabytes << 20, np.uint8), "b": np.arange(megabytes)})
    assert len(made) == copies
    assert all((one["b"] == np.arange(megabytes)).all() for one in made)
    assert len({one["w"].ctypes.data for one in made}) == copies
