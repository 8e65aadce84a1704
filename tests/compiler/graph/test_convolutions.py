"""Dilations, groups and transposed convolutions, float and integer, against ONNX Runtime."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from compiler.frontend import convert
from compiler.graph import Node, evaluate, evaluate_node, optimize, standard_passes
from runtime import compile
from tests.support.effort import tries

CLAMP = {"zp": -7, "lo": -120, "hi": 110}


def normal(rng: np.random.Generator, *shape: int, spread: float = 1) -> np.ndarray:
    return (spread * rng.normal(size=shape)).astype(np.float32)


def agrees(onnx_values, model, feeds) -> None:
    """Before integers come in."""
    graph = optimize(convert(model), standard_passes(integerize=False))
    ours, theirs = evaluate(graph, feeds), onnx_values(model, feeds)
    for name, array in theirs.items():
        assert ours[name].shape == array.shape
        np.testing.assert_allclose(ours[name], array, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dilations", [(1, 1), (2, 1), (3, 2)])
@pytest.mark.parametrize("group", [1, 2, 6])
@pytest.mark.parametrize("kernel", [(3, 2), (1, 4)])
def test_conv(qdq, onnx_values, rng, kernel, group, dilations) -> None:
    one = qdq()
    w = one.constant(normal(rng, 12, 6 // group, *kernel))
    x = one.input("x", 2, 6, 9, 11)
    attrs = {"group": group, "dilations": dilations}
    y = one.add("Conv", x, w, one.constant(normal(rng, 12)), pads=[1, 2, 0, 1], strides=[2, 1],
                **attrs)
    z = one.add("Conv", x, w, kernel_shape=kernel, auto_pad="VALID", **attrs)
    agrees(onnx_values, one.model(y, z), {"x": normal(rng, 2, 6, 9, 11)})


@pytest.mark.parametrize("dilations", [(1, 1), (2, 1), (3, 2)])
@pytest.mark.parametrize("group", [1, 2, 6])
@pytest.mark.parametrize(("kernel", "strides"), [((3, 4), (2, 3)), ((2, 2), (2, 2)),
                                                 ((4, 1), (1, 3))])
def test_conv_transpose(qdq, onnx_values, rng, kernel, strides, group, dilations) -> None:
    one = qdq()
    w, b = one.constant(normal(rng, 6, 2, *kernel)), one.constant(normal(rng, 2 * group))
    x, attrs = one.input("x", 2, 6, 4, 5), {"group": group, "dilations": dilations,
                                            "strides": strides}
    made = [one.add("ConvTranspose", x, w, b, **attrs),
            one.add("ConvTranspose", x, w, pads=[1, 0, 0, 1], **attrs,
                    output_padding=[size - 1 for size in strides]),
            one.add("ConvTranspose", x, w, output_shape=[4 * strides[0] + 1, 5 * strides[1]],
                    **attrs)]
    if all((k - 1) * d + 1 >= s for k, d, s in zip(kernel, dilations, strides)):
        made += [one.add("ConvTranspose", x, w, auto_pad=mode, **attrs)
                 for mode in ("SAME_UPPER", "SAME_LOWER", "VALID")]
    agrees(onnx_values, one.model(*made), {"x": normal(rng, 2, 6, 4, 5)})


def test_usual_attributes_are_not_spelled_out(qdq) -> None:
    one = qdq()
    x, w = one.input("x", 1, 2, 4, 4), one.constant(np.ones((2, 2, 2, 2), np.float32))
    usual = {"group": 1, "dilations": [1, 1]}
    y = one.add("Conv", x, w, name="c", **usual)
    z = one.add("ConvTranspose", x, w, name="t", output_padding=[0, 0], **usual)
    graph = convert(one.model(y, z))
    assert [sorted(node.attrs) for node in graph.nodes] == [["pads", "strides"]] * 2


@st.composite
def layers(draw: st.DrawFn) -> dict:
    group = draw(st.sampled_from((1, 1, 2, 3, 5)))
    return {"seed": draw(st.integers(0, 2**32 - 1)), "transposed": draw(st.booleans()),
            "dtype": draw(st.sampled_from(("int8", "uint8"))), "relu": draw(st.booleans()),
            "group": group, "each": [draw(st.integers(1, 3)) for _ in range(2)],
            "kernel": [draw(st.integers(1, 4)) for _ in range(2)],
            "pads": [draw(st.integers(0, 2)) for _ in range(4)],
            "strides": [draw(st.integers(1, 3)) for _ in range(2)],
            "dilations": [draw(st.integers(1, 3)) for _ in range(2)],
            "size": [draw(st.integers(3, 9)) for _ in range(2)]}


@settings(max_examples=tries(40))
@given(layers())
def test_integer_layers_against_onnx(qdq, layer_differences, case) -> None:
    """Calibrated as a quantizer would, on images enough for shares of elements to mean something.
    """
    reach = [(k - 1) * d + 1 for k, d in zip(case["kernel"], case["dilations"])]
    before, after = case["pads"][:2], case["pads"][2:]
    sizes = zip(case["size"], reach, before, after, case["strides"])
    assume(all(((n - 1) * s + r > b + a) if case["transposed"] else (n + b + a >= r)
               for n, r, b, a, s in sizes))
    images, one, group = 40, qdq(seed=case["seed"]), case["group"]
    low = 0 if case["dtype"] == "uint8" else -128
    zeros = [int(one.rng.integers(low, low + 256)) for _ in range(2)]
    inward, outward = (group * each for each in case["each"])
    x = one.requantized(one.input("x", images, inward, *case["size"]), 0.0213, zeros[0],
                        case["dtype"])
    shape, axis = (((inward, outward // group), 1) if case["transposed"]
                   else ((outward, inward // group), 0))
    y = one.add("ConvTranspose" if case["transposed"] else "Conv", x,
                one.weight(*shape, *case["kernel"], axis=axis),
                one.constant(normal(one.rng, outward)), group=group, pads=case["pads"],
                strides=case["strides"], dilations=case["dilations"])
    y = one.add("Relu", y) if case["relu"] else y
    terms = np.prod(case["kernel"]) * inward / group
    if case["transposed"]:
        terms = max(1, terms / np.prod(case["strides"]))
    model = one.model(one.requantized(y, 0.017 * np.sqrt(terms), zeros[1], case["dtype"]))
    found = layer_differences(model, {"x": normal(one.rng, images, inward, *case["size"],
                                                  spread=2)})
    by_element = not case["transposed"] and not any(case["pads"]) and (
        case["each"] == case["kernel"] == case["strides"] == [1, 1])
    assert [layer.op for layer in found] == ["quantize", "qconvtranspose2d" if case["transposed"]
                                             else "qaffine" if by_element else "qconv2d"]
    for layer in found:
        assert layer.largest <= 1 and layer.equal >= (0.4 if by_element else 0.98), layer


def scattered(x, w, value, strides, pads, dilations, more, group) -> np.ndarray:
    """Every pixel less the value adds to the pixels that its taps reach; the value fills what is
    between pixels and around, so that each sum has all taps.
    """
    (n, _, rows, columns), (channels, depth, kh, kw) = x.shape, w.shape
    size = [(extent - 1) * s + (k - 1) * d + 1 + m for extent, s, k, d, m
            in zip((rows, columns), strides, (kh, kw), dilations, more)]
    total = np.zeros((n, channels, *size), np.int64)
    total += value * w.astype(int).sum(axis=(1, 2, 3)).reshape(-1, 1, 1)
    for c, i, a, b in product(range(channels), range(depth), range(kh), range(kw)):
        source = x[:, c // (channels // group) * depth + i].astype(int) - value
        top, left = a * dilations[0], b * dilations[1]
        total[:, c, top:top + rows * strides[0]:strides[0],
              left:left + columns * strides[1]:strides[1]][:, :rows, :columns] += (
            source * int(w[c, i, a, b]))
    return total[:, :, pads[0]:size[0] - pads[2], pads[1]:size[1] - pads[3]]


@pytest.mark.parametrize(("size", "kernel", "strides", "pads", "dilations", "more", "group"), [
    ((3, 4), (2, 2), (2, 2), (0, 0, 0, 0), (1, 1), (0, 0), 1),
    ((4, 3), (3, 4), (2, 3), (1, 2, 1, 0), (1, 1), (1, 2), 2),
    ((2, 3), (3, 2), (3, 2), (0, 1, 2, 3), (2, 3), (2, 0), 4),
    ((3, 3), (1, 2), (3, 2), (0, 1, 0, 0), (1, 1), (2, 1), 1),
    ((2, 2), (1, 1), (1, 1), (3, 0, 0, 1), (1, 1), (2, 0), 2),
])
def test_qconvtranspose2d(rng, size, kernel, strides, pads, dilations, more, group) -> None:
    x = rng.integers(-128, 128, (2, 4, *size)).astype(np.int8)
    w = rng.integers(-128, 128, (8, 4 // group, *kernel)).astype(np.int8)
    bias, mult = rng.integers(-3000, 3000, 8), rng.integers(2**15, 2**16, 8)
    shift = rng.integers(20, 24, 8)
    node = Node("qconvtranspose2d", "n", tuple("xwbms"), ("y",), {
        "strides": strides, "pads": pads, "dilations": dilations, "output_padding": more,
        "group": group, "pad_value": 77, **CLAMP})
    found = evaluate_node(node, [x, w, *(v.astype(np.int32) for v in (bias, mult, shift))])
    sums = scattered(x, w, 77, strides, pads, dilations, more, group)
    wanted = [[[min(max(CLAMP["zp"] + round(Fraction(int(total + bias[c]) * int(mult[c]),
                                                     1 << int(shift[c]))), -120), 110)
                for total in plane.flat] for c, plane in enumerate(image)] for image in sums]
    assert found.shape == sums.shape
    np.testing.assert_array_equal(found.reshape(2, 8, -1), wanted)


def test_a_network_on_the_accelerator(qdq, layer_differences, rng) -> None:
    """Depthwise, 1x1, dilated, transposed: all of it on the accelerator, from ONNX to the values of
    the integer graph, which are ONNX Runtime's.
    """
    one = qdq()
    x = one.requantized(one.input("x", 1, 3, 9, 8), 0.0213, 100)
    y = one.add("Conv", x, one.weight(8, 3, 3, 3), name="stem", strides=[2, 2], pads=[1] * 4)
    y = one.requantized(one.add("Relu", y), 0.087, 5)
    y = one.add("Conv", y, one.weight(8, 1, 3, 3), name="depthwise", group=8, pads=[1] * 4)
    y = one.requantized(y, 0.113, 121)
    y = one.add("Conv", y, one.weight(12, 8, 3, 3), name="dilated", dilations=[2, 2],
                pads=[2] * 4)
    y = one.requantized(y, 0.31, 133)
    y = one.add("ConvTranspose", y, one.weight(12, 5, 2, 2, axis=1), name="up", strides=[2, 2])
    y = one.requantized(y, 0.41, 97)
    model, feeds = one.model(y), {"x": normal(rng, 1, 3, 9, 8, spread=2)}
    layers = layer_differences(model, feeds)
    assert [layer.name for layer in layers][1:] == ["stem", "depthwise", "dilated", "up"]
    assert all(layer.largest <= 1 for layer in layers)
    module = compile(convert(model), "accel:tiny-1x4x4")
    assert [segment.target for segment in module.partition.segments] == ["host", "accel", "host"]
    module.set_input("x", feeds["x"])
    module.run()
    np.testing.assert_array_equal(module.get_output(y), evaluate(module.graph, feeds)[y])
