"""Arithmetic of bodies by NumPy."""

import numpy as np
import pytest

from accel.sim.meaning import evaluate as evaluation
from accel.sim.meaning.evaluate import evaluate
from compiler import te
from compiler.ir import arithmetic


def test_operators_mean_what_the_interpreter_takes_them_for(monkeypatch):
    """The simulator has no table of its own: what changes there changes here."""
    i = te.reduce_axis(3, "i")
    tile = {"a": np.array([[1, 2, 4]], np.int32)}
    a = te.placeholder((3,), "int32", "a")
    body = te.sum(te.abs(a[i] - 3), i)
    assert evaluate(body, (), tile, {}, 1).tolist() == [4]
    monkeypatch.setitem(arithmetic._BINARY, "sub", np.add)
    assert evaluate(body, (), tile, {}, 1).tolist() == [16]
    monkeypatch.setitem(arithmetic._CALLS, "abs", np.negative)
    assert evaluate(body, (), tile, {}, 1).tolist() == [-16]
    monkeypatch.setitem(arithmetic.FOLDS, "sum", np.maximum)
    assert evaluate(body, (), tile, {}, 1).tolist() == [-4]
    assert not [name for name in vars(evaluation) if name.startswith("_") and name.isupper()]


def test_what_numpy_cannot_evaluate_is_named():
    i = te.reduce_axis(1, "i")
    nested = te.sum(te.placeholder((1,), "int32", "a")[i], i).astype("int8")
    with pytest.raises(TypeError, match=r"^Body of an instruction must be one that NumPy can "
                                        r"evaluate, not Reduce\(op='sum'"):
        evaluate(nested, (), {}, {}, 1)
