"""Compressed programs of Core ML, against coremltools' own decompression of the same files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.frontend.models import graph_of
from compiler.graph.passes.pipeline import optimize
from compiler.graph.reference import evaluate

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(     # coremltools leaves its folders
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore::RuntimeWarning", "ignore::DeprecationWarning")]
ct: Any = pytest.importorskip("coremltools")
cto = pytest.importorskip("coremltools.optimize.coreml")
mb = pytest.importorskip("coremltools.converters.mil").Builder
types = pytest.importorskip("coremltools.converters.mil.mil").types
MODELS = Path(__file__).parents[2] / "models"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(1, 4, 6, 6)).astype(np.float32)
CONV = RNG.normal(size=(8, 4, 3, 3)).astype(np.float32)
DENSE = RNG.normal(size=(5, 8)).astype(np.float32)
SPEC = [mb.TensorSpec(shape=X.shape)]


def model(target=None, precision=None):
    @mb.program(input_specs=SPEC, opset_version=target or ct.target.iOS18)
    def network(x):
        x = mb.relu(x=mb.conv(x=x, weight=CONV, pad_type="same"))
        x = mb.transpose(x=mb.reduce_mean(x=x, axes=[3], keep_dims=False), perm=[0, 2, 1])
        return mb.linear(x=x, weight=DENSE, name="y")
    return converted(network, target, precision)


def converted(network, target=None, precision=None):
    return ct.convert(network, convert_to="mlprogram", skip_model_load=True,
                      minimum_deployment_target=target or ct.target.iOS18,
                      compute_precision=precision or ct.precision.FLOAT32)


def graph_at(mlmodel, tmp_path, name):
    path = tmp_path / f"{name}.mlpackage"
    mlmodel.save(str(path))
    return graph_of(path)


def result(graph):
    made, = evaluate(graph, {graph.inputs[0]: X}).values()
    return made


def operations(mlmodel):
    function = mlmodel.get_spec().mlProgram.functions["main"]
    block = function.block_specializations[function.opset]
    return {operation.type for operation in block.operations}


def configured(config):
    return cto.OptimizationConfig(global_config=config)


LINEAR = cto.OpLinearQuantizerConfig
TABLES = cto.OpPalettizerConfig
COMPRESSED = {
    "channels": (lambda m: cto.linear_quantize_weights(m, configured(LINEAR(
        mode="linear_symmetric", weight_threshold=0))), "constexpr_blockwise_shift_scale"),
    "points": (lambda m: cto.linear_quantize_weights(m, configured(LINEAR(
        mode="linear", dtype="uint8", weight_threshold=0))), "constexpr_blockwise_shift_scale"),
    "tensor": (lambda m: cto.linear_quantize_weights(m, configured(LINEAR(
        granularity="per_tensor", weight_threshold=0))), "constexpr_blockwise_shift_scale"),
    "int4_blocks": (lambda m: cto.linear_quantize_weights(m, configured(LINEAR(
        dtype="int4", granularity="per_block", block_size=2, weight_threshold=0))),
        "constexpr_blockwise_shift_scale"),
    "uint4": (lambda m: cto.linear_quantize_weights(m, configured(LINEAR(
        mode="linear", dtype="uint4", weight_threshold=0))), "constexpr_blockwise_shift_scale"),
    "tables": (lambda m: cto.palettize_weights(m, configured(TABLES(
        mode="uniform", nbits=3, weight_threshold=0))), "constexpr_lut_to_dense"),
    "tables_of_groups": (lambda m: cto.palettize_weights(m, configured(TABLES(
        mode="uniform", nbits=2, granularity="per_grouped_channel", group_size=1,
        weight_threshold=0))), "constexpr_lut_to_dense"),
    "pruned": (lambda m: cto.prune_weights(m, configured(cto.OpMagnitudePrunerConfig(
        target_sparsity=0.6, weight_threshold=0))), "constexpr_sparse_to_dense"),
    "pruned_steps": (lambda m: cto.linear_quantize_weights(COMPRESSED["pruned"][0](m), configured(
        LINEAR(weight_threshold=0)), joint_compression=True),
        "constexpr_sparse_blockwise_shift_scale"),
    "pruned_tables": (lambda m: cto.palettize_weights(COMPRESSED["pruned"][0](m), configured(
        TABLES(mode="uniform", nbits=4, weight_threshold=0)), joint_compression=True),
        "constexpr_lut_to_sparse"),
    "tables_of_steps": (lambda m: cto.linear_quantize_weights(COMPRESSED["tables"][0](m),
        configured(LINEAR(granularity="per_tensor", weight_threshold=0)),
        joint_compression=True), "constexpr_lut_to_dense"),
}


@pytest.mark.parametrize("name", COMPRESSED)
def test_weights_against_coremltools(name, tmp_path):
    compress, kind = COMPRESSED[name]
    compressed = compress(model())
    assert kind in operations(compressed)
    graph = graph_at(compressed, tmp_path, "compressed")
    wanted = result(graph_at(cto.decompress_weights(compressed), tmp_path, "whole"))
    np.testing.assert_allclose(result(graph), wanted, rtol=1e-5, atol=1e-5)


OLDER = {
    "channels": (lambda m: cto.linear_quantize_weights(m, configured(LINEAR(weight_threshold=0))),
                 "constexpr_affine_dequantize"),
    "points": (lambda m: cto.linear_quantize_weights(m, configured(LINEAR(
        mode="linear", dtype="uint8", weight_threshold=0))), "constexpr_affine_dequantize"),
    "tables": (lambda m: cto.palettize_weights(m, configured(TABLES(
        mode="uniform", nbits=6, weight_threshold=0))), "constexpr_lut_to_dense"),
    "pruned": (lambda m: cto.prune_weights(m, configured(cto.OpMagnitudePrunerConfig(
        target_sparsity=0.6, weight_threshold=0))), "constexpr_sparse_to_dense"),
}


@pytest.mark.parametrize("name", OLDER)
def test_older_programs_in_float16(name, tmp_path):
    """The weights of both are in float16: coremltools rounds them once more."""
    compress, kind = OLDER[name]
    compressed = compress(model(ct.target.iOS16, ct.precision.FLOAT16))
    assert kind in operations(compressed)
    wanted = result(graph_at(cto.decompress_weights(compressed), tmp_path, "whole"))
    made = result(graph_at(compressed, tmp_path, "compressed"))
    np.testing.assert_allclose(made, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())


@pytest.mark.parametrize("axis, shape", [(0, (4, 2, 3, 3)), (1, (8, 2, 3, 3))])
def test_vectors_of_tables(axis, shape, tmp_path):
    indices = RNG.integers(0, 4, shape).astype(types.nptype_from_builtin(types.uint2))
    tables = RNG.normal(size=(2, 1, 1, 1, 4, 2)).astype(np.float32)

    @mb.program(input_specs=SPEC, opset_version=ct.target.iOS18)
    def network(x):
        weight = mb.constexpr_lut_to_dense(indices=indices, lut=tables, vector_axis=axis)
        return mb.conv(x=x, weight=weight, groups=2 - axis)

    compressed = converted(network)
    assert "constexpr_lut_to_dense" in operations(compressed)
    wanted = result(graph_at(cto.decompress_weights(compressed), tmp_path, "whole"))
    np.testing.assert_allclose(result(graph_at(compressed, tmp_path, "compressed")), wanted,
                               rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_quantized_activations_make_layers_of_integers(dtype, tmp_path):
    zero = np.array(3, dtype)
    steps = RNG.integers(-127, 128, (8, 4, 3, 3)).astype(np.int8)

    @mb.program(input_specs=SPEC, opset_version=ct.target.iOS18)
    def network(x):
        def around(x, scale):
            q = mb.quantize(input=x, scale=np.float32(scale), zero_point=zero, output_dtype=dtype)
            return mb.dequantize(input=q, scale=np.float32(scale), zero_point=zero)
        weight = mb.constexpr_blockwise_shift_scale(
            data=steps, scale=np.linspace(1e-3, 2e-3, 8, dtype=np.float32).reshape(8, 1, 1, 1))
        return around(mb.conv(x=around(x, 0.02), weight=weight), 0.05)

    graph = graph_at(converted(network), tmp_path, "w8a8")
    assert [node.op for node in optimize(graph).nodes] == ["quantize", "qconv2d", "dequantize"]
    q = np.clip(np.rint(X / np.float32(0.02)) + 3, *(-128, 127) if dtype == "int8" else (0, 255))
    windows = np.lib.stride_tricks.sliding_window_view((q - 3) * 0.02, (3, 3), axis=(2, 3))
    weights = steps * np.linspace(1e-3, 2e-3, 8).reshape(8, 1, 1, 1)
    sums = np.einsum("nchwij,ocij->nohw", windows, weights)
    low, high = (-128, 127) if dtype == "int8" else (0, 255)
    wanted = (np.clip(np.rint(sums / 0.05) + 3, low, high) - 3) * 0.05
    assert np.abs(result(graph) - wanted).max() <= 0.0501


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_quantizations_by_slices(axis, tmp_path):
    scale = np.linspace(0.01, 0.03, X.shape[axis], dtype=np.float32)
    zero = RNG.integers(-9, 9, X.shape[axis]).astype(np.int8)

    @mb.program(input_specs=SPEC, opset_version=ct.target.iOS17)
    def network(x):
        q = mb.quantize(input=x, scale=scale, zero_point=zero, axis=axis, output_dtype="int8")
        return mb.dequantize(input=q, scale=scale, zero_point=zero, axis=axis - 4)

    along = [slice(None) if place == axis else None for place in range(4)]
    wide = [numbers[tuple(along)] for numbers in (scale, zero)]
    q = np.clip(np.rint(X / wide[0]) + wide[1], -128, 127)
    made = result(graph_at(converted(network, ct.target.iOS17), tmp_path, "slices"))
    np.testing.assert_allclose(made, (q - wide[1]) * wide[0], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("mode, bits", [
    ("linear_quantization", 8), ("linear_quantization", 5), ("linear_quantization_symmetric", 8),
    ("lookup_table_quantization_linear", 4), ("lookup_table_quantization_linear", 1)])
def test_weights_of_neural_networks(mode, bits, tmp_path):
    """Compared with the network that coremltools dequantizes again."""
    tools = pytest.importorskip("coremltools.models.neural_network.quantization_utils")
    spec = ct.proto.Model_pb2.Model()
    spec.ParseFromString((MODELS / "pictures.mlmodel").read_bytes())
    tools._quantize_nn_spec(spec.neuralNetwork, bits, f"_{mode}")
    made = graph_of(saved(spec, tmp_path / "few.mlmodel"))
    tools._dequantize_nn_spec(spec.neuralNetwork)
    wanted = graph_of(saved(spec, tmp_path / "whole.mlmodel"))
    x = RNG.normal(size=wanted.values[wanted.inputs[0]].shape).astype(np.float32)
    results = [evaluate(graph, {graph.inputs[0]: x})[graph.outputs[0]]
               for graph in (made, wanted)]
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-5 * np.abs(results[1]).max())


def saved(spec, path):
    path.write_bytes(spec.SerializeToString())
    return path
