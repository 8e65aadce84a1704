"""Random convolutions and products of int8, at the borders of what kernels assume: the sums of the
greatest weights, ties, zero points at both ends, odd channels, dilations, uneven pads, batches."""

import numpy as np
import pytest

from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.cpu_gpu_backends.llvm import host
from compiler.graph import Builder, Graph, TensorType, evaluate
from compiler.ops.records.windows import window_shape

FAST, ALL = 6, 2000
ENDS = [-128, -7, 0, 127]


def drawn(rng: np.random.Generator) -> Graph:
    """A layer: its shape, its weights and multipliers, and what its sums may meet."""
    kind = rng.choice(["image", "image", "image", "depthwise", "groups", "spread", "rows"])
    inputs, outputs = (int(rng.choice([1, 2, 3, 4, 5, 8, 16, 17, 32, 48])) for _ in range(2))
    batch, kernel = int(rng.choice([1, 1, 2, 3])), int(rng.choice([1, 2, 3, 3, 3, 5]))
    attrs = {"zp": int(rng.choice(ENDS)), "lo": -128, "hi": int(rng.choice([127, 50]))}
    group = 1
    if kind == "depthwise":
        outputs = group = inputs
    elif kind == "groups":
        group = int(rng.choice([2, 4]))
        inputs, outputs = (16 * group, 16 * group) if rng.random() < 0.5 else (8 * group, 8 * group)
    net = Builder("layer")
    if kind == "rows":
        shape: tuple[int, ...] = (batch, int(rng.integers(1, 20)), inputs)
        weight: tuple[int, ...] = (outputs, inputs)
        result: tuple[int, ...] = (*shape[:-1], outputs)
    elif kind == "spread":
        shape = (batch, inputs, int(rng.integers(1, 6)), int(rng.integers(1, 6)))
        weight = (outputs, inputs, kernel, kernel)
        result = ()
        attrs |= {"strides": (kernel, kernel), "pads": (0,) * 4, "output_padding": (0, 0),
                  "pad_value": int(rng.choice(ENDS))}
    else:
        dilations, strides = ((int(rng.choice([1, 1, 1, 2])), int(rng.choice([1, 1, 1, 2])))
                              for _ in range(2))
        pads = tuple(int(pad) for pad in rng.integers(0, kernel, 4))
        size = [(kernel - 1) * step + int(rng.integers(1, 14)) for step in dilations]
        shape, weight = (batch, inputs, *size), (outputs, inputs // group, kernel, kernel)
        attrs |= {"strides": strides, "pads": pads, "dilations": dilations, "group": group,
                  "pad_value": int(rng.choice(ENDS))}
        result = (batch, outputs, *window_shape(size, (kernel, kernel), strides, pads, dilations))
    net.add_input("x", TensorType(shape, "int8"))
    arrays = parameters(rng, weight)
    op, data = {"rows": "qdense", "spread": "qconvtranspose2d"}.get(kind, "qconv2d"), ["x"]
    if op != "qconvtranspose2d" and group == 1 and rng.random() < 0.3:
        net.add_input("r", TensorType(result, "int8"))
        op, data, arrays["f"] = f"{op}_add", ["x", "r"], rng.integers(
            -3000, 3000, outputs).astype(np.int16)
        attrs["fine"] = int(rng.choice([0, 3]))
    constants = [net.add_constant(name, array) for name, array in arrays.items()]
    return net.finish([net.emit(op, "layer", [*data, *constants], "y", **attrs)])


def parameters(rng: np.random.Generator, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Weights, the greatest in some channels; multipliers whose products are ties in some."""
    outputs, depth = shape[0], int(np.prod(shape[1:]))
    weight = rng.integers(-128, 128, shape).astype(np.int8)
    for channel in range(0, outputs, 3):
        weight[channel] = rng.choice([-128, 127], shape[1:]) if channel % 2 else rng.choice(
            [-128, 127])
    most = int(np.log2(depth * 128 * 128))
    mult = rng.integers(1 << 15, 1 << 16, outputs)
    mult[::2] = 1 << 15
    shift = np.clip(most + rng.integers(6, 12, outputs), 16, 46)
    return {"w": weight, "b": rng.integers(-4000, 4000, outputs).astype(np.int32),
            "m": mult.astype(np.int32), "s": shift.astype(np.int32)}


def differing(seed: int) -> int:
    """The elements that differ from the meaning, of extreme images and of others."""
    rng = np.random.default_rng(seed)
    graph = drawn(rng)
    segment, wrong = CpuTarget().compile(graph), 0
    for extreme in (False, True):
        given = {name: (rng.choice([-128, 127], graph.values[name].shape) if extreme else
                        rng.integers(-128, 128, graph.values[name].shape)).astype(np.int8)
                 for name in graph.inputs}
        wrong += int((segment(given)["y"] != evaluate(graph, given)["y"]).sum())
    return wrong


def without(monkeypatch, features: str) -> None:
    names = [name for name in features.split() if host().has(name)]
    if features and not names:
        pytest.skip(f"needs a processor with {features}")
    monkeypatch.setenv("LOCKSTEP_CPU_WITHOUT", ",".join(names))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("features", ["", "avx512f avxvnni", "avx2", "fma"])
def test_layers_are_exact(monkeypatch, features: str) -> None:
    without(monkeypatch, features)
    assert {seed: count for seed in range(FAST) if (count := differing(seed))} == {}


@pytest.mark.slow
@pytest.mark.parametrize("features", ["", "avx512f avxvnni", "avx2", "fma"])
def test_many_layers_are_exact(monkeypatch, features: str) -> None:
    without(monkeypatch, features)
    assert {seed: count for seed in range(FAST, ALL) if (count := differing(seed))} == {}
