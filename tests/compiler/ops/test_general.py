"""Operators of any shape and type: the compiled expression is the meaning in NumPy."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.graph import Attrs, Builder, Node, TensorType, TypeRefused, infer
from compiler.graph.reference import evaluate_node
from compiler.ops.families.elementwise import FUNCTIONS
from compiler.ops.records.operator import Numbers
from compiler.ops.registry import OPERATORS
from compiler.te import is_float, numpy_dtype
from tests.support.effort import Effort

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
X = (3, 4, 5)


@dataclass(frozen=True)
class Case:
    """Arguments are shapes, or arrays that are taken as they are."""

    op: str
    args: tuple
    attrs: Mapping = field(default_factory=dict)
    dtypes: tuple[str, ...] = ("float32", "float16", "int8", "int64")

    def __str__(self) -> str:
        return f"{self.op}-{Attrs(self.attrs)}"


def whole(*values) -> np.ndarray:
    return np.array(values, np.int64)


WINDOW = {"strides": (2, 1), "pads": (1, 0, 2, 1), "dilations": (1, 2)}
LINE = {"strides": (2,), "pads": (0, 1), "dilations": (1,)}
BOX = {"strides": (1, 1, 1), "pads": (0, 0, 1, 0, 0, 0), "dilations": (1, 1, 1)}
CASES = [
    *(Case(op, (X,), {"axes": axes, "keepdims": keep}, (*FLOATS, "int8", "uint64"))
      for op in ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod")
      for axes, keep in (((0, 2), 0), ((1,), 1), ((), 0))),
    *(Case("mean", (X,), {"axes": axes, "keepdims": keep}, ("float32",))
      for axes, keep in (((0, 2), 0), ((1,), 1))),
    *(Case(op, (X,), {"axis": 1, "keepdims": keep, **more}, ("float32", "bfloat16", "int8"))
      for op in ("argmax", "argmin") for keep, more in ((0, {}), (1, {"last": 1}))),
    *(Case("joined_bytes", (X,), {"axis": axis, "keepdims": keep}, ("int8",))
      for axis, keep in ((1, 0), (0, 1))),
    *(Case("sorted_places", (X,), {"axis": 1, "count": 3, "largest": largest})
      for largest in (0, 1)),
    *(Case(op, (X,), {"axis": 1, "exclusive": exclusive, "reverse": reverse}, ("float32", "int32"))
      for op in ("cumsum", "cumprod") for exclusive in (0, 1) for reverse in (0, 1)),
    Case("transpose", (X,), {"perm": (2, 0, 1)}, ("float32", "bool")),
    Case("relayout", (X,), {"perm": (1, 2, 0)}, ("float32", "int8")),
    Case("expand", ((4, 1),), {"shape": (3, 4, 5)}),
    Case("bitcast", (np.arange(256, dtype=np.uint8),), {"to": "int4"}, ("uint8",)),
    Case("reverse", (X,), {"axes": (0, 2)}),
    Case("pad", (X, ()), {"mode": "constant", "before": (1, 0, -2), "after": (0, 2, 1)}),
    Case("pad", (X, ()), {"mode": "constant", "before": (6, -5, 0), "after": (-4, 3, 0)}),
    Case("pad", (X, ()), {"mode": "constant", "before": (1, 0, 0), "after": (0, -1, 2),
                          "between": (0, 1, 2)}),
    *(Case("pad", ((3, 1, 5),), {"mode": mode, "before": (2, 1, -1), "after": (2, 0, 4)})
      for mode in ("edge", "reflect", "wrap")),
    Case("gather", (X, whole([0, -1], [2, -4])), {"axis": 1}),
    Case("gather", (X, np.array(2, np.int32)), {"axis": 2}),
    *(Case("numbers_in_bytes", (np.array([[0, 299], [-1, 17]], dtype),), {"rows": 300})
      for dtype in (np.int32, np.int64)),
    Case("gather_elements", (X, whole([[0, -1], [2, -4]])), {"axis": 1}),
    Case("gather_nd", (X, whole([[0, -1], [2, 3]])), {"batch_dims": 0}),
    Case("put_place", (X, (3, 1, 5), whole(3)), {"axis": 1}),
    Case("put_place", (X, (3, 4, 1), whole(5)), {"axis": 2}),
    Case("gather_nd", ((2, 4, 5), whole([[0], [1]], [[2], [-1]])), {"batch_dims": 1}),
    Case("last_places", (whole([[1, -1], [1, 9], [-4, 0]]),), {"extent": 4}),
    *(Case("scatter_reduced", ((1, 4, 2), whole([[1, -1], [1, 9], [-4, 0]]), (1, 3, 2)),
           {"reduction": reduction}, ("float32", "bfloat16", "int8"))
      for reduction in ("add", "mul", "max", "min")),
    Case("scatter_reduced", (X, np.ones((3, 2, 1), np.int64), (3, 2, 5)), {"reduction": "add"}),
    Case("resample", (X, whole([0, 1], [3, 2]), np.array([[1, 0.5], [2, -1]])), {"axis": 1},
         ("float32",)),
    Case("einsum", (X, (5, 2)), {"equation": "abc,cd->dab"}, (*FLOATS, "int8")),
    Case("einsum", (X, (1, 5, 2)), {"equation": "abc,acd->abd"}),
    Case("einsum", ((3, 3),), {"equation": "aa->a"}),
    Case("conv", ((2, 4, 6, 7), (6, 2, 3, 2)), {**WINDOW, "group": 2}),
    Case("conv", ((2, 3, 8), (4, 3, 3)), {**LINE, "group": 1}, ("float32", "float64")),
    Case("conv", ((1, 2, 3, 4, 5), (3, 2, 2, 2, 2)), {**BOX, "group": 1}, ("float32",)),
    *(Case(op, ((2, 3, 6, 7),), {**WINDOW, "kernel": (3, 2)}, ("float32", "float16", "int8"))
      for op in ("pool_max", "pool_sum")),
    Case("pool_place", ((2, 3, 6, 7),), {**WINDOW, "kernel": (3, 2)}, ("float32", "int8")),
    Case("where", (np.arange(3).reshape(3, 1) > 1, (3, 4), (4,)), {}, (*FLOATS, *INTEGERS, "bool")),
    *(Case("cast", ((3, 4),), {"to": to}, (*FLOATS, *INTEGERS, "bool"))
      for to in ("float32", "bfloat16", "int64", "bool")),
    *(Case(op, ((3, 1), (4,), ())[:function.arity], {},
           tuple(d for d in (*FLOATS, *INTEGERS, "bool") if function.takes(d)))
      for op, function in FUNCTIONS.items()),
]


def random(shape: tuple[int, ...], dtype: str, rng: np.random.Generator, op: str) -> np.ndarray:
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if is_float(dtype):
        values = rng.uniform(0.1, 0.9, shape) if op in ("asin", "acos", "atanh") else (
            rng.uniform(1.1, 4, shape) if op in ("acosh", "log", "sqrt", "pow") else
            rng.normal(size=shape) * 2)
        return np.asarray(values).astype(numpy_dtype(dtype))
    low = 1 if op in ("mod", "fmod", "div", "shl", "shr", "cast") else (
        0 if dtype.startswith("u") else -5)
    return rng.integers(low, 7, shape, dtype, endpoint=True)


def compiled(node: Node, arrays: list[np.ndarray]) -> np.ndarray:
    """What the host makes of it."""
    net, inputs = Builder("one"), dict(zip(node.inputs, arrays, strict=True))
    for name, array in inputs.items():
        net.add_input(name, TensorType.of(array))
    return CpuTarget().compile(net.finish([net.add(node)]))(inputs)["y"]


def some_types(place: int) -> tuple[str, ...]:
    """In the quick run a third of a case's types; of neighbouring cases others."""
    dtypes = CASES[place].dtypes
    return dtypes[place % min(3, len(dtypes))::3] if Effort.quick else dtypes


def test_every_operator_has_a_case() -> None:
    assert {case.op for case in CASES} == {
        name for name, operator in OPERATORS.items() if operator.numbers is Numbers.ANY}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("place", range(len(CASES)), ids=lambda place: str(CASES[place]))
def test_the_expression_is_the_meaning(place: int, rng: np.random.Generator) -> None:
    case = CASES[place]
    for dtype in some_types(place):
        arrays = [random(a, dtype, rng, case.op) if isinstance(a, tuple) else
                  a.astype(dtype) if a.dtype == np.float64 else a for a in case.args]
        types = [TensorType.of(array) for array in arrays]
        node = Node(case.op, "n", tuple(f"x{i}" for i in range(len(arrays))), ("y",), case.attrs)
        made = infer(node, types)
        found = compiled(node, arrays)
        wanted = evaluate_node(node, arrays)
        assert TensorType.of(wanted) == made, (dtype, made)
        if is_float(made.dtype):
            tolerance = {"float64": 1e-12, "float32": 2e-5, "float16": 1e-2, "bfloat16": 5e-2}
            limit = tolerance[made.dtype]
            np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64),
                                       limit, limit, err_msg=dtype)
        else:
            np.testing.assert_array_equal(found, wanted, err_msg=dtype)


@pytest.mark.parametrize("op", ["shl", "shr"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_shifts_by_the_width_or_more_leave_the_sign(op: str, dtype: str) -> None:
    numbers = np.array([5, -3], np.int64).astype(dtype)[:, None]
    amounts = np.array([0, 7, 8, 31, 32, 63, 64, 100], dtype)
    node = Node(op, "n", ("a", "b"), ("y",))
    wanted = [[(int(a) << int(b) if op == "shl" else int(a) >> int(b)) for b in amounts]
              for a in numbers.ravel()]
    exact = np.array([[one % 2**64 for one in row] for row in wanted], np.uint64).astype(dtype)
    np.testing.assert_array_equal(evaluate_node(node, [numbers, amounts]), exact)
    np.testing.assert_array_equal(compiled(node, [numbers, amounts]), exact)


@pytest.mark.parametrize(("op", "types", "attrs", "sentence"), [
    ("add", ["float32[2]", "int32[2]"], {}, "inputs of add must have one type, not float32 and "
                                            "int32"),
    ("add", ["float32[2]", "float32[3]"], {}, "add inputs must broadcast, not float32[2] and "
                                              "float32[3]"),
    ("exp", ["int8[2]"], {}, "inputs of exp must be of float type, not int8"),
    ("neg", ["int8[2]", "int8[2]"], {}, "neg must have 1 inputs, not 2"),
    ("where", ["int8[2]", "int8[2]", "int8[2]"], {},
     "where must have a bool and two inputs of one type, not int8, int8, int8"),
    ("reduce_sum", ["int8[2,3]"], {"axes": (2,), "keepdims": 0},
     "axes must be different ones of 0 to 1, not (2,)"),
    ("transpose", ["int8[2,3]"], {"perm": (0, 0)}, "perm must order 0 to 1, not (0, 0)"),
    ("gather", ["int8[2,3]", "int64[1]"], {"axis": 2}, "axis must be 0 to 1, not 2"),
    ("einsum", ["int8[2,3]", "int8[2,3]"], {"equation": "ab,bc->ac"},
     "extents of b must agree in ab,bc->ac, not 3 and 2"),
    ("conv", ["int8[1,3,4]", "int8[2,2,3]"],
     {"strides": (1,), "pads": (0, 0), "dilations": (1,), "group": 1},
     "channels must be the weight's 2 in each of 1 groups that divide 2, not 3"),
    ("pool_max", ["int8[1,3,4]"], {"kernel": (9,), "strides": (1,), "pads": (0, 0),
                                   "dilations": (1,)},
     "kernel must fit the padded input, not (9,) in int8[1,3,4] with pads (0, 0) and dilations "
     "(1,)"),
    ("sorted_places", ["int8[2]"], {"axis": 0, "count": 3, "largest": 1},
     "count must be 1 to 2, not 3"),
    ("last_places", ["int64[2,3]"], {"extent": 4}, "places must have 3 dimensions, not 2"),
    ("scatter_reduced", ["bool[1,4,2]", "int64[1,3,2]", "bool[1,3,2]"], {"reduction": "max"},
     "x and updates must be numbers of one type, not bool and bool"),
    ("scatter_reduced", ["int8[1,4,2]", "int64[1,3,2]", "int8[1,3,2]"], {"reduction": "sub"},
     "reduction must be add, mul, max, min, not sub"),
    ("scatter_reduced", ["int8[1,4,2]", "int64[1,3,3]", "int8[1,3,2]"], {"reduction": "add"},
     "places and updates must fit (1, 4, 2), not (1, 3, 3) and (1, 3, 2)"),
    ("expand", ["int8[2]"], {"shape": (1,)}, "(2,) must broadcast to shape (1,)"),
    ("exp", ["float32[2]", "float32[2]"], {}, "exp must have 1 inputs, not 2"),
])
def test_refusals(op: str, types: list[str], attrs: dict, sentence: str) -> None:
    parsed = []
    for text in types:
        dtype, _, shape = text.rstrip("]").partition("[")
        parsed.append(TensorType(tuple(map(int, shape.split(","))), dtype))
    node = Node(op, "n", tuple(f"x{i}" for i in range(len(types))), ("y",), attrs)
    with pytest.raises(TypeRefused) as refused:
        infer(node, parsed)
    assert str(refused.value) == f"n: {sentence}"
