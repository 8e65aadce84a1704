"""The schedule as an object: the same programs, and the steps that made them."""

import doctest
import importlib
import pkgutil
import re
from inspect import isfunction
from pathlib import Path
from typing import get_type_hints

import pytest

import compiler.schedule.handle
from compiler import te
from compiler.ir import Program, lower, program_text
from compiler.schedule import PRIMITIVES, Schedule, ScheduleError, StageSchedule, compute_at, split
from compiler.schedule.analysis import place
from compiler.tensorize import Intrinsic, Operand
from tests.compiler.ir.samples import assert_same_meaning, matmul, shifted

SHIFTED = shifted()
PAGE = Path(__file__).parents[3] / "docs" / "schedules.md"


def test_handle_applies_the_primitives():
    s = Schedule([SHIFTED])
    outer, inner = s[SHIFTED].split("i", 5)
    assert (outer, inner) == ("c_i_o", "c_i_i")
    s["b"].compute_at(outer)
    plain = compute_at(split(lower([SHIFTED], "main"), "c_i", 5), "b", "c_i_o")
    assert program_text(s.program) == program_text(plain)


def test_every_step_is_kept():
    s = Schedule(lower([SHIFTED], "main"))
    s["c"].split("c_i", 5, inner="lane")
    s["b"].cache_read("near", name="near_b").compute_at("c_i_o")
    s["b"].compute_inline()
    s["c"].unroll("lane")
    assert s.text() == ("split(c_i, 5, inner=lane)\ncache_read(b, near, name=near_b)\n"
                        "compute_at(near_b, c_i_o)\ncompute_inline(b)\nunroll(lane)")
    assert s.steps[-1][1] is s.program
    for _, program in s.steps:
        assert_same_meaning(lower([SHIFTED], "main"), program)


def test_names_are_short_within_a_stage():
    c = matmul()
    s = Schedule([c])
    assert s["c"].tile("i", c.axes[1], 2, 3) == ("c_i_o", "c_j_o", "c_i_i", "c_j_i")
    s["c"].reorder("k", "i_i")
    assert s["c"].fuse("i_o", "j_o", "block") == "block"
    s["c"].virtual_thread("block")
    assert s.text().splitlines() == ["tile(c_i, c_j, 2, 3)", "reorder(k, c_i_i)",
                                     "fuse(c_i_o, c_j_o, fused=block)", "virtual_thread(block)"]
    assert_same_meaning(lower([c], "main"), s.program)


def test_an_unknown_stage_wrong():
    with pytest.raises(ScheduleError, match="^schedule: stage must be one of .*, not 'z'\n"):
        Schedule([SHIFTED])["z"].split("i", 2)


def test_copies_are_stages():
    s = Schedule([matmul()])
    acc = s["c"].cache_write("near", name="acc")
    acc.reorder("k", "i")
    acc.compute_at("c_i")
    acc.set_scope("acc")
    assert s.text() == ("cache_write(c, near, name=acc)\nreorder(k, acc_i)\n"
                        "compute_at(acc, c_i)\nset_scope(acc, acc)")
    assert_same_meaning(lower([matmul()], "main"), s.program)


def test_example_in_the_text_is_true():
    failures, tried = doctest.testmod(compiler.schedule.handle)
    assert (failures, tried > 5) == (0, True)


def test_every_primitive_has_a_method():
    methods = {name for name in vars(StageSchedule) if not name.startswith("_")} - {
        "schedule", "name"}
    assert methods == set(PRIMITIVES)


def test_every_function_from_program_to_program_is_a_primitive():
    """`place` has those that primitives are made of."""
    modules = [importlib.import_module(found.name) for found in pkgutil.walk_packages(
        compiler.schedule.__path__, f"{compiler.schedule.__name__}.") if not found.ispkg]
    functions = {name: vars(module)[name] for module in modules if module is not place
                 for name in module.__all__ if isfunction(vars(module)[name])}
    names = {name for name, one in functions.items()
             if get_type_hints(one).get("return") is Program}
    assert names == set(PRIMITIVES)


def test_every_primitive_is_exported_and_on_the_page():
    assert set(PRIMITIVES) <= set(vars(compiler.schedule))
    table = PAGE.read_text().partition("| about | primitives |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"`(\w+)`", table)) == sorted(PRIMITIVES)


def replayed(s: Schedule, outputs, **options) -> None:
    again = Schedule.replay(outputs, s.text(), **options)
    assert again.program == s.program
    assert again.text() == s.text()


def test_record_is_replayed():
    c = matmul()
    s = Schedule([c])
    near = s["c"].cache_write("local")
    s["c"].split("i", 2, outer="rows")
    s["c"].bind("rows", "blockIdx.x")
    near.compute_at("rows")
    near.split("k", 4)
    s["x"].cache_read("shared", readers=["c_local"]).compute_at("k_o")
    s["x_shared"].transform_layout(lambda i, j: (j, i))
    s["x_shared"].storage_align(0, 4, 1)
    near.decompose_reduction("i")
    near.annotate("i", "why", "two words, in \"quotes\"")
    replayed(s, [c])
    assert_same_meaning(lower([c], "main"), s.program)


def test_record_of_intrinsics_is_replayed():
    x = te.placeholder((4,), "int8", "x")
    y = te.compute((4,), lambda i: x[i], "y")
    lane = te.Axis(te.Var("lane"), 4)
    target, source = (Operand(name, (4,), "int8", (("global", "int8"),))
                      for name in ("target", "source"))
    copy = Intrinsic("copy", "vector", target, (source,), (lane,),
                     te.placeholder((4,), "int8", "source")[lane.var])
    s = Schedule([y])
    s["y"].tensorize("i", copy)
    replayed(s, [y], intrinsics=[copy])
    with pytest.raises(ValueError, match=r"^Step 'tensorize\(y_i, copy\)' cannot be replayed: "
                                         r"intrinsic must be one of none, not copy$"):
        Schedule.replay([y], s.text())


@pytest.mark.parametrize("line, reason", [
    ("split(c_i, 4", "'(' was never closed"),
    ("c_i", "it is no call"),
    ("split(c_i, 2 + 2)", "argument must be a name or a number, not 2 + 2"),
    ("unroll()", "missing a required argument: 'loop'"),
    ("unroll(c_i, c_j)", "too many positional arguments"),
    ("unroll(c_i, loop=c_j)", "multiple values for argument 'loop'"),
    ("cache_write(c, local, no=d)", "got an unexpected keyword argument 'no'"),
    ("unroll(3)", "argument 'loop' must not be 3"),
    ("unroll(None)", "argument 'loop' must not be None"),
    ("unroll([c_i])", "argument 'loop' must not be ('c_i',)"),
    ("split(c_i, 2, 4)", "argument 'outer' must not be 4"),
    ("reorder(c_i, 3)", "argument 'names' must not be ('c_i', 3)"),
    ("reorder(c_i, reassociate=1)", "argument 'reassociate' must not be 1"),
    ("pad(c_i, True)", "argument 'extent' must not be True"),
    ("cache_read(x, shared, c)", "argument 'readers' must not be 'c'"),
    ("cache_read(x, shared, [3])", "argument 'readers' must not be (3,)"),
    ("transform_layout(x, [a, b])", "argument 'layout' must not be ('a', 'b')"),
])
def test_replay_of_what_is_no_step_wrong(line, reason):
    with pytest.raises(ValueError) as caught:       # noqa: PT011 - the whole message is compared
        Schedule.replay([SHIFTED], line)
    assert str(caught.value) == f"Step {line!r} cannot be replayed: {reason}"


def test_replay_of_an_unknown_primitive_wrong():
    with pytest.raises(ValueError, match=r"^Step 'melt\(c_i\)' cannot be replayed: primitive must "
                                         r"be one of annotate, bind, cache_read, .*, not 'melt'$"):
        Schedule.replay([SHIFTED], "melt(c_i)")
