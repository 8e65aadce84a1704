"""Networks of PyTorch with seeded random weights, to quantize: language models and images.

Language models come from transformers; they have two layers and a small vocabulary: at full size
they have their real width, small ones a few dozen channels. Images are 224 to 320 pixels wide, 32
to 64 when small.
"""

from collections.abc import Callable
from typing import Any

SAMPLES = 8
TOKENS = 16
VOCABULARY = 500
Network = tuple[Any, list[tuple]]
"""A module and its samples, each a tuple of inputs."""


def _language(model: Any, masked: bool, seed: int) -> Network:
    """Samples of random words; with a mask, some samples end early."""
    import torch  # pyright: ignore[reportMissingImports]

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask):
            return self.model(input_ids=input_ids, attention_mask=attention_mask,
                              use_cache=False, return_dict=True)[0]

    class Encoding(Logits):
        def forward(self, input_ids, attention_mask):
            return self.model(input_ids=input_ids, attention_mask=attention_mask,
                              return_dict=True)[0]

    made = torch.Generator().manual_seed(seed)
    samples = []
    for number in range(SAMPLES + 1):
        words = torch.randint(0, VOCABULARY, (1, TOKENS), generator=made)
        mask = torch.ones(1, TOKENS, dtype=torch.int64)
        if masked:
            mask[:, TOKENS - number % 4:] = 0 if number % 4 else 1
        samples.append((words, mask))
    module = (Encoding if masked else Logits)().eval()
    return module, samples


def gpt2(small: bool) -> Network:
    from transformers import GPT2Config, GPT2LMHeadModel  # pyright: ignore[reportMissingImports]

    width = 64 if small else 768
    config = GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=width, n_layer=2,
                        n_head=4 if small else 12)
    return _language(GPT2LMHeadModel(config), False, 1)


def llama(small: bool) -> Network:
    """Llama: rotary positions, grouped queries, SiLU gates."""
    from transformers import LlamaConfig, LlamaForCausalLM  # pyright: ignore[reportMissingImports]

    width = 64 if small else 1024
    config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=width, intermediate_size=3 * width,
                         num_hidden_layers=2, num_attention_heads=width // 16,
                         num_key_value_heads=width // 32, max_position_embeddings=64)
    return _language(LlamaForCausalLM(config), False, 2)


def bert(small: bool) -> Network:
    from transformers import BertConfig, BertModel  # pyright: ignore[reportMissingImports]

    width = 64 if small else 768
    config = BertConfig(vocab_size=VOCABULARY, hidden_size=width, num_hidden_layers=2,
                        num_attention_heads=4 if small else 12, intermediate_size=4 * width,
                        max_position_embeddings=64)
    return _language(BertModel(config, add_pooling_layer=False), True, 3)


def _images(module: Any, size: int, seed: int) -> Network:
    import torch  # pyright: ignore[reportMissingImports]

    made = torch.Generator().manual_seed(seed)
    samples = [(torch.randn(1, 3, size, size, generator=made),) for _ in range(SAMPLES + 1)]
    _settle(module, [x for x, in samples])
    return module.eval(), samples


def _settle(module: Any, images: list) -> None:
    """Sets the batch norms' statistics from these images; otherwise random weights make values
    vanish.
    """
    import torch  # pyright: ignore[reportMissingImports]

    for layer in module.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.momentum = None
    module.train()
    with torch.no_grad():
        module(torch.cat(images))


def _yolo(width: int) -> Any:
    """A network built like YOLOv8: convolutions with batch norm and SiLU, blocks that split,
    shorten and join, pooling at three scales, two heads; boxes are distances decoded by a softmax.
    """
    import torch  # pyright: ignore[reportMissingImports]
    from torch import nn  # pyright: ignore[reportMissingImports]

    def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Module:
        return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
                             nn.BatchNorm2d(outputs), nn.SiLU())

    class Block(nn.Module):
        def __init__(self, width: int):
            super().__init__()
            self.enter, self.leave = conv(width, width, 1), conv(3 * width // 2, width, 1)
            self.steps = nn.Sequential(conv(width // 2, width // 2), conv(width // 2, width // 2))

        def forward(self, x):
            a, b = self.enter(x).chunk(2, 1)
            return self.leave(torch.cat([a, b, b + self.steps(b)], 1))

    class Pooled(nn.Module):
        def __init__(self, width: int):
            super().__init__()
            self.enter, self.leave = conv(width, width // 2, 1), conv(2 * width, width, 1)
            self.pool = nn.MaxPool2d(5, 1, 2)

        def forward(self, x):
            parts = [self.enter(x)]
            for _ in range(3):
                parts.append(self.pool(parts[-1]))
            return self.leave(torch.cat(parts, 1))

    class Yolo(nn.Module):
        def __init__(self, w: int):
            super().__init__()
            self.first = nn.Sequential(conv(3, w, 3, 2), conv(w, 2 * w, 3, 2), Block(2 * w),
                                       conv(2 * w, 4 * w, 3, 2), Block(4 * w))
            self.second = nn.Sequential(conv(4 * w, 8 * w, 3, 2), Block(8 * w), Pooled(8 * w))
            self.up, self.join = nn.Upsample(scale_factor=2), conv(12 * w, 4 * w, 1)
            self.heads = nn.ModuleList(nn.Sequential(conv(one, one), nn.Conv2d(one, 64 + 10, 1))
                                       for one in (4 * w, 8 * w))

        def forward(self, x):
            fine = self.first(x)
            coarse = self.second(fine)
            fine = self.join(torch.cat([self.up(coarse), fine], 1))
            places = torch.cat([head(one).flatten(2) for head, one
                                in zip(self.heads, (fine, coarse), strict=True)], 2)
            boxes, classes = places.split((64, 10), 1)
            shares = boxes.unflatten(1, (4, 16)).softmax(2)
            distances = (shares * torch.arange(16.0).reshape(1, 1, 16, 1)).sum(2)
            return torch.cat([distances, classes.sigmoid()], 1)

    return Yolo(width)


def yolo(small: bool) -> Network:
    return _images(_yolo(8 if small else 16), 64 if small else 320, 4)


def _efficientnet_b0(classes: int) -> Any:
    """EfficientNet-B0 (Tan and Le 2019, table 1), with torchvision's layers in inference: inverted
    bottlenecks with SiLU and a squeeze to a quarter of what enters, gated by a sigmoid.
    """
    from torch import nn  # pyright: ignore[reportMissingImports]

    def conv(inputs: int, outputs: int, kernel: int = 1, stride: int = 1, group: int = 1,
             act: bool = True) -> list[nn.Module]:
        layers = [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=group,
                            bias=False), nn.BatchNorm2d(outputs)]
        return [*layers, nn.SiLU()] if act else layers

    class Gate(nn.Module):
        def __init__(self, width: int, squeezed: int):
            super().__init__()
            self.body = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, squeezed, 1),
                                      nn.SiLU(), nn.Conv2d(squeezed, width, 1), nn.Sigmoid())

        def forward(self, x):
            return x * self.body(x)

    class Bottleneck(nn.Module):
        def __init__(self, inputs: int, outputs: int, expand: int, kernel: int, stride: int):
            super().__init__()
            wide = inputs * expand
            self.body = nn.Sequential(
                *(conv(inputs, wide) if expand > 1 else []),
                *conv(wide, wide, kernel, stride, wide), Gate(wide, max(1, inputs // 4)),
                *conv(wide, outputs, act=False))
            self.shortcut = stride == 1 and inputs == outputs

        def forward(self, x):
            return x + self.body(x) if self.shortcut else self.body(x)

    layers, inputs = conv(3, 32, 3, 2), 32
    for expand, outputs, count, stride, kernel in (
            (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
            (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)):
        for number in range(count):
            layers.append(Bottleneck(inputs, outputs, expand, kernel, 1 if number else stride))
            inputs = outputs
    return nn.Sequential(*layers, *conv(inputs, 1280), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(1280, classes))


def efficientnet_b0(small: bool) -> Network:
    return _images(_efficientnet_b0(100), 32 if small else 224, 5)


def _mobilenet_v3_small(classes: int) -> Any:
    """MobileNet-v3-small (Howard et al. 2019, table 2), with torchvision's layers in inference:
    hard-swish or ReLU, and gates of a quarter of the width, a multiple of 8, by a hard sigmoid.
    """
    from torch import nn  # pyright: ignore[reportMissingImports]

    def conv(inputs: int, outputs: int, kernel: int = 1, stride: int = 1, group: int = 1,
             act: type[nn.Module] | None = nn.Hardswish) -> list[nn.Module]:
        layers = [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=group,
                            bias=False), nn.BatchNorm2d(outputs)]
        return [*layers, act()] if act else layers

    class Gate(nn.Module):
        def __init__(self, width: int):
            super().__init__()
            squeezed = max(8, (width // 4 + 4) // 8 * 8)
            self.body = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, squeezed, 1),
                                      nn.ReLU(), nn.Conv2d(squeezed, width, 1), nn.Hardsigmoid())

        def forward(self, x):
            return x * self.body(x)

    class Bottleneck(nn.Module):
        def __init__(self, inputs: int, kernel: int, wide: int, outputs: int, gated: bool,
                     act: type[nn.Module], stride: int):
            super().__init__()
            self.body = nn.Sequential(
                *(conv(inputs, wide, act=act) if wide != inputs else []),
                *conv(wide, wide, kernel, stride, wide, act), *([Gate(wide)] if gated else []),
                *conv(wide, outputs, act=None))
            self.shortcut = stride == 1 and inputs == outputs

        def forward(self, x):
            return x + self.body(x) if self.shortcut else self.body(x)

    layers, inputs = conv(3, 16, 3, 2), 16
    for kernel, wide, outputs, gated, act, stride in (
            (3, 16, 16, True, nn.ReLU, 2), (3, 72, 24, False, nn.ReLU, 2),
            (3, 88, 24, False, nn.ReLU, 1), (5, 96, 40, True, nn.Hardswish, 2),
            (5, 240, 40, True, nn.Hardswish, 1), (5, 240, 40, True, nn.Hardswish, 1),
            (5, 120, 48, True, nn.Hardswish, 1), (5, 144, 48, True, nn.Hardswish, 1),
            (5, 288, 96, True, nn.Hardswish, 2), (5, 576, 96, True, nn.Hardswish, 1),
            (5, 576, 96, True, nn.Hardswish, 1)):
        layers.append(Bottleneck(inputs, kernel, wide, outputs, gated, act, stride))
        inputs = outputs
    return nn.Sequential(*layers, *conv(inputs, 576), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(576, 1024), nn.Hardswish(), nn.Linear(1024, classes))


def mobilenet_v3_small(small: bool) -> Network:
    return _images(_mobilenet_v3_small(100), 32 if small else 224, 6)


NETWORKS: dict[str, Callable[[bool], Network]] = {
    "gpt2": gpt2, "llama": llama, "bert": bert, "yolo": yolo, "efficientnet_b0": efficientnet_b0,
    "mobilenet_v3_small": mobilenet_v3_small}
OF_TRANSFORMERS = ("gpt2", "llama", "bert")
