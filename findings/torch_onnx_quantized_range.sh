#!/bin/sh
# torch.onnx writes quantization to a part of a type's range (uint8 up to 127, as reduce_range=True asks
# for) as a QuantizeLinear that goes to 255: the file computes other values than the program.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet 'torch==2.13.0' 'onnxscript==0.7.2' 'onnx==1.23.2' 'onnxruntime==1.31.1'
cd "$folder"
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import onnxruntime
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators

ops = torch.ops.quantized_decomposed


class Network(torch.nn.Module):
    def forward(self, x):
        q = ops.quantize_per_tensor(x, 0.1, 0, 0, 127, torch.uint8)
        return ops.dequantize_per_tensor(q, 0.1, 0, 0, 127, torch.uint8)


x = torch.tensor([1.0, 12.7, 20.0])
torch.onnx.export(Network(), (x,), "net.onnx", dynamo=True, opset_version=21, input_names=["x"])
told = onnxruntime.InferenceSession("net.onnx").run(None, {"x": x.numpy()})[0].tolist()
own = Network()(x).tolist()
print("torch", torch.__version__, "of 1, 12.7, 20: the program", own, "its ONNX file", told)
assert abs(own[2] - 12.7) < 1e-4 and abs(told[2] - 20) < 1e-4, "the behaviour has changed"
PYTHON
