"""Programs and modules of PyTorch are quantized like ONNX models."""

import numpy as np
import onnx
import pytest

import lockstep
from compiler.frontend import convert
from compiler.frontend.onnx.exporting import exported_model
from compiler.graph import optimize
from compiler.quantize import QuantizeRefused, quantize
from tests.support.onnx_runtime import run_onnx

torch = pytest.importorskip("torch")

from torch import nn  # pyright: ignore[reportMissingImports]  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

SAMPLES = np.random.default_rng(0).standard_normal((8, 3, 8, 8), np.float32)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.fc = nn.Linear(8, 5)

    def forward(self, image):
        x = torch.relu(self.norm(self.conv(image)))
        return self.fc((x + x.flip(1)).mean((2, 3)))


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return Net().eval()


def check(net, made, batch):
    """Layers have the names of modules; ONNX Runtime gives what torch gives, within the noise."""
    quantized = {layer.name for layer in made.layers if layer.quantized}
    assert {"conv", "fc"} <= quantized and "norm" not in quantized and made.decibels > 25
    with torch.no_grad():
        wanted = net(torch.from_numpy(SAMPLES[:batch])).numpy()
    found = run_onnx(made.model, {"image": SAMPLES[:batch]})["output"]
    assert np.abs(found - wanted).max() < 0.1 * np.abs(wanted).max()


def test_a_module_comes_with_example_inputs(net):
    check(net, quantize(net, SAMPLES, example_inputs=torch.zeros(2, 3, 8, 8)), 2)
    with pytest.raises(QuantizeRefused, match="^Net: must come with example inputs"):
        quantize(net, SAMPLES)


def test_a_module_becomes_integers_without_a_model_of_onnx(net, monkeypatch):
    """That is only made when it is asked for; imported again it gives the same graph."""
    def refuse(*arguments, **options):
        raise AssertionError("a part of an ONNX model was made")

    with monkeypatch.context() as patched:
        for name in ("NodeProto", "GraphProto", "ModelProto", "TensorProto", "ValueInfoProto"):
            patched.setattr(onnx.helper, name, refuse)
            patched.setattr(onnx, name, refuse)
        made = quantize(net, SAMPLES, example_inputs=torch.zeros(2, 3, 8, 8), budget="90dB",
                        equalize=True, bias_correction=True)
        module = lockstep.compile(net, "accel:tiny-1x4x4", calibration=SAMPLES, cache=False,
                                  example_inputs=torch.zeros(2, 3, 8, 8))
        with pytest.raises(AssertionError, match="^a part of an ONNX model was made$"):
            exported_model(made.graph)
    assert {"qconv2d", "qdense"} < {node.op for node in module.graph.nodes}
    again = convert(made.model, made.graph.name)
    assert str(optimize(again)) == str(optimize(made.graph))


def test_open_dimensions_are_those_of_the_samples(net):
    batch, side = torch.export.Dim("batch"), torch.export.Dim("side", min=4)
    program = torch.export.export(net, (torch.zeros(2, 3, 6, 6),),
                                  dynamic_shapes=({0: batch, 2: side},))
    made = quantize(program, {"image": SAMPLES[..., :6]})
    shape = made.model.graph.input[0].type.tensor_type.shape.dim
    assert [one.dim_value for one in shape] == [1, 3, 8, 6]
    assert made.graph_of({"image.0": 5}).values["image"].shape == (5, 3, 8, 6)
    given = {"image": np.zeros((2, 3, 4, 6), np.float32)}
    assert made.graph_of(arrays=given).values["image"].shape == (2, 3, 4, 6)
