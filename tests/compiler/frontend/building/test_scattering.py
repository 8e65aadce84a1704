"""Updates at places that are constants, or inputs: the same as ONNX's reference."""

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.frontend import ImportRefused, convert
from compiler.frontend.building import scattering
from compiler.graph import evaluate, verify
from tests.support.slow_cases import each_once

REDUCTIONS = ("none", "add", "mul", "max", "min")


def numbers(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=shape) * 4).astype(dtype)


def whole(*values) -> np.ndarray:
    return np.array(values, np.int64)


def model(op: str, arrays: Mapping[str, np.ndarray], known: set[str], attrs: dict,
          opset: int = 24) -> onnx.ModelProto:
    kinds = {name: helper.np_dtype_to_tensor_dtype(a.dtype) for name, a in arrays.items()}
    graph = helper.make_graph(
        [helper.make_node(op, list(arrays), ["y"], "n", **attrs)], "g",
        [helper.make_tensor_value_info(name, kinds[name], a.shape) for name, a in arrays.items()
         if name not in known],
        [helper.make_tensor_value_info("y", kinds["x"], None)],
        [numpy_helper.from_array(a, name) for name, a in arrays.items() if name in known])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def check(op: str, arrays: Mapping[str, np.ndarray], attrs: dict, opset: int = 24) -> None:
    """The places as constants, and as inputs; by NumPy's meaning, and compiled."""
    for known in ({"at"} & {*arrays}, set()):
        made = model(op, arrays, known, attrs, opset)
        inputs = {name: array for name, array in arrays.items() if name not in known}
        outputs = ReferenceEvaluator(made).run(None, inputs)
        assert isinstance(outputs, list)
        wanted = np.asarray(outputs[0])
        graph = verify(convert(made, "m"))
        for found in (evaluate(graph, inputs), CpuTarget().compile(graph)(inputs)):
            assert found["y"].dtype == wanted.dtype
            np.testing.assert_allclose(found["y"], wanted, 1e-5, 1e-5)


@each_once("reduction, dtype", REDUCTIONS, ["float32", "int8"])
def test_elements_of_a_part(reduction: str, dtype: str) -> None:
    """Places below zero count from the end, and the other axes reach not as far as those of x."""
    at = whole([[1, -1, 0]], [[2, 3, 3]])
    check("ScatterElements", {"x": numbers(3, 4, 5, dtype=dtype), "at": at,
                              "u": numbers(2, 1, 3, seed=1, dtype=dtype)},
          {"axis": 1, "reduction": reduction})


def test_elements_that_meet() -> None:
    arrays = {"x": numbers(4, 2), "at": whole([1, 3], [1, -1], [0, 3]), "u": numbers(3, 2)}
    for reduction in REDUCTIONS[1:]:
        check("ScatterElements", arrays, {"axis": 0, "reduction": reduction})


@each_once("at, reduction", [whole([2], [-4]), whole([[1, 2], [0, -1]], [[3, 0], [-2, 1]]),
                             whole([0, 1, 2], [-1, -2, -3])], REDUCTIONS)
def test_slices(at: np.ndarray, reduction: str) -> None:
    x = numbers(4, 3, 5)
    rest = x.shape[at.shape[-1]:]
    check("ScatterND", {"x": x, "at": at, "u": numbers(*at.shape[:-1], *rest, seed=2)},
          {"reduction": reduction})


def test_a_column_as_torch_assigns_it() -> None:
    """x[:, 1] = u: the places are constants."""
    at = np.stack([np.arange(4), np.ones(4)], -1).astype(np.int64)
    arrays = {"x": numbers(4, 3), "at": at, "u": numbers(4, seed=3)}
    check("ScatterND", arrays, {})
    graph = convert(model("ScatterND", arrays, {"at"}, {}), "m")
    assert not {node.op for node in graph.nodes} & {"last_places", "scatter_reduced"}


def test_of_several_updates_of_one_place_the_last_stays() -> None:
    check("ScatterND", {"x": numbers(4, 3), "at": whole([1], [2], [1]), "u": numbers(3, 3)}, {})


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("axis", [1, -2])
def test_a_cache(mode: str, axis: int) -> None:
    start = whole(2, 0) if mode == "linear" else whole(3, 1)
    check("TensorScatter", {"x": numbers(2, 4, 4, 3), "u": numbers(2, 2, 2, 3)[
        :, :, :, :].reshape(2, 2, 2, 3).repeat(2, 2 if axis == 1 else 1), "at": start},
        {"axis": axis, "mode": mode})
    check("TensorScatter", {"x": numbers(2, 4, 3), "u": numbers(2, 3, 3)},
          {"axis": 1, "mode": mode})


def refusal(op: str, **arrays: np.ndarray) -> str:
    attrs = {"reduction": "sub"} if "s" in arrays else {}
    arrays.pop("s", None)
    with pytest.raises(ImportRefused) as refused:
        convert(model(op, arrays, set(), attrs), "m")
    return str(refused.value).removeprefix(f"m: cannot import n ({op}): ").partition(";")[0]


def test_refusals(monkeypatch) -> None:
    x, at = numbers(4, 3), whole([1], [2])
    assert refusal("ScatterND", x=x, at=at, u=numbers(2, 2)) == (
        "updates must have the shape (2, 3), not (2, 2)")
    assert refusal("ScatterND", x=x, at=at, u=numbers(2, 3), s=at) == (
        "reduction must be none, add, mul, max, min, not sub")
    assert refusal("ScatterElements", x=x, at=at, u=numbers(2, 3)) == (
        "indices and updates must have one shape of 2 dimensions, not (2, 1) and (2, 3)")
    assert refusal("ScatterElements", x=x, at=whole([1] * 4), u=numbers(1, 4)) == (
        "indices must lie within (4, 3) but for axis 0, not (1, 4)")
    monkeypatch.setattr(scattering, "MOST_PAIRS", 7)
    assert refusal("ScatterND", x=x, at=at, u=numbers(2, 3)) == (
        "every place is compared with every update, at most 7 pairs, not 8")
