"""Quantized programs of torch.export give what torch gives, in all of PyTorch's spellings."""

import zipfile

import numpy as np
import pytest

from compiler.frontend.onnx.importing import ImportRefused
from compiler.graph.passes.pipeline import optimize
from compiler.graph.reference import evaluate

torch = pytest.importorskip("torch")

from torch import nn  # pyright: ignore[reportMissingImports]  # noqa: E402

from compiler.frontend.pytorch import files, programs       # noqa: E402

pytest.importorskip("torch.ao.quantization.fx._decomposed")      # registers the operators

PT2E = torch.ops.quantized_decomposed
INT8, UINT8 = (-128, 127, torch.int8), (0, 255, torch.uint8)

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning",
                                        "ignore::DeprecationWarning")


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def uniform(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) * 0.1 + 0.01


def whole(low, high, *shape, seed=0, dtype=torch.int64):
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed),
                         dtype=dtype)


class Cases(nn.Module):
    """One module with a result for each function; the tensors are its buffers."""

    def __init__(self, cases, **tensors):
        super().__init__()
        self.cases = cases
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)

    def forward(self, x):
        return {name: case(self, x) for name, case in self.cases.items()}


def agree(module, x, steps=1e-6):
    """All results are torch's, up to the rounding of a product in float32."""
    module = module.eval()
    with torch.no_grad():
        wanted = module(x)
        graph = programs.convert(programs.exported(module, (x,)))
    made = evaluate(graph, {graph.inputs[0]: x.numpy()})
    wanted = wanted if isinstance(wanted, dict) else {"output": wanted}
    for name, tensor in wanted.items():
        array = tensor.detach().numpy()
        assert (made[name].shape, made[name].dtype) == (array.shape, array.dtype), name
        np.testing.assert_allclose(made[name], array, rtol=steps, atol=steps, err_msg=name)
    return graph


def operators(graph):
    return [node.op for node in graph.nodes]


def around(x, parameters, *bounds):
    return PT2E.dequantize_per_tensor(PT2E.quantize_per_tensor(x, *parameters, *bounds),
                                      *parameters, *bounds)


def slices(m, x, scales, zeros, axis, *bounds):
    q = PT2E.quantize_per_channel(x, scales, zeros, axis, *bounds)
    return PT2E.dequantize_per_channel(q, scales, zeros, axis, *bounds)


def of_data(x, *bounds):
    scale, zero = PT2E.choose_qparams.tensor(x, *bounds[:2], 1e-7, bounds[2])
    q = PT2E.quantize_per_tensor.tensor(x, scale, zero, *bounds)
    return PT2E.dequantize_per_tensor.tensor(q, scale, zero, *bounds)


def of_rows(x, choose):
    scales, zeros = choose(x, torch.int8)
    q = PT2E.quantize_per_token(x, scales, zeros, *INT8)
    return PT2E.dequantize_per_token(q, scales, zeros, *INT8, torch.float32)


def groups(w, scales, zeros):
    q = PT2E.quantize_per_channel_group(w, scales, zeros, -8, 7, torch.int8, 4)
    return PT2E.dequantize_per_channel_group(q, scales, zeros, -8, 7, torch.int8, 4,
                                             torch.float32)


def test_quantized_decomposed():
    graph = agree(Cases({
        "int8": lambda m, x: around(x, (0.0371, 12), *INT8),
        "uint8": lambda m, x: around(x, (0.051, 131), *UINT8),
        "seven_bits": lambda m, x: around(x, (0.07, 60), 0, 127, torch.uint8),
        "int16": lambda m, x: around(x, (0.0003, -7), -32768, 32767, torch.int16),
        "tensor": lambda m, x: PT2E.quantize_per_tensor.tensor(x, m.scale, m.zero, *INT8),
        "tensor2": lambda m, x: PT2E.quantize_per_tensor.tensor2(
            x, m.scale, m.zero, m.low, m.high, torch.int8),
        "half": lambda m, x: PT2E.dequantize_per_tensor(
            PT2E.quantize_per_tensor(x.half(), 0.03, 0, *INT8), 0.03, 0, *INT8,
            out_dtype=torch.float16),
        "channels": lambda m, x: slices(m, x, m.scales, m.zeros, 1, *INT8),
        "last": lambda m, x: slices(m, x, m.scales[:5], m.zeros[:5] + 100, 2, *UINT8),
        "symmetric": lambda m, x: PT2E.dequantize_per_channel(
            m.weight, m.scales, None, 0, *INT8) * x[..., :1],
        "data": lambda m, x: of_data(x, *INT8), "data_uint8": lambda m, x: of_data(x, *UINT8),
        "even": lambda m, x: PT2E.choose_qparams_symmetric.tensor(
            x, *INT8[:2], 1e-7, torch.int8)[0],
        "rows": lambda m, x: of_rows(x, PT2E.choose_qparams_per_token),
        "uneven": lambda m, x: of_rows(x, PT2E.choose_qparams_per_token_asymmetric),
        "groups": lambda m, x: groups(m.floats, m.blocks, m.points) * x[0, 0, 0],
        "computed": lambda m, x: groups(x.reshape(10, 8), m.blocks, m.points),
        "element_type": lambda m, x: PT2E.convert_element_type.no_fuse(x, torch.float16),
        "fake": lambda m, x: PT2E.fake_quant_per_channel(x, m.scales, m.zeros, 1, -128, 127),
    }, scale=torch.tensor([0.04]), zero=torch.tensor([3]), low=torch.tensor(-8),
        high=torch.tensor(7), scales=uniform(8), zeros=whole(-50, 50, 8),
        weight=whole(-128, 128, 8, 1, dtype=torch.int8), floats=random(10, 8),
        blocks=uniform(10, 2) * 4, points=whole(-2, 3, 10, 2)), random(2, 8, 5) * 3)
    assert operators(graph).count("quantizelinear") == 10


FAKE = {
    "tensor": lambda m, x: torch.fake_quantize_per_tensor_affine(x, 0.05, 3, -8, 7),
    "values": lambda m, x: torch.fake_quantize_per_tensor_affine(x, m.scale, m.zero, 0, 255),
    "uint7": lambda m, x: torch.fake_quantize_per_tensor_affine(x, 0.02, 64, 0, 127),
    "int16": lambda m, x: torch.fake_quantize_per_tensor_affine(x, 0.001, 9, -32768, 32767),
    "channels": lambda m, x: torch.fake_quantize_per_channel_affine(
        x, m.scales, m.zeros, 1, -127, 127),
    "floats": lambda m, x: torch.fake_quantize_per_channel_affine(
        x, m.scales, m.points, 1, -127, 127),
    "learned": lambda m, x: torch._fake_quantize_learnable_per_tensor_affine(
        x, m.scale, m.point, -128, 127, 1.0),
    "learned_channels": lambda m, x: torch._fake_quantize_learnable_per_channel_affine(
        x, m.scales, m.points, 1, -128, 127, 1.0),
}


def test_fake_quantization():
    graph = agree(Cases(
        FAKE, scale=torch.tensor([0.05]), zero=torch.tensor([100], dtype=torch.int32),
        point=torch.tensor([3.7]), scales=uniform(8), zeros=whole(-50, 50, 8, dtype=torch.int32),
        points=random(8) * 20), random(2, 8, 5) * 3)
    assert operators(graph).count("dequantizelinear") == 7


def test_tensors_of_quantized_types():
    graph = agree(Cases({
        "tensor": lambda m, x: torch.quantize_per_tensor(x, 0.1, 3, torch.quint8).dequantize(),
        "signed": lambda m, x: torch.quantize_per_tensor(x, 0.02, -3, torch.qint8).dequantize(),
    }), random(2, 8, 5) * 3)
    assert operators(graph).count("quantizelinear") == 2


def test_layers_with_fake_quantization_are_layers_of_integers():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)
            self.register_buffer("scales", uniform(4))
            self.register_buffer("zeros", torch.zeros(4, dtype=torch.int32))

        def forward(self, x):
            fake = torch.fake_quantize_per_tensor_affine
            weight = torch.fake_quantize_per_channel_affine(self.conv.weight, self.scales,
                                                            self.zeros, 0, -127, 127)
            y = torch.conv2d(fake(x, 0.03, 2, -128, 127), weight, self.conv.bias)
            return fake(torch.relu(y), 0.05, 0, 0, 255)

    graph = optimize(agree(Layer(), random(1, 3, 6, 6), 1e-5))
    assert operators(graph) == ["quantize", "qconv2d", "dequantize"]


def observed(m, x, channels=False):
    known = (m.ends, m.ends, m.scales, m.zeros) if channels else (m.end, m.end, m.scale, m.zero)
    return torch.fused_moving_avg_obs_fake_quant(
        x, m.observes, m.quantizes, *known, 0.01, -127, 127, 0, channels, True)


def of_training(observes):
    """A convolution as quantize_fx trains it: the weight has the factor of the batch norm."""
    def folded(m, x):
        factor = m.gain / torch.sqrt(m.variance + 1e-3)
        weight = observed(m, m.weight * factor.reshape(-1, 1, 1, 1), True)
        y = torch.conv2d(observed(m, x), weight) / factor.reshape(1, -1, 1, 1)
        y = nn.functional.batch_norm(y, m.mean, m.variance, m.gain, m.shift, False, 0.1, 1e-3)
        return observed(m, torch.relu(y))

    return Cases(
        {"output": folded}, weight=random(4, 3, 3, 3), gain=uniform(4) * 20, mean=random(4),
        shift=random(4, seed=1), variance=uniform(4, seed=2) * 9, scale=torch.tensor([0.05]),
        zero=torch.zeros(1, dtype=torch.int32), scales=uniform(4),
        zeros=torch.zeros(4, dtype=torch.int32), observes=torch.tensor([observes]),
        quantizes=torch.tensor([1]), end=torch.ones(1), ends=torch.ones(4))


def test_a_layer_that_was_trained_with_fake_quantization():
    graph = agree(of_training(0), random(1, 3, 6, 6), 0.051)        # within a step
    weight, = [node for node in graph.nodes if node.inputs[0] in graph.constants
               and node.op == "dequantizelinear"]
    assert graph.constants[weight.inputs[0]].dtype == np.int8
    assert operators(graph).count("quantizelinear") == 2


def refusal(module, x):
    with pytest.raises(ImportRefused) as refused:
        programs.graph_of(module.eval(), example_inputs=x)
    return str(refused.value)


def test_observers_must_be_off():
    assert refusal(of_training(1), random(1, 3, 6, 6)).count(
        "it observes the range of its input; call module.apply(torch.ao.quantization."
        "disable_observer) before export") == 3


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.ao.nn.quantized.Linear(3, 2)

    def forward(self, x):
        return self.fc(torch.quantize_per_tensor(x, 0.1, 0, torch.quint8)).dequantize()


def test_packed_weights_are_refused_with_the_step_that_helps():
    assert refusal(Packed(), random(2, 3)) == (
        "Packed: must hold no quantized tensors or packed weights (quantized::* operators), which "
        "torch.export does not take; quantize by torchao's convert_pt2e, or call torch.ao."
        "quantization.quantize_fx._convert_to_reference_decomposed_fx in place of convert_fx")


# ---- files ---------------------------------------------------------------------------------------

def file_of_pt2e(folder):
    path = folder / "m.pt2"
    torch.export.save(torch.export.export(Cases({"output": lambda m, x: around(
        x, (0.05, 1), *INT8)}), (random(2, 3),)), path)
    return path


def test_a_file_with_quantizations_registers_their_operators(tmp_path, monkeypatch):
    """In a process of its own torch knows them only after an import."""
    path, imported = file_of_pt2e(tmp_path), []
    monkeypatch.setattr(files.importlib, "import_module", imported.append)
    assert "dequantizelinear" in operators(programs.graph_of(path))
    assert imported == ["torch.ao.quantization.fx._decomposed"]


def renamed(path, old, new):
    """The file with another name for a namespace."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data.replace(old, new) if name.endswith(".json") else data)
    return path


def test_operators_that_nothing_registers_are_named(tmp_path):
    path = renamed(file_of_pt2e(tmp_path), b"ops.quantized_decomposed", b"ops.some_library")
    with pytest.raises(ImportRefused) as refused:
        programs.graph_of(path)
    assert str(refused.value) == (
        f"{path}: its operators of some_library are not known to torch; import the library that "
        "registers them, and give the program of torch.export.load in place of the file")


def test_a_library_that_is_not_installed_is_named(tmp_path, monkeypatch):
    def missing(name):
        raise ImportError(name)

    path = renamed(file_of_pt2e(tmp_path), b"ops.quantized_decomposed", b"ops.torchao")
    monkeypatch.setattr(files.importlib, "import_module", missing)
    with pytest.raises(ImportRefused) as refused:
        programs.graph_of(path)
    assert str(refused.value) == (f"{path}: its operators of torchao need that package, which is "
                                  "not installed; install lockstep-hw[torchao]")


def test_tensors_of_a_library_that_is_not_installed_are_named(tmp_path, monkeypatch):
    """Weights of int8 that torchao made: their operators are aten's own."""
    path = tmp_path / "m.pt2"
    torch.export.save(torch.export.export(nn.Linear(3, 2), (random(2, 3),)), path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("m/data/weights/weight_7",
                         b"\x80\x02ctorchao.quantization\nInt8Tensor\n")
    monkeypatch.setitem(files.REGISTERED_BY, "torchao", "torchao_that_is_not_there")
    with pytest.raises(ImportRefused) as refused:
        programs.graph_of(path)
    assert str(refused.value) == (f"{path}: its tensors Int8Tensor of torchao need that package, "
                                  "which is not installed; install lockstep-hw[torchao]")
