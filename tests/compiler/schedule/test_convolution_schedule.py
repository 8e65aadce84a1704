"""A convolution as an accelerator wants it: tiled, cached, threaded, every nest an intrinsic."""

from itertools import product

import pytest

from compiler import te
from compiler.ir import Program, Tensorized, lower, program_text, walk_stmts
from compiler.ops.integers.arithmetic import PARAM, requantize
from compiler.schedule import Schedule
from compiler.te import Axis, Var
from compiler.tensorize import ANY, Immediate, Intrinsic, Operand
from tests.compiler.ir.samples import assert_same_meaning, convolution
from tests.support.slow_cases import each_once


def place(out, rows=2, columns=2, depth=1, pad_at="ci_o") -> Schedule:
    """Tile the output, keep each tile's accumulators and operands on chip."""
    s = Schedule([out], "conv")
    oh, ow = out.shape[1:3]
    lanes = s["out"].cache_write("out")
    s["out"].split("oh", min(rows, oh))
    s["out"].split("ow", min(columns, ow))
    s["out"].split("co", 1)
    s["out"].reorder("co_o", "oh_o", "ow_o", "oh_i", "ow_i", "co_i")
    lanes.compute_at("out_ow_o")
    s["acc"].compute_at("out_ow_o")
    s["acc"].set_scope("acc")
    s["acc"].split("ci", depth)
    s["acc"].reorder("ci_o", "n", "oh", "ow", "co", "kh", "kw", "ci_i", "b", "o", "i")
    s["pad"].compute_at(pad_at)
    s["pad"].set_scope("inp")
    s["w"].cache_read("wgt").compute_at("ci_o")
    s["par"].cache_read("par").compute_at("out_ow_o")
    s["out"].virtual_thread("co_o")
    return s


B, O, I = Axis(Var("lane_b"), 1), Axis(Var("lane_o"), 4), te.reduce_axis(4, "lane_i")


def gemm() -> Intrinsic:
    x, w = te.placeholder((1, 4), "int8", "inp"), te.placeholder((4, 4), "int8", "wgt")
    value = te.sum(x[B, I].astype("int32") * w[O, I].astype("int32"), I)
    return Intrinsic("gemm", "gemm", Operand("dst", (1, 4), "int32", (("acc", "int32"),)),
                     (Operand("inp", (1, 4), "int8", (("inp", "int8"),)),
                      Operand("wgt", (4, 4), "int8", (("wgt", "int8"),))), (B, O), value, "sum")


def requantized() -> Intrinsic:
    a = te.placeholder((1, 4), "int32", "a")
    fields = {name: te.placeholder((4,), dtype, name)
              for name, dtype in te.record_fields(PARAM).items()}
    limits = tuple(Immediate(name, "int8", -128, 127) for name in ("zp", "lo", "hi"))
    value = requantize(a[B, O], *(f[O] for f in fields.values()), *(one.var for one in limits))
    operands = tuple(Operand(name, (4,), f.dtype, (("par", f"{PARAM}.{name}"),))
                     for name, f in fields.items())
    return Intrinsic("requantize", "vector", Operand("dst", (1, 4), "int32", (("out", "int8"),)),
                     (Operand("a", (1, 4), "int32", (("acc", "int32"),)), *operands), (B, O),
                     value, immediates=limits)


def copy(name: str, source: str, target: str, dtype: str = "int8", padded=False) -> Intrinsic:
    value, immediates = te.placeholder((), dtype, "src")[()], ()
    if padded:
        immediates = (Immediate("valid", "bool"), Immediate("pad", dtype, -128, 127))
        value = te.select(immediates[0].var, value, immediates[1].var)
    return Intrinsic(name, name, Operand("dst", (), ANY, ((target, dtype),)),
                     (Operand("src", (), ANY, ((source, dtype),)),), (), value,
                     immediates=immediates)


def tensorized(s: Schedule) -> Program:
    s["acc"].tensorize("b", gemm())
    s["out_out"].tensorize("b", requantized(), zp=3, lo=-128, hi=127)
    s["pad"].tensorize(None, copy("load", "global", "inp", padded=True), pad=3)
    s["w_wgt"].tensorize(None, copy("load", "global", "wgt"))
    s["par_par"].tensorize(None, copy("load", "global", "par", PARAM))
    s["out"].tensorize(None, copy("store", "out", "global"))
    return s.program


@each_once("window, tiles", [*product((1, 3), (1, 2), (0, 1))], [
    (2, 2, 1, "ci_o"), (3, 2, 2, "ci_o"), (3, 3, 1, "out_ow_o"), (5, 1, 2, "out_ow_o"),
    (4, 3, 1, "ci_o")])
def test_schedule_keeps_the_meaning(window, tiles):
    (kernel, stride, padding), (rows, columns, depth, pad_at) = window, tiles
    out = convolution(kernel=kernel, stride=stride, padding=padding)
    s = place(out, rows, columns, depth, pad_at)
    assert_same_meaning(lower([out], "conv"), s.program)


@pytest.mark.parametrize("rows, columns", [(2, 3), (4, 4)])
def test_every_statement_becomes_an_intrinsic(rows, columns):
    out = convolution(size=(6, 6), ci=3)
    program = tensorized(place(out, rows, columns, 1))
    assert_same_meaning(lower([out], "conv"), program)
    names = [s.intrinsic.name for s in walk_stmts(program.body) if isinstance(s, Tensorized)]
    assert names == ["load", "load", "gemm", "load", "requantize", "store"]


def test_text_of_the_scheduled_convolution(golden):
    s = place(convolution(size=(6, 6)), 2, 4)
    golden("scheduled_convolution.txt",
           f"{s.text()}\n\n{program_text(s.program)}\n{program_text(tensorized(s))}")
