"""Products of integers that nothing quantizes are exact sums, whatever follows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.frontend import convert
from compiler.graph import Graph, evaluate, optimize, standard_passes
from tests.support.effort import tries

Array = np.ndarray

SEEDS = st.integers(0, 1 << 16)


def compiled(model, sums: bool = True) -> Graph:
    return optimize(convert(model), standard_passes(sums=sums))


def in_planes(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes if "planes" in node.attrs]


def assert_alike(model, feeds: dict[str, Array]) -> Graph:
    """As exact as float32 is, by float's own meaning of the same network."""
    graph = compiled(model)
    real = optimize(convert(model), standard_passes(integerize=False))
    for found, wanted in zip(evaluate(graph, feeds).values(), evaluate(real, feeds).values(),
                             strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())
    return graph


def weight(one, draw, dtype: str, shape: tuple[int, ...], axis: int) -> str:
    """A dequantized weight, with one scale or many, of 9 bits without its zero points."""
    many = draw(st.booleans())
    count = shape[axis] if many else 1
    middle = 128 if dtype == "uint8" else 0
    zeros = one.rng.integers(-100, 100, count) + middle
    values = one.rng.integers(middle - 128, middle + 128, shape).astype(dtype)
    scales = one.rng.uniform(0.002, 0.02, count).astype(np.float32)
    if not many:
        scales, zeros = scales[0], zeros[0]
    return one.add("DequantizeLinear", one.constant(values), one.constant(scales),
                   one.constant(np.asarray(zeros).astype(dtype)), axis=axis)


def activation(one, draw, *shape: int) -> str:
    dtype = draw(st.sampled_from(["int8", "uint8"]))
    zero = draw(st.integers(*((-128, 127) if dtype == "int8" else (0, 255))))
    return one.requantized(one.input("x", *shape), 0.031, zero, dtype)


@settings(max_examples=tries(12))
@given(st.data())
def test_a_convolution(qdq, data) -> None:
    one, draw = qdq(seed=data.draw(SEEDS), opset=21), data.draw
    group = draw(st.sampled_from([1, 2]))
    x = activation(one, draw, 2, 4, 6, 5)
    w = weight(one, draw, draw(st.sampled_from(["int8", "uint8"])), (6, 4 // group, 3, 2), 0)
    bias = [one.constant(one.rng.normal(size=6).astype(np.float32))] if draw(st.booleans()) else []
    pads, strides = draw(st.sampled_from([[0, 0, 0, 0], [1, 0, 2, 1]])), draw(
        st.sampled_from([[1, 1], [2, 1]]))
    y = one.add("Relu", one.add("Conv", x, w, *bias, group=group, pads=pads, strides=strides))
    feeds = {"x": one.rng.normal(size=(2, 4, 6, 5)).astype(np.float32) * 3}
    assert in_planes(assert_alike(one.model(y), feeds)) == ["qconv2d", "joined_planes"]


@settings(max_examples=tries(12))
@given(st.data())
def test_channels_with_scales_and_zero_points_of_their_own(qdq, data) -> None:
    """One for all channels of a group: a convolution by channels, as NNCF quantizes its data."""
    one, draw = qdq(seed=data.draw(SEEDS), opset=21), data.draw
    group, dtype = draw(st.sampled_from([2, 4])), draw(st.sampled_from(["int8", "uint8"]))
    low, each = (-128 if dtype == "int8" else 0), 4 // group
    steps = (one.constant(np.repeat(one.rng.uniform(0.01, 0.05, group), each).astype(np.float32)),
             one.constant(np.repeat(one.rng.integers(low, low + 256, group), each).astype(dtype)))
    x = one.add("QuantizeLinear", one.input("x", 2, 4, 6, 5), *steps, axis=1)
    x = one.add("DequantizeLinear", x, *steps, axis=1)
    w = weight(one, draw, draw(st.sampled_from(["int8", "uint8"])), (8, each, 3, 2), 0)
    bias = [one.constant(one.rng.normal(size=8).astype(np.float32))] if draw(st.booleans()) else []
    pads = draw(st.sampled_from([[0, 0, 0, 0], [1, 0, 2, 1]]))
    y = one.add("Relu", one.add("Conv", x, w, *bias, group=group, pads=pads))
    feeds = {"x": one.rng.normal(size=(2, 4, 6, 5)).astype(np.float32) * 3}
    assert in_planes(assert_alike(one.model(y), feeds)) == ["qconv2d", "joined_planes"]


def test_zero_points_of_channels_may_take_sums_beyond_32_bits(qdq) -> None:
    one, each = qdq(opset=21), 70_000
    steps = (one.constant(np.repeat(np.array([0.1, 0.2], np.float32), each)),
             one.constant(np.zeros(2 * each, np.uint8)))
    x = one.add("QuantizeLinear", one.input("x", 1, 2 * each, 1, 1), *steps, axis=1)
    x = one.add("DequantizeLinear", x, *steps, axis=1)
    w = one.add("DequantizeLinear", one.constant(np.full((2, each, 1, 1), 127, np.int8)),
                one.constant(np.float32(0.01)), one.constant(np.int8(0)))
    feeds = {"x": np.full((1, 2 * each, 1, 1), 90, np.float32)}
    assert not in_planes(assert_alike(one.model(one.add("Conv", x, w, group=2)), feeds))


def test_channels_of_a_group_with_several_scales_stay_in_float(qdq) -> None:
    one = qdq(opset=21)
    steps = one.constant(np.array([0.1, 0.2], np.float32)), one.constant(np.array([0, 0], np.int8))
    x = one.add("QuantizeLinear", one.input("x", 1, 2, 4, 4), *steps, axis=1)
    x = one.add("DequantizeLinear", x, *steps, axis=1)
    graph = compiled(one.model(one.add("Conv", x, one.weight(4, 2, 3, 3))))
    assert in_planes(graph) == []


@settings(max_examples=tries(12))
@given(st.data())
def test_rows(qdq, data) -> None:
    one, draw = qdq(seed=data.draw(SEEDS), opset=21), data.draw
    op = draw(st.sampled_from(["Gemm", "MatMul"]))
    shape = (3, 17) if op == "Gemm" else (2, 3, 17)
    turned = op == "Gemm" and draw(st.booleans())
    x = activation(one, draw, *shape)
    w = weight(one, draw, "int8", (7, 17) if turned else (17, 7), 0 if turned else 1)
    more = [one.constant(one.rng.normal(size=7).astype(np.float32))] if op == "Gemm" else []
    y = one.add(op, x, w, *more, **({"transB": int(turned)} if op == "Gemm" else {}))
    feeds = {"x": one.rng.normal(size=shape).astype(np.float32) * 3}
    assert in_planes(assert_alike(one.model(y), feeds)) == ["qdense", "joined_planes"]


def test_computed_matrices_before_a_softmax(qdq, rng) -> None:
    one = qdq()
    a = one.requantized(one.input("a", 2, 5, 9), 0.02, 3, "int8")
    b = one.requantized(one.input("b", 2, 9, 6), 0.03, 131, "uint8")
    y = one.add("Softmax", one.add("MatMul", a, b, name="scores"), axis=-1)
    feeds = {"a": rng.normal(size=(2, 5, 9)).astype(np.float32),
             "b": rng.normal(size=(2, 9, 6)).astype(np.float32)}
    graph = assert_alike(one.model(y), feeds)
    assert in_planes(graph) == ["qmatmul", "joined_planes"]
    assert not any(note.startswith("scores ") for note in graph.notes)


@settings(max_examples=tries(20))
@given(st.data())
def test_two_tensors_in_int32_are_the_same_to_the_bit(qdq, data) -> None:
    """At the ends of their types, with zero points that the run knows, if there are any."""
    one, draw = qdq(seed=data.draw(SEEDS), opset=21), data.draw
    types = [draw(st.sampled_from(["int8", "uint8"])) for _ in range(2)]
    shapes = draw(st.sampled_from([((2, 3, 17), (2, 17, 5)), ((3, 17), (17, 5)),
                                   ((2, 4, 3, 17), (17, 5)), ((2, 1, 3, 17), (1, 4, 17, 5)),
                                   ((2, 3, 17), (2, 5, 17))]))
    zeros = [draw(st.sampled_from(["", "one", "rows"][:3 - place])) for place in range(2)]
    names = [one.input(name, *shape, dtype=dtype)
             for name, shape, dtype in zip("ab", shapes, types)]
    numbers = [one.add("Cast", name, to=6) for name in names]
    points = [(*shapes[place][:-1], 1) if zero == "rows" else () for place, zero in
              enumerate(zeros)]
    for place, zero in enumerate(zeros):
        if zero:
            point = one.input(f"z{place}", *points[place], dtype=types[place])
            numbers[place] = one.add("Sub", numbers[place], one.add("Cast", point, to=6))
    turned = shapes[1][-1] == 17
    y = one.add("Einsum" if turned else "MatMul", *numbers,
                **({"equation": "abc,adc->abd"} if turned else {}))
    feeds = {}
    for place, (name, dtype) in enumerate(zip("ab", types)):
        info = np.iinfo(dtype)
        feeds[name] = one.rng.choice([info.min, info.max, 7], shapes[place]).astype(dtype)
        if zeros[place]:
            feeds[f"z{place}"] = np.asarray(one.rng.choice([info.min, info.max, 3],
                                                           points[place]), dtype)
    model = one.model(y, dtypes={y: "int32"})
    graph = compiled(model, sums=False)
    (found,), (wanted,) = (evaluate(each, feeds).values() for each in (
        graph, optimize(convert(model), standard_passes(integerize=False))))
    assert in_planes(graph) == ["qmatmul", "joined_planes"]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("op", ["MatMul", "Gemm"])
@pytest.mark.parametrize("dynamic", [(True, True), (True, False), (False, True)])
def test_two_tensors_of_which_the_run_knows_scales(qdq, op: str, dynamic: tuple) -> None:
    """The second turned for Gemm, which has a bias."""
    one, feeds, factors = qdq(seed=4, opset=21), {}, []
    shapes = [(3, 9), (6, 9)] if op == "Gemm" else [(2, 3, 9), (2, 9, 6)]
    for name, shape, knows in zip("ab", shapes, dynamic):
        if not knows:
            feeds[name] = one.rng.normal(size=shape).astype(np.float32)
            factors.append(one.requantized(one.input(name, *shape), 0.02, 131))
            continue
        feeds[name] = one.rng.integers(0, 256, shape).astype(np.uint8)
        feeds[f"z{name}"], feeds[f"s{name}"] = np.uint8(77), np.float32(0.03)
        x, z = (one.add("Cast", value, to=6) for value in (
            one.input(name, *shape, dtype="uint8"), one.input(f"z{name}", dtype="uint8")))
        real = one.add("Cast", one.add("Sub", x, z), to=1)
        factors.append(one.add("Mul", real, one.input(f"s{name}")))
    more = [one.constant(one.rng.normal(size=6).astype(np.float32))] if op == "Gemm" else []
    y = one.add(op, *factors, *more, **({"transB": 1} if op == "Gemm" else {}))
    graph = assert_alike(one.model(one.add("Softmax", y, axis=-1), y), feeds)
    assert in_planes(graph) == ["qmatmul", "joined_planes"]


@pytest.mark.parametrize("constant", [True, False])
def test_zero_points_of_the_run_may_take_sums_beyond_32_bits(qdq, constant: bool) -> None:
    """Such products stay in float: bytes less theirs reach 255, not 128."""
    one, count, factors = qdq(opset=21), 70_000, []
    feeds = {"a": np.full((1, count), 255, np.uint8), "b": np.full((count, 1), 255, np.uint8),
             "z": np.uint8(0), "s": np.float32(0.01)}
    shapes = {"a": (1, count), "b": (count, 1)}
    point, scale = one.input("z", dtype="uint8"), one.input("s")
    for name in "a" if constant else "ab":
        x, z = (one.add("Cast", value, to=6) for value in (
            one.input(name, *shapes[name], dtype="uint8"), point))
        factors.append(one.add("Mul", one.add("Cast", one.add("Sub", x, z), to=1), scale))
    if constant:
        factors.append(one.add("DequantizeLinear", one.constant(
            np.full((count, 1), 127, np.int8)), one.constant(np.float32(0.01)), one.constant(
                np.int8(0))))
        del feeds["b"]
    assert not in_planes(assert_alike(one.model(one.add("MatMul", *factors)), feeds))


def dynamic(one, op: str, dtype: str, shape, values: Array, zero: int | None, **attrs):
    names = [one.input("x", *shape, dtype=dtype), one.constant(values)]
    if zero is not None:
        names.append(one.input("z", dtype=dtype))
    return one.model(one.add(op, *names, **attrs), dtypes={f"{op.lower()}0.out": "int32"})


@settings(max_examples=tries(12))
@given(st.data())
def test_a_dynamic_product_is_the_same_to_the_bit(qdq, data) -> None:
    """Data at the ends of its type, whose zero point is known when it runs, if there is one."""
    one, draw = qdq(seed=data.draw(SEEDS)), data.draw
    dtype, of_weight = draw(st.sampled_from([("int8", "int8"), ("uint8", "int8"),
                                             ("uint8", "uint8")]))
    info, zero = np.iinfo(dtype), draw(st.none() | st.just(0))
    shape, weights, pads = draw(st.sampled_from([
        ((2, 3, 5, 4), (6, 3, 3, 2), [1, 1, 0, 2]), ((2, 4, 5, 4), (6, 2, 3, 2), [0, 0, 0, 0]),
        ((2, 3, 9), (6, 3, 2), [2, 0]), ((2, 3, 17), (17, 7), []), ((3, 17), (17, 7), [])]))
    images, ends = len(weights) > 2, np.iinfo(of_weight)
    values = one.rng.choice([ends.min, ends.max, 1, 5], weights).astype(of_weight)
    attrs = {"pads": pads, "strides": [2] * (len(pads) // 2),
             "group": shape[1] // weights[1]} if images else {}
    model = dynamic(one, "ConvInteger" if images else "MatMulInteger", dtype, shape, values, zero,
                    **attrs)
    feeds = {"x": one.rng.choice([info.min, info.max, 1], shape).astype(dtype)}
    if zero is not None:
        feeds["z"] = np.array(one.rng.choice([info.min, info.max, 7]), dtype)
    graph = compiled(model, sums=False)
    (found,), (wanted,) = (evaluate(each, feeds).values() for each in (
        graph, optimize(convert(model), standard_passes(integerize=False))))
    assert in_planes(graph) == ["qconv2d" if images else "qdense", "joined_planes"]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(("op", "steps"), [("MatMul", ()), ("MatMul", (2, 3, 1)), ("Conv", ()),
                                           ("Gemm", ())])
def test_data_whose_scale_the_run_knows(qdq, op: str, steps: tuple, dtype: str) -> None:
    """(x - zero) * scale, with one of each or, in rows, with those of each row."""
    one = qdq(seed=2, opset=21)
    shape = {"MatMul": (2, 3, 17), "Conv": (2, 3, 5, 4), "Gemm": (3, 17)}[op]
    x, z = (one.add("Cast", one.input(name, *extents, dtype=dtype), to=6)
            for name, extents in (("x", shape), ("z", steps)))
    real = one.add("Mul", one.add("Cast", one.add("Sub", x, z), to=1), one.input("s", *steps))
    w = one.weight(6, 3, 3, 2) if op == "Conv" else one.weight(17, 7, axis=1)
    bias = [one.constant(one.rng.normal(size=6 if op == "Conv" else 7).astype(np.float32))]
    y = one.add(op, real, w, *(bias if op != "MatMul" else []),
                **({"pads": [1, 0, 2, 1]} if op == "Conv" else {}))
    info = np.iinfo(dtype)
    feeds = {name: one.rng.integers(info.min, info.max, extents).astype(dtype)
             for name, extents in (("x", shape), ("z", steps))}
    feeds["s"] = one.rng.uniform(0.01, 0.1, steps).astype(np.float32)
    graph = assert_alike(one.model(one.add("Relu", y)), feeds)
    assert in_planes(graph) == ["qconv2d" if op == "Conv" else "qdense", "joined_planes"]
    assert not any("missing" in note for note in graph.notes)


def test_as_many_planes_as_the_sums_need(qdq) -> None:
    """Two hold 15 bits and a sign, three 23: products of the least bytes are 2**14."""
    for count, planes in ((1, 2), (2, 3), (511, 3), (512, 4)):
        one = qdq()
        model = dynamic(one, "MatMulInteger", "int8", (1, count),
                        np.full((count, 1), -128, np.int8), None)
        product, *_ = compiled(model).nodes
        assert product.attrs["planes"] == planes, count


def test_steps_of_a_sequence_share_their_weights(qdq) -> None:
    one = qdq()
    weight = one.constant(np.ones((4, 4), np.int8))
    x = one.input("x", 1, 4, dtype="int8")
    for _ in range(3):
        x = one.add("Cast", one.add("MatMulInteger", x, weight), to=3)
    graph = compiled(one.model(x, dtypes={x: "int8"}))
    assert len({node.inputs[1] for node in graph.nodes if node.op == "qdense"}) == 1


def test_what_stays_as_it_is(qdq) -> None:
    """A convolution by a computed weight; what is quantized; scales of no float; floats."""
    both = qdq()
    y = both.add("ConvInteger", both.input("x", 1, 3, 4, 4, dtype="int8"),
                 both.input("w", 3, 3, 2, 2, dtype="int8"))
    assert not in_planes(compiled(both.model(y, dtypes={y: "int32"})))
    for equation in ("ab->ba", "ab,bc,ac->c"):
        other = qdq()
        numbers = [other.add("Cast", other.input(name, 3, 3, dtype="int8"), to=6)
                   for name in "xyz"[:equation.count(",") + 1]]
        y = other.add("Einsum", *numbers, equation=equation)
        assert not in_planes(compiled(other.model(y, dtypes={y: "int32"})))
    one = qdq()
    y = one.add("Gemm", one.requantized(one.input("x", 2, 9)), one.weight(9, 4, axis=1))
    assert not in_planes(compiled(one.model(one.requantized(y))))
    assert not in_planes(compiled(one.model(y), sums=False))
    for scale in (1e-30, 1e30):             # float32 has no such scale of sums
        far = qdq()
        y = far.add("Gemm", far.requantized(far.input("x", 2, 9), scale),
                    far.weight(9, 4, scale=np.full(4, scale), axis=1))
        assert not in_planes(compiled(far.model(y)))
    real = qdq()
    y = real.add("MatMul", real.input("x", 2, 9), real.weight(9, 4, axis=1))
    assert not in_planes(compiled(real.model(y)))


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 1, 1, 1]])
def test_the_correction_is_one_number_where_no_pads_are(qdq, pads) -> None:
    one = qdq()
    model = dynamic(one, "ConvInteger", "uint8", (1, 3, 5, 4), np.ones((6, 3, 3, 3), np.int8), 0,
                    pads=pads)
    (totals,) = (array for name, array in compiled(model).constants.items() if "totals" in name)
    assert totals.shape == ((1, 6, 5, 4) if any(pads) else (6, 1, 1))
