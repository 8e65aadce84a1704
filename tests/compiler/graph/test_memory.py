"""Memory plans: nothing that lives is overwritten, and little more than that is needed."""

from dataclasses import replace

import numpy as np
import pytest

from compiler.graph.memory import LINE, MemoryPlan, MemoryTask, plan_memory


def chain(*names: str) -> list[MemoryTask]:
    """Each task reads what the one before wrote."""
    return [MemoryTask(names[at - 1:at] if at else (), name) for at, name in enumerate(names)]


def random_tasks(seed: int, count: int = 60) -> tuple[list[MemoryTask], dict[str, int]]:
    rng = np.random.default_rng(seed)
    tasks: list[MemoryTask] = []
    for number in range(count):
        known = [task.writes for task in tasks]
        reads = tuple(dict.fromkeys(known[-int(min(len(known), rng.geometric(0.4)))]
                                    for _ in range(int(rng.integers(1, 4))) if known))
        workspaces = tuple(rng.integers(1, 5000, int(rng.integers(0, 3))).tolist())
        tasks.append(MemoryTask(reads, f"v{number}", workspaces, reads[:int(rng.integers(0, 2))]))
    return tasks, {task.writes: int(rng.integers(1, 10000)) for task in tasks}


def used(tasks: list[MemoryTask], sizes: dict[str, int], plan: MemoryPlan) -> None:
    """Plays the tasks on a block whose bytes say who wrote them last; refuses a task that reads
    other bytes than those that its operand was written to.
    """
    owner = np.full(plan.size, -1)

    def bytes_of(name: str) -> slice:
        return slice(plan.offsets[name], plan.offsets[name] + sizes[name])

    def is_behind(name: str, task: MemoryTask) -> bool:
        """Whether the result begins early enough to lie over what is not read any more."""
        return name in task.leads and (
            plan.offsets[task.writes] + task.leads[name] <= plan.offsets[name])

    names = {name: number for number, name in enumerate(sizes)}
    for number, task in enumerate(tasks):
        for place, size in zip(plan.workspaces[number], task.workspaces, strict=True):
            owner[place:place + size] = -2
        for read in task.reads:
            assert (owner[bytes_of(read)] == names[read]).all(), f"{read} before {task.writes}"
        if task.writes in sizes:
            taken = [name for name in task.reads
                     if name not in task.overwritable and not is_behind(name, task)]
            before = {name: owner[bytes_of(name)].copy() for name in taken}
            owner[bytes_of(task.writes)] = names[task.writes]
            for name, old in before.items():
                assert (owner[bytes_of(name)] == old).all(), f"{name} while {task.writes}"
            for place, size in zip(plan.workspaces[number], task.workspaces, strict=True):
                assert (owner[place:place + size] == -2).all()


def test_what_does_not_live_together_shares_memory() -> None:
    plan = plan_memory(chain("a", "b", "c", "d"), dict.fromkeys("abcd", 100))
    assert plan.size == plan.live == 2 * 128 and plan.unshared == 4 * 128
    assert plan.offsets["a"] == plan.offsets["c"] != plan.offsets["b"] == plan.offsets["d"]


def test_a_result_takes_the_place_of_an_operand_that_may_be_overwritten() -> None:
    tasks = [MemoryTask((), "a"), MemoryTask(("a",), "b", (), ("a",)),
             MemoryTask(("b",), "c", (), ("b",))]
    plan = plan_memory(tasks, {"a": 100, "b": 90, "c": 100})
    assert plan.size == 128 and set(plan.offsets.values()) == {0}


@pytest.mark.parametrize("change", ["read again", "larger", "not overwritable"])
def test_a_result_does_not_take_the_place_of_what_is_needed(change: str) -> None:
    tasks = [MemoryTask((), "a"), MemoryTask(("a",), "b", (), ("a",)), MemoryTask(("b",), "c")]
    sizes = {"a": 100, "b": 100, "c": 100}
    match change:
        case "read again": tasks[2] = MemoryTask(("b", "a"), "c")
        case "larger": sizes["b"] = 200
        case "not overwritable": tasks[1] = replace(tasks[1], overwritable=())
    plan = plan_memory(tasks, sizes)
    used(tasks, sizes, plan)
    assert plan.offsets["a"] != plan.offsets["b"]


def test_workspaces_lie_apart_from_all_that_lives_in_their_task() -> None:
    tasks = [MemoryTask((), "a"), MemoryTask(("a",), "b", (64, 640)),
             MemoryTask(("b",), "c", (6400,))]
    sizes = {"a": 64, "b": 64, "c": 64}
    plan = plan_memory(tasks, sizes)
    used(tasks, sizes, plan)
    assert plan.size == plan.live == 6400 + 2 * 64


def test_values_that_are_not_named_lie_elsewhere() -> None:
    plan = plan_memory([MemoryTask(("input",), "a"), MemoryTask(("a",), "output")], {"a": 1})
    assert dict(plan.offsets) == {"a": 0} and plan.size == LINE
    assert plan_memory([MemoryTask((), "output")], {}).size == 0


def test_a_value_that_nobody_reads_lives_in_its_task() -> None:
    tasks, sizes = [MemoryTask((), "a"), MemoryTask((), "b")], {"a": 64, "b": 64}
    assert plan_memory(tasks, sizes).size == 64


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(20))
def test_random_plans_keep_what_lives(seed: int) -> None:
    tasks, sizes = random_tasks(seed)
    plan = plan_memory(tasks, sizes)
    used(tasks, sizes, plan)
    assert plan.live <= plan.size <= plan.unshared
    assert all(offset % LINE == 0 for offset in plan.offsets.values())
    assert str(plan) == str(plan_memory(tasks, sizes))


def test_a_plan_that_overlaps_is_noticed() -> None:
    tasks, sizes = random_tasks(0)
    plan = plan_memory(tasks, sizes)
    for name in plan.offsets:
        wrong = replace(plan, offsets={**plan.offsets, name: 0})
        if plan.offsets[name] and any(name in task.reads for task in tasks):
            with pytest.raises(AssertionError):
                used(tasks, sizes, wrong)
            return
    raise AssertionError("no value lies anywhere but at 0")


def test_the_text_of_a_plan() -> None:
    tasks = [MemoryTask((), "a"), MemoryTask(("a",), "b", (100,))]
    assert str(plan_memory(tasks, {"a": 1000})) == """\
memory 1152 bytes, largest live set 1152, without sharing 1152
      offset        bytes  first   last  values
           0         1024      0      1  a
        1024          128      1      1  workspace 0 of b
"""


def test_a_result_lies_over_an_operand_behind_its_lead() -> None:
    tasks = [MemoryTask((), "a"), MemoryTask(("a",), "b", leads={"a": 10}),
             MemoryTask(("b",), "c", leads={"b": 130}), MemoryTask(("c",), "d")]
    sizes = {"a": 640, "b": 600, "c": 640, "d": 64}
    plan = plan_memory(tasks, sizes)
    used(tasks, sizes, plan)
    assert plan.offsets["a"] == plan.offsets["b"] + 64 == plan.offsets["c"] + 64 + 192
    assert plan.size == 640 + 64 + 192 and plan.live == 640 + 64


def test_a_result_lies_over_nothing_that_is_read_later() -> None:
    tasks = [MemoryTask((), "a"), MemoryTask(("a",), "b", leads={"a": 10}), MemoryTask(("a",), "c")]
    sizes = dict.fromkeys("abc", 640)
    plan = plan_memory(tasks, sizes)
    used(tasks, sizes, plan)
    assert plan.size == 2 * 640


@pytest.mark.parametrize("seed", range(6))
def test_random_tasks_with_leads(seed: int) -> None:
    tasks, sizes = random_tasks(seed, 12)
    rng = np.random.default_rng(seed)
    tasks = [replace(task, leads={read: int(rng.integers(0, 2000)) for read in task.reads
                                  if rng.random() < 0.7}) for task in tasks]
    plan, apart = plan_memory(tasks, sizes), plan_memory(
        [replace(task, leads={}) for task in tasks], sizes)
    used(tasks, sizes, plan)
    assert plan.live <= plan.size <= apart.size
    assert str(plan) == str(plan_memory(tasks, sizes))
