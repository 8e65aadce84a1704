"""Branches and loops that data decide: the same as ONNX's reference."""

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.frontend import ImportRefused, convert
from compiler.frontend.onnx.operators import control
from compiler.graph import evaluate, verify

HEAD = '<ir_version: 8, opset_import: ["" : 18]>\n'


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEAD + text)


def check(text: str, *inputs: dict[str, np.ndarray]) -> None:
    model = parsed(text)
    graph = verify(convert(model, "m"))
    module = CpuTarget().compile(graph)
    for arrays in inputs:
        wanted = ReferenceEvaluator(model).run(None, arrays)
        assert isinstance(wanted, list)
        for found in (evaluate(graph, arrays), module(arrays)):
            for value, expected in zip(found.values(), wanted, strict=True):
                np.testing.assert_allclose(value, expected, 1e-6, 1e-6)


def refusal(text: str) -> str:
    with pytest.raises(ImportRefused) as refused:
        convert(parsed(text), "m")
    return str(refused.value).removeprefix("m: cannot import ").partition("; replace")[0]


def x(*values: float) -> dict[str, np.ndarray]:
    return {"x": np.array(values, np.float32)}


IF = """g (float[3] x) => (float[3] y, float[2] z) {{
  zero = Constant <value_float: float = 0.0> ()
  total = ReduceSum <keepdims = 0> (x)
  c = Greater (total, zero)
  y, z = If (c) <
    then_branch = t () => (float[3] a, float[2] b) {{
      a = Sqrt (x)
      b = Constant <value_floats: floats = [1.0, 2.0]> () }},
    else_branch = e () => (float[3] a, float[2] b) {{
      a = Neg (x)
      {other} }}> }}"""
SAME = "n = Constant <value_floats: floats = [3.0, 4.0]> ()\n b = Neg (n)"


def test_a_branch_that_data_choose() -> None:
    """What the other branch makes of these data, here NaN, is of no account."""
    check(IF.format(other=SAME), x(1, 2, 3), x(-1, 2, -4), x(0, 0, 0))


def test_division_by_zero_in_the_branch_that_is_not_taken() -> None:
    check("""g (int32 n) => (int32 y) {
      zero = Constant <value = int32 {0}> ()
      c = Equal (n, zero)
      y = If (c) <then_branch = t () => (int32 a) { a = Identity (n) },
                  else_branch = e () => (int32 b) {
                    seven = Constant <value = int32 {7}> ()
                    b = Div (seven, n) }> }""",
          {"n": np.array(0, np.int32)}, {"n": np.array(3, np.int32)})


def test_branches_of_different_shapes() -> None:
    longer = "b = Constant <value_floats: floats = [3.0, 4.0, 5.0]> ()"
    line = refusal(IF.format(other=longer))
    assert line == ("If_3 (If): its condition 'c' depends on data, so each result must have one "
                    "type, not a constant: float32[2] and a constant: float32[3]")


LOOP = """g (float[2] x{more}) => (float[2] y{out}) {{
  {start}
  y{out_name} = Loop ({count}, {first}, x) <body = b (int64 i, bool c, float[2] s)
      => (bool go, float[2] r{row}) {{
    r = Add (s, s)
    t = ReduceSum <keepdims = 0> (r)
    limit = Constant <value_float: float = 20.0> ()
    go = {go} }}> }}"""
TEN = "ten = Constant <value = int64 {10}> ()\n yes = Constant <value = bool {1}> ()"
WHILE = {"more": "", "out": "", "start": TEN, "out_name": "", "count": "ten", "first": "yes",
         "row": "", "go": "Less (t, limit)"}


def test_a_loop_that_data_end() -> None:
    """Early, at once behind the first turn, and not before the trip count."""
    check(LOOP.format(**WHILE), x(1, 2), x(30, 2), x(1e-3, 0), x(float("nan"), 1))


def test_a_condition_that_is_left_out_holds() -> None:
    """ONNX's reference takes no turn then."""
    told, silent = (convert(parsed(LOOP.format(**WHILE | {"first": first})), "m")
                    for first in ("yes", ""))
    assert str(told) == str(silent)


def test_a_loop_that_may_not_begin() -> None:
    text = LOOP.format(**WHILE | {"more": ", bool first", "first": "first"})
    check(text, *(x(1, 2) | {"first": np.array(first)} for first in (True, False)))


def test_a_trip_count_with_a_limit() -> None:
    start = TEN + "\nk = Min (n, ten)"
    text = LOOP.format(**WHILE | {"more": ", int64 n", "start": start, "count": "k"})
    counts = (0, 1, 3, 50)
    check(text, *(x(1e-6, 0) | {"n": np.array(n)} for n in counts))
    endless = text.replace("Less (t, limit)", "Identity (c)")
    check(endless, *(x(1, 2) | {"n": np.array(n)} for n in counts))


def test_a_count_in_the_condition_is_a_limit() -> None:
    text = """g (float[2] x) => (float[2] y, int64 n) {
      zero = Constant <value = int64 {0}> ()
      yes = Constant <value = bool {1}> ()
      n, y = Loop (, yes, zero, x) <body = b (int64 i, bool c, int64 k, float[2] s)
          => (bool go, int64 l, float[2] r) {
        one = Constant <value = int64 {1}> ()
        l = Add (k, one)
        r = Add (s, s)
        t = ReduceSum <keepdims = 0> (r)
        limit = Constant <value_float: float = 20.0> ()
        most = Constant <value = int64 {5}> ()
        early = Less (l, most)
        small = Less (t, limit)
        go = And (early, small) }> }"""
    check(text, x(1, 2), x(30, 2), x(1e-3, 0))


def test_loops_that_are_refused(monkeypatch) -> None:
    monkeypatch.setattr(control, "MOST_TURNS", 3)
    line = refusal(LOOP.format(**WHILE | {"count": ""}))
    assert line.startswith("Loop_2 (Loop): its condition ") and line.endswith(
        "depends on data, so its trip count must be 20,000 at most, not left out, or a count in "
        "the condition must end it after 3 turns")
    monkeypatch.setattr(control, "MOST_TIMES", 9)
    line = refusal(LOOP.format(**WHILE))
    assert line.endswith("so its trip count must be 9 at most, not 10, or a count in the condition "
                         "must end it after 3 turns")
    assert refusal(LOOP.format(**WHILE | {"more": ", int64 n", "count": "n"})) == (
        "Loop_2 (Loop): its trip count 'n' must be a constant")
    rows = {"out": ", float[N,2] z", "out_name": ", z", "row": ", float[2] q",
            "go": "Less (t, limit) q = Neg (r)"}
    monkeypatch.undo()
    assert refusal(LOOP.format(**WHILE | rows)) == (
        "Loop_2 (Loop): its result 'q' has a row for each turn, and data decide how many there are")


def test_a_condition_of_many_elements() -> None:
    assert refusal("""g (bool[2] c, float[1] x) => (float[1] y) {
      y = If (c) <then_branch = t () => (float[1] a) { a = Neg (x) },
                  else_branch = e () => (float[1] b) { b = Abs (x) }> }""") == (
        "If_0 (If): its condition must be one bool, not c: bool[2]")


def test_sequences_of_several_lengths() -> None:
    """The scan of opset 8: behind its length a sequence leaves the state, and rows are zero."""
    model = parsed("""g (int64[2] n, float[2,1] s, float[2,3,1] x) => (float[2,1] y, float[2,3,1] z)
    { y, z = Scan <num_scan_inputs = 1, body = b (float[1] s, float[1] v)
        => (float[1] t, float[1] u) { t = Add (s, v)  u = Neg (t) }> (n, s, x) }""")
    model.opset_import[0].version = 8
    graph = verify(convert(model, "m"))
    rows = np.arange(6, dtype=np.float32).reshape(2, 3, 1)
    found = evaluate(graph, {"n": np.array([1, 3]), "s": np.ones((2, 1), np.float32), "x": rows})
    assert found["y"].tolist() == [[1], [13]]
    assert found["z"].tolist() == [[[-1], [0], [0]], [[-4], [-8], [-13]]]
