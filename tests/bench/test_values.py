"""The search for wrong values: what it draws, its bounds, and what it makes of findings."""

import os
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

import compiler.frontend.onnx.operators       # noqa: F401 - registers what the front end takes
from bench.values import children, corpus, search
from bench.values.bounds import bounded
from bench.values.draw import Trial
from bench.values.graphs import Seen, Steering, drawn, legal_pairs, trials
from bench.values.intervals import Interval
from bench.values.judge import beyond, exact_outputs, judged, telling
from bench.values.reached import NOT_MADE, in_graphs, wanted
from bench.values.reference import computed, evaluated
from bench.values.rules import NOT_DRAWN, RULES
from bench.values.shrink import Case, shrunk
from bench.values.spread import spread
from bench.values.ways import GRAPH, WAYS, Way, optimized
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.frontend.onnx.nodes.registry import OPERATORS
from compiler.ops.registry import OPERATORS as OPERATORS_OF_GRAPHS

CORPUS = Path(__file__).parents[1] / "golden" / "values"


def test_every_operator_of_the_front_end_is_drawn_or_has_a_reason():
    drawn = {rule.op for rule in RULES.values()}
    taken = {name for domain, name in OPERATORS if domain == ""}
    assert sorted(taken - drawn - NOT_DRAWN.keys()) == []
    assert sorted(drawn & NOT_DRAWN.keys()) == []


def test_the_seed_decides_every_graph():
    first, second = (list(islice(trials(7), 3)) for _ in range(2))
    assert [one.model for one in first] == [one.model for one in second]
    assert [one.model for one in islice(trials(8), 3)] != [one.model for one in first]


def test_graphs_are_valid_and_of_all_types():
    drawn = list(islice(trials(1), 20))
    for trial in drawn:
        onnx.checker.check_model(trial.model)
        assert set(trial.pairs) <= legal_pairs().keys()
    assert {dtype for trial in drawn for _, _, dtype in trial.pairs} == {
        "int8", "uint8", "int16", "uint16", "float32"}


def test_pairs_are_legal_where_types_and_ranks_meet():
    legal = legal_pairs()
    assert ("conv", "Transpose", "float32") in legal and ("conv", "Flatten", "float32") not in legal
    assert ("one_hot", "Slice", "uint8") in legal and ("one_hot", "Slice", "float32") not in legal
    assert ("eye_like", "DepthToSpace", "int8") not in legal


def test_what_was_seldom_drawn_comes_first():
    """Three are one apart by chance; what is tried in vain falls behind, too."""
    seen, rng = Seen(), np.random.default_rng(1)
    things = [("a",), ("b",), ("c",)]
    seen.drawn.update({("a",): 9, ("b",): 3})
    assert seen.rarest(things, rng) == [("c",), ("b",), ("a",)]
    seen.tried.update({("c",): 2000})
    assert seen.rarest(things, rng) == [("b",), ("a",), ("c",)]


def test_quantized_values_are_read_by_layers():
    seen = Steering(tuple(legal_pairs()))
    made = [drawn(5, number, seen) for number in range(12)]
    assert seen.layers.drawn.total() > len(made)
    assert {dtype for *_, dtype in seen.layers.drawn} == {"int8", "uint8", "int16", "uint16"}


def test_sums_of_products_meet_residuals():
    """Three graphs have both; forty had neither as long as chance alone drew them."""
    seen = in_graphs(islice(trials(10, ("int8", "uint8")), 3))
    assert {"qconv2d_add", "qdense_add"} <= seen


def test_places_of_the_greatest_count_all_elements():
    """ONNX's reference leaves out the channels before."""
    x = np.random.default_rng(4).integers(0, 9, (2, 3, 5, 4)).astype(np.float32)
    node = onnx.helper.make_node("MaxPool", ["x"], ["y", "place"], kernel_shape=[3, 2],
                                 strides=[2, 1], dilations=[1, 2])
    y, places = computed(node, [x])
    np.testing.assert_array_equal(x.reshape(-1)[places], y)
    windows = x[1, 2, 2:5, 1:4:2].reshape(-1)
    row, column = divmod(int(windows.argmax()), 2)
    assert places[1, 2, 1, 1] == 5 * 20 + (2 + row) * 4 + 1 + 2 * column


TEXT = """<ir_version: 11, opset_import: ["": 26]>
g (uint8[1,4,2,2] x) => (int32[1,4,2,2] y, uint8[4,4] z)
<int64[2] s = {4, 4}> {
    t = Transpose<perm = [0, 1, 3, 2]>(x)
    y = Cast<to = 6>(t)
    z = Reshape(x, s)
}"""


def graph() -> Case:
    x = np.random.default_rng(3).integers(0, 256, (1, 4, 2, 2)).astype(np.uint8)
    return Case(parser.parse_model(TEXT), {"x": x})


def spoiled(change) -> Way:
    """A way that changes what is right."""
    def run(model, inputs):
        values = evaluated(model, inputs)
        return {output.name: change(values[output.name]) for output in model.graph.output}
    return Way("spoiled", run)


def test_what_is_right_is_within_the_bounds():
    case = graph()
    verdict = judged(0, case.model, case.inputs, [spoiled(lambda array: array)])
    assert (verdict.findings, verdict.ran, verdict.outputs, verdict.weak) == (
        [], ["spoiled"], 2, 0)


@pytest.mark.parametrize("change, said", [
    (lambda array: array.astype(np.int16) - 128, "is int16"),
    (lambda array: array.astype(array.dtype) - array.dtype.type(128), "16 of 16"),
    (lambda array: np.roll(array, 1, 0 if array.ndim == 2 else 1), "elements are beyond"),
    (lambda array: array.reshape(-1), "is int32[16], not int32[1, 4, 2, 2]")])
def test_a_lost_128_and_a_wrong_channel_are_beyond_them(change, said):
    case = graph()
    finding, *_ = judged(0, case.model, case.inputs, [spoiled(change)]).findings
    assert finding.kind == "wrong" and said in finding.text


FOLDED = """<ir_version: 11, opset_import: ["" : 21]>
folded (int8[1, 2] x) => (float[1, 2] y, int8[1, 2] q, float[2, 2] z, float[1, 2] w)
<float[1, 2] c = {0.1, 0.2}, float s = {0.5}, int8 o = {1}> {
    y = Div(c, s)
    q = QuantizeLinear(y, s, o)
    w = DequantizeLinear(x, s, o)
    z = Concat<axis = 0>(w, y)
}"""


def test_floats_that_are_constants_are_not_compared_to_the_bit():
    """A target may have computed them in another form: a product in integers, say."""
    model = parser.parse_model(FOLDED)
    assert exact_outputs(optimized(model.SerializeToString(), True)) == ["q", "w"]


def test_tracebacks_and_refusals_are_told_apart():
    case = graph()

    def fail(model, inputs):
        raise KeyError("v11")

    verdict = judged(0, case.model, case.inputs, [Way("fails", fail)])
    finding, = verdict.findings
    assert (finding.kind, finding.where) == ("traceback", "KeyError in test_values.py, fail")


def test_bounds_hold_what_quantizations_may_be_off():
    """Every quantization a step off at random, within its own bounds: all that follows is within
    bounds, too.
    """
    rng = np.random.default_rng(5)
    for trial in islice(trials(3), 6):
        allowed = bounded(trial.model, trial.inputs, 1)
        known = {tensor.name: onnx.numpy_helper.to_array(tensor)
                 for tensor in trial.model.graph.initializer} | trial.inputs
        for node in trial.model.graph.node:
            made = computed(node, [known[name] if name else None for name in node.input])
            known.update(zip(node.output, made, strict=False))
            for name in node.output:
                interval = allowed[name]
                if node.op_type == "QuantizeLinear":
                    steps = known[name].astype(int) + rng.integers(-1, 2, known[name].shape)
                    known[name] = np.clip(steps, interval.low, interval.high).astype(
                        interval.middle.dtype)
                assert not beyond(known[name], interval), (trial.number, node)


@pytest.mark.parametrize("low, high, tells", [
    ([1, 2, 3, 4], [1, 2, 3, 4], True), ([0, 0, 0, 0], [9, 9, 9, 9], False)])
def test_bounds_that_hide_a_wrong_order_do_not_tell(low, high, tells):
    made = Interval(np.array(low), np.array([1, 2, 3, 4]), np.array(high))
    assert telling(made) is tells


def test_resized_integers_are_rounded():
    """What a step more makes is as far off as the rounded numbers are."""
    x = np.array([10, 20, 30, 41], np.uint8).reshape(1, 1, 2, 2)
    node = onnx.helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear",
                                 coordinate_transformation_mode="align_corners")
    scales = np.array([1, 1, 1.5, 2], np.float32)
    middle, = computed(node, [x, None, scales])
    exact, = computed(node, [x.astype(np.float64), None, scales])
    np.testing.assert_array_equal(middle, np.rint(exact))
    made, = spread(node, [Interval(x, x, x + np.uint8(1)), None, Interval.exact(scales)],
                   [middle], 26)
    one_more, = computed(node, [x + np.uint8(1), None, scales])
    assert np.all((made.low <= middle) & (one_more <= made.high))


def test_halves_alone_may_be_rounded_either_way():
    """15428 times these scales is 114.5000007, which float32 cannot tell from a half."""
    x, w = np.array([[226, 126, 102], [226, 126, 103]], np.uint8), np.array([[123], [44], [-55]],
                                                                            np.int8)
    scales = [np.float32(one) for one in (0.04523168504238129, 0.01, 0.06094623729586601)]
    given = [x, scales[0], np.uint8(134), w, scales[1], np.int8(-52), scales[2], np.uint8(2)]
    node = onnx.helper.make_node("QLinearMatMul", list("abcdefgh"), ["y"])
    middle, = computed(node, given)
    made, = spread(node, [Interval.exact(np.asarray(one)) for one in given], [middle], 26)
    np.testing.assert_array_equal(made.high.astype(int) - made.low, [[2], [0]])
    assert made.low[0, 0] == middle[0, 0] - 1


def test_products_of_places_that_a_tie_leaves_open_may_be_any():
    places = np.array([[65], [3]], np.int64)
    node = onnx.helper.make_node("CumProd", ["x", "a"], ["y"])
    middle, = computed(node, [places, np.array(0)])
    open_ = Interval(places, places, places + 2)
    made, = spread(node, [open_, Interval.exact(np.array(0))], [middle], 26)
    assert made.low[1, 0] <= 65 * 3 and 67 * 5 <= made.high[1, 0]


def test_logarithms_of_sums_are_as_far_off_as_the_sums():
    x = np.array([9, -8, 0.017], np.float32)
    node = onnx.helper.make_node("ReduceLogSum", ["x"], ["y"], keepdims=0)
    made, = spread(node, [Interval.exact(x)], computed(node, [x]), 26)
    assert 1e-5 < made.high - made.low < 1e-3


def test_a_tangent_is_anything_around_a_pole():
    """Else it rises: places between the ends say little of what is near the pole."""
    low = np.array([-9.6, 1.2, 1.58, -np.inf], np.float32)
    x = Interval(low, low, np.array([-7.8, 1.5, 4.7, 0], np.float32))
    node = onnx.helper.make_node("Tan", ["x"], ["y"])
    made, = spread(node, [x], [np.tan(np.where(np.isinf(low), 0, low))], 26)
    np.testing.assert_array_equal(np.isinf(made.low), [True, False, False, True])
    np.testing.assert_array_equal(np.isinf(made.high), [True, False, False, True])
    np.testing.assert_allclose(made.high[1:3], np.tan([1.5, 4.7]), rtol=1e-3)
    np.testing.assert_allclose(made.low[1:3], np.tan([1.2, 1.58]), rtol=1e-3)


def test_a_root_of_what_may_be_negative_may_be_nan():
    node = onnx.helper.make_node("Sqrt", ["x"], ["y"])
    low, middle, high = np.array([[-1e-6, 1], [1e-6, 1], [1e-5, 1]], np.float32)
    made, = spread(node, [Interval(low, middle, high)], computed(node, [middle]), 26)
    assert not beyond(np.array([np.nan, 1], np.float32), made)
    assert beyond(np.array([0.001, np.nan], np.float32), made)


@pytest.mark.parametrize("shape", [(1, 1), (1, 2)])
def test_a_softmax_of_far_ends_is_anything(shape):
    """What an end leaves of the sum is no difference of sums, of which rounding makes 0."""
    x = Interval(np.full(shape, -700, np.float32), np.full(shape, -1, np.float32),
                 np.zeros(shape, np.float32))
    node = onnx.helper.make_node("Softmax", ["x"], ["y"])
    made, = spread(node, [x], computed(node, [x.middle]), 26)
    np.testing.assert_allclose(made.high, 1, rtol=1e-5)
    np.testing.assert_allclose(made.low, 1 if shape[1] == 1 else 0, atol=1e-5)


def test_a_finding_becomes_small():
    """What Transpose makes is wrong, and nothing else."""
    case = graph()

    def shows(smaller: Case) -> bool:
        return any(node.op_type == "Transpose" for node in smaller.model.graph.node)

    small = shrunk(case, shows, 10)
    assert [node.op_type for node in small.model.graph.node] == ["Transpose"]
    assert [output.name for output in small.model.graph.output] == ["t"]
    assert small.inputs["x"].size < 16


def test_a_finding_is_text_and_comes_back():
    case = graph()
    again = corpus.from_text(corpus.as_text(case, "wrong"))
    for name, array in evaluated(case.model, case.inputs).items():
        np.testing.assert_array_equal(evaluated(again.model, again.inputs)[name], array)


def test_a_child_that_crashes_or_hangs_costs_one_way(monkeypatch):
    monkeypatch.setattr(children, "SECONDS", 0.3)
    monkeypatch.setitem(WAYS, "crash", Way("crash", lambda model, inputs: os.abort()))
    monkeypatch.setitem(WAYS, "hang", Way("hang", lambda model, inputs: time.sleep(60) or {}))
    monkeypatch.setitem(WAYS, "right", spoiled(lambda array: array))
    case, child = graph(), children.Child()
    try:
        verdict = child.judge(Trial(1, case.model, case.inputs), ["crash", "hang", "right"])
    finally:
        child.close()
    assert [(one.way, one.kind) for one in verdict.findings] == [
        ("crash", "crash of SIGABRT"), ("hang", "hang")]
    assert verdict.ran == ["spoiled"]


def test_every_operator_of_the_compiler_is_reached_or_has_a_reason():
    """The text is what `test_graphs_reach_what_the_text_says` has seen."""
    text = (CORPUS.parent / "values_reached.txt").read_text()
    assert wanted() == text.split() and not NOT_MADE.keys() - OPERATORS_OF_GRAPHS.keys()


@pytest.mark.slow
def test_graphs_reach_what_the_text_says(golden):
    seen = in_graphs(islice(trials(908), 320))
    assert not seen & NOT_MADE.keys()
    golden("values_reached.txt", "".join(f"{name}\n" for name in OPERATORS_OF_GRAPHS
                                         if name in seen))


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.json")), ids=lambda path: path.stem)
def test_what_was_found_stays_right(path):
    case = corpus.read(path)
    names = "graph-float", "cpu", "accel:tiny-1x4x4", "accel:int16"
    ways = [GRAPH, *(WAYS[name] for name in names)]
    assert judged(0, case.model, case.inputs, ways).findings == []


def test_a_slice_of_the_search_finds_nothing(tmp_path):
    """10 graphs in NumPy, every fourth on an accelerator."""
    report = search.search(1, ("graph", "graph-float", "accel:tiny-1x4x4"),
                           lambda count: count < 10, tmp_path, shrink_seconds=0)
    assert (report.alike, report.graphs) == ({}, 10), [*tmp_path.iterdir()]
    assert report.weak < report.outputs / 5 and report.exact > 5


@pytest.mark.slow
def test_several_children_see_what_one_sees(tmp_path):
    one, two = (search.search(2, ("graph",), lambda count: count < 3, tmp_path, jobs=jobs)
                for jobs in (1, 2))
    assert (one.pairs, one.operators, one.values) == (two.pairs, two.operators, two.values)
    assert (two.graphs, two.alike) == (3, {})


def test_beside_an_accelerator_the_rest_is_evaluated_in_numpy(monkeypatch):
    """Nothing is compiled for the processor, and the values are right."""
    monkeypatch.setattr(CpuTarget, "compile", None)
    case = graph()
    made = WAYS["accel:tiny-1x4x4"].run(case.model, case.inputs)
    for name, array in made.items():
        np.testing.assert_array_equal(array, evaluated(case.model, case.inputs)[name])


def test_a_network_of_ones_own_is_tried(tmp_path, capsys, monkeypatch):
    case = graph()
    onnx.save(case.model, tmp_path / "net.onnx")
    arguments = ["--model", str(tmp_path / "net.onnx"), "--targets", "graph"]
    assert search.main(arguments) == 0
    assert "ran: graph: " in capsys.readouterr().out
    monkeypatch.setitem(WAYS, "graph", replace(spoiled(lambda array: array + 1), name="graph"))
    assert search.main(arguments) == 1
    assert "wrong: graph: first at t (Transpose) of 3 nodes: " in capsys.readouterr().out
    (tmp_path / "net.onnx").write_bytes(b"no")
    assert search.main(arguments) == 2


def test_wrong_requests(capsys):
    assert search.main(["--targets", "gpu"]) == 2
    assert "bench.values: targets must be of graph, graph-float, cpu" in capsys.readouterr().err
