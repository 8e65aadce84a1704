"""Networks of `lockstep.testing` as modules of PyTorch, for `torch.export`; and two more.

| NAME | network | input |
|---|---|---|
| resnet18, resnet50 | ResNet, torchvision's names | image [N,3,S,S] |
| mobilenet_v1, mobilenet_v2 | MobileNet, the second with ReLU6 | image |
| squeezenet | SqueezeNet 1.1 | image |
| unet | U-Net with 2x2 transposed convolutions | image, S a multiple of 16 |
| vit_small | vision transformer, `nn.MultiheadAttention` | image, S = 64 |
| bert_small | BERT's encoder with embeddings, scaled_dot_product_attention | ids [N,64] |
| keywords | depthwise separable CNN, 49 frames of 10 coefficients | features [N,1,49,10] |
| lstm | two layers in both directions, the mean over time classified | sequence [N,32,40] |

`build(NAME)` gives the module in evaluation mode and inputs. Weights are seeded: He's scale, small
biases, and random statistics and parameters of batch norms, so that nothing is 0 or 1 by default.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod, sqrt

import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor, nn  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]


def conv_norm(inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1,
              act: type[nn.Module] | None = nn.ReLU) -> nn.Sequential:
    """Padded by half the kernel."""
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), *([act()] if act else []))


class Residual(nn.Module):
    """A block of ResNet: basic, or a bottleneck with the stride in the 3x3."""

    def __init__(self, inputs: int, channels: int, stride: int, bottleneck: bool):
        super().__init__()
        outputs = channels * (4 if bottleneck else 1)
        if bottleneck:
            self.body = nn.Sequential(conv_norm(inputs, channels),
                                      conv_norm(channels, channels, 3, stride),
                                      conv_norm(channels, outputs, act=None))
        else:
            self.body = nn.Sequential(conv_norm(inputs, channels, 3, stride),
                                      conv_norm(channels, channels, 3, act=None))
        same = inputs == outputs and stride == 1
        self.downsample = nn.Identity() if same else conv_norm(inputs, outputs, 1, stride,
                                                               act=None)

    def forward(self, image: Tensor) -> Tensor:
        return functional.relu(self.body(image) + self.downsample(image))


def resnet(counts: Sequence[int], bottleneck: bool) -> nn.Module:
    layers, inputs = [conv_norm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
    for stage, count in enumerate(counts):
        for i in range(count):
            layers.append(Residual(inputs, 64 << stage, 2 if stage and not i else 1, bottleneck))
            inputs = (64 << stage) * (4 if bottleneck else 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


def mobilenet_v1() -> nn.Module:
    layers, inputs = [conv_norm(3, 32, 3, 2)], 32
    for i, channels in enumerate((64, 128, 128, 256, 256, *[512] * 6, 1024, 1024), 1):
        layers += [conv_norm(inputs, inputs, 3, 2 if i in (2, 4, 6, 12) else 1, inputs),
                   conv_norm(inputs, channels)]
        inputs = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


class Inverted(nn.Module):
    """An inverted residual with a linear bottleneck."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int):
        super().__init__()
        hidden = inputs * expansion
        wide = [conv_norm(inputs, hidden, act=nn.ReLU6)] if expansion > 1 else []
        self.conv = nn.Sequential(*wide, conv_norm(hidden, hidden, 3, stride, hidden, nn.ReLU6),
                                  conv_norm(hidden, outputs, act=None))
        self.adds = inputs == outputs and stride == 1

    def forward(self, image: Tensor) -> Tensor:
        return image + self.conv(image) if self.adds else self.conv(image)


def mobilenet_v2() -> nn.Module:
    layers: list[nn.Module] = [conv_norm(3, 32, 3, 2, act=nn.ReLU6)]
    inputs = 32
    for expansion, channels, count, first in (
            (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
            (6, 160, 3, 2), (6, 320, 1, 1)):
        for stride in (first, *[1] * (count - 1)):
            layers.append(Inverted(inputs, channels, stride, expansion))
            inputs = channels
    return nn.Sequential(*layers, conv_norm(inputs, 1280, act=nn.ReLU6), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Dropout(0.2), nn.Linear(1280, 1000))


class Fire(nn.Module):
    def __init__(self, inputs: int, squeezed: int):
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeezed, 1)
        self.expand1x1 = nn.Conv2d(squeezed, 4 * squeezed, 1)
        self.expand3x3 = nn.Conv2d(squeezed, 4 * squeezed, 3, padding=1)

    def forward(self, image: Tensor) -> Tensor:
        x = functional.relu(self.squeeze(image))
        return torch.cat([functional.relu(self.expand1x1(x)), functional.relu(self.expand3x3(x))],
                         1)


def squeezenet() -> nn.Module:
    pool = partial(nn.MaxPool2d, 3, 2, ceil_mode=True)
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, 2), nn.ReLU(), pool(), Fire(64, 16), Fire(128, 16), pool(),
        Fire(128, 32), Fire(256, 32), pool(), Fire(256, 48), Fire(384, 48), Fire(384, 64),
        Fire(512, 64), nn.Dropout(), nn.Conv2d(512, 1000, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten())


class UNet(nn.Module):
    def __init__(self):
        super().__init__()

        def double(inputs: int, outputs: int) -> nn.Module:
            return nn.Sequential(conv_norm(inputs, outputs, 3), conv_norm(outputs, outputs, 3))
        self.first = double(3, 64)
        self.down = nn.ModuleList(double(64 << i, 128 << i) for i in range(4))
        self.up = nn.ModuleList(nn.ConvTranspose2d(128 << i, 64 << i, 2, 2)
                                for i in reversed(range(4)))
        self.joined = nn.ModuleList(double(128 << i, 64 << i) for i in reversed(range(4)))
        self.out = nn.Conv2d(64, 2, 1)

    def forward(self, image: Tensor) -> Tensor:
        x, skips = self.first(image), []
        for down in self.down:
            skips.append(x)
            x = down(functional.max_pool2d(x, 2))
        for up, joined, skip in zip(self.up, self.joined, reversed(skips), strict=True):
            x = joined(torch.cat([skip, up(x)], 1))
        return self.out(x)


def mlp(channels: int) -> nn.Module:
    return nn.Sequential(nn.Linear(channels, 4 * channels), nn.GELU(),
                         nn.Linear(4 * channels, channels))


class ViTBlock(nn.Module):
    def __init__(self, channels: int, heads: int):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.attention = nn.MultiheadAttention(channels, heads, batch_first=True)
        self.mlp = mlp(channels)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self, size: int = 64, patch: int = 8, channels: int = 192, layers: int = 6):
        super().__init__()
        self.patches = nn.Conv2d(3, channels, patch, patch)
        self.position = nn.Parameter(torch.randn((size // patch) ** 2, channels))
        self.blocks = nn.Sequential(*(ViTBlock(channels, 3) for _ in range(layers)))
        self.norm, self.classifier = nn.LayerNorm(channels), nn.Linear(channels, 1000)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2) + self.position
        return self.classifier(self.norm(self.blocks(x)).mean(1))


class BertLayer(nn.Module):
    def __init__(self, channels: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(channels, channels)
                                                         for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.mlp = mlp(channels)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in (self.query, self.key, self.value))
        y = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = self.norm1(x + self.output(y))
        return self.norm2(x + self.mlp(x))


class Bert(nn.Module):
    def __init__(self, words: int = 1000, tokens: int = 64, channels: int = 256, layers: int = 4):
        super().__init__()
        self.words, self.places = nn.Embedding(words, channels), nn.Embedding(tokens, channels)
        self.norm = nn.LayerNorm(channels)
        self.layers = nn.Sequential(*(BertLayer(channels, 4) for _ in range(layers)))
        self.classifier = nn.Linear(channels, 2)

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1])
        x = self.layers(self.norm(self.words(ids) + self.places(places)))
        return self.classifier(x.mean(1))


def keywords() -> nn.Module:
    """Zhang et al.: Hello Edge, 2017; the smallest depthwise separable one."""
    block = [one for _ in range(4) for one in (conv_norm(64, 64, 3, 1, 64), conv_norm(64, 64))]
    return nn.Sequential(nn.Conv2d(1, 64, (10, 4), 2, (5, 1), bias=False), nn.BatchNorm2d(64),
                         nn.ReLU(), *block, nn.AvgPool2d((25, 5)), nn.Flatten(), nn.Linear(64, 12))


class LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(40, 64, 2, batch_first=True, bidirectional=True)
        self.classifier = nn.Linear(128, 12)

    def forward(self, sequence: Tensor) -> Tensor:
        return self.classifier(self.lstm(sequence)[0].mean(1))


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "resnet18": partial(resnet, (2, 2, 2, 2), False),
    "resnet50": partial(resnet, (3, 4, 6, 3), True),
    "mobilenet_v1": mobilenet_v1, "mobilenet_v2": mobilenet_v2, "squeezenet": squeezenet,
    "unet": UNet, "vit_small": ViT, "bert_small": Bert, "keywords": keywords, "lstm": LSTM,
}
EIGHT = tuple(NETWORKS)[:8]
SHAPES = {"keywords": (1, 49, 10), "lstm": (32, 40)}        # of one input; all others are images


def build(name: str, size: int = 64, batch: int = 1, seed: int = 0
          ) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The network and inputs; `size` is that of images."""
    torch.manual_seed(seed)
    module = NETWORKS[name]()
    with torch.no_grad():
        for part in module.modules():
            _fill(part)
    if name == "bert_small":
        return module.eval(), (torch.randint(0, 1000, (batch, 64)),)
    return module.eval(), (torch.randn(batch, *SHAPES.get(name, (3, size, size))),)


def _fill(part: nn.Module) -> None:
    """Parameters of this module alone."""
    for name, buffer in part.named_buffers(recurse=False):
        if name == "running_mean":
            buffer.normal_(0, 0.2)
        elif name == "running_var":
            buffer.uniform_(0.5, 1.5)
    for name, parameter in part.named_parameters(recurse=False):
        if "bias" in name:
            parameter.normal_(0, 0.1)
        elif isinstance(part, nn.BatchNorm2d | nn.LayerNorm):
            parameter.uniform_(0.5, 1.5)
        elif parameter.dim() > 1 and not isinstance(part, nn.Embedding):
            fan_in = prod(parameter.shape[1:])
            turned = isinstance(part, nn.ConvTranspose2d)
            parameter.normal_(0, sqrt(2 / (parameter.shape[0] if turned else fan_in)))
