"""Softmax and normalizations between quantizations become integer operators of rows."""

import numpy as np
import pytest

from compiler.frontend import convert
from compiler.graph import Graph, evaluate, optimize
from compiler.graph.passes.pipeline import standard_passes
from compiler.graph.integerize.rows import MOST_EPSILON
from compiler.ops.families.row_functions import (MOST_ELEMENTS, RECIPROCALS, ROOTS, Fractions,
                                                 exponentials)

SCALE = 0.05
EPSILON = 1e-5


def softmax(one, x, count):
    return one.add("Softmax", x, axis=-1)


def written_softmax(one, x, count):
    """With a product of the inverse, as some exporters write it."""
    greatest = one.add("ReduceMax", x, axes=[-1], keepdims=1)
    powers = one.add("Exp", one.add("Sub", x, greatest))
    total = one.add("ReduceSum", powers, one.constant(np.array([-1])), keepdims=1)
    return one.add("Mul", one.add("Reciprocal", total), powers)


def _vectors(one, count):
    return (one.constant(one.rng.normal(1, 0.3, count).astype(np.float32)),
            one.constant(one.rng.normal(0, 0.5, count).astype(np.float32)))


def layer_norm(one, x, count):
    return one.add("LayerNormalization", x, *_vectors(one, count), axis=-1, epsilon=EPSILON)


def written_layer_norm(one, x, count):
    """With a power, a quotient and a factor before it."""
    weight, bias = _vectors(one, count)
    centred = one.add("Sub", x, one.add("ReduceMean", x, axes=[-1], keepdims=1))
    squares = one.add("Pow", centred, one.constant(np.float32(2)))
    variance = one.add("ReduceMean", squares, axes=[-1], keepdims=1)
    root = one.add("Sqrt", one.add("Add", one.constant(np.float32(EPSILON)), variance))
    normal = one.add("Div", centred, root)
    return one.add("Add", bias, one.add("Mul", weight, normal))


def plain_layer_norm(one, x, count):
    """Without weights."""
    ones = one.constant(np.ones(count, np.float32))
    return one.add("LayerNormalization", x, ones, axis=-1, epsilon=EPSILON)


def smoothed_layer_norm(one, x, count):
    """With factors that spare the product behind it large inputs."""
    return one.add("Mul", layer_norm(one, x, count), _vectors(one, count)[0])


def rms_norm(one, x, count):
    """Some weights are negative."""
    weight = one.constant(one.rng.normal(0, 1, count).astype(np.float32))
    return one.add("Mul", weight, plain_rms_norm(one, x, count))


def plain_rms_norm(one, x, count):
    """Without weights."""
    squares = one.add("ReduceMean", one.add("Mul", x, x), axes=[-1], keepdims=1)
    root = one.add("Sqrt", one.add("Add", squares, one.constant(np.float32(EPSILON))))
    return one.add("Div", x, root)


def written_rms_norm(one, x, count):
    """With a power and a reciprocal, as exporters write it."""
    squares = one.add("ReduceMean", one.add("Pow", x, one.constant(np.float32(2))), axes=[-1],
                      keepdims=1)
    root = one.add("Sqrt", one.add("Add", squares, one.constant(np.float32(EPSILON))))
    normal = one.add("Mul", x, one.add("Reciprocal", root))
    return one.add("Mul", normal, _vectors(one, count)[0])


KINDS = {softmax: ["qbelow_max", "qsoftmax"], written_softmax: ["qbelow_max", "qsoftmax"],
         layer_norm: ["qlayer_norm"], written_layer_norm: ["qlayer_norm"],
         plain_layer_norm: ["qlayer_norm"], smoothed_layer_norm: ["qlayer_norm"],
         rms_norm: ["qrms_norm"], plain_rms_norm: ["qrms_norm"],
         written_rms_norm: ["qrms_norm"]}


def model_of(qdq, function, shape, out, zero, scale=SCALE) -> Graph:
    """int8 -> dequantized -> function -> int8."""
    one = qdq()
    x = one.dequantize(one.input("x", *shape, dtype="int8"), scale, 5, "int8")
    q = one.quantize(function(one, x, shape[-1]), out, zero, "int8")
    return convert(one.model(q, dtypes={q: "int8"}), "net")


def rows(rng, *shape: int) -> np.ndarray:
    """Rows of small and of large spread around different means; a constant row, and one with a
    single other element.
    """
    spread = np.exp(rng.uniform(0.5, 4.2, (*shape[:-1], 1)))
    x = rng.normal(size=shape) * spread + rng.uniform(-60, 60, (*shape[:-1], 1))
    x = np.clip(np.rint(x), -128, 127).astype(np.int8)
    x[0, 0], x[0, 1], x[0, 1, 0] = 7, -128, 127
    return x


def values(model: Graph, x: np.ndarray) -> tuple[Graph, np.ndarray, np.ndarray]:
    """The optimized graph, its result, and that of the graph that stays in float."""
    graph, real = optimize(model), optimize(model, standard_passes(integerize=False))
    found, wanted = (evaluate(one, {"x": x})[one.outputs[0]].astype(int) for one in (graph, real))
    return graph, found, wanted


@pytest.mark.parametrize("count", [2, 5, 16, 197, 768, 3000])
@pytest.mark.parametrize("function", KINDS, ids=lambda function: function.__name__)
def test_integers_are_within_one_step_of_float(qdq, rng, function, count: int) -> None:
    shape = (3, 7, count)
    out, zero = (1 / 256, -128) if "softmax" in function.__name__ else (0.03, -4)
    graph, found, wanted = values(model_of(qdq, function, shape, out, zero), rows(rng, *shape))
    assert [node.op for node in graph.nodes] == KINDS[function] and not graph.notes
    assert np.abs(found - wanted).max() <= (1 if count <= 1024 else 2)
    assert np.mean(found == wanted) > (0.9 if count <= 1024 else 0.8)


@pytest.mark.parametrize("scale", [0.003, 0.05, 0.3])
def test_small_probabilities_are_as_fine_as_large_ones(qdq, rng, scale: float) -> None:
    shape = (2, 9, 400)
    x = rows(rng, *shape)
    graph, found, wanted = values(model_of(qdq, softmax, shape, 2.0**-14, -128, scale), x)
    inside = wanted < 127
    assert np.abs(found - wanted)[inside].max() <= 2 and inside.mean() > 0.5


def causal(count: int) -> np.ndarray:
    """Bool [count - 3, count]: rows of 4 and more elements that count."""
    return np.tri(count - 3, count, 3, dtype=bool)


def added_mask(one, x, count):
    mask = np.where(causal(count), 0, -10000).astype(np.float32)
    return one.add("Softmax", one.add("Add", one.constant(mask), x), axis=-1)


def chosen_mask(one, x, count):
    return one.add("Softmax", one.add("Where", one.constant(causal(count)), x,
                                      one.constant(np.float32(-np.inf))), axis=-1)


def filled_mask(one, x, count):
    return one.add("Softmax", one.add("Where", one.constant(~causal(count)), one.constant(
        np.float32(np.finfo(np.float32).min)), x), axis=-1)


def computed_mask(one, x, count):
    """As exporters write a cache of fixed size: places up to a number that is an input."""
    mask = one.add("Where", *_places(one, count), one.constant(np.float32(0)),
                   one.constant(np.float32(-np.inf)))
    return one.add("Softmax", one.add("Add", x, mask), axis=-1)


def _places(one, count):
    return [one.add("LessOrEqual", one.constant(np.arange(count)),
                    one.input("position", 1, dtype="int64"))]


MASKS = (added_mask, chosen_mask, filled_mask, computed_mask)
MASKED_SOFTMAX = ["qmap", "qbelow_max", "qmap", "qsoftmax"]


@pytest.mark.parametrize("function", MASKS, ids=lambda function: function.__name__)
def test_what_is_masked_has_no_probability(qdq, rng, function) -> None:
    """Not even beside elements that are the least that int8 holds."""
    shape = (2, 21, 24)
    model = model_of(qdq, function, shape, 1 / 256, -128)
    x = rows(rng, *shape)
    x[1, :9] = -128
    feeds = {"x": x} | ({"position": np.array([9])} if function is computed_mask else {})
    graph, real = optimize(model), optimize(model, standard_passes(integerize=False))
    found, wanted = (evaluate(one, feeds)[one.outputs[0]].astype(int) for one in (graph, real))
    assert [node.op for node in graph.nodes if node.op[0] == "q"] == MASKED_SOFTMAX
    assert not graph.notes
    assert np.abs(found - wanted).max() <= 1
    valid = np.arange(24) <= 9 if function is computed_mask else causal(24)
    assert (found[np.broadcast_to(~valid, shape)] == -128).all()


def padded(count: int) -> np.ndarray:
    """Bool [count - 3, count]: rows that see nothing, as of padding on the left, and others."""
    valid = causal(count)
    valid[:, :6] = False
    return valid


def left_padding(low: float, more: float = 0.0):
    """Added numbers; tokens that are both later and padding get another."""
    def of(one, x, count):
        mask = np.where(padded(count), 0, low).astype(np.float32)
        mask[:, :3] += np.float32(more)
        return one.add("Softmax", one.add("Add", x, one.constant(mask)), axis=-1)
    return of


def padding_chosen(one, x, count):
    return one.add("Softmax", one.add("Where", one.constant(padded(count)), x,
                                      one.constant(np.float32(-10000))), axis=-1)


def _seen(one, count):
    return one.add("And", one.constant(padded(count)), *_places(one, count))


def computed_and_chosen(one, x, count):
    return one.add("Softmax", one.add("Where", _seen(one, count), x, one.constant(
        np.float32(-10000))), axis=-1)


def padding_computed(low: float):
    def of(one, x, count):
        seen = _seen(one, count)
        mask = one.add("Where", seen, one.constant(np.float32(0)), one.constant(np.float32(low)))
        return one.add("Softmax", one.add("Add", x, mask), axis=-1)
    return of


PADDINGS = {
    "added": left_padding(-10000), "added twice": left_padding(-10000, -10000),
    "half": left_padding(-65504), "nothing left": left_padding(float(np.finfo(np.float32).min)),
    "almost nothing left": left_padding(-1e9), "chosen": padding_chosen,
    "computed": padding_computed(-10000),
    "computed, nothing left": padding_computed(float(np.finfo(np.float32).min)),
    "computed and chosen": computed_and_chosen}


@pytest.mark.parametrize("name", PADDINGS)
def test_a_row_that_is_masked_whole(qdq, rng, name) -> None:
    """One number is added to all of it, which changes nothing, or leaves nothing of them."""
    shape = (2, 21, 24)
    x = rows(rng, *shape)
    feeds = {"x": x} | ({"position": np.array([9])} if "computed" in name else {})
    model = model_of(qdq, PADDINGS[name], shape, 1 / 250, -128)
    graph, real = optimize(model), optimize(model, standard_passes(integerize=False))
    found, wanted = (evaluate(one, feeds)[one.outputs[0]].astype(int) for one in (graph, real))
    assert [node.op for node in graph.nodes if node.op[0] == "q"] == MASKED_SOFTMAX
    assert not graph.notes
    assert np.abs(found - wanted).max() <= 1
    whole = wanted[:, ~padded(24).any(1)]
    assert whole.size and (whole > -128).any()


def test_places_up_to_a_position_need_one_mask(qdq) -> None:
    """The first place counts always; where a condition may hold nowhere, there are two masks."""
    def chosen(one, x, count):
        return one.add("Softmax", one.add("Where", *_places(one, count), x, one.constant(
            np.float32(-10000))), axis=-1)

    for function, count in ((chosen, 1), (computed_and_chosen, 2)):
        graph = optimize(model_of(qdq, function, (2, 21, 24), 1 / 250, -128))
        masks = {node.inputs[1] for node in graph.nodes if node.op == "qmap"}
        assert len(masks) == count and not graph.notes


def test_a_mask_that_leaves_a_part_of_a_row_is_told(qdq, rng) -> None:
    model = model_of(qdq, left_padding(-1e6), (2, 21, 24), 1 / 256, -128)
    assert any("its mask adds 1e+06 to whole rows, of which float32 keeps no more than steps of "
               "0.0625" in note for note in optimize(model).notes)


def test_masks_of_one_size_and_other_shapes_stay_apart(qdq, rng) -> None:
    """As many bytes, along other axes."""
    one = qdq()
    x = one.dequantize(one.input("x", 6, 6, 6, dtype="int8"), SCALE, 5, "int8")
    mask = np.where(np.tri(6, dtype=bool), 0, -10000).astype(np.float32)
    ends = [one.quantize(one.add("Softmax", one.add("Add", x, one.constant(
        mask.reshape(shape))), axis=-1), 1 / 256, -128, "int8") for shape in ((6, 1, 6), (6, 6))]
    graph = convert(one.model(*ends, dtypes=dict.fromkeys(ends, "int8")))
    feeds = {"x": rng.integers(-128, 128, (6, 6, 6)).astype(np.int8)}
    found, wanted = (evaluate(optimize(graph, passes), feeds) for passes in (
        None, standard_passes(integerize=False)))
    for end in ends:
        assert np.abs(found[end].astype(int) - wanted[end]).max() <= 1


@pytest.mark.parametrize("scale", [0.001, 0.005, 0.015, 0.03])
def test_the_least_element_that_counts_is_not_masked(qdq, rng, scale: float) -> None:
    """It is 255 steps below the greatest, where also everything is that is masked."""
    shape = (2, 21, 24)
    x = rng.integers(-128, 128, shape).astype(np.int8)
    x[..., 0], x[..., 1] = -128, 127
    graph, found, wanted = values(model_of(qdq, added_mask, shape, 1 / 256, -128, scale), x)
    assert [node.op for node in graph.nodes] == MASKED_SOFTMAX
    assert np.abs(found - wanted).max() <= 1 and (found[~np.broadcast_to(causal(24), shape)]
                                                  == -128).all()


def test_two_softmaxes_share_a_mask(qdq) -> None:
    one = qdq()
    x = one.dequantize(one.input("x", 2, 6, 9, dtype="int8"), SCALE, 5, "int8")
    ends = [one.quantize(added_mask(one, x, 9), 1 / 256, -128, "int8") for _ in range(2)]
    graph = optimize(convert(one.model(*ends, dtypes=dict.fromkeys(ends, "int8")), "net"))
    masks = {node.inputs[1] for node in graph.nodes if node.op == "qmap"}
    assert len(masks) == 1 and graph.constants[masks.pop()].shape == (2, 6, 9)


def test_a_mask_that_leaves_something_is_told(qdq) -> None:
    """Where a step is so large that what is masked could still count."""
    model = model_of(qdq, added_mask, (2, 6, 9), 1 / 256, -128, scale=100)
    assert any("its mask adds -10000 to numbers that differ by 25500" in note
               for note in optimize(model).notes)


def test_a_small_bias_is_no_mask(qdq) -> None:
    def biased(one, x, count):
        bias = np.where(causal(count), 0, -5).astype(np.float32)
        return one.add("Softmax", one.add("Add", x, one.constant(bias)), axis=-1)

    graph = optimize(model_of(qdq, biased, (2, 6, 9), 1 / 256, -128))
    assert "qsoftmax" not in [node.op for node in graph.nodes]


def test_activations_bound_the_result(qdq, rng) -> None:
    shape = (2, 4, 20)
    graph, found, wanted = values(model_of(
        qdq, lambda one, x, count: one.add("Relu", layer_norm(one, x, count)), shape, 0.03, -20),
        rows(rng, *shape))
    assert [node.op for node in graph.nodes] == ["qlayer_norm"]
    assert found.min() == -20 and np.abs(found - wanted).max() <= 1


def other_axis(one, x, count):
    return one.add("Softmax", x, axis=1)


def other_sum(one, x, count):
    """The sum of something else."""
    powers = one.add("Exp", one.add("Sub", x, one.add("ReduceMax", x, axes=[-1], keepdims=1)))
    total = one.add("ReduceSum", one.add("Abs", x), one.constant(np.array([-1])), keepdims=1)
    return one.add("Div", powers, total)


def other_count(one, x, count):
    """A mean of one element too many."""
    total = one.add("ReduceSum", x, one.constant(np.array([-1])), keepdims=1)
    mean = one.add("Div", total, one.constant(np.float32(count + 1)))
    centred = one.add("Sub", x, mean)
    variance = one.add("ReduceMean", one.add("Mul", centred, centred), axes=[-1], keepdims=1)
    root = one.add("Sqrt", one.add("Add", variance, one.constant(np.float32(EPSILON))))
    return one.add("Div", centred, root)


def a_weight_for_each_row(one, x, count):
    normal = one.add("LayerNormalization", x, one.constant(np.ones(count, np.float32)), axis=-1)
    return one.add("Mul", normal, one.constant(np.linspace(1, 2, 6).reshape(6, 1).astype("f4")))


@pytest.mark.parametrize("function", [other_axis, other_sum, other_count,
                                      a_weight_for_each_row], ids=lambda f: f.__name__)
def test_what_is_almost_one_of_these_stays_in_float(qdq, rng, function) -> None:
    shape = (1, 6, 12)
    model = model_of(qdq, function, shape, 0.02, 0)
    graph, found, wanted = values(model, rows(rng, *shape))
    assert not any(node.op in ("qsoftmax", "qlayer_norm", "qrms_norm") for node in graph.nodes)
    np.testing.assert_array_equal(found, wanted)


def test_an_epsilon_beyond_32_bits_is_told(qdq) -> None:
    graph = optimize(model_of(qdq, layer_norm, (1, 6, 12), 0.02, 0, scale=1e-9))
    assert any("its epsilon 1e-05 is" in note for note in graph.notes), graph.notes


def test_a_longer_row_is_told(qdq) -> None:
    graph = optimize(model_of(qdq, softmax, (1, 1, MOST_ELEMENTS + 1), 0.02, 0))
    assert any(f"its rows have {MOST_ELEMENTS + 1} elements" in note for note in graph.notes)


@pytest.mark.parametrize("count", [1, 2, 3, 16, 100, 128, 1000, 1024, 8191, MOST_ELEMENTS])
def test_no_sum_overflows(count: int) -> None:
    """The greatest value of every step, in the order of the module's text."""
    parts = Fractions(count)
    total, squares = 128 * count, 128 * 128 * count
    assert parts.fine >= 2 and 0 <= parts.coarse <= parts.fine and 0 < parts.mean < 1 << 15
    assert total * parts.mean + (1 << parts.shift >> 1) < 1 << 31
    mean = 128 << parts.fine
    assert mean < 1 << 15 and mean * count < 1 << 31
    twice = 3 * (total << parts.coarse)
    assert mean * twice < 1 << 32 and squares << parts.fine + parts.coarse <= 1 << 30
    assert 255 << parts.fine < 1 << 15
    assert squares + 2 * 128 * total + count * 128 * 128 + MOST_EPSILON < 1 << 31   # of RMS


def test_tables_hold_what_they_stand_for() -> None:
    high, low = exponentials(0.1)
    powers = 128 * high.astype(int) + low
    assert powers[127] == 16383 and powers[126] == round(16383 * np.exp(-0.1))
    assert powers[128] == 0 and (high >= 0).all() and (low >= 0).all()
    middles = (256.5 + np.arange(256)) * 64
    assert abs((RECIPROCALS.astype(int) + 192) * middles / 2**22 - 1).max() < 1 / 250
    assert ROOTS[128] == 256 - 192 and ROOTS[127] == 128 - 192
