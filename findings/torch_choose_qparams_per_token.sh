#!/bin/sh
# torch's choose_qparams_per_token: programs of torch.export say float64 and int64 of its results,
# and what runs gives float32 twice, the zero points too.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet 'torch==2.13.0' 'numpy<3'
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators


class Rows(torch.nn.Module):
    def forward(self, x):
        return torch.ops.quantized_decomposed.choose_qparams_per_token(x, torch.int8)


x = torch.randn(2, 3)
program = torch.export.export(Rows(), (x,))
told = [node.meta["val"].dtype for node in program.graph.nodes if "getitem" in node.name]
found = [tensor.dtype for tensor in program.module()(x)]
print("torch", torch.__version__, "scales and zero points, as the program says:", *told,
      "as it runs:", *found)
assert told == [torch.float64, torch.int64], "the behaviour has changed"
assert found == [torch.float32, torch.float32], "the behaviour has changed"
PYTHON
