"""Compressed programs of Core ML, against coremltools' own decompression of the same files."""

import importlib.util

import numpy as np
import pytest

if importlib.util.find_spec("coremltools") is None:
    pytest.skip("needs coremltools, of the extra coreml", allow_module_level=True)

import coremltools as ct  # pyright: ignore[reportMissingImports]
from coremltools.converters.mil import Builder as mb  # pyright: ignore[reportMissingImports]

from compiler.frontend.models import graph_of
from compiler.graph.reference import evaluate

pytestmark = pytest.mark.filterwarnings(        # coremltools leaves its folders to the collector
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore::RuntimeWarning", "ignore::DeprecationWarning")
cto = ct.optimize.coreml
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
