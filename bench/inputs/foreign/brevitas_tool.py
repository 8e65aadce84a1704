"""Brevitas, as QONNX and as QCDQ (see `cases`).

Its networks are built of its own layers, so there is one: convolutions with a residual.
"""

import brevitas.nn as qnn
import torch
from brevitas.export import export_onnx_qcdq, export_qonnx
from brevitas.quant import Int8ActPerTensorFloat, Int8WeightPerChannelFloat
from cases import Case, make_all, slimmed
from networks import SEED, SIZES
from torch import nn

BITS = {"qonnx-w8a8": (8, export_qonnx), "qonnx-w4a4": (4, export_qonnx),
        "qcdq-w8a8": (8, export_onnx_qcdq), "qcdq-w4a4": (4, export_onnx_qcdq)}


class Network(nn.Module):
    def __init__(self, width: int, bits: int):
        super().__init__()
        weights = {"weight_quant": Int8WeightPerChannelFloat, "weight_bit_width": bits,
                   "bias": False}
        self.inp = qnn.QuantIdentity(act_quant=Int8ActPerTensorFloat, bit_width=8)
        self.one = qnn.QuantConv2d(3, width, 3, padding=1, **weights)
        self.two = qnn.QuantConv2d(width, width, 3, padding=1, **weights)
        self.after_one, self.after_two, self.after_sum = (
            qnn.QuantReLU(bit_width=bits) for _ in range(3))
        self.pool = nn.MaxPool2d(2)
        self.fc = qnn.QuantLinear(width, 10, **{**weights, "weight_bit_width": 8})

    def forward(self, x):
        one = self.after_one(self.one(self.inp(x)))
        two = self.after_sum(self.after_two(self.two(one)) + one)
        return self.fc(self.pool(two).mean((2, 3)))


def make(case: Case) -> None:
    bits, export = BITS[case.mode]
    torch.manual_seed(SEED)
    width, extent = SIZES[case.size][case.network]
    made, sample = Network(4 * width, bits), torch.randn(1, 3, extent, extent)
    with torch.no_grad():
        made.train()
        made(torch.randn(8, 3, extent, extent))         # ranges of activations
        made.eval()
        export(made, args=sample, export_path=str(case.path(".onnx")), opset_version=17)
        slimmed(case.path(".onnx"))
        case.keep(sample.numpy(), made(sample).numpy(), "Brevitas")


if __name__ == "__main__":
    make_all("brevitas", make)
