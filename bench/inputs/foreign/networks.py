"""Small networks in PyTorch that tools quantize: run by the Python of a tool's environment.

Weights follow from a seed. `SIZES` has two of each: those of the matrix, of 50,000 to 110,000
parameters, and small ones of a few thousand, which tests keep.
"""

from itertools import pairwise
from pathlib import Path

import torch
from torch import nn

SEED, SAMPLES = 7, 8
SIZES = {"full": {"resnet": (16, 32), "mobile": (24, 32), "unet": (16, 32), "vit": (64, 16),
                  "lstm": (96, 16), "gru": (112, 16)},
         "small": {"resnet": (4, 8), "mobile": (4, 8), "unet": (4, 8), "vit": (16, 8),
                   "lstm": (8, 4), "gru": (8, 4)}}
"""Channels, or features, and pixels or steps of each network."""


def convolution(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1,
                last: type[nn.Module] | None = nn.ReLU) -> nn.Sequential:
    parts = [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
             nn.BatchNorm2d(outputs)]
    return nn.Sequential(*parts, *([last()] if last else []))


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.a = convolution(inputs, outputs, 3, stride)
        self.b = convolution(outputs, outputs, last=None)
        same = inputs == outputs and stride == 1
        self.skip = nn.Identity() if same else convolution(inputs, outputs, 1, stride, last=None)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(self.b(self.a(x)) + self.skip(x))


class Resnet(nn.Module):
    """A stem, and three residual blocks; in the small network one."""

    def __init__(self, width: int, pixels: int):
        super().__init__()
        channels = [width, width, 2 * width, 3 * width][:2 if pixels < 16 else 4]
        self.stem = convolution(3, width)
        self.body = nn.Sequential(*(Residual(inputs, outputs, 1 if inputs == outputs else 2)
                                    for inputs, outputs in pairwise(channels)))
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(channels[-1], 10)

    def forward(self, x):
        return self.fc(self.pool(self.body(self.stem(x))).flatten(1))


class Mobile(nn.Module):
    """A stem, and three blocks that expand, convolve by channels, gate by squeeze and excite."""

    def __init__(self, width: int):
        super().__init__()
        self.stem = convolution(3, width, 3, 2, last=nn.Hardswish)
        self.blocks = nn.ModuleList([self.block(width) for _ in range(3)])
        self.fc = nn.Linear(width, 10)

    @staticmethod
    def block(width: int) -> nn.ModuleDict:
        wide = 6 * width
        return nn.ModuleDict({
            "expand": convolution(width, wide, 1, last=nn.Hardswish),
            "depth": convolution(wide, wide, 5, groups=wide, last=nn.Hardswish),
            "squeeze": nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, width, 1), nn.ReLU(),
                                     nn.Conv2d(width, wide, 1), nn.Hardsigmoid()),
            "project": convolution(wide, width, 1, last=None)})

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            y = block["depth"](block["expand"](x))
            x = x + block["project"](y * block["squeeze"](y))
        return self.fc(x.mean((2, 3)))


class Unet(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.first, self.down = convolution(3, width), nn.MaxPool2d(2)
        self.second, self.third = convolution(width, 2 * width), convolution(2 * width, 4 * width)
        self.up_two = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
        self.up_one = nn.Upsample(scale_factor=2, mode="nearest")
        self.merge_two, self.merge_one = convolution(4 * width, 2 * width), convolution(
            3 * width, width)
        self.last = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        one = self.first(x)
        two = self.second(self.down(one))
        deep = self.up_two(self.third(self.down(two)))
        two = self.merge_two(torch.cat([deep, two], 1))
        return self.last(self.merge_one(torch.cat([self.up_one(two), one], 1)))


class Attention(nn.Module):
    """One layer of a transformer, its norms first."""

    def __init__(self, width: int, heads: int = 4):
        super().__init__()
        self.heads, self.norm, self.norm2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down, self.act = nn.Linear(width, 4 * width), nn.Linear(
            4 * width, width), nn.GELU()

    def forward(self, x):
        batch, count, width = x.shape
        y = self.norm(x)
        q, k, v = (part(y).reshape(batch, count, self.heads, -1).transpose(1, 2)
                   for part in (self.q, self.k, self.v))
        scores = torch.softmax(q @ k.transpose(2, 3) * (width // self.heads) ** -0.5, -1)
        x = x + self.o((scores @ v).transpose(1, 2).reshape(batch, count, width))
        return x + self.down(self.act(self.up(self.norm2(x))))


class Vit(nn.Module):
    def __init__(self, width: int, pixels: int):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.places = nn.Parameter(torch.randn(1, (pixels // 4) ** 2, width) * 0.1)
        self.layers = nn.Sequential(Attention(width), Attention(width))
        self.norm, self.fc = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2) + self.places
        return self.fc(self.norm(self.layers(x)).mean(1))


class Recurrent(nn.Module):
    def __init__(self, width: int, kind: type[nn.Module]):
        super().__init__()
        self.inp, self.act = nn.Linear(20, width), nn.ReLU()
        self.rnn, self.fc = kind(width, width, batch_first=True), nn.Linear(width, 10)

    def forward(self, x):
        return self.fc(self.rnn(self.act(self.inp(x)))[0][:, -1])


def network(name: str, size: str) -> tuple[nn.Module, list[torch.Tensor]]:
    """The network in inference mode, with samples of its input; the first is what it is judged by.
    """
    torch.manual_seed(SEED)
    width, extent = SIZES[size][name]
    made = {"resnet": lambda: Resnet(width, extent), "mobile": lambda: Mobile(width),
            "unet": lambda: Unet(width), "vit": lambda: Vit(width, extent),
            "lstm": lambda: Recurrent(width, nn.LSTM), "gru": lambda: Recurrent(width, nn.GRU)
            }[name]()
    shape = (1, extent, 20) if name in ("lstm", "gru") else (1, 3, extent, extent)
    samples = [torch.randn(shape) for _ in range(SAMPLES)]
    for module in made.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None              # the mean over all batches that were seen
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.2)
    with torch.no_grad():
        made.train()
        made(torch.cat(samples))
    return made.eval(), samples


def exported(name: str, size: str, folder: Path) -> Path:
    """The network as ONNX in float, without batch norms."""
    path = folder / f"{name}.float.onnx"
    if not path.exists():
        made, samples = network(name, size)
        torch.onnx.export(made, (samples[0],), str(path), input_names=["x"], output_names=["y"],
                          opset_version=17, dynamo=False)
    return path
