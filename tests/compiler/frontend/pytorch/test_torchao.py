"""Networks that torchao has quantized, against torchao itself."""

import importlib.util

import numpy as np
import pytest

from compiler.graph.passes.pipeline import optimize
from compiler.graph.reference import evaluate

torch = pytest.importorskip("torch")
if importlib.util.find_spec("torchao") is None:
    pytest.skip("needs torchao, of the extra torchao", allow_module_level=True)

from torch import nn  # pyright: ignore[reportMissingImports]  # noqa: E402

from compiler.frontend.pytorch import programs      # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def torchao():
    """The package, which takes half a minute to import."""
    return pytest.importorskip("torchao.quantization")


class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.wide, self.narrow = nn.Linear(64, 96), nn.Linear(96, 32)

    def forward(self, x):
        return self.narrow(torch.relu(self.wide(x)))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm, self.head = nn.BatchNorm2d(8), nn.Linear(8, 5)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = torch.relu(x + self.second(x))
        return self.head(torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1))


def agree(program, wanted, x, path=None):
    """The graph gives what torch gave, the one of the saved file as well."""
    graphs = [programs.convert(program)]
    if path is not None:
        torch.export.save(program, path)
        graphs.append(programs.graph_of(path))
    for graph in graphs:
        made, = evaluate(graph, {graph.inputs[0]: x.numpy()}).values()
        np.testing.assert_allclose(made, wanted.detach().numpy(), rtol=1e-5, atol=1e-6)
    return graphs[0]


def operators(graph):
    return [node.op for node in graph.nodes]


CONFIGURED = {
    "int8 weights": lambda ao: ao.Int8WeightOnlyConfig(),
    "int8 weights, dynamic activations": lambda ao: ao.Int8DynamicActivationInt8WeightConfig(),
    "int8 weights, static activations": lambda ao: ao.Int8StaticActivationInt8WeightConfig(
        act_quant_scale=torch.tensor([[0.03]]), granularity=ao.PerTensor()),
    "int4 groups": lambda ao: ao.IntxWeightOnlyConfig(
        weight_dtype=torch.int4, granularity=ao.PerGroup(32)),
    "int4 channels": lambda ao: ao.IntxWeightOnlyConfig(
        weight_dtype=torch.int4, granularity=ao.PerAxis(0)),
    "int2 groups, asymmetric": lambda ao: ao.IntxWeightOnlyConfig(
        weight_dtype=torch.int2, granularity=ao.PerGroup(16),
        mapping_type=ao.MappingType.ASYMMETRIC),
    "int4 groups, dynamic activations": lambda ao: ao.Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=ao.PerGroup(32)),
}


@pytest.mark.parametrize("name", CONFIGURED)
def test_tensors(name, torchao, tmp_path):
    module, x = Dense().eval(), torch.randn(3, 64, generator=torch.Generator().manual_seed(1))
    torchao.quantize_(module, CONFIGURED[name](torchao))
    agree(torch.export.export(module, (x,)), module(x), x, tmp_path / "m.pt2")


def test_training_with_groups_of_int4(torchao):
    """A module with torchao's fake quantization, as it is while it is trained."""
    qat = pytest.importorskip("torchao.quantization.qat")
    module, x = Dense(), torch.randn(3, 64, generator=torch.Generator().manual_seed(1))
    module = qat.Int8DynActInt4WeightQATQuantizer(groupsize=32).prepare(module).eval()
    agree(torch.export.export(module, (x,)), module(x), x)


def quantizers():
    x86 = pytest.importorskip("torchao.quantization.pt2e.quantizer.x86_inductor_quantizer")
    xnnpack = pytest.importorskip("torchao.testing.pt2e._xnnpack_quantizer")
    of_x86 = x86.get_default_x86_inductor_quantization_config
    of_xnnpack = xnnpack.get_symmetric_quantization_config
    return {"x86": x86.X86InductorQuantizer().set_global(of_x86()),
            "x86 dynamic": x86.X86InductorQuantizer().set_global(of_x86(is_dynamic=True)),
            "xnnpack": xnnpack.XNNPACKQuantizer().set_global(of_xnnpack(is_per_channel=True))}


@pytest.mark.parametrize("name", ["x86", "x86 dynamic", "xnnpack"])
def test_pt2e(name, torchao, tmp_path):
    quantize_pt2e = pytest.importorskip("torchao.quantization.pt2e.quantize_pt2e")
    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    exported = torch.export.export(Residual().eval(), (x,)).module()
    prepared = quantize_pt2e.prepare_pt2e(exported, quantizers()[name])
    prepared(x)
    converted = quantize_pt2e.convert_pt2e(prepared)
    graph = agree(torch.export.export(converted, (x,)), converted(x), x, tmp_path / "m.pt2")
    if name == "xnnpack":
        assert operators(optimize(graph)) == ["quantize", "qconv2d", "qconv2d", "qadd",
                                              "qglobalavgpool", "reshape", "qdense", "dequantize"]
