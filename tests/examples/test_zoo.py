"""The example networks: published sizes, sane values, files that others read, int8 like float."""

import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from compiler.frontend.onnx.importing import convert
from compiler.graph.passes.pipeline import optimize
from compiler.graph.reference import evaluate
from compiler.ops.records.operator import Numbers
from compiler.ops.registry import find
from compiler.quantize import quantize, quantize_ranges
from examples import zoo
from lockstep.testing.networks.convolutional import unet

ROOT = Path(__file__).resolve().parents[2]
NAMES = [name for name in zoo.NETWORKS
         if zoo.ZooNetwork(name, 32).source == "image" and not name.endswith("_small")]
SIZE, BATCH = 32, 2
LINEAR = {"QuantizeLinear", "DequantizeLinear"}

# Millions of multiply-accumulates of convolutions and dense layers, one image of 224 x 224, and
# numbers to learn, as torchvision and the papers give them. For the U-Net the sum over its levels.
UNET_MACS = (9 * (3 * 64 + 64**2) * 224**2 + 4 * 9 * (64 * 128 + 128**2) * 112**2
             + 4 * 4 * 64 * 128 * 112**2 + 4 * 9 * (128 * 64 + 64**2) * 224**2 + 64 * 2 * 224**2)
PUBLISHED = {
    "resnet18": (1814.1, 11_689_512), "resnet34": (3663.8, 21_797_672),
    "resnet50": (4089.2, 25_557_032), "mobilenet_v1": (568.7, 4_231_976),
    "mobilenet_v2": (300.8, 3_504_872), "squeezenet": (349.2, 1_235_496),
    "vgg11": (7609.1, 132_863_336), "unet": (UNET_MACS / 1e6, 31_037_698),
}


@dataclass(frozen=True)
class Made:
    name: str
    net: zoo.ZooNetwork
    filled: zoo.Filled
    real: onnx.ModelProto
    int8: onnx.ModelProto

    @cached_property
    def images(self) -> np.ndarray:
        """Others than those of the calibration."""
        return zoo.images(self.net.size, 1)[:BATCH]

    @cached_property
    def real_logits(self) -> np.ndarray:
        return run(self.real, self.images)

    @cached_property
    def int8_logits(self) -> np.ndarray:
        return run(self.int8, self.images)


ALSO_SLOW = {"resnet34", "resnet50", "vgg11", "mobilenet_v1"}     # others have their layers
FORMS = [pytest.param(name, marks=pytest.mark.slow if name in ALSO_SLOW else ()) for name in NAMES]


@pytest.fixture(scope="module", params=FORMS)
def made(request) -> Made:
    return make(request.param, SIZE)


def layers(name: str, size: int) -> zoo.ZooNetwork:
    """The network; of a small U-Net an eighth of the channels, since it has as many numbers to
    learn as a large one.
    """
    if name != "unet" or size > SIZE:
        return zoo.network(name, size)
    net = zoo.ZooNetwork(name, size)
    unet(net, 8)
    return net.finish()


def make(name: str, size: int) -> Made:
    net = layers(name, size)
    filled = zoo.fill(net)
    real = zoo.float_model(net, filled, BATCH)
    return Made(name, net, filled, real, quantize_ranges(real, filled.ranges))


def run(model: onnx.ModelProto, images: np.ndarray) -> np.ndarray:
    """ONNX Runtime's logits for images [N, ...], N a multiple of the batch."""
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options,
                                   providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(["logits"], {"image": part})[0]
                           for part in np.split(images, len(images) // BATCH)])


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.corrcoef(a.ravel(), b.ravel())[0, 1])


@pytest.mark.parametrize("name", NAMES)
def test_size_is_the_published_one(name):
    net = zoo.network(name)
    macs, parameters = PUBLISHED[name]
    assert sum(net.macs()) / 1e6 == pytest.approx(macs, rel=2e-4)
    assert net.count("weight", "bias") == parameters


@pytest.mark.one_in(3)
@pytest.mark.parametrize("form", ["real", "int8"])
def test_files_are_valid_and_typed(made, form):
    model = getattr(made, form)
    onnx.checker.check_model(model, full_check=True)
    graph = model.graph
    result = (BATCH, 2, SIZE, SIZE) if made.name == "unet" else (BATCH, 1000)
    ports = [(port.name, port.type.tensor_type.elem_type,
              tuple(dim.dim_value for dim in port.type.tensor_type.shape.dim))
             for port in [*graph.input, *graph.output]]
    assert ports == [("image", TensorProto.FLOAT, (BATCH, 3, SIZE, SIZE)),
                     ("logits", TensorProto.FLOAT, result)]
    known = {value.name for value in [*graph.value_info, *graph.output]}
    assert {value for node in graph.node for value in node.output} == known
    names = [node.name for node in graph.node]
    assert len(set(names)) == len(names)


def test_values_keep_their_range_through_the_depth(made):
    for value, (low, high) in made.filled.ranges.items():
        assert 0.7 < high - low < 100, value


def test_onnx_runtime_computes_what_the_ranges_are_from(made):
    found = run(made.real, zoo.images(SIZE, 0))
    assert (found.min(), found.max()) == pytest.approx(made.filled.ranges["logits"], rel=1e-4)


def test_int8_follows_float(made):
    """MobileNets lose most: their last layers see one pixel here, and have learnt nothing."""
    assert correlation(made.real_logits, made.int8_logits) > 0.94


def test_outputs_depend_on_the_image(made):
    """Values that drown in what all images have in common would hide errors."""
    assert correlation(*made.real_logits) < 0.99


def test_every_operator_reads_dequantized_and_writes_quantized(made):
    graph = made.int8.graph
    by = {value: node for node in graph.node for value in node.output}
    readers: dict[str, list[str]] = {}
    for node in graph.node:
        for value in node.input:
            readers.setdefault(value, []).append(node.op_type)
    relus = [node for node in graph.node if node.op_type == "Relu"]
    assert len(relus) == (4 if made.name == "unet" else 0)
    for relu in relus:      # behind a convolution whose scale a transposed one made wider
        assert by[relu.input[0]].op_type == "Conv"
        assert readers[relu.input[0]] == ["Relu"]
        assert readers[relu.output[0]] == ["QuantizeLinear"]
        readers[relu.input[0]] = ["QuantizeLinear"]
    for node in graph.node:
        if node.op_type not in (*LINEAR, "Relu"):
            computed = [value for value in node.input if value in by]   # no shape of a Reshape
            assert {by[value].op_type for value in computed} == {"DequantizeLinear"}, node.name
            assert readers[node.output[0]] == ["QuantizeLinear"], node.name
    assert readers["image"] == ["QuantizeLinear"]
    assert by["logits"].op_type == "DequantizeLinear"
    assert not {"BatchNormalization", "Clip"} & {node.op_type for node in graph.node}


def test_number_types_of_the_int8_file(made):
    graph = made.int8.graph
    arrays = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    dequantize = {node.output[0]: node for node in graph.node if node.op_type == "DequantizeLinear"}
    for node in graph.node:
        if node.op_type == "QuantizeLinear":
            assert arrays[node.input[1]].shape == ()
            assert arrays[node.input[2]].dtype == np.uint8
        if node.op_type in ("Conv", "ConvTranspose", "Gemm"):
            axis = int(node.op_type == "ConvTranspose")
            source, weight, bias = (dequantize[value].input for value in node.input)
            steps = arrays[weight[0]]
            assert steps.dtype == np.int8 and not arrays[weight[2]].any()
            rows = np.abs(np.moveaxis(steps.astype(int), axis, 0)).reshape(steps.shape[axis], -1)
            np.testing.assert_array_equal(rows.max(axis=1), 127)
            assert arrays[bias[0]].dtype == np.int32 and not arrays[bias[2]].any()
            np.testing.assert_allclose(arrays[bias[1]], arrays[source[1]] * arrays[weight[1]],
                                       rtol=1e-6)


def test_what_only_moves_keeps_its_scale(made):
    nodes = made.int8.graph.node
    scale = {node.output[0]: node.input[1:] for node in nodes if node.op_type == "DequantizeLinear"}
    after = {node.input[0]: node.input[1:] for node in nodes if node.op_type == "QuantizeLinear"}
    for node in nodes:
        if node.op_type in ("MaxPool", "Reshape"):
            assert scale[node.input[0]] == after[node.output[0]], node.name
    arrays = {one.name: numpy_helper.to_array(one) for one in made.int8.graph.initializer}
    for node in nodes:
        if node.op_type == "Concat":
            both = [[arrays[name] for name in names] for names in
                    (*(scale[value] for value in node.input), after[node.output[0]])]
            assert all(one == both[0] for one in both), node.name


def test_int8_files_become_integer_graphs(made):
    """Only quantization at the ends is left in float."""
    graph = optimize(convert(made.int8, made.name))
    assert graph.notes == ()
    ops = [node.op for node in graph.nodes]
    assert (ops.count("quantize"), ops.count("dequantize")) == (1, 1)
    assert (ops[0], ops[-1]) == ("quantize", "dequantize")
    floats = {op for op in ops if find(op).numbers is Numbers.FLOAT}
    assert floats <= {"reshape"}
    if made.name in ("resnet18", "squeezenet"):
        logits = evaluate(graph, {"image": made.images})["logits"]
        assert correlation(made.int8_logits, logits) > 0.99


@pytest.mark.slow
def test_calibration_makes_the_same_layers():
    """From the float file with its batch norms and clips, by running it on images."""
    made = make("mobilenet_v2", SIZE)
    found = quantize(made.real, made.images, bias_correction=True)
    assert all(layer.quantized for layer in found.layers)
    kinds, wanted = (Counter(node.op_type for node in model.graph.node)
                     for model in (found.model, made.int8))
    assert kinds == wanted
    assert correlation(made.real_logits, run(found.model, made.images)) > 0.94


@pytest.mark.slow
def test_same_arguments_same_bytes():
    def data(**options) -> bytes:
        model = zoo.build("squeezenet", SIZE, **options)
        return model.SerializeToString(deterministic=True)

    assert data(int8=True) == data(int8=True)
    assert data() == data(batch=1, seed=0) != data(seed=1)


def test_seeds_and_channels_differ():
    one, other = (zoo.fill(zoo.network("squeezenet", SIZE), seed).parameters for seed in (0, 1))
    for name, array in one.items():
        if name.endswith(".weight"):
            assert not np.array_equal(array, other[name])
            rows = array.reshape(len(array), -1)
            assert len(np.unique(rows, axis=0)) == len(rows), name


@pytest.mark.slow
def test_command_writes_a_file(tmp_path):
    path = tmp_path / "net.onnx"
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "zoo.py", "squeezenet", "--int8", "--size", "32",
         "--batch", "3", "-o", path], env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path,
        capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.endswith("squeezenet int8, 3x3x32x32, 0.004 G multiply-accumulates an "
                                "image, 1.24 M parameters, 1.4 MB\n")
    assert done.stderr == "" and list(tmp_path.iterdir()) == [path]
    onnx.checker.check_model(str(path), full_check=True)


@pytest.mark.parametrize(("arguments", "message"), [
    (["resnet19", "-o", "{}/x"], r"argument NAME: invalid choice: 'resnet19' \(choose from .*"
                                 r"resnet18.*unet.*\) \(see zoo --help\)"),
    (["unet", "--size", "40", "-o", "{}/x"],
     "size must be a multiple of 16 for unet, not 40"),
    (["resnet18", "--size", "31", "-o", "{}/x"], "size must be 32 to 1024, not 31"),
    (["vgg11", "--size", "1024", "-o", "{}/x"],
     "size 1024 would give vgg11 8.71 GB of weights, .*; give a smaller size"),
    (["vgg11", "--batch", "0", "-o", "{}/x"], "--batch must be 1 to 1024, not 0"),
    (["vgg11", "--seed", "-1", "-o", "{}/x"], "--seed must be 0 to 9223372036854775807, not -1"),
    (["vgg11", "--size", "big", "-o", "{}/x"],
     r"argument --size: invalid int value: 'big' \(see zoo --help\)"),
    (["vgg11", "-o", "{}/none/x"], "'.*/none/x' must name a file in a folder that exists"),
    (["vgg11", "-o", "/proc/x"], "'/proc/x' cannot be written: .*"),
    (["vgg11"], r"the following arguments are required: -o \(see zoo --help\)"),
])
def test_requests_wrong(arguments, message, tmp_path, capsys):
    assert zoo.main([argument.format(tmp_path) for argument in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == "" and list(tmp_path.iterdir()) == []
    line, = err.splitlines()
    assert line.startswith("zoo: error: ")
    assert re.fullmatch(message, line.removeprefix("zoo: error: "))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_int8_follows_float_at_224(name):
    big = make(name, 224)
    test_values_keep_their_range_through_the_depth(big)
    assert correlation(big.real_logits, big.int8_logits) > 0.98
