"""Makes the files of Core ML beside it, by coremltools from modules of PyTorch with seeded weights.

    python tests/models/make_coreml.py

`NAME.npz` has an input and what PyTorch makes of it, since Core ML runs on macOS alone.
"""

from pathlib import Path
from typing import Any

import coremltools  # pyright: ignore[reportMissingImports]
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]

FOLDER = Path(__file__).parent
CONVERT: Any = coremltools.convert


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(12)
        self.depthwise = nn.Conv2d(12, 12, 3, padding=1, groups=12, bias=False)
        self.point = nn.Conv2d(12, 8, 1)
        self.up = nn.ConvTranspose2d(20, 8, 3, stride=2, padding=1, output_padding=1)
        self.slopes = nn.PReLU(8)
        self.head = nn.Linear(8, 10)
        self.norm.running_mean = torch.randn(12) / 10
        self.norm.running_var = 0.8 + 0.4 * torch.rand(12)

    def forward(self, x):
        x = torch.relu(self.norm(self.stem(x)))
        y = functional.relu6(self.point(functional.hardswish(self.depthwise(x))))
        x = functional.max_pool2d(torch.cat([x, y], 1), 2)
        x = functional.interpolate(functional.avg_pool2d(x, 3, 1, 1), scale_factor=2,
                                   mode="bilinear", align_corners=False)
        x = functional.leaky_relu(self.slopes(self.up(x)), 0.1)
        x = x * torch.sigmoid(x.mean((2, 3), keepdim=True))
        x = functional.pad(functional.interpolate(x, scale_factor=2, mode="nearest"), (1, 1, 0, 2))
        return self.head(x.mean((2, 3)))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.norm = nn.Linear(24, 32), nn.LayerNorm(32)
        self.heads, self.leave = nn.Linear(32, 96), nn.Linear(32, 32)
        self.wide, self.narrow, self.second = nn.Linear(32, 64), nn.Linear(64, 32), nn.LayerNorm(32)
        self.head = nn.Linear(32, 5)

    def forward(self, x):
        x = self.enter(x)
        parts = [part.reshape(1, 16, 2, 16).transpose(1, 2)
                 for part in self.heads(self.norm(x)).chunk(3, -1)]
        scores = torch.softmax(parts[0] @ parts[1].transpose(-1, -2) / 4, -1)
        x = x + self.leave((scores @ parts[2]).transpose(1, 2).reshape(1, 16, 32))
        x = x + self.narrow(functional.gelu(self.wide(self.second(x))))
        return self.head(x[:, -1])


NETWORKS = {"pictures": (Pictures, (1, 3, 32, 32)), "words": (Words, (1, 16, 24))}


def main() -> None:
    for name, (build, shape) in NETWORKS.items():
        torch.manual_seed(0)
        module = build().eval()
        x = torch.randn(shape)
        traced = torch.jit.trace(module, x)
        np.savez(FOLDER / f"{name}.npz", x0=x.numpy(), y0=module(x).detach().numpy(),
                 framework="PyTorch")
        inputs = [coremltools.TensorType(name="x", shape=shape)]
        CONVERT(traced, inputs=inputs, convert_to="mlprogram",
                compute_precision=coremltools.precision.FLOAT32
                ).save(str(FOLDER / f"{name}.mlpackage"))
        CONVERT(traced, inputs=inputs, convert_to="neuralnetwork"
                ).save(str(FOLDER / f"{name}.mlmodel"))


if __name__ == "__main__":
    main()
