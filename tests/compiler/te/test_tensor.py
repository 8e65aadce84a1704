"""Tensors: placeholders and computed ones."""

import doctest
import re

import pytest

import compiler.te.tensor
from compiler import te
from compiler.te import Const, Reduce, Var


def refuses(message: str):
    return pytest.raises(ValueError, match=f"^{re.escape(message)}$")


X = te.placeholder((4, 8), "int32", "x")


def test_axes_take_the_names_of_the_parameters():
    t = te.compute((8, 4), lambda row, column: X[column, row], "t")
    assert [axis.name for axis in t.axes] == ["t_row", "t_column"]
    assert [axis.extent for axis in t.axes] == [8, 4]
    assert t.body == X[Var("t_column"), Var("t_row")]
    assert (t.name, t.shape, t.dtype) == ("t", (8, 4), "int32")
    assert t.reduce_axes == ()


def test_any_number_of_dimensions():
    t = te.compute((4, 8), lambda *indices: X[indices] + 1, "t")
    assert [axis.name for axis in t.axes] == ["t_i0", "t_i1"]


def test_reduction():
    k = te.reduce_axis(8, "k")
    t = te.compute((4,), lambda i: te.min(X[i, k], axis=k), "t")
    assert t.body == Reduce("min", X[Var("t_i"), Var("k")], ((Var("k"), 8),))
    assert t.reduce_axes == (k,)


def test_values():
    assert te.const(3, "float32") == Const(3.0, "float32")
    assert te.clamp(X[0, 0], -1, 1) == te.minimum(te.maximum(X[0, 0], -1), 1)
    a, b, c = (Var(n).equal(0) for n in "abc")
    assert te.all_of(a) is a
    assert te.all_of(a, b, c) == (a & b) & c


def test_body_with_other_indices_wrong():
    with refuses("Body of t must take 2 indices, not 1"):
        te.compute((4, 8), lambda i: X[i, i], "t")


def test_reduction_inside_wrong():
    k = te.reduce_axis(8, "k")
    with refuses("Reduction in t must be the outermost operation of its body"):
        te.compute((4,), lambda i: te.sum(X[i, k], k) + 1, "t")
    with refuses("Reduction in t must be the outermost operation of its body"):
        te.compute((4,), lambda i: te.sum(te.sum(X[i, k], k), k), "t")


@pytest.mark.parametrize("extent", [0, -1, 2.0])
def test_extent_of_a_reduction_wrong(extent):
    with refuses(f"Extent of k must be a positive integer, not {extent!r}"):
        te.reduce_axis(extent, "k")


def test_reduction_over_a_space_axis_wrong():
    t = te.compute((4,), lambda i: X[i, 0], "t")
    with refuses("Axis of max must be a reduce_axis, not 't_i'"):
        te.max(X[0, t.axes[0]], t.axes[0])


def test_example_in_the_text_is_true():
    failures, tried = doctest.testmod(compiler.te.tensor)
    assert (failures, tried > 3) == (0, True)
