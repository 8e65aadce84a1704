"""The schedule as an object: the same programs, and the steps that made them."""

import doctest

import compiler.schedule.handle
from compiler.ir import lower, program_text
from compiler.schedule import Schedule, compute_at, split
from tests.compiler.ir.samples import assert_same_meaning, matmul, shifted

SHIFTED = shifted()


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
